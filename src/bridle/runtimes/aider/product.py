"""The adapter to Aider: how its CLI is found, asked, started and stopped."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from bridle.core.errors import ResumeRefused, UnsupportedOption
from bridle.core.features import Features
from bridle.core.files import make_private_dir, new_private_dir, write_private
from bridle.core.git import GitPlace, find_git
from bridle.core.ids import new_session_id
from bridle.core.options import (
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes import routing
from bridle.runtimes.aider import options as own_options
from bridle.runtimes.aider.dialects import DIALECTS, KEY_VARIABLES, AiderDialect
from bridle.runtimes.aider.transcript import history_file, parse, project_dir
from bridle.runtimes.contract import History, Interactive
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    remembered_version,
)
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan, interactive_plan
from bridle.runtimes.planner import agent_env, check_options, working_dir
from bridle.runtimes.product import COMMON_OPTIONS
from bridle.runtimes.supporting import supporters
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.instructions import Place

DEPLOYED = ".aider.bridle.md"
"""Instructions that Bridle deploys; the name falls under what Aider's users ignore in git."""
_ANSWERS = b"n\n" * 1000
"""What questions are answered with when nobody is there: no, for more questions than come."""
_WIDE = "10000000"
"""Columns of the terminal that Aider believes in: it must not break lines."""
_GIT_DEFAULTS = "GIT_CONFIG_SYSTEM"
_PRICE_CACHE = ".aider/caches/model_prices_and_context_window.json"
_HONOURED = COMMON_OPTIONS | {
    "max_turns",
    "budget_usd",
    "resume",
}


class AiderRuntime(Interactive, History):
    """Aider (`aider`), one process for each prompt."""

    id: ClassVar[str] = "aider"
    binary: ClassVar[str] = "aider"
    instruction_path: ClassVar[str] = DEPLOYED
    dialects = DIALECTS
    scripted_model: ClassVar[str] = own_options.SCRIPTED_MODEL
    install_hint: ClassVar[str] = "uv tool install --python 3.12 aider-chat"
    routing = routing.AIDER
    # Not all of `.aider`: a file in it holds keys that later runs would take.
    state_paths: ClassVar[tuple[str, ...]] = (".aider/bridle", ".aider/caches")

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[AiderDialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return choose_dialect(self.id, DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """What Aider can do in `dialect`."""
        return Features(
            options=_HONOURED,
            interactive=True,
            message_usage=True,
            reports_cost=True,
            cache_usage=False,
            resume=True,
            follow_up=True,
            instruction_file=self.instruction_path,
        )

    def find(self) -> Installation | None:
        """The installed Aider; its version stands in the name of a folder of its environment."""
        binary = find_executable(self.settings.binary or self.binary)
        if binary is None:
            return None
        version = _installed_version(binary) or remembered_version(
            binary, lambda: ask_version((binary,))
        )
        return Installation(binary=binary, version=version)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a key variable is set. Without one a key may still stand in a file of Aider's,
        and those are not read."""
        names = [*KEY_VARIABLES.values(), *(f"AIDER_{name}" for name in KEY_VARIABLES.values())]
        return "present" if any(env.get(name) for name in names) else "unknown"

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, then make the private files that the run needs."""
        installation = self.installation()
        dialect, _, warning = self.dialect(installation.version)
        ignored = check_options(self, options, self.features_of(dialect))
        cwd = working_dir(options)
        own = own_options.read_options(options, dialect, cwd)
        added = added_instructions(options)
        routing = _routing(options, own, env)
        kept = options.model_server is None or options.account_dir is not None
        home = _home(options, env) if kept else None
        resumed = _resumed(options, home, cwd)
        repository = find_git(cwd)
        private = new_private_dir(env, self.id)
        if home is None:
            home = os.path.join(private, "home")
            os.mkdir(home, 0o700)
        if options.model_server is not None:
            _seed_home(home)
        native = options.resume or session_id
        history = resumed or _new_history(home, cwd, native)
        argv = [
            *installation.command,
            *dialect.flags,
            *(word for flag in dialect.log_flags for word in (flag, "/dev/stdout")),
            *("--chat-history-file", history),
            *("--input-history-file", os.path.join(private, "input")),
            *(("--restore-chat-history",) if resumed else ()),
            *(("--yes-always",) if options.permission_mode == "bypass" else ()),
            # Else `--yes-always` makes a repository of any folder.
            *(("--no-git",) if repository is None else ()),
            *(("--model", routing.model) if routing.model else ()),
            *routing.flags,
            *own_options.option_flags(own, cwd),
            *("--load", write_private(private, "load", self._load(added, own, cwd, private))),
            *("--message-file", write_private(private, "prompt", _as_message(options.prompt))),
            *options.raw_args,
        ]
        return RunPlan(
            spec=ProcessSpec(
                argv=tuple(argv),
                env=_environment(options, env, session_id, cwd, home)
                | routing.env
                | {_GIT_DEFAULTS: write_private(private, "gitconfig", _git_defaults(env))},
                cwd=cwd,
                stdin=None if options.permission_mode == "bypass" else _ANSWERS,
            ),
            session_id=session_id,
            installation=installation,
            dialect=dialect,
            secrets=routing.secrets,
            ignored_options=ignored,
            warnings=tuple(text for text in (warning, _elsewhere(repository, cwd)) if text),
            private_dirs=(private,),
            native_session_id=native,
        )

    def unasked(self, options: RunOptions) -> str:
        """Aider prints its questions without an end of line, so nobody can be asked in time."""
        return "it edits only files that were put into the chat, and every question is answered no"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""
        from bridle.runtimes.aider.stream import AiderNormalizer

        given = recorder.options.provider_options.get("max_retries", 3)
        return AiderNormalizer(
            recorder,
            native_session_id=plan.native_session_id,
            resumed=recorder.options.resume is not None,
            max_retries=int(given),
        )

    def _load(
        self, added: str | None, own: own_options.AiderOptions, cwd: str, private: str
    ) -> str:
        """Commands that show the model what it must know.

        Not by `--read`: that would put the files of the user's own `read` setting out of force.
        """
        files = [os.path.join(cwd, os.path.expanduser(path)) for path in own.read]
        if own.instructions:
            files += [os.path.join(cwd, name) for name in ("AGENTS.md", DEPLOYED)]
        if added is not None:
            files.append(write_private(private, "instructions.md", f"{added}\n"))
        return "".join(f'/read-only "{path}"\n' for path in files if os.path.isfile(path))

    # -- sessions a person drives ---------------------------------------------------------------

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """Aider's own terminal interface. It has no way to begin with a prompt and go on."""
        if options.prompt:
            raise UnsupportedOption(
                self.id,
                "prompt",
                supporters("interactive", self.id),
                reason="its terminal interface takes no first prompt",
            )
        installation = self.installation()
        dialect, _, _ = self.dialect(installation.version)
        check_options(self, options, self.features_of(dialect))
        cwd = working_dir(options)
        own = own_options.read_options(options, dialect, cwd)
        routing = _routing(options, own, env)
        model = ("--model", routing.model) if routing.model else ()
        flags = (*model, *routing.flags, *own_options.option_flags(own, cwd), *options.raw_args)
        home = _home(options, env)
        child = _environment(options, env, new_session_id(), cwd, home) | routing.env
        child.pop("COLUMNS", None)
        spec = ProcessSpec(argv=(*installation.command, *flags), env=child, cwd=cwd)
        return interactive_plan(spec, installation, dialect)

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of Aider's terminal interface."""
        import shlex

        for name in ("system_prompt", "append_system_prompt", "initial_prompt"):
            if getattr(options, name) is not None:
                raise UnsupportedOption(
                    self.id, name, supporters(name, self.id), reason="no flag brings it there"
                )
        words = [self.settings.binary or self.binary, "--model", options.model]
        words += ["--no-check-update", "--no-show-release-notes", "--no-show-model-warnings"]
        words += ["--no-gitignore", "--no-analytics", "--no-auto-commits", "--no-dirty-commits"]
        if options.permission_mode == "bypass":
            words.append("--yes-always")
        if options.append_system_prompt_file is not None:
            words += ["--read", options.append_system_prompt_file]
        return " ".join(shlex.quote(word) for word in words)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call. Aider prints more than its answer, so this starts Bridle's
        own reader of what Aider prints (`__main__`), which starts Aider."""
        words = [sys.executable, "-m", "bridle.runtimes.aider"]
        if self.settings.binary is not None:
            words += ["--binary", self.settings.binary]
        chosen = ["--model", model] if model is not None else []
        return [*words, *chosen, f"--prompt={prompt}"]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route Aider to `model`'s provider."""
        env = dict(model.env)
        if model.provider is not None:
            api = own_options.api_of(model.model)
            routing = own_options.route_to_provider(
                model.provider, model.model, api, {**os.environ, **env}
            )
            env |= routing.env
            if api == "anthropic" and model.provider.base_url:
                env["ANTHROPIC_API_BASE"] = model.provider.base_url
        return env

    # -- worktree -------------------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """A file of Bridle's own, which each run shows the model.

        Aider has no hooks: nothing can be put in front of its edits.
        """
        from bridle.runtimes.instructions import Place

        return (Place(DEPLOYED),)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane of Aider's terminal interface shows."""
        from bridle.runtimes.aider.tui import detect_ready

        return detect_ready(pane)

    # -- history --------------------------------------------------------------------------------

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a chat history or a log of events at `path` says was used."""
        return parse(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of the histories that Bridle's runs of `project` left."""
        return project_dir(os.path.expanduser("~"), project)


def _installed_version(binary: str) -> str | None:
    """The version of the package beside the command, from its metadata's folder."""
    lib = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(binary))), "lib")
    try:
        for python in os.listdir(lib):
            packages = os.path.join(lib, python, "site-packages")
            for name in os.listdir(packages) if os.path.isdir(packages) else ():
                if name.startswith("aider_chat-") and name.endswith(".dist-info"):
                    return name.removeprefix("aider_chat-").removesuffix(".dist-info")
    except OSError:
        return None
    return None


def _routing(
    options: RunOptions, own: own_options.AiderOptions, env: Mapping[str, str]
) -> own_options.Routing:
    if options.model_server is not None:
        return own_options.route_to_server(options.model_server, options.model)
    if options.provider is not None:
        return own_options.route_to_provider(
            options.provider, options.model, own.api, {**env, **options.env}
        )
    return own_options.Routing(model=options.model)


def _home(options: RunOptions, env: Mapping[str, str]) -> str:
    """The home that Aider keeps its files in: the user's, or the one the caller chose."""
    if options.account_dir is not None:
        return os.path.abspath(os.path.expanduser(options.account_dir))
    return env.get("HOME") or os.path.expanduser("~")


def _resumed(options: RunOptions, home: str | None, cwd: str) -> str | None:
    """The history to go on with; refuses an id that has none."""
    if options.resume is None:
        return None
    path = None if home is None else history_file(home, cwd, options.resume)
    if path is None or not os.path.isfile(path):
        raise ResumeRefused(
            f"aider has no conversation {options.resume} in {cwd}",
            hint="only conversations that Bridle began, in the folder where they began",
            runtime=AiderRuntime.id,
        )
    return path


def _new_history(home: str, cwd: str, native: str) -> str:
    """The file of a new conversation. Made here, so that only this user can read it."""
    folder = project_dir(home, cwd)
    make_private_dir(folder)
    return write_private(folder, f"{native}.md", "")


def _seed_home(home: str) -> None:
    """Put a list of prices where Aider would otherwise load one from the internet. It must be
    young, and not empty."""
    path = os.path.join(home, _PRICE_CACHE)
    if os.path.exists(path):
        os.utime(path)
    else:
        make_private_dir(os.path.dirname(path))
        write_private(home, _PRICE_CACHE, '{"none": {}}')


def _git_defaults(env: Mapping[str, str]) -> str:
    """Git's system-wide settings with a name for who has none: Aider would write one into the
    repository's own configuration. What any other file says counts more."""
    system = env.get(_GIT_DEFAULTS) or "/etc/gitconfig"
    return f'[user]\n\tname = Aider\n\temail = aider@localhost\n[include]\n\tpath = "{system}"\n'


def _elsewhere(repository: GitPlace | None, cwd: str) -> str:
    """A warning when Aider will work outside of the folder it is started in."""
    if repository is None or repository.root == os.path.realpath(cwd):
        return ""
    return f"aider takes file names from {repository.root}, the top of the repository, not {cwd}"


def _environment(
    options: RunOptions, env: Mapping[str, str], session_id: str, cwd: str, home: str
) -> dict[str, str]:
    child = agent_env(env, options, session_id, cwd)
    if options.model_server is not None:
        keys = set(KEY_VARIABLES.values())
        child = {
            name: value
            for name, value in child.items()
            if not name.startswith(("AIDER_", "OPENAI_", "ANTHROPIC_"))
            and name not in keys
            and name not in routing.PROXIES
        }
    if home != child.get("HOME"):
        config = os.path.join(child.get("HOME", ""), ".gitconfig")
        if os.path.isfile(config):
            child.setdefault("GIT_CONFIG_GLOBAL", config)
        child["HOME"] = home
    # With `--yes-always` Aider opens pages about errors in the user's browser.
    return child | {"COLUMNS": _WIDE, "BROWSER": "true", "PYTHONIOENCODING": "utf-8"}


def _as_message(prompt: str) -> str:
    """A prompt that Aider takes for a prompt: `/` and `!` would begin a command, `!` of a shell."""
    return f" {prompt}" if prompt.startswith(("/", "!")) else prompt
