"""The adapter to Gemini CLI: how it is found, asked, started and stopped."""

import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from bridle.core.errors import ResumeRefused, WrongUse
from bridle.core.features import Features
from bridle.core.files import new_private_dir, state_dir, write_private
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
from bridle.runtimes.gemini import home
from bridle.runtimes.gemini.dialects import CREDENTIALS, DIALECTS, TOOLS, GeminiDialect
from bridle.runtimes.install import Installation, find_npm_cli
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan, interactive_plan
from bridle.runtimes.planner import (
    agent_env,
    check_options,
    native_options,
    refuse_system_prompts,
    working_dir,
)
from bridle.runtimes.product import COMMON_OPTIONS
from bridle.runtimes.provider_options import check_range, read_provider_options
from bridle.runtimes.retries import RetryReader
from bridle.turns.guard_contract import GuardHook, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.runtimes.acp.product import AcpOptions, AcpStart
    from bridle.runtimes.history import Spent
    from bridle.sandbox import SandboxNeeds

_PACKAGE = "@google/gemini-cli"
_HONOURED = COMMON_OPTIONS | {
    "system_prompt",
    "max_turns",
    "allowed_tools",
    "denied_tools",
    "settings",
    "mcp_config",
    "resume",
}
_ID_PARTS = (8, 4, 4, 4, 12)

STOP = (
    StopStep(signal=signal.SIGTERM, grace=3.0, to="group"),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""To the group, in case it started itself again as a child, which the first process would not tell.
Tools run in groups of their own; the holder finds those by the session's mark."""


class GeminiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `gemini` runtime."""

    max_retries: int = 2
    """How often Gemini makes a failed model call again; its own number is nine."""
    retry_seconds: float = 60.0
    """Longest pause before a retry; a service may ask for minutes."""
    approval_mode: str | None = None
    """Gemini's own mode (`auto_edit`, `plan`, …) in place of what `permission_mode` says."""
    trust_project: bool = False
    """Let the folder's own settings and hooks take effect."""


_POLICY = "deny.toml"


class GeminiRuntime(AcpAdapter, Interactive):
    """Gemini CLI (`gemini`): runs in its stream-json mode, conversations over ACP."""

    id: ClassVar[str] = "gemini"
    binary: ClassVar[str] = "gemini"
    instruction_path: ClassVar[str] = "GEMINI.md"
    dialects: ClassVar[tuple[Dialect, ...]] = DIALECTS
    provider_path: ClassVar[str] = ""
    scripted_model: ClassVar[str] = DIALECTS[-1].default_model
    install_hint: ClassVar[str] = "npm install -g @google/gemini-cli"
    key_variable: ClassVar[str] = CREDENTIALS[0]
    routing = routing.GEMINI
    tools = TOOLS
    quirks = quirks.GEMINI
    history_variables = ("HOME", home.HOME_VARIABLE)

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return self._dialect(version)

    def _dialect(self, version: str | None) -> tuple[GeminiDialect, bool, str]:
        return choose_dialect(self.id, DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """What Gemini can do. A run shows no thoughts; no mode reports a cost."""
        if dialect is self.quirks:
            return self.features_over_acp()
        return Features(
            options=_HONOURED,
            interactive=True,
            streaming=True,
            resume=True,
            follow_up=True,
            retries=True,
            drives=("print", "rpc"),
            asks=("rpc",),
            instruction_file=self.instruction_path,
            over={"rpc": self.features_over_acp()},
        )

    def find(self) -> Installation | None:
        """The installed Gemini. It is a script for Node: there is no native binary behind it."""
        return find_npm_cli(self.settings.binary or self.binary, _PACKAGE)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a key variable is set or a login is saved, without reading any."""
        folder = home.config_dir(env)
        if any(env.get(name) for name in CREDENTIALS):
            return "present"
        if os.path.exists(os.path.join(folder, "oauth_creds.json")):
            return "present"
        doubtful = (os.path.join(folder, name) for name in ("settings.json", ".env"))
        return "unknown" if any(os.path.exists(path) for path in doubtful) else "missing"

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, then make the private files that the run needs."""
        installation = self.installation()
        dialect, _, warning = self._dialect(installation.version)
        options, ignored = self._checked(options, dialect)
        own = self._own(options, dialect)
        cwd = working_dir(options)
        prompt = options.prompt.encode(errors="surrogateescape")
        if len(prompt) > dialect.prompt_limit:
            raise WrongUse(
                f"gemini reads no more than {dialect.prompt_limit >> 20} MiB of a prompt",
                hint="write the text to a file in the working directory and name it",
            )
        fresh = options.resume is None
        # By the conversation: what was said in it names files in the home that is made there.
        private = new_private_dir(env, self.id, session_id if fresh else options.resume)
        try:
            flags, child, secrets = self._prepared(options, own, env, private, session_id)
        except BaseException:
            remove_folders((private,))
            raise
        model = self._model(options, child, dialect)
        argv = (
            *installation.command,
            *dialect.stream_flags,
            *(() if own.trust_project else (dialect.trust_flag,)),
            *("--approval-mode", _mode(options, own, dialect)),
            *(("-m", model) if model else ()),
            *(("--session-id", session_id) if fresh else ("--resume", options.resume or "")),
            *flags,
            *options.raw_args,
        )
        return RunPlan(
            spec=ProcessSpec(
                argv=argv,
                env=child,
                cwd=cwd,
                stdin=prompt,
                watch_stderr=True,
                stop=STOP,
            ),
            session_id=session_id,
            installation=installation,
            dialect=dialect,
            secrets=secrets,
            ignored_options=ignored,
            warnings=(warning,) if warning else (),
            private_dirs=(private,),
            native_session_id=session_id if fresh else options.resume,
        )

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """Hooks in settings of the run's own."""
        from bridle.runtimes.gemini.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_shape(self) -> HookShape:
        """The settings of a trusted worktree bring hooks that hold."""
        from bridle.runtimes.gemini.hooks import SHAPE

        return SHAPE

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """In `.gemini/settings.json`, of a folder that the user has trusted."""
        from bridle.runtimes.gemini.hooks import deploy_hooks

        return deploy_hooks(worktree, command, mark, os.environ)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folders, without what later sessions obey or run."""
        from bridle.runtimes.gemini.confinement import sandbox_needs

        return sandbox_needs(spec.env)

    def unasked(self, options: RunOptions) -> str:
        """A headless Gemini asks nobody."""
        return "tools that need permission are not offered to the model"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""
        from bridle.runtimes.gemini.stream import GeminiNormalizer

        assert isinstance(plan.dialect, GeminiDialect)
        options = recorder.options
        return GeminiNormalizer(
            recorder,
            plan.dialect,
            retry_seconds=self._own(options, plan.dialect).retry_seconds,
            resumed=options.resume,
            requested_model=options.model or plan.dialect.default_model,
        )

    def _checked(self, options: RunOptions, dialect: Dialect) -> tuple[RunOptions, tuple[str, ...]]:
        ignored = check_options(self, options, self.features_of(dialect))
        options = native_options(self, options)
        if options.resume is None:
            return options, ignored
        if tuple(map(len, options.resume.split("-"))) != _ID_PARTS:
            # Gemini would take a number for a place in its list, and `latest` for whatever is.
            raise ResumeRefused(
                f"not a session's id: {options.resume}", hint="give the whole id", runtime=self.id
            )
        if options.model_server is not None and options.account_dir is None:
            raise ResumeRefused(
                "a run on a scripted model has a home of its own, without any session",
                hint="give it a lasting home with account_dir",
                runtime=self.id,
            )
        return options, ignored

    def _own(self, options: RunOptions, dialect: GeminiDialect) -> GeminiOptions:
        own = read_provider_options(self.id, options.provider_options, GeminiOptions)
        check_range("max_retries", own.max_retries, 0, 100)
        check_range("retry_seconds", own.retry_seconds, 1, 86400)
        if own.approval_mode is not None and own.approval_mode not in dialect.approval_modes:
            raise WrongUse(
                f"provider option approval_mode cannot be {own.approval_mode}",
                hint=f"one of: {', '.join(dialect.approval_modes)}",
            )
        return own

    def _model(
        self, options: RunOptions, env: Mapping[str, str], dialect: GeminiDialect
    ) -> str | None:
        if options.model is not None:
            return options.model
        return None if home.names_model(env) else dialect.default_model

    def _prepared(
        self,
        options: RunOptions,
        own: GeminiOptions,
        env: Mapping[str, str],
        private: str,
        session_id: str,
    ) -> tuple[list[str], dict[str, str], tuple[str, ...]]:
        """Flags, the agent's variables, and the secrets among them."""
        child = dict(env)
        server = options.model_server
        routed: dict[str, str] = {}
        if server is not None:
            child = home.server_env(env, server.url, server.api_key, private)
        elif options.provider is not None:
            routed = home.provider_env(options.provider, {**env, **options.env})
        if options.account_dir is not None:
            folder = os.path.abspath(os.path.expanduser(options.account_dir))
            if not os.path.isdir(folder):
                raise WrongUse(f"no such account folder: {folder}")
            routed[home.HOME_VARIABLE] = folder
        child |= {home.NO_RELAUNCH: "true", **routed}
        child |= home.whole_output(private, child)
        flags = self._files(options, private)
        if options.system_prompt is not None:
            child[home.SYSTEM_PROMPT] = write_private(private, "system.md", options.system_prompt)
        if own.trust_project:
            child[home.TRUST] = "true"
        cwd = working_dir(options)
        child = agent_env(child, options, session_id, cwd)
        wanted = home.run_settings(
            options,
            max_retries=own.max_retries,
            routed=server is not None or home.URL_VARIABLE in routed,
        )
        asked = "max_retries" in options.provider_options
        free = frozenset() if asked else frozenset({"general.maxAttempts"})
        home.refuse_overruled(wanted, cwd, child, free=free)
        child |= home.make_home(private, home.laid_over(home.user_settings(child), wanted), child)
        key = server.api_key if server else routed.get(home.KEY_VARIABLE)
        return flags, child, (key,) if key else ()

    def _files(self, options: RunOptions, private: str) -> list[str]:
        """Write what goes by file; returns the flags that name the files."""
        flags: list[str] = []
        added = added_instructions(options)
        if added:
            folder = os.path.join(private, "instructions")
            os.mkdir(folder, 0o700)
            write_private(folder, self.instruction_path, added)
            flags += ["--include-directories", folder]
        if options.denied_tools:
            policy = write_private(private, _POLICY, home.deny_policy(options.denied_tools))
            flags += ["--policy", policy]
        return flags

    # -- over ACP -------------------------------------------------------------------------------

    def acp_start(
        self, options: RunOptions, own: "AcpOptions", env: Mapping[str, str], cwd: str
    ) -> "AcpStart":
        """`gemini --acp`. It gets private files only where an option needs them: otherwise it works
        in the user's home, where what it writes lasts."""
        from bridle.runtimes.acp.plan import account_folder
        from bridle.runtimes.acp.product import AcpStart

        server, account = options.model_server, account_folder(options)
        routed: dict[str, str] = {}
        if server is None and options.provider is not None:
            routed = home.provider_env(options.provider, {**env, **options.env})
        key = server.api_key if server else routed.get(home.KEY_VARIABLE)
        changed = bool(
            home.URL_VARIABLE in routed
            or options.settings
            or options.allowed_tools
            or options.append_system_prompt
            or options.append_system_prompt_file
        )
        needs_folder = changed or bool(server or options.denied_tools or options.system_prompt)
        private = new_private_dir(env, self.id) if needs_folder else ""
        try:
            child = dict(env)
            if server is not None:
                child = home.server_env(env, server.url, server.api_key, private)
            child |= {home.NO_RELAUNCH: "true", **routed}
            child |= {home.HOME_VARIABLE: account} if account is not None else {}
            flags = self._files(options, private)
            if options.system_prompt is not None:
                text = options.system_prompt
                child[home.SYSTEM_PROMPT] = write_private(private, "system.md", text)
            wanted = home.run_settings(
                # The protocol carries the MCP servers.
                msgspec.structs.replace(options, mcp_config=None),
                max_retries=own.max_retries,
                routed=server is not None or home.URL_VARIABLE in routed,
            )
            around = {**child, **options.env}
            if server is not None:
                home.keep_settings(child, home.server_settings(own.max_retries))
            if changed:
                home.refuse_overruled(wanted, cwd, around, free=frozenset({"general.maxAttempts"}))
                settings = home.laid_over(home.user_settings(around), wanted)
                child |= home.make_home(private, settings, around)
        except BaseException:
            remove_folders((private,) if private else ())
            raise
        if server is not None:
            flags += ["-m", options.model or self._installed_dialect().default_model]
        return AcpStart(
            env=child,
            flags=tuple(flags),
            secrets=(key,) if key else (),
            private_dirs=(private,) if private else (),
        )

    def check_load(self, env: Mapping[str, str], session_id: str) -> None:
        """Refuse a session that began within this minute: Gemini would lose it."""
        from bridle.runtimes.gemini.transcript import check_load

        check_load(home.config_dir(env), session_id)

    def history_places(self, env: Mapping[str, str]) -> dict[str, str]:
        """The user's home, which lasts longer than the home of a process."""
        places = super().history_places(env)
        if home.HOME_VARIABLE in places:
            places[home.HOME_VARIABLE] = os.path.dirname(home.user_config_dir(env))
        return places

    # -- sessions a person drives ---------------------------------------------------------------

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """Gemini's own terminal interface; the prompt is its first message."""
        refuse_system_prompts(self, options)
        for name in ("settings", "mcp_config", "denied_tools", "allowed_tools", "model_server"):
            if getattr(options, name):
                raise WrongUse(f"at the terminal gemini takes no {name}")
        installation = self.installation()
        dialect, _, _ = self._dialect(installation.version)
        options, _ = self._checked(options, dialect)
        own = self._own(options, dialect)
        cwd = working_dir(options)
        child = dict(env)
        if options.provider is not None:
            child |= home.provider_env(options.provider, {**env, **options.env})
        words = [*installation.command, "--approval-mode", _mode(options, own, dialect)]
        words += ["-m", options.model] if options.model else []
        words += ["--resume", options.resume] if options.resume else []
        words += options.raw_args
        if options.prompt:
            words.append(f"--prompt-interactive={options.prompt}")
        spec = ProcessSpec(
            argv=tuple(words),
            env=agent_env(child, options, new_session_id(), cwd),
            cwd=cwd,
            stop=STOP,
        )
        return interactive_plan(spec, installation, dialect)

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of Gemini's terminal interface, without its question about trust."""
        import shlex

        refuse_system_prompts(self, options)
        dialect = self._installed_dialect()
        mode = dialect.bypass_mode if options.permission_mode == "bypass" else dialect.ask_mode
        words = [self.settings.binary or self.binary, "-m", options.model, dialect.trust_flag]
        words += ["--approval-mode", mode]
        if options.initial_prompt is not None:
            words.append(f"--prompt-interactive={options.initial_prompt}")
        return shlex.join(words)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is plain text on stdout."""
        dialect = self._installed_dialect()
        words = [*self.command_words(), dialect.trust_flag]
        return [*words, "-m", model or dialect.default_model, f"--prompt={prompt}"]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route Gemini to the model's provider.

        An address of the provider's own needs a setting too, so it makes a home with it in Bridle's
        state folder; that holds no key.
        """
        if model.provider is None:
            return dict(model.env)
        env = {**os.environ, **model.env}
        if "HOME" in model.env:
            # Another user's home in this one's place.
            env.pop(home.HOME_VARIABLE, None)
        routed = {**model.env, **home.provider_env(model.provider, env)}
        if model.provider.base_url is not None:
            wanted = home.run_settings(
                RunOptions(prompt=""), max_retries=GeminiOptions().max_retries, routed=True
            )
            settings = home.laid_over(home.user_settings(env), wanted)
            routed |= home.make_home(os.path.join(state_dir(env), self.id), settings, env)
        return routed

    def _installed_dialect(self) -> GeminiDialect:
        found = self.find()
        return self._dialect(found.version if found else None)[0]

    # -- worktree and history -------------------------------------------------------------------

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.gemini.tui import classify

        return classify(pane)

    def requires_beacon_verification(self) -> bool:
        """Yes: it may restart itself right after its start, and what was typed is gone then."""
        return True

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What the session file at `path` says was used; None when it is missing or unreadable."""
        from bridle.runtimes.gemini.transcript import summarize

        return summarize(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each prompt of the session file at `path` used."""
        from bridle.runtimes.gemini.transcript import prompt_history

        return prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder where Gemini keeps the sessions of `project`, once it has worked there."""
        from bridle.runtimes.gemini.transcript import chats_dir

        return chats_dir(home.config_dir(os.environ), project)

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The file of a session, in whichever project it was."""
        from bridle.runtimes.gemini.transcript import find_session

        return find_session(home.config_dir(env), session_id)

    def retry_log(self) -> RetryReader:
        """Gemini tells of failed calls on its standard error; over ACP only when it ends."""
        from bridle.runtimes.gemini.logs import GeminiLog

        return GeminiLog()


class GeminiAcp(AcpAlias, GeminiRuntime):
    """Gemini CLI over ACP in runs too: the runtime `gemini-acp`."""

    id: ClassVar[str] = "gemini-acp"
    dialects: ClassVar[tuple[Dialect, ...]] = (quirks.GEMINI,)


def _mode(options: RunOptions, own: GeminiOptions, dialect: GeminiDialect) -> str:
    if own.approval_mode is not None:
        return own.approval_mode
    return dialect.bypass_mode if options.permission_mode == "bypass" else dialect.ask_mode
