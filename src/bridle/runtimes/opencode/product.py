"""The adapter to OpenCode: how its CLI is found, asked, started and stopped."""

import os
import signal
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from bridle.core.errors import ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.files import new_private_dir
from bridle.core.ids import new_session_id
from bridle.core.options import (
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessSpec, StopStep
from bridle.runtimes import routing
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, AcpAlias
from bridle.runtimes.contract import Interactive
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.install import (
    Installation,
    find_executable,
    native_program,
    npm_installation,
)
from bridle.runtimes.opencode.choices import (
    KEY_VARIABLE,
    OpenCodeOptions,
    config_variable,
    full_model,
    provider_config,
    provider_model,
    read_options,
    run_config,
)
from bridle.runtimes.opencode.dialects import DIALECTS, KEY_VARIABLES, TOOLS, OpenCodeDialect
from bridle.runtimes.opencode.environment import own_folders, server_env
from bridle.runtimes.opencode.transcript import (
    data_dir,
    database_path,
    model_of,
    prompt_history,
    summarize,
)
from bridle.runtimes.options import provider_key
from bridle.runtimes.plan import RunPlan, interactive_plan
from bridle.runtimes.planner import (
    agent_env,
    check_options,
    native_options,
    working_dir,
)
from bridle.runtimes.product import COMMON_OPTIONS
from bridle.runtimes.provider_options import refuse_fork
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.acp.product import AcpOptions, AcpStart
    from bridle.runtimes.history import Spent
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds

_PACKAGE = "opencode"
_HONOURED = COMMON_OPTIONS | {
    "system_prompt",
    "max_turns",
    "allowed_tools",
    "denied_tools",
    "settings",
    "mcp_config",
    "images",
    "budget_usd",
    "resume",
}
_QUIET = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}

STOP = (
    StopStep(signal=signal.SIGTERM, grace=3.0),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""SIGTERM ends OpenCode and its running tool at once."""


class OpenCodeRuntime(AcpAdapter, Interactive):
    """OpenCode (`opencode`): runs by `opencode run --format json`, conversations over ACP."""

    id: ClassVar[str] = "opencode"
    binary: ClassVar[str] = "opencode"
    instruction_path: ClassVar[str] = "AGENTS.md"
    dialects: ClassVar[tuple[Dialect, ...]] = DIALECTS
    scripted_model: ClassVar[str] = "lab/scripted"
    install_hint: ClassVar[str] = "npm install -g opencode-ai"
    routing = routing.OPENCODE
    tools = TOOLS
    quirks = quirks.OPENCODE
    history_variables = ("HOME", "XDG_DATA_HOME", "OPENCODE_DB")

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return self._dialect(version)

    def _dialect(self, version: str | None) -> tuple[OpenCodeDialect, bool, str]:
        return choose_dialect(self.id, DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """What OpenCode can do; in runs its text comes in whole blocks."""
        if dialect is self.quirks:
            return self.features_over_acp()
        return Features(
            options=_HONOURED,
            interactive=True,
            thinking=True,
            message_usage=True,
            reports_cost=True,
            resume=True,
            follow_up=True,
            fork=True,
            retries=True,
            compact=True,
            drives=("print", "rpc"),
            asks=("rpc",),
            instruction_file=self.instruction_path,
            over={"rpc": self.features_over_acp()},
        )

    def find(self) -> Installation | None:
        """The installed OpenCode: the native binary, also where a script of npm's starts it."""
        found = find_executable(self.settings.binary or self.binary)
        return None if found is None else npm_installation(native_binary(found), _PACKAGE)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a key variable is set or a login is saved, without reading any.

        OpenCode serves some models without a login, so a missing one is no proof of trouble.
        """
        if any(env.get(name) for name in KEY_VARIABLES.values()):
            return "present"
        try:
            if os.stat(os.path.join(data_dir(env), "auth.json")).st_size > len("{}\n"):
                return "present"
        except OSError:
            pass
        return "unknown"

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, then write down the process of one run."""
        installation = self.installation()
        dialect, _, warning = self._dialect(installation.version)
        options, ignored = self._checked(options, dialect)
        own = read_options(options.provider_options)
        cwd = working_dir(options)
        model = full_model(options.model, scripted=options.model_server is not None)
        argv = (
            *installation.command,
            "run",
            *dialect.json_flags,
            *dialect.log_flags,
            *_choices(options, own, model, dialect),
            *options.raw_args,
        )
        private = new_private_dir(env, self.id) if _needs_folder(options) else None
        try:
            child, secrets = self._environment(
                options, own, model, env, private, dialect.harmless_tools
            )
        except BaseException:
            remove_folders((private,) if private else ())
            raise
        return RunPlan(
            spec=ProcessSpec(
                argv=argv,
                env=agent_env(child, options, session_id, cwd),
                cwd=cwd,
                stdin=options.prompt.encode(errors="surrogateescape"),
                watch_stderr=True,
                stop=STOP,
            ),
            session_id=session_id,
            installation=installation,
            dialect=dialect,
            secrets=secrets,
            ignored_options=ignored,
            warnings=(warning,) if warning else (),
            private_dirs=(private,) if private else (),
            native_session_id=None if own.fork else options.resume,
        )

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """A plugin that the run's environment names."""
        from bridle.runtimes.opencode.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """A plugin in a worktree runs a hook and asks for a clear answer."""
        from bridle.runtimes.asking_js import BY_PROCESS

        return BY_PROCESS

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """As a plugin of the worktree's."""
        from bridle.runtimes.opencode.hooks import deploy_plugin

        return deploy_plugin(worktree, command, mark)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folders, without what later sessions obey or run."""
        from bridle.runtimes.opencode.confinement import sandbox_needs

        return sandbox_needs(spec.env)

    def unasked(self, options: RunOptions) -> str:
        """`opencode run` asks nobody."""
        return "only tools that look are offered to the model"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""
        from bridle.runtimes.opencode.stream import OpenCodeNormalizer

        assert isinstance(plan.dialect, OpenCodeDialect)
        options = recorder.options
        own = read_options(options.provider_options)
        return OpenCodeNormalizer(
            recorder,
            plan.dialect,
            max_retries=own.max_retries,
            retry_seconds=own.retry_seconds,
            resumed=options.resume,
            fork=own.fork,
            requested_model=full_model(options.model, scripted=options.model_server is not None)
            or "",
            find_model=partial(model_of, database_path(plan.spec.env)),
        )

    def _checked(self, options: RunOptions, dialect: Dialect) -> tuple[RunOptions, tuple[str, ...]]:
        ignored = check_options(self, options, self.features_of(dialect))
        options = native_options(self, options)
        if options.resume is not None and options.resume.startswith("-"):
            raise WrongUse(f"not a session's id: {options.resume}")
        scripted = options.model_server is not None and options.account_dir is None
        if options.resume is not None and scripted:
            raise ResumeRefused(
                "a run on a scripted model has a home of its own, without any session",
                hint="give it a lasting home with account_dir",
                runtime=self.id,
            )
        return options, ignored

    def _environment(
        self,
        options: RunOptions,
        own: OpenCodeOptions,
        model: str | None,
        env: Mapping[str, str],
        private: str | None,
        harmless: tuple[str, ...] = (),
        *,
        names_model: bool = False,
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """The agent's variables before the options' own, and the secrets among them."""
        base = dict(env)
        key = None
        if options.model_server is not None:
            base, key = server_env(env), options.model_server.api_key
        elif options.provider is not None:
            key = provider_key(options.provider, {**env, **options.env}, self.id)
        home = options.account_dir or (private if options.model_server is not None else None)
        if home is not None:
            base |= own_folders(os.path.abspath(os.path.expanduser(home)))
        config = run_config(options, own, model, private, harmless, names_model=names_model)
        base |= {**_QUIET, **config_variable({**base, **options.env}, config)}
        if not own.plugins or options.model_server is not None:
            base["OPENCODE_PURE"] = "1"
        if key is not None:
            base[KEY_VARIABLE] = key
        return base, (key,) if key else ()

    # -- over ACP -------------------------------------------------------------------------------

    def acp_start(
        self, options: RunOptions, own: "AcpOptions", env: Mapping[str, str], cwd: str
    ) -> "AcpStart":
        """`opencode acp`, with the environment of a run in which somebody answers requests. With
        the user's own providers the protocol chooses the model."""
        from bridle.runtimes.acp.plan import account_folder
        from bridle.runtimes.acp.product import AcpStart

        account_folder(options)
        routed = options.model_server is not None or options.provider is not None
        model = None
        if routed:
            scripted = options.model_server is not None
            name = options.model if scripted else provider_model(options.model)
            model = full_model(name, scripted=scripted)
        private = new_private_dir(env, self.id) if _needs_folder(options) else None
        # The protocol carries the MCP servers.
        wanted = msgspec.structs.replace(options, mcp_config=None)
        try:
            child, secrets = self._environment(
                wanted, OpenCodeOptions(), model, env, private, names_model=True
            )
        except BaseException:
            remove_folders((private,) if private else ())
            raise
        return AcpStart(
            env=child,
            secrets=secrets,
            private_dirs=(private,) if private else (),
            model_chosen=routed,
        )

    # -- sessions a person drives ---------------------------------------------------------------

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """OpenCode's own terminal interface; the prompt is its first message."""
        installation = self.installation()
        dialect, _, _ = self._dialect(installation.version)
        options, _ = self._checked(options, dialect)
        if _needs_folder(options) or options.images:
            raise WrongUse(
                "at the terminal opencode takes neither images nor added system prompts",
                hint="give the system prompt as a file (append_system_prompt_file)",
            )
        own = read_options(options.provider_options)
        refuse_fork(self.id, options, own.fork, "not in an interactive run")
        cwd = working_dir(options)
        model = full_model(options.model, scripted=False)
        child, _ = self._environment(options, own, model, env, None)
        words = [*installation.command, *_terminal_flags(model, options.resume, own.agent)]
        words += options.raw_args
        if options.prompt:
            words.append(f"--prompt={options.prompt}")
        spec = ProcessSpec(
            argv=tuple(words), env=agent_env(child, options, new_session_id(), cwd), cwd=cwd
        )
        return interactive_plan(spec, installation, dialect)

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of OpenCode's terminal interface. It has no flag for system prompts,
        nor one that makes it ask: they are refused instead of being lost."""
        import shlex

        if options.permission_mode == "ask":
            raise UnsupportedOption(
                self.id,
                "permission_mode=ask",
                [],
                reason="no flag of its terminal makes it ask; give bypass, or start it with "
                "`bridle run --interactive`",
            )
        if options.system_prompt or options.append_system_prompt:
            raise WrongUse(
                "opencode has no flag for a system prompt", hint="deploy it as AGENTS.md"
            )
        if options.append_system_prompt_file:
            raise WrongUse(
                "opencode has no flag for a system prompt", hint="deploy it as AGENTS.md"
            )
        model = full_model(options.model, scripted=False)
        words = [self.settings.binary or self.binary, *_terminal_flags(model, None, None)]
        words.append(self._dialect(None)[0].approve_flag)
        if options.initial_prompt is not None:
            words.append(f"--prompt={options.initial_prompt}")
        return shlex.join(words)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is plain text on stdout.

        The prompt is given word by word: OpenCode joins its words by blanks, and puts quotes around
        each that holds one.
        """
        words = [*self.command_words(), "run"]
        if model is not None:
            words += ["-m", full_model(model, scripted=False) or model]
        return [*words, "--", *prompt.split(" ")]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route OpenCode to the model's provider; no file is written."""
        if model.provider is None:
            return dict(model.env)
        env = {**os.environ, **model.env}
        name = full_model(provider_model(model.model), scripted=False)
        config = provider_config(model.provider, name, OpenCodeOptions().api)
        key = provider_key(model.provider, env, self.id)
        routed = config_variable(env, config)
        return {**model.env, **routed, **({KEY_VARIABLE: key} if key else {})}

    # -- worktree and history -------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """`AGENTS.md`, which hides a `CLAUDE.md`."""
        from bridle.runtimes.instructions import Place

        return (Place(self.instruction_path, carries=("CLAUDE.md",)),)

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.opencode.tui import classify

        return classify(pane)

    def requires_beacon_verification(self) -> bool:
        """Yes: the screen stays blank for many seconds, and what is typed then may be lost."""
        return True

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a session used: `…/opencode.db#ses_ID`, or a file that `opencode export` wrote."""
        return summarize(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each prompt of a session used."""
        return prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of OpenCode's database, the same for every project."""
        return data_dir(os.environ)

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """One session in the database."""
        return f"{database_path(env)}#{session_id}"


class OpencodeAcp(AcpAlias, OpenCodeRuntime):
    """OpenCode over ACP in runs too: the runtime `opencode-acp`."""

    id: ClassVar[str] = "opencode-acp"
    dialects: ClassVar[tuple[Dialect, ...]] = (quirks.OPENCODE,)


def native_binary(found: str) -> str:
    """The program behind an npm script, when `found` is one and the program is beside it.

    A program is left as it is: npm's own script chose the build that this processor can run.
    """
    try:
        with open(found, "rb") as file:
            if file.read(2) != b"#!":
                return found
    except OSError:
        return found
    return native_program(found, "opencode-{platform}/bin/opencode") or found


def _needs_folder(options: RunOptions) -> bool:
    return options.model_server is not None or bool(options.append_system_prompt)


def _choices(
    options: RunOptions, own: OpenCodeOptions, model: str | None, dialect: OpenCodeDialect
) -> list[str]:
    flags: list[str] = []
    if model is not None:
        flags += ["-m", model]
    if options.resume is not None:
        flags += ["-s", options.resume, *((dialect.fork_flag,) if own.fork else ())]
    elif not own.title_call:
        flags.append(dialect.prompt_title_flag)
    if own.agent is not None:
        flags += ["--agent", own.agent]
    if own.variant is not None:
        flags += ["--variant", own.variant]
    if options.permission_mode == "bypass":
        flags.append(dialect.approve_flag)
    if options.images:
        from bridle.runtimes.user_files import check_images

        check_images(options.images, "opencode")
    for path in options.images:
        flags.append(f"--file={os.path.abspath(os.path.expanduser(path))}")
    return flags


def _terminal_flags(model: str | None, resume: str | None, agent: str | None) -> list[str]:
    flags = ["--model", model] if model else []
    flags += ["--session", resume] if resume else []
    return flags + (["--agent", agent] if agent else [])
