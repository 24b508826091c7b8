"""How Claude Code is found, started, asked and stopped."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.files import run_dir
from bridle.core.ids import new_session_id
from bridle.core.options import (
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes import routing
from bridle.runtimes.claude.command import (
    LIVE_FLAGS,
    STOP,
    STREAM_FLAGS,
    NoFiles,
    PrivateFiles,
    check_root,
    headless_flags,
    mode_of,
    permission_flags,
    run_flags,
    secrets_of,
    user_message,
)
from bridle.runtimes.claude.dialects import CLAUDE_DIALECTS, TOOLS, ClaudeDialect
from bridle.runtimes.claude.environment import (
    CODE_FOLDERS,
    CONFIG_HOME,
    RETRIES,
    STATE_FOLDERS,
    config_home,
    has_credentials,
    own_session,
    provider_env,
    seed_config_home,
    server_env,
)
from bridle.runtimes.claude.flag_settings import one_shot_settings, without_own_routing
from bridle.runtimes.claude.install import find_claude
from bridle.runtimes.claude.provider_options import ClaudeOptions, read_options
from bridle.runtimes.claude.stream import ClaudeNormalizer
from bridle.runtimes.contract import Guarded, History, Interactive, Live, Terminal
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.install import Installation
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import (
    COMMON_OPTIONS,
    agent_env,
    check_options,
    check_terminal_options,
    native_options,
    working_dir,
)
from bridle.turns.guard_contract import GuardHook, GuardPieces, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds
    from bridle.turns.wire import LiveFacts

_OPTIONS = COMMON_OPTIONS | {
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
_HEADLESS_ONLY = ("max_turns", "budget_usd", "images", "model_server")
_NOT_IN_A_PANE = ("max_turns", "budget_usd", "images")


class ClaudeRuntime(Live, Terminal, Interactive, Guarded, History):
    """Claude Code. See `docs/runtimes/claude.md` for what it honours and what it does itself."""

    id = "claude"
    binary = "claude"
    instruction_path = ".claude/CLAUDE.md"
    dialects = CLAUDE_DIALECTS
    provider_path = ""
    scripted_model = "claude-sonnet-4-5"
    install_hint = "npm install -g @anthropic-ai/claude-code"
    key_variable = "ANTHROPIC_API_KEY"
    routing = routing.CLAUDE
    tools = TOOLS

    def dialect(self, version: str | None) -> tuple[ClaudeDialect, bool, str]:
        """The dialect of `version`, whether it was ever run, and a warning if not."""
        return choose_dialect(self.id, CLAUDE_DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """The same in every dialect."""
        return Features(
            options=_OPTIONS,
            interactive=True,
            streaming=True,
            thinking=True,
            message_usage=True,
            reports_cost=True,
            retries=True,
            output_schema=True,
            resume=True,
            fork=True,
            steer=True,
            follow_up=True,
            abort=True,
            compaction=True,
            compact=True,
            drives=("print", "rpc", "tmux"),
            asks=("print", "rpc", "tmux"),
            instruction_file=self.instruction_path,
        )

    def hidden_flags(self, dialect: Dialect) -> frozenset[str]:
        """Flags that are taken without being in the help."""
        return dialect.hidden_flags if isinstance(dialect, ClaudeDialect) else frozenset()

    def find(self) -> Installation | None:
        """The CLI on PATH, or where the configuration says."""
        return find_claude(self.settings.binary or self.binary)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """Whether a login or key is there, without reading any."""
        return cast('Literal["present", "missing", "unknown"]', has_credentials(env))

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything and write down the process of one headless run."""
        return self._plan(options, env, session_id, live=False)

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything and write down the process of a conversation."""
        plan = self._plan(options, env, session_id, live=True)
        own = {"home": config_home(plan.spec.env), "session": plan.native_session_id}
        return plan.conversing(self.id, resume=options.resume, own=own)

    def forgotten(self, facts: LiveFacts, messages: tuple[str, ...]) -> tuple[str, ...]:
        """The messages that are not in the transcript, which names them by their ids."""
        from bridle.runtimes.claude.transcript import held_messages

        path = self.transcript_path(facts)
        held = None if path is None else held_messages(path, messages)
        return () if held is None else tuple(each for each in messages if each not in held)

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a conversation."""
        from bridle.runtimes.claude.live import ClaudeLiveWire

        recorder.agent_counts_turns = recorder.cost_at_end = True
        dialect, _, _ = self.dialect(facts.runtime_version or None)
        return ClaudeLiveWire(facts, recorder, known_models=dialect.known_models)

    def _plan(
        self, options: RunOptions, env: Mapping[str, str], session_id: str, *, live: bool
    ) -> RunPlan:
        """The process of a run, or of a conversation, whose messages come later."""
        found = self.installation()
        dialect, _, warning = self.dialect(found.version)
        options, ignored = self._checked(options, dialect)
        own = read_options(options.provider_options)
        cwd = working_dir(options)
        stdin = None if live else user_message(options)
        files = PrivateFiles(run_dir(env))
        try:
            started_in = self._environment(options, own, env, session_id, cwd, files)
            check_root(options.permission_mode, started_in)
            forked = options.resume is None or own.fork
            argv = (
                *found.command,
                *STREAM_FLAGS,
                *(LIVE_FLAGS if live else ()),
                *run_flags(options, own, files, started_in, cwd),
                *headless_flags(options, own),
                *(("--session-id", session_id) if forked else ()),
                *permission_flags(options, dialect),
                *options.raw_args,
            )
        except BaseException:
            files.discard()
            raise
        return RunPlan(
            spec=ProcessSpec(
                argv=argv,
                env=started_in,
                cwd=cwd,
                stdin=stdin,
                keep_stdin=live or options.permission_mode == "ask" or dialect.drops_output_at_exit,
                stop=STOP,
            ),
            session_id=session_id,
            installation=found,
            dialect=dialect,
            secrets=secrets_of(options, env),
            ignored_options=ignored,
            warnings=(warning,) if warning else (),
            private_dirs=tuple(files.folders),
            native_session_id=session_id if forked else options.resume,
        )

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> ClaudeNormalizer:
        """The translator of what this plan's process will print."""
        recorder.agent_counts_turns = recorder.cost_at_end = True
        dialect = plan.dialect
        return ClaudeNormalizer(
            recorder,
            resumed=plan.native_session_id if recorder.options.resume else None,
            known_models=(
                dialect.known_models if isinstance(dialect, ClaudeDialect) else frozenset()
            ),
        )

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its conversations and caches, one by one: the folder around them also holds settings and
        hooks, which the user's own sessions obey. It can neither renew a login there nor change
        `.claude.json`, and does its work without."""
        from bridle.sandbox import SandboxNeeds

        temporary = ("CLAUDE_CODE_TMPDIR",)
        if options.model_server is not None and options.account_dir is None:
            # Its home was made for this run alone.
            return SandboxNeeds(scratch_variables=temporary)
        home = config_home(spec.env)
        return SandboxNeeds(
            writable=tuple(os.path.join(home, name) for name in STATE_FOLDERS),
            own=tuple(os.path.join(home, name) for name in CODE_FOLDERS),
            scratch_variables=temporary,
        )

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """Callbacks where the driver holds its stdin, hooks in settings elsewhere."""
        from bridle.runtimes.claude.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_pieces(self, argv: Sequence[str], hook: GuardHook) -> GuardPieces:
        """Hooks in settings."""
        from bridle.runtimes.claude.hooks import guard_pieces

        return guard_pieces(hook)

    def guard_shape(self) -> HookShape:
        """Its settings in a worktree bring hooks that hold."""
        from bridle.runtimes.claude.hooks import SHAPE

        return SHAPE

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """In `.claude/settings.local.json`, which is personal and not under version control."""
        from bridle.runtimes.claude.hooks import deploy_hooks

        return deploy_hooks(worktree, command, mark)

    def isolating_settings(
        self, env: Mapping[str, str], cwd: str, key: str | None
    ) -> dict[str, Any]:
        """What overrules the user's and the project's settings."""
        return without_own_routing(env, cwd, key)

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> ProcessSpec:
        """The process of a run that a person drives at the terminal."""
        found = self.installation()
        dialect, _, _ = self.dialect(found.version)
        options, _ = self._checked(options, dialect)
        for name in _HEADLESS_ONLY:
            if getattr(options, name):
                raise UnsupportedOption(self.id, name, [], reason="only in a headless run")
        own = read_options(options.provider_options)
        cwd = working_dir(options)
        files = NoFiles("")
        session_id = new_session_id()
        started_in = self._environment(options, own, env, session_id, cwd, files)
        check_root(options.permission_mode, started_in)
        mode = mode_of(options.permission_mode, dialect)
        # The mode stands last: some flags before it take any number of words.
        flags = run_flags(options, own, files, started_in, cwd)
        argv = [*found.command, *flags, *options.raw_args]
        argv += ["--permission-mode", mode]
        if options.prompt:
            argv += ["--", options.prompt] if options.prompt.startswith("-") else [options.prompt]
        return ProcessSpec(argv=tuple(argv), env=started_in, cwd=cwd, stop=STOP)

    def _checked(self, options: RunOptions, dialect: Dialect) -> tuple[RunOptions, tuple[str, ...]]:
        """`options` in Claude's own words, and the names of those that are ignored."""
        ignored = check_options(self, options, self.features_of(dialect))
        if options.resume is not None and options.resume.startswith("-"):
            raise WrongUse(f"not a conversation's id: {options.resume}")
        return native_options(self, options), ignored

    def _environment(
        self,
        options: RunOptions,
        own: ClaudeOptions,
        env: Mapping[str, str],
        session_id: str,
        cwd: str,
        files: PrivateFiles,
    ) -> dict[str, str]:
        base = own_session(env)
        if options.account_dir is not None:
            folder = os.path.abspath(os.path.expanduser(options.account_dir))
            if not os.path.isdir(folder):
                raise WrongUse(f"no such account folder: {folder}")
            base[CONFIG_HOME] = folder
        if options.model_server is not None:
            home = base[CONFIG_HOME] if options.account_dir is not None else files.folder()
            seed_config_home(home, options.model_server.api_key, cwd)
            base = server_env(base, options.model_server, home)
        if options.provider is not None and options.model_server is None:
            base |= provider_env(options.provider, {**env, **options.env}, options.model)
        if "max_retries" in options.provider_options or RETRIES not in base:
            base[RETRIES] = str(own.max_retries)
        return agent_env(base, options, session_id, cwd)

    # -- commands for others to start -----------------------------------------------------------

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session in a terminal."""
        import shlex

        check_root(options.permission_mode, {**os.environ, **options.env})
        mode = mode_of(options.permission_mode, self.dialect(None)[0])
        words = [self.settings.binary or self.binary, "--model", options.model]
        words += ["--permission-mode", mode]
        for flag, value in (
            ("--system-prompt", options.system_prompt),
            ("--append-system-prompt", options.append_system_prompt),
            ("--append-system-prompt-file", options.append_system_prompt_file),
        ):
            if value is not None:
                words += [flag, value]
        if options.append_system_prompt and options.append_system_prompt_file:
            raise WrongUse(
                "claude takes an appended system prompt as a text or as a file, not both"
            )
        if options.initial_prompt:
            words += ["--", options.initial_prompt]
        return shlex.join(words)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is plain text on stdout."""
        words = [*self.command_words(), "--print", *(["--model", model] if model else [])]
        if env is not None and env.get("ANTHROPIC_BASE_URL"):
            words += one_shot_settings(env)
        return [*words, "--", prompt]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route the agent to `model`'s provider."""
        around = {**os.environ, **model.env}
        routed = provider_env(model.provider, around, model.model) if model.provider else {}
        return {**routed, **model.env}

    # -- a session in a terminal ----------------------------------------------------------------

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Its terminal interface in a pane; the conversation has the id that Bridle chose."""
        found = self.installation()
        dialect, _, warning = self.dialect(found.version)
        options, ignored = self._checked(options, dialect)
        ignored = (*ignored, *check_terminal_options(self, options, _NOT_IN_A_PANE))
        own, cwd = read_options(options.provider_options), working_dir(options)
        new = options.resume is None or own.fork
        native = session_id if new else options.resume
        files = PrivateFiles(run_dir(env))
        try:
            started_in = self._environment(options, own, env, session_id, cwd, files)
            check_root(options.permission_mode, started_in)
            flags = run_flags(options, own, files, started_in, cwd)
            flags += ["--session-id", session_id] if new else []
            mode = mode_of(options.permission_mode, dialect)
        except BaseException:
            files.discard()
            raise
        planned = RunPlan(
            spec=ProcessSpec(
                # The mode is last: some flags before it take any number of words.
                argv=(*found.command, *flags, *options.raw_args, "--permission-mode", mode),
                env=started_in,
                cwd=cwd,
                stop=STOP,
            ),
            session_id=session_id,
            installation=found,
            dialect=dialect,
            secrets=secrets_of(options, env),
            ignored_options=ignored,
            warnings=(warning,) if warning else (),
            private_dirs=tuple(files.folders),
            native_session_id=native,
        )
        own_facts = {"home": config_home(started_in), "session": native}
        return planned.conversing(self.id, resume=options.resume, own=own_facts)

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """Hooks in settings given by flag; see `reporting`."""
        from bridle.runtimes.claude.reporting import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: "LiveFacts", recorder: Recorder) -> "TranscriptWire":
        """The reader of its transcript; see `following`."""
        from bridle.runtimes.claude.following import ClaudeFollower

        return ClaudeFollower(facts, recorder)

    def transcript_path(self, facts: "LiveFacts", pid: int | None = None) -> str | None:
        """Where the conversation is written down; the file appears with the first prompt."""
        from bridle.runtimes.claude.transcript import transcript_dir

        folder = transcript_dir(facts.cwd, facts.own["home"])
        return None if folder is None else os.path.join(folder, f"{facts.own['session']}.jsonl")

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.claude.tui import TERMINAL

        return TERMINAL

    # -- worktree, terminal, history ------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Claude reads `CLAUDE.md`, the project's own, which is never touched, and both of these.
        Without one of the first two, some versions read `AGENTS.md`, which ours then hides."""
        from bridle.runtimes.instructions import Place

        found = self.find()
        dialect = self.dialect(found.version if found else None)[0]
        hides = dialect.reads_agents_md and not os.path.exists(os.path.join(worktree, "CLAUDE.md"))
        return (
            Place(self.instruction_path, carries=("AGENTS.md",) if hides else ()),
            Place("CLAUDE.local.md"),
        )

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.claude.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """Enter right after a paste, or while it starts, is swallowed more often than not."""
        return True

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a session used, its sub-agents included; None when it is missing or unreadable."""
        from bridle.runtimes.claude.transcript import parse_transcript

        return parse_transcript(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder where the agent keeps the transcripts of `project`."""
        from bridle.runtimes.claude.transcript import transcript_dir

        return transcript_dir(project, config_home(os.environ))
