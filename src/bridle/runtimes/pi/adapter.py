"""The adapter to Pi: how its CLI is found, asked, started and stopped."""

import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from bridle.core.errors import ResumeRefused
from bridle.core.features import Features
from bridle.core.options import (
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.drives.guarding import GuardHook
from bridle.drives.recorder import Recorder
from bridle.drives.spec import Normalizer, ProcessSpec, StopStep
from bridle.runtimes.base import (
    AgentRuntime,
    RunPlan,
    agent_env,
    check_options,
    readable_file,
    working_dir,
)
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.installation import (
    Installation,
    ask_version,
    find_executable,
    package_version,
    remembered_version,
)
from bridle.runtimes.json_settings import merged
from bridle.runtimes.pi import home
from bridle.runtimes.pi.choices import (
    ProviderOptions,
    expand_model,
    image_arguments,
    mcp_servers,
    prompt_words,
    provider_options,
    settings_object,
    thinking_flags,
    tool_flags,
    trust_flags,
)
from bridle.runtimes.pi.dialects import DIALECTS, KEY_VARIABLES, PiDialect
from bridle.runtimes.private import new_private_dir, write_private

if TYPE_CHECKING:
    from bridle.drives.live import LiveFacts, LiveWire
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.following import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds

_PACKAGES = ("@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")
_SCRIPTED_MODEL = "sonnet"
_SCRIPTED_RETRIES = 3
_HONOURED = frozenset(
    {
        "system_prompt",
        "append_system_prompt",
        "append_system_prompt_file",
        "model",
        "provider",
        "max_turns",
        "allowed_tools",
        "denied_tools",
        "settings",
        "images",
        "provider_options",
        "budget_usd",
        "resume",
        "account_dir",
        "model_server",
    }
)

STOP = (
    StopStep(signal=signal.SIGTERM, grace=5.0),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""SIGTERM ends Pi and its tools (exit 143). SIGINT and SIGKILL leave tools running, in sessions of
their own; the holder finds those by the session's mark."""


class PiRuntime(AgentRuntime):
    """The Pi coding agent (`pi`): a process for each prompt in its JSON mode, or one for many in
    its rpc mode."""

    id: ClassVar[str] = "pi"
    binary: ClassVar[str] = "pi"
    instruction_path: ClassVar[str] = "AGENTS.md"
    install_hint: ClassVar[str] = "npm install -g @earendil-works/pi-coding-agent"

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[PiDialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return choose_dialect(self.id, DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """What Pi can do in `dialect`."""
        mcp = isinstance(dialect, PiDialect) and dialect.mcp
        return Features(
            options=_HONOURED | {"mcp_config"} if mcp else _HONOURED,
            interactive=True,
            streaming=True,
            thinking=True,
            message_usage=True,
            reports_cost=True,
            retries=True,
            resume=True,
            steer=True,
            abort=True,
            compaction=True,
            drives=("print", "rpc", "tmux"),
            instruction_file=self.instruction_path,
        )

    def find(self) -> Installation | None:
        """The installed Pi. It is a script for Node: there is no native binary behind it."""
        binary = find_executable(self.settings.binary or self.binary)
        if binary is None:
            return None
        for package in _PACKAGES:
            version = package_version(binary, package)
            if version is not None:
                return Installation(binary=binary, version=version)
        version = remembered_version(binary, lambda: ask_version((binary,)))
        return Installation(binary=binary, version=version)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a key variable is set or a login is saved, without reading any."""
        if any(env.get(name) for names in KEY_VARIABLES.values() for name in names):
            return "present"
        folder = home.agent_dir(env)
        try:
            if os.stat(os.path.join(folder, "auth.json")).st_size > len("{}\n"):
                return "present"
        except OSError:
            pass
        has_models = os.path.exists(os.path.join(folder, "models.json"))
        other_key = any(name.endswith("_API_KEY") and value for name, value in env.items())
        return "unknown" if has_models or other_key else "missing"

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, then make the private files that the run needs."""
        return self._plan(options, env, session_id, live=False)

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """As a run, in Pi's rpc mode; every prompt comes by the wire."""
        from bridle.drives.live import LiveFacts

        options = msgspec.structs.replace(options, prompt="", images=())
        plan = self._plan(options, env, session_id, live=True)
        names = {name: self.settings.options.get(name) for name in ("provider", "modelMap")}
        return msgspec.structs.replace(
            plan,
            spec=msgspec.structs.replace(plan.spec, stdin=None, keep_stdin=True),
            live=LiveFacts(
                runtime=self.id,
                runtime_version=plan.installation.version or "",
                dialect=plan.dialect.name,
                cwd=plan.spec.cwd,
                resume=options.resume,
                own={"model": self._model(options), "names": names},
            ),
        )

    def live_wire(self, facts: "LiveFacts", recorder: Recorder) -> "LiveWire":
        """The wire of a conversation in Pi's rpc mode."""
        from bridle.runtimes.pi.live import PiLiveWire

        return PiLiveWire(facts, recorder)

    def _plan(
        self, options: RunOptions, env: Mapping[str, str], session_id: str, *, live: bool
    ) -> RunPlan:
        installation = self.installation()
        dialect, _, warning = self.dialect(installation.version)
        ignored = check_options(self, options, self.features_of(dialect))
        choices = provider_options(options.provider_options, dialect)
        cwd = working_dir(options)
        model = self._model(options)
        changes = self._changes(options, choices, model, env, dialect)
        alone = options.model_server is not None and options.account_dir is None
        user_dir = None if alone else home.agent_dir(env, options.account_dir)
        native, session_flags = self._session(options, user_dir, cwd, env, dialect, session_id)
        trust, trust_warning = trust_flags(dialect, cwd, choices.trust_project)
        flags = [
            *(_RPC_MODE if live else _JSON_MODE),
            *(("--model", model) if model else ()),
            *thinking_flags(choices, options),
            *session_flags,
            *trust,
            *tool_flags(options, dialect),
        ]
        tail = [*options.raw_args, *image_arguments(options.images)]
        if options.append_system_prompt_file is not None:
            readable_file(options.append_system_prompt_file, "system prompt")
        # There a choice of model is saved, which must not reach the user's own folder.
        own_home = live and dialect.saves_model
        private, files, agent_home = self._files(
            options, changes, user_dir, env, live=live, own_home=own_home
        )
        child = {
            name: value
            for name, value in agent_env(env, options, session_id, cwd).items()
            if name not in changes.drop_env
        }
        child |= {"PI_SKIP_VERSION_CHECK": "1", **changes.env}
        if agent_home is not None:
            child[home.DIR_VARIABLE] = agent_home
        return RunPlan(
            spec=ProcessSpec(
                argv=(*installation.command, *flags, *files, *tail),
                env=child,
                cwd=cwd,
                stdin=options.prompt.encode(errors="surrogateescape"),
                stop=STOP,
            ),
            session_id=session_id,
            installation=installation,
            dialect=dialect,
            secrets=tuple(
                value
                for name, value in changes.env.items()
                if name == home.KEY_VARIABLE or name in _ALL_KEY_VARIABLES
            ),
            ignored_options=ignored,
            warnings=tuple(text for text in (warning, trust_warning) if text),
            private_dirs=private,
            native_session_id=native,
        )

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""
        from bridle.runtimes.pi.normalizer import PiNormalizer

        assert isinstance(plan.dialect, PiDialect)
        return PiNormalizer(
            recorder,
            settles=plan.dialect.settles,
            resumed=recorder.options.resume,
            requested_model=self._model(recorder.options) or "",
        )

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """An extension of ours, and no other."""
        from bridle.runtimes.pi.guarding import guard_plan

        return guard_plan(plan, hook)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folder, without what its later sessions obey or run: see `home.sandbox_needs`."""
        # A session at the terminal removes its own folder, which it cannot from inside.
        own = (spec.argv[4],) if spec.argv[:3] == ("/bin/sh", "-c", _AND_REMOVE) else ()
        return home.sandbox_needs(spec.env, spec.cwd, own)

    def _model(self, options: RunOptions) -> str | None:
        name = options.model or (_SCRIPTED_MODEL if options.model_server else None)
        return expand_model(name, self.settings.options) if name else None

    def _changes(
        self,
        options: RunOptions,
        choices: ProviderOptions,
        model: str | None,
        env: Mapping[str, str],
        dialect: PiDialect,
    ) -> home.Changes:
        """How this run's configuration folder differs from the user's."""
        asked = settings_object(options.settings) if options.settings else {}
        servers = mcp_servers(options.mcp_config) if options.mcp_config and dialect.mcp else {}
        if options.model_server is not None:
            retries = _SCRIPTED_RETRIES if choices.max_retries is None else choices.max_retries
            changes = home.server_changes(options.model_server, model or "", retries, dialect)
        else:
            if choices.max_retries is not None:
                asked = merged(asked, home.retry_settings(choices.max_retries))
            changes = (
                home.provider_changes(
                    options.provider, model, choices.api, {**env, **options.env}, dialect
                )
                if options.provider is not None
                else home.Changes()
            )
        return msgspec.structs.replace(
            changes,
            settings=merged(changes.settings, asked),
            mcp_servers=servers,
        )

    def _session(
        self,
        options: RunOptions,
        user_dir: str | None,
        cwd: str,
        env: Mapping[str, str],
        dialect: PiDialect,
        session_id: str,
    ) -> tuple[str | None, list[str]]:
        """The conversation's id, where it is known before, and the flags that choose it."""
        if options.resume is None:
            if dialect.session_id_flag:
                return session_id, ["--session-id", session_id]
            return None, []
        from bridle.runtimes.pi.transcript import find_session, session_dir

        found = None
        if user_dir is not None:
            folder = session_dir(user_dir, cwd, {**env, **options.env})
            found = find_session(folder, options.resume)
        if found is None:
            raise ResumeRefused(
                f"pi has no conversation {options.resume} in {cwd}",
                hint="resume it in the folder where it began, by its whole id",
                runtime=self.id,
            )
        path, header = found
        if os.path.realpath(header.cwd) != os.path.realpath(cwd):
            raise ResumeRefused(
                f"conversation {options.resume} belongs to {header.cwd}, not to {cwd}",
                hint="resume it in the folder where it began",
                runtime=self.id,
            )
        # The file, not the id: Pi takes the beginning of an id for the whole, and asks on stdin
        # whether it may copy a conversation of another folder.
        return options.resume, ["--session", path]

    def _files(
        self,
        options: RunOptions,
        changes: home.Changes,
        user_dir: str | None,
        env: Mapping[str, str],
        *,
        live: bool,
        own_home: bool,
    ) -> tuple[tuple[str, ...], list[str], str | None]:
        """Private folders, flags that name files, and the configuration folder if not the user's.

        System prompts go by file: an argument is limited in size, shows in the process list, and a
        text that happens to name a file would be taken for it.
        """
        texts = [
            (flag, text)
            for flag, text in (
                ("--system-prompt", options.system_prompt),
                ("--append-system-prompt", options.append_system_prompt),
            )
            if text
        ]
        needs_home = user_dir is None or changes.needs_folder or own_home
        asks = options.permission_mode == "ask"
        private = new_private_dir(env, "pi") if needs_home or texts or asks else None
        flags: list[str] = []
        if asks:
            from bridle.runtimes.pi.ask import FILE_NAME, extension_code

            assert private is not None
            flags += ["-e", write_private(private, FILE_NAME, extension_code(live=live))]
        for flag, text in texts:
            assert private is not None
            flags += [flag, write_private(private, f"{flag.strip('-')}.md", text)]
        if options.append_system_prompt_file is not None:
            path = os.path.abspath(os.path.expanduser(options.append_system_prompt_file))
            flags += ["--append-system-prompt", path]
        agent_home = options.account_dir and user_dir
        if needs_home:
            assert private is not None
            agent_home = os.path.join(private, "agent")
            os.mkdir(agent_home, 0o700)
            home.fill_home(agent_home, user_dir, changes)
        return (private,) if private else (), flags, agent_home or None

    # -- sessions a person drives ---------------------------------------------------------------

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> ProcessSpec:
        """Pi's own terminal interface with the same choices; the prompt is its first message."""
        from bridle.running import new_session_id

        plan = self.plan_run(options, env, new_session_id())
        dialect, _, _ = self.dialect(plan.installation.version)
        words = list(plan.installation.command)
        # The rest without `--mode json`, which stands first.
        words += plan.spec.argv[len(words) + len(_JSON_MODE) :]
        if options.prompt:
            words += prompt_words(options.prompt, dialect)
        for folder in plan.private_dirs:
            words = ["/bin/sh", "-c", _AND_REMOVE, "pi", folder, *words]
        return msgspec.structs.replace(plan.spec, argv=tuple(words), stdin=None)

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of Pi's terminal interface.

        Where Pi would ask whether it may trust the project, it is told not to: a stray Enter in
        that dialog would trust it for good.
        """
        import shlex

        dialect = self._installed_dialect()
        words = [self.settings.binary or self.binary]
        words += ["--model", expand_model(options.model, self.settings.options)]
        if dialect.trust_flags:
            words.append("--no-approve")
        if options.system_prompt is not None:
            words += ["--system-prompt", options.system_prompt]
        for text in (options.append_system_prompt, options.append_system_prompt_file):
            if text is not None:
                words += ["--append-system-prompt", text]
        if options.initial_prompt is not None:
            words += prompt_words(options.initial_prompt, dialect)
        return " ".join(shlex.quote(word) for word in words)

    def build_print_command(self, prompt: str, model: str | None = None) -> list[str]:
        """The argv of a one-shot call whose answer is plain text; the prompt is the last word."""
        words = [self.settings.binary or self.binary, "--print"]
        if model is not None:
            words += ["--model", expand_model(model, self.settings.options)]
        return [*words, *prompt_words(prompt, self._installed_dialect())]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route Pi to the model's provider.

        Pi takes addresses from a file only, so an address of the provider's own makes a
        configuration folder (links to the user's, and a models.json that holds no key).
        """
        if model.provider is None:
            return dict(model.env)
        env = {**os.environ, **model.env}
        name = expand_model(model.model, self.settings.options)
        changes = home.provider_changes(model.provider, name, None, env, self._installed_dialect())
        variables = {**model.env, **dict.fromkeys(changes.drop_env, ""), **changes.env}
        if changes.needs_folder:
            variables[home.DIR_VARIABLE] = home.lasting_home(env, changes)
        return variables

    def _installed_dialect(self) -> PiDialect:
        found = self.find()
        return self.dialect(found.version if found else None)[0]

    # -- a session in a terminal ----------------------------------------------------------------

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Its terminal interface in a pane; see `terminal`."""
        from bridle.runtimes.pi.terminal import plan

        return plan(self, options, env, session_id)

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """An extension beside those of the user; see `reporting`."""
        from bridle.runtimes.pi.reporting import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: "LiveFacts", recorder: Recorder) -> "TranscriptWire":
        """The reader of its transcript; see `following`."""
        from bridle.runtimes.pi.following import PiFollower

        return PiFollower(facts, recorder)

    def transcript_path(self, facts: "LiveFacts", pid: int | None = None) -> str | None:
        """Where the session is written down."""
        from bridle.runtimes.pi.terminal import transcript_path

        return transcript_path(facts)

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.pi.panes import TERMINAL

        return TERMINAL

    # -- worktree and history -------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Pi reads one file in a folder: `AGENTS.md`, which hides a `CLAUDE.md`, or in newer
        versions an override of it."""
        from bridle.runtimes.instructions import Place, override_places

        if self._installed_dialect().override_file:
            return override_places(worktree, self.instruction_path, "CLAUDE.md")
        return (Place(self.instruction_path, carries=("CLAUDE.md",)),)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.pi.panes import classify

        return classify(pane)

    def requires_beacon_verification(self) -> bool:
        """No: Pi keeps what is typed before it is up, so sending again would double it."""
        return False

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What the session file at `path` says was used; None when it is missing or unreadable."""
        from bridle.runtimes.pi.transcript import summarize

        return summarize(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder where Pi keeps the conversations of `project`."""
        from bridle.runtimes.pi.transcript import session_dir

        return session_dir(home.agent_dir(os.environ), project, os.environ)


_JSON_MODE = ("--mode", "json")
_RPC_MODE = ("--mode", "rpc")
_AND_REMOVE = 'folder=$1; shift; trap : INT; "$@"; code=$?; rm -rf -- "$folder"; exit $code'
"""Runs a command and then removes a folder; for a session whose end nobody else waits for."""
_ALL_KEY_VARIABLES = frozenset(name for names in KEY_VARIABLES.values() for name in names)
