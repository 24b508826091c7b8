"""The adapter to Claude Code: joins its facts, command, wires, hooks and files.

See `docs/runtimes/claude.md` for what the CLI honours and what it does by itself.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.features import Features
from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.claude import command
from bridle.runtimes.claude.product import PRODUCT, ClaudeDialect, ClaudeOptions
from bridle.runtimes.contract import Guarded, History, Interactive, Live, Terminal
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import CliAdapter, Command, Environment, Launch
from bridle.runtimes.product import Mode, Service, ServicePieces
from bridle.turns.guard_contract import GuardHook, GuardPieces, HookShape
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.claude.stream import ClaudeNormalizer
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds


class ClaudeRuntime(CliAdapter, Live, Terminal, Interactive, Guarded, History):
    """Claude Code (`claude`)."""

    product = PRODUCT

    # -- processes --------------------------------------------------------------------------------

    def check(self, options: RunOptions, own: ClaudeOptions, dialect: Any, mode: Mode) -> None:
        """Refuse an id that would be read as a flag, and both forms of one added prompt."""
        if own.max_retries < 0:
            raise WrongUse("claude: provider option max_retries must not be negative")
        if options.resume is not None and options.resume.startswith("-"):
            raise WrongUse(f"not a conversation's id: {options.resume}")
        both = options.append_system_prompt and options.append_system_prompt_file
        if mode == "spawn" and both:
            raise WrongUse(
                "claude takes an appended system prompt as a text or as a file, not both"
            )

    def features_of(self, dialect: Dialect) -> Features:
        """The report of retries is a matter of the version."""
        shown = dialect.retries if isinstance(dialect, ClaudeDialect) else True
        return msgspec.structs.replace(PRODUCT.features, retries=shown)

    def environment(self, launch: Launch) -> Environment:
        """The user's variables, a home for a scripted model, and the way to the model service."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """The address and the key of `provider`, in Claude's variables."""
        return command.provider_env(provider, env, model)

    def hidden_flags(self, dialect: Dialect) -> frozenset[str]:
        """Flags that the CLI accepts without naming them in its help."""
        return dialect.hidden_flags if isinstance(dialect, ClaudeDialect) else frozenset()

    def service_pieces(self, service: Service) -> ServicePieces:
        """Its variables."""
        return command.service_pieces(service)

    def isolating_settings(
        self, env: Mapping[str, str], cwd: str, key: str | None
    ) -> dict[str, Any]:
        """Settings that overrule the user's and the project's."""
        return command.without_own_routing(env, cwd, key)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its conversations and caches, one by one: the folder around them also holds settings and
        hooks, which the user's own sessions obey. It can neither renew a login there nor change
        `.claude.json`, and works without."""
        from bridle.sandbox import SandboxNeeds

        temporary = ("CLAUDE_CODE_TMPDIR",)
        if options.model_server is not None and options.account_dir is None:
            # Its home is made for this run alone.
            return SandboxNeeds(scratch_variables=temporary)
        home = PRODUCT.home_in(spec.env)
        return SandboxNeeds(
            writable=tuple(os.path.join(home, name) for name in command.STATE_FOLDERS),
            own=tuple(os.path.join(home, name) for name in command.CODE_FOLDERS),
            scratch_variables=temporary,
        )

    # -- wires ------------------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> "ClaudeNormalizer":
        """The translator of what a run prints."""
        from bridle.runtimes.claude.stream import ClaudeNormalizer

        recorder.agent_counts_turns = recorder.cost_at_end = True
        dialect = plan.dialect
        return ClaudeNormalizer(
            recorder,
            resumed=plan.native_session_id if recorder.options.resume else None,
            known_models=(
                dialect.known_models if isinstance(dialect, ClaudeDialect) else frozenset()
            ),
        )

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a conversation."""
        from bridle.runtimes.claude.live import ClaudeLiveWire

        recorder.agent_counts_turns = recorder.cost_at_end = True
        dialect, _, _ = self.dialect(facts.runtime_version or None)
        return ClaudeLiveWire(facts, recorder, known_models=dialect.known_models)

    def forgotten(self, facts: LiveFacts, messages: tuple[str, ...]) -> tuple[str, ...]:
        """The messages whose ids are not in the transcript."""
        from bridle.runtimes.claude.transcript import held_messages, session_path

        path = session_path(facts)
        held = None if path is None else held_messages(path, messages)
        return () if held is None else tuple(each for each in messages if each not in held)

    # -- the guard --------------------------------------------------------------------------------

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """Callbacks where the driver holds its stdin, hooks in settings elsewhere."""
        from bridle.runtimes.claude.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_pieces(self, argv: Sequence[str], hook: GuardHook) -> GuardPieces:
        """Hooks in settings."""
        from bridle.runtimes.claude.hooks import guard_pieces

        return guard_pieces(hook)

    def guard_shape(self) -> HookShape:
        """Hooks in a worktree's settings are reliable."""
        from bridle.runtimes.claude.hooks import SHAPE

        return SHAPE

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """In `.claude/settings.local.json`, which is personal and not under version control."""
        from bridle.runtimes.claude.hooks import deploy_hooks

        return deploy_hooks(worktree, command, mark)

    # -- its terminal interface -------------------------------------------------------------------

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """Hooks in settings given by flag."""
        from bridle.runtimes.claude.tui import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: LiveFacts, recorder: Recorder) -> "TranscriptWire":
        """The reader of its transcript."""
        from bridle.runtimes.claude.tui import ClaudeFollower

        return ClaudeFollower(facts, recorder)

    def transcript_path(self, facts: LiveFacts, pid: int | None = None) -> str | None:
        """The transcript of a session in a pane."""
        from bridle.runtimes.claude.transcript import session_path

        return session_path(facts)

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.claude.tui import TERMINAL

        return TERMINAL

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.claude.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """Enter right after a paste, or while the interface starts, is often lost."""
        return True

    # -- worktree and history ---------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Claude reads `CLAUDE.md`, the project's own, which is never touched, and both of these.
        Without one of the first two, some versions read `AGENTS.md`, which ours then hides."""
        from bridle.runtimes.instructions import Place

        dialect = self.installed_dialect()
        hides = dialect.reads_agents_md and not os.path.exists(os.path.join(worktree, "CLAUDE.md"))
        return (
            Place(self.instruction_path, carries=("AGENTS.md",) if hides else ()),
            Place("CLAUDE.local.md"),
        )

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a session used, sub-agents included; None when it is missing or unreadable."""
        from bridle.runtimes.claude.transcript import parse_transcript

        return parse_transcript(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of the transcripts of `project`."""
        from bridle.runtimes.claude.transcript import transcript_dir

        return transcript_dir(project, PRODUCT.home_in(os.environ))
