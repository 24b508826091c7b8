"""The adapter to GitHub's Copilot CLI: joins its facts, command, wires, hooks and files.

See `docs/runtimes/copilot.md` for what the CLI honours and what it does by itself.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from bridle.core import structs
from bridle.core.errors import UnsupportedOption
from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.core.usage import Usage
from bridle.process.spec import ProcessSpec
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.adapter import AcpAdapter, AcpAlias
from bridle.runtimes.contract import Interactive, Terminal
from bridle.runtimes.copilot import command, transcript
from bridle.runtimes.copilot.product import PRODUCT, CopilotDialect, CopilotOptions
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.options import check_range, read_provider_options
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import Command, Environment, Launch
from bridle.runtimes.product import Mode
from bridle.turns.guard_contract import GuardHook
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, Normalizer

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.instructions import Place
    from bridle.sandbox import SandboxNeeds


class CopilotRuntime(AcpAdapter, Terminal, Interactive):
    """GitHub's Copilot CLI: runs in its JSON mode, conversations over ACP."""

    product = PRODUCT
    quirks = quirks.COPILOT

    # -- processes --------------------------------------------------------------------------------

    def check(self, options: RunOptions, own: Any, dialect: Any, mode: Mode) -> None:
        """Refuse more retries than Copilot makes."""
        if isinstance(own, CopilotOptions):
            check_range("max_retries", own.max_retries, 0, 5)
        if mode == "tmux" and options.resume is None and not dialect.session_flag:
            raise UnsupportedOption(
                self.id,
                "drive tmux",
                [],
                reason="this version cannot be given the id of a new conversation",
                ignorable=False,
            )

    def environment(self, launch: Launch) -> Environment:
        """The user's variables with the account, the model service and the added instructions."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """The address and the key of `provider`, in Copilot's variables."""
        return command.provider_env(provider, model, env)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """Its folders, without what later sessions obey or run."""
        return command.sandbox_needs(spec.env)

    def unasked(self, options: RunOptions) -> str:
        """A headless Copilot asks nobody."""
        return "calls that are not preapproved are refused"

    # -- wires ------------------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of what a run prints."""
        from bridle.runtimes.copilot.stream import CopilotNormalizer

        options = recorder.options
        summary = None
        dialect = plan.dialect
        assert isinstance(dialect, CopilotDialect)
        if dialect.usage_flag:
            summary = os.path.join(plan.private_dirs[0], command.USAGE_FILE)
        before = None
        if options.resume:
            before = transcript.noted_usage(_events(plan, options.resume))[0]
        if plan.noted:
            before = structs.convert(plan.noted["usage"], Usage | None)
        own = read_provider_options(
            self.id, options.provider_options, CopilotOptions, lists=PRODUCT.list_options
        )
        return CopilotNormalizer(
            recorder,
            session_id=plan.native_session_id,
            resumed=options.resume,
            max_retries=own.max_retries,
            idles=dialect.idles,
            after_run=transcript.files_reader(summary, lambda id: _events(plan, id), before),
        )

    def noted_before(self, plan: RunPlan, resume: str) -> dict[str, Any]:
        """What the conversation has used, by its transcript."""
        usage, _ = transcript.noted_usage(_events(plan, resume))
        return {"usage": msgspec.to_builtins(usage)}

    # -- the guard --------------------------------------------------------------------------------

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """The hooks of a plugin that it gets by flag."""
        from bridle.runtimes.copilot.hooks import guard_plan

        return guard_plan(plan, hook)

    def prove_guard(self, plan: RunPlan) -> str:
        """Its hooks, run on trial."""
        from bridle.runtimes.copilot.hooks import prove

        return prove(plan)

    # -- its terminal interface -------------------------------------------------------------------

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """A plugin given by flag."""
        from bridle.runtimes.copilot.tui import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: LiveFacts, recorder: Recorder) -> "TranscriptWire":
        """The reader of its transcript."""
        from bridle.runtimes.copilot.tui import CopilotFollower

        return CopilotFollower(facts, recorder)

    def transcript_path(self, facts: LiveFacts, pid: int | None = None) -> str | None:
        """The transcript of a session in a pane."""
        return transcript.events_path(facts.own["home"], facts.own["session"])

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.copilot.tui import TERMINAL

        return TERMINAL

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.copilot.tui import detect_ready

        return detect_ready(pane)

    # -- worktree and history ---------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Copilot reads both, and `AGENTS.md` and `CLAUDE.md`, which are the project's."""
        from bridle.runtimes.instructions import Place

        return (Place(self.instruction_path), Place(command.INSTRUCTION_FILE))

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a conversation used; None when it is missing or unreadable."""
        return transcript.summarize(path)

    def transcript_dir(self, project: str) -> str | None:
        """Copilot keeps the conversations of all projects together, a folder each."""
        return transcript.sessions_dir(PRODUCT.home_in(os.environ))


def _events(plan: RunPlan, session: str) -> str:
    return transcript.events_path(PRODUCT.home_in(plan.spec.env), session)


class CopilotAcp(AcpAlias, CopilotRuntime):
    """Copilot over ACP in runs too: the runtime `copilot-acp`."""

    id: ClassVar[str] = "copilot-acp"
    dialects: ClassVar[tuple[Dialect, ...]] = (quirks.COPILOT,)

    def plan_tmux(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """Refused: the protocol has no terminal interface."""
        from bridle.runtimes.alternatives import terminal_runtimes

        raise UnsupportedOption(
            self.id,
            "drive tmux",
            terminal_runtimes(self.id),
            reason="it is not driven in a terminal",
        )
