"""Copilot as a runtime: how it is found, asked, started and stopped."""

import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from bridle.core.errors import ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.files import new_private_dir
from bridle.core.ids import new_session_id
from bridle.core.options import ResolvedModel, RunOptions, SpawnOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessSpec, StopStep
from bridle.runtimes import routing
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, AcpAlias
from bridle.runtimes.contract import Interactive, Terminal
from bridle.runtimes.copilot import command, environment
from bridle.runtimes.copilot.dialects import DIALECTS, TOOLS, CopilotDialect
from bridle.runtimes.copilot.provider_options import CopilotOptions, read_options
from bridle.runtimes.copilot.transcript import (
    HOME_VARIABLE,
    copilot_home,
    last_finish_reason,
    noted_usage,
    read_summary,
    sessions_dir,
    summarize,
)
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.install import (
    Installation,
    find_native_cli,
)
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan, interactive_plan
from bridle.runtimes.planner import (
    agent_env,
    check_options,
    check_terminal_options,
    native_options,
    working_dir,
)
from bridle.runtimes.product import COMMON_OPTIONS
from bridle.turns.guard_contract import GuardHook
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.acp.product import AcpOptions, AcpStart
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds
    from bridle.turns.wire import LiveFacts

PACKAGE = "@github/copilot"
_NATIVE = "@github/copilot-{platform}/copilot"
_USAGE_FILE = "usage.json"
_HEADLESS_ONLY = ("max_turns", "images", "mcp_config", "model_server", "append_system_prompt")
_NOT_IN_A_PANE = ("max_turns", "images")
_HONOURED = COMMON_OPTIONS | {
    "max_turns",
    "allowed_tools",
    "denied_tools",
    "mcp_config",
    "images",
    "resume",
}

STOP = (
    StopStep(signal=signal.SIGTERM, grace=4.0),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""SIGTERM ends the turn and its tools; the exit status is then 0."""


class CopilotRuntime(AcpAdapter, Terminal, Interactive):
    """GitHub's Copilot CLI: runs in its JSON mode, conversations over ACP."""

    id: ClassVar[str] = "copilot"
    binary: ClassVar[str] = "copilot"
    instruction_path: ClassVar[str] = ".github/copilot-instructions.md"
    dialects: ClassVar[tuple[Dialect, ...]] = DIALECTS
    install_hint: ClassVar[str] = "npm install -g @github/copilot"
    key_variable: ClassVar[str] = environment.TOKENS[0]
    routing = routing.COPILOT
    tools = TOOLS
    quirks = quirks.COPILOT
    worktree_hooks = "it passes over a repository's hooks where the folder is not trusted"

    # -- identity and availability --------------------------------------------------------------

    def dialect(self, version: str | None) -> tuple[Dialect, bool, str]:
        """The dialect of `version`, whether that version was ever run, and a warning if not."""
        return self._dialect(version)

    def _dialect(self, version: str | None) -> tuple[CopilotDialect, bool, str]:
        return choose_dialect(self.id, DIALECTS, version)

    def features_of(self, dialect: Dialect) -> Features:
        """What Copilot can do; the same in every version so far."""
        if dialect is self.quirks:
            return self.features_over_acp()
        return Features(
            options=_HONOURED,
            interactive=True,
            streaming=True,
            thinking=True,
            retries=True,
            resume=True,
            follow_up=True,
            abort=True,
            compaction=True,
            drives=("print", "rpc", "tmux"),
            asks=("rpc", "tmux"),
            instruction_file=self.instruction_path,
            over={"rpc": self.features_over_acp()},
        )

    def find(self) -> Installation | None:
        """The installed CLI: the native program behind npm's launcher."""
        return find_native_cli(self.settings.binary or self.binary, _NATIVE, PACKAGE)

    def credentials(self, env: Mapping[str, str]) -> Literal["present", "missing", "unknown"]:
        """A token variable or a provider of the user's own; a login may be in a key ring, so a
        configuration leaves it open."""
        if any(env.get(name) for name in (*environment.TOKENS, environment.BASE_URL)):
            return "present"
        return "unknown" if os.path.exists(copilot_home(env)) else "missing"

    # -- runs -----------------------------------------------------------------------------------

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Check everything, then make the private files that the run needs."""
        found = self.installation()
        dialect, _, warning = self._dialect(found.version)
        options, ignored = self._checked(options, dialect)
        own = read_options(options.provider_options)
        cwd = working_dir(options)
        flags = self._flags(options, own)
        added = added_instructions(options)
        native = options.resume or session_id
        if options.resume is not None:
            self._check_resume(options, env)
        folder = new_private_dir(env, self.id)
        try:
            flags += ["--output-format=json", "--no-auto-update", "--no-color"]
            flags += [f"--usage-output-file={os.path.join(folder, _USAGE_FILE)}"]
            flags += [f"--{'resume' if options.resume else 'session-id'}={native}"]
            flags += command.mcp_flags(options.mcp_config, folder) if options.mcp_config else []
            child = self._environment(options, own, env, session_id, cwd, folder, added)
        except BaseException:
            remove_folders((folder,))
            raise
        return RunPlan(
            spec=ProcessSpec(
                argv=(*found.command, *flags, *options.raw_args),
                env=child,
                cwd=cwd,
                stdin=options.prompt.encode(errors="surrogateescape"),
                stop=STOP,
            ),
            session_id=session_id,
            installation=found,
            dialect=dialect,
            secrets=tuple(child[name] for name in environment.SECRET if child.get(name)),
            ignored_options=ignored,
            warnings=(warning,) if warning else (),
            private_dirs=(folder,),
            native_session_id=native,
        )

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folders, without what later sessions obey or run."""
        from bridle.runtimes.copilot.confinement import sandbox_needs

        return sandbox_needs(spec.env)

    def noted_before(self, plan: RunPlan, resume: str) -> dict[str, Any]:
        """What its notes say that the conversation used."""
        folder = os.path.join(sessions_dir(copilot_home(plan.spec.env)), resume)
        return {"usage": msgspec.to_builtins(noted_usage(os.path.join(folder, "events.jsonl"))[0])}

    def unasked(self, options: RunOptions) -> str:
        """A headless Copilot asks nobody."""
        return "calls that are not preapproved are refused"

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what this plan's process will print."""
        from bridle.runtimes.copilot.stream import Afterwards, CopilotNormalizer

        resumed = recorder.options.resume
        usage_file = os.path.join(plan.private_dirs[0], _USAGE_FILE)
        transcript = os.path.join(
            sessions_dir(copilot_home(plan.spec.env)), plan.native_session_id or "", "events.jsonl"
        )

        # Summary and notes count the whole conversation: what it used before is taken off.
        before = noted_usage(transcript)[0] if resumed else None
        if plan.noted:
            from bridle.core.usage import Usage

            told = plan.noted["usage"]
            before = None if told is None else msgspec.convert(told, Usage)

        def after_run() -> Afterwards:
            usage, model = read_summary(usage_file)
            if usage is None:
                # A process that was killed wrote no summary, but noted each call as it was made.
                usage, model = noted_usage(transcript)
            if usage is not None and before is not None:
                usage -= before
            reason = last_finish_reason(transcript)
            return Afterwards(usage=usage, model=model, finish_reason=reason)

        return CopilotNormalizer(
            recorder,
            session_id=plan.native_session_id,
            resumed=resumed,
            max_retries=read_options(recorder.options.provider_options).max_retries,
            after_run=after_run,
        )

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """Hooks of a plugin that is given by flag; see `guarding`."""
        from bridle.runtimes.copilot.hooks import guard_plan

        return guard_plan(plan, hook)

    def prove_guard(self, plan: RunPlan) -> str:
        """Its hooks, run on trial; see `canary`."""
        from bridle.runtimes.copilot.canary import prove

        return prove(plan)

    def _checked(self, options: RunOptions, dialect: Dialect) -> tuple[RunOptions, tuple[str, ...]]:
        """`options` in Copilot's own words, and the names of those that are ignored."""
        ignored = check_options(self, options, self.features_of(dialect))
        return native_options(self, options), ignored

    def _flags(self, options: RunOptions, own: CopilotOptions) -> list[str]:
        return [
            *command.choice_flags(options, own),
            *command.permission_flags(options, own),
            *command.tool_flags(options.allowed_tools, options.denied_tools),
            *command.image_flags(options.images),
        ]

    def _check_resume(self, options: RunOptions, env: Mapping[str, str]) -> None:
        """Only a whole id of a conversation that is there: Copilot also takes the beginning of an
        id, or a name, for one."""
        wanted = options.resume or ""
        home = copilot_home(self._base_env(options, env))
        known = os.path.join(sessions_dir(home), os.path.basename(wanted), "events.jsonl")
        if (
            (options.model_server is not None and options.account_dir is None)
            or os.path.basename(wanted) != wanted
            or not os.path.isfile(known)
        ):
            raise ResumeRefused(f"copilot has no conversation {wanted}", runtime=self.id)

    def _base_env(self, options: RunOptions, env: Mapping[str, str]) -> dict[str, str]:
        """The user's environment, with the account folder that was asked for."""
        base = {**env, **environment.QUIET}
        if options.account_dir is not None:
            folder = os.path.abspath(os.path.expanduser(options.account_dir))
            if not os.path.isdir(folder):
                raise WrongUse(f"no such account folder: {folder}", hint="log in there first")
            base[HOME_VARIABLE] = folder
        if options.permission_mode == "ask":
            base.pop(environment.ALLOW_ALL, None)
        return base

    def _environment(
        self,
        options: RunOptions,
        own: CopilotOptions,
        env: Mapping[str, str],
        session_id: str,
        cwd: str,
        folder: str,
        added: str | None,
    ) -> dict[str, str]:
        base = self._routed(options, own, env, folder, added)
        return agent_env(base, options, session_id, cwd)

    def _routed(
        self,
        options: RunOptions,
        own: CopilotOptions,
        env: Mapping[str, str],
        folder: str,
        added: str | None,
    ) -> dict[str, str]:
        """The variables of the account, the model service and the added instructions."""
        base = self._base_env(options, env)
        if options.model_server is not None:
            home = os.path.join(folder, "home")
            if options.account_dir is not None:
                home = base[HOME_VARIABLE]
            else:
                os.mkdir(home, 0o700)
            base = environment.server_env(base, options.model_server, options.model, home)
        elif options.provider is not None:
            routed = environment.provider_env(
                options.provider, options.model, {**env, **options.env}, own
            )
            base = {name: value for name, value in {**base, **routed}.items() if value}
        base |= environment.QUIET
        if added is not None:
            place = command.write_instructions(folder, added)
            if "," in place:
                raise WrongUse(
                    f"copilot cannot read instructions below a path with a comma: {place}"
                )
            others = base.get(environment.INSTRUCTION_DIRS)
            base[environment.INSTRUCTION_DIRS] = f"{others},{place}" if others else place
        return base

    # -- over ACP -------------------------------------------------------------------------------

    def acp_start(
        self, options: RunOptions, own: "AcpOptions", env: Mapping[str, str], cwd: str
    ) -> "AcpStart":
        """`copilot --acp`, with the environment of a run. Copilot ignores the MCP servers of the
        protocol, so these go by file."""
        from bridle.runtimes.acp.product import AcpStart

        flags = command.tool_flags(options.allowed_tools, options.denied_tools)
        added = added_instructions(options)
        needs_folder = bool(options.model_server or options.mcp_config or added)
        folder = new_private_dir(env, self.id) if needs_folder else ""
        try:
            flags += command.mcp_flags(options.mcp_config, folder) if options.mcp_config else []
            child = self._routed(options, CopilotOptions(), env, folder, added)
        except BaseException:
            remove_folders((folder,) if folder else ())
            raise
        if options.model:
            child[self.quirks.model_variable or ""] = options.model
        return AcpStart(
            env=child,
            flags=tuple(flags),
            secrets=tuple(child[name] for name in environment.SECRET if child.get(name)),
            private_dirs=(folder,) if folder else (),
            mcp_chosen=True,
        )

    # -- sessions a person drives ---------------------------------------------------------------

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """Copilot's own terminal interface; the prompt is its first message."""
        found = self.installation()
        dialect = self._dialect(found.version)[0]
        options, _ = self._checked(options, dialect)
        for name in (*_HEADLESS_ONLY, "append_system_prompt_file"):
            if getattr(options, name) and not options.ignore_unsupported:
                raise UnsupportedOption(
                    self.id, name, [], reason="only in a headless run", ignorable=True
                )
        own = read_options(options.provider_options)
        cwd = working_dir(options)
        argv = [*found.command, *command.choice_flags(options, own), "--no-auto-update"]
        argv += command.permission_flags(options, own)
        argv += command.tool_flags(options.allowed_tools, options.denied_tools)
        if options.resume is not None:
            self._check_resume(options, env)
            argv.append(f"--resume={options.resume}")
        argv += options.raw_args
        argv += [f"--interactive={options.prompt}"] if options.prompt.strip() else []
        plain = msgspec.structs.replace(options, model_server=None)
        child = self._environment(plain, own, env, new_session_id(), cwd, "", None)
        spec = ProcessSpec(argv=tuple(argv), env=child, cwd=cwd, stop=STOP)
        return interactive_plan(spec, found, dialect)

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The shell command of an interactive session in a terminal.

        A system prompt cannot be given on it: instructions go into a file (`deploy_config`).
        """
        import shlex

        for name in ("system_prompt", "append_system_prompt", "append_system_prompt_file"):
            if getattr(options, name):
                raise UnsupportedOption(
                    self.id, name, [], reason="in a terminal; deploy an instruction file instead"
                )
        words = [self.settings.binary or self.binary, "--model", options.model]
        words += command.BYPASS if options.permission_mode == "bypass" else ()
        words += [f"--interactive={options.initial_prompt}"] if options.initial_prompt else []
        return shlex.join(words)

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The argv of a one-shot call whose answer is plain text on stdout."""
        chosen = ["--model", model] if model else []
        words = [f"--prompt={prompt}"] if prompt.startswith("-") else ["-p", prompt]
        return [*self.command_words(), *words, "--allow-all-tools", *chosen]

    def build_env(self, model: ResolvedModel) -> dict[str, str]:
        """Variables that route Copilot to `model`'s provider."""
        if model.provider is None:
            return dict(model.env)
        env = {**os.environ, **model.env}
        routed = environment.provider_env(model.provider, model.model, env, CopilotOptions())
        return {**routed, **model.env}

    # -- a session in a terminal ----------------------------------------------------------------

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Its terminal interface in a pane; the conversation has the id that Bridle chose."""
        found = self.installation()
        dialect, _, warning = self.dialect(found.version)
        options, ignored = self._checked(options, dialect)
        ignored = (*ignored, *check_terminal_options(self, options, _NOT_IN_A_PANE))
        own, cwd = read_options(options.provider_options), working_dir(options)
        added = added_instructions(options)
        native = options.resume or session_id
        if options.resume is not None:
            self._check_resume(options, env)
        argv = [*found.command, *command.choice_flags(options, own), "--no-auto-update"]
        argv += command.permission_flags(options, own)
        argv += command.tool_flags(options.allowed_tools, options.denied_tools)
        argv += [f"--{'resume' if options.resume else 'session-id'}={native}"]
        folder = new_private_dir(env, self.id)
        try:
            argv += command.mcp_flags(options.mcp_config, folder) if options.mcp_config else []
            child = self._environment(options, own, env, session_id, cwd, folder, added)
        except BaseException:
            remove_folders((folder,))
            raise
        planned = RunPlan(
            spec=ProcessSpec(argv=(*argv, *options.raw_args), env=child, cwd=cwd, stop=STOP),
            session_id=session_id,
            installation=found,
            dialect=dialect,
            secrets=tuple(child[name] for name in environment.SECRET if child.get(name)),
            ignored_options=ignored,
            warnings=(warning,) if warning else (),
            private_dirs=(folder,),
            native_session_id=native,
        )
        own_facts = {"home": copilot_home(child), "session": native}
        return planned.conversing(self.id, resume=options.resume, own=own_facts)

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """A plugin given by flag; see `reporting`."""
        from bridle.runtimes.copilot.reporting import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: "LiveFacts", recorder: Recorder) -> "TranscriptWire":
        """The reader of its transcript; see `following`."""
        from bridle.runtimes.copilot.following import CopilotFollower

        return CopilotFollower(facts, recorder)

    def transcript_path(self, facts: "LiveFacts", pid: int | None = None) -> str | None:
        """Where the session is written down."""
        return os.path.join(sessions_dir(facts.own["home"]), facts.own["session"], "events.jsonl")

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.copilot.tui import TERMINAL

        return TERMINAL

    # -- worktree, terminal, history ------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Copilot reads both. `AGENTS.md` and `CLAUDE.md`, read too, are the project's."""
        from bridle.runtimes.copilot.command import INSTRUCTION_FILE
        from bridle.runtimes.instructions import Place

        return (Place(self.instruction_path), Place(INSTRUCTION_FILE))

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.copilot.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """A prompt typed while the interface starts may be lost, so it is looked for."""
        return True

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a conversation used; None when it is missing or unreadable."""
        return summarize(path)

    def transcript_dir(self, project: str) -> str | None:
        """Copilot keeps the conversations of all projects together, a folder each."""
        return sessions_dir(copilot_home(os.environ))


class CopilotAcp(AcpAlias, CopilotRuntime):
    """Copilot over ACP in runs too: the runtime `copilot-acp`."""

    id: ClassVar[str] = "copilot-acp"
    dialects: ClassVar[tuple[Dialect, ...]] = (quirks.COPILOT,)

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Refused: the protocol has no terminal interface."""
        from bridle.runtimes.supporting import terminal_runtimes

        raise UnsupportedOption(
            self.id,
            "drive tmux",
            terminal_runtimes(self.id),
            reason="it is not driven in a terminal",
        )
