"""The adapter to Codex: joins its facts, command, wires, hooks and files.

One prompt runs by `codex exec --json`, a conversation by `codex app-server`. See
`docs/runtimes/codex.md` for what the CLI honours and what it does by itself.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.features import Features
from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.codex import command
from bridle.runtimes.codex.product import PRODUCT, CodexDialect, CodexOptions
from bridle.runtimes.codex.stream import CodexNormalizer
from bridle.runtimes.contract import Guarded, History, Interactive, Live, Terminal
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.options import read_provider_options
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import CliAdapter, Command, Environment, Launch
from bridle.runtimes.product import Mode, Service, ServicePieces, ToolPieces
from bridle.turns.guard_contract import GuardHook, GuardPieces
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire

if TYPE_CHECKING:
    from bridle.drives.tmux.facts import TerminalFacts
    from bridle.drives.tmux.transcript_wire import TranscriptWire
    from bridle.runtimes.history import Spent
    from bridle.runtimes.instructions import Place
    from bridle.runtimes.past_conversation import PastMessage


class CodexRuntime(CliAdapter, Live, Terminal, Interactive, Guarded, History):
    """OpenAI's Codex CLI (`codex`)."""

    product = PRODUCT

    # -- processes --------------------------------------------------------------------------------

    def features_of(self, dialect: Dialect) -> Features:
        """What it can do; a version whose log is not read does not report each retry."""
        logs = isinstance(dialect, CodexDialect) and bool(dialect.log_filter)
        return msgspec.structs.replace(PRODUCT.features, retries=logs)

    def check(self, options: RunOptions, own: CodexOptions, dialect: Any, mode: Mode) -> None:
        """Refuse what Codex cannot honour in `mode`, and files that cannot be read."""
        command.check(options, own, dialect, mode)

    def environment(self, launch: Launch) -> Environment:
        """The user's variables, a home for a scripted model, and the key of the model service."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the CLI."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """The address and the key of `provider`, in OpenAI's variables."""
        return command.provider_env(provider, env)

    def tool_pieces(self, options: RunOptions, folder: str, env: Mapping[str, str]) -> ToolPieces:
        """Its flags, which the bridge to the protocol takes too."""
        return ToolPieces(flags=tuple(command.tool_flags(options.denied_tools)))

    def service_pieces(self, service: Service) -> ServicePieces:
        """A provider by flags, and the trust in the working directory."""
        return command.service_pieces(service)

    def asks_under(self, options: RunOptions) -> bool:
        """Not in a sandbox that was named: a yes would let a command leave it."""
        return options.sandbox in (None, "off")

    def unasked(self, options: RunOptions) -> str:
        """`codex exec` asks nobody, so it only reads, unless a sandbox was named; then the plan
        warns."""
        if options.sandbox in ("worktree", "off"):
            return ""
        return "it only reads, and whatever would change a file fails"

    # -- wires ------------------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> CodexNormalizer:
        """The translator of what `codex exec --json` prints."""
        given = recorder.options.provider_options
        own = read_provider_options(self.id, given, CodexOptions, lists=PRODUCT.list_options)
        return CodexNormalizer(
            recorder,
            PRODUCT.home_in(plan.spec.env),
            retry_seconds=own.retry_seconds,
            offset=plan.noted.get("offset"),
            fork=own.fork,
        )

    def noted_before(self, plan: RunPlan, resume: str) -> dict[str, Any]:
        """How long its record of the conversation is."""
        from bridle.runtimes.codex.transcript import size_of_rollout

        return {"offset": size_of_rollout(PRODUCT.home_in(plan.spec.env), resume)}

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a conversation."""
        from bridle.runtimes.codex.live import CodexLiveWire

        return CodexLiveWire(facts, recorder)

    def remote_terminal(
        self, facts: LiveFacts, native_id: str, env: Mapping[str, str]
    ) -> ProcessSpec | None:
        """`codex --remote unix://… resume ID`, for a session with the option `shared_socket`."""
        dialect = self.dialect(facts.runtime_version)[0]
        return command.remote_terminal(facts, dialect, native_id, env)

    # -- the guard --------------------------------------------------------------------------------

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """Hooks by `-c`, with the trust they need."""
        from bridle.runtimes.codex.hooks import guard_plan

        return guard_plan(plan, hook)

    def guard_pieces(self, argv: Sequence[str], hook: GuardHook) -> GuardPieces:
        """Hooks by `-c`."""
        from bridle.runtimes.codex.hooks import guard_pieces

        return guard_pieces(argv, hook)

    def prove_guard(self, plan: RunPlan) -> str:
        """Ask Codex itself which hooks it will run."""
        from bridle.runtimes.codex.hooks import prove

        prove(plan)
        return "hooks/list"

    # -- its terminal interface -------------------------------------------------------------------

    def report_plan(self, plan: RunPlan) -> RunPlan:
        """Hooks by `-c`, with the trust they need."""
        from bridle.runtimes.codex.hooks import report_plan

        return report_plan(plan)

    def tmux_wire(self, facts: LiveFacts, recorder: Recorder) -> "TranscriptWire":
        """The reader of its rollout."""
        from bridle.runtimes.codex.tui import CodexFollower, OlderCodexFollower

        records = self.dialect(facts.runtime_version)[0].usage_records
        return CodexFollower(facts, recorder) if records else OlderCodexFollower(facts, recorder)

    def transcript_path(self, facts: LiveFacts, pid: int | None = None) -> str | None:
        """The rollout of a session in a pane."""
        from bridle.runtimes.codex.tui import transcript_path

        return transcript_path(facts, pid)

    def terminal_facts(self) -> "TerminalFacts":
        """How its terminal interface takes input."""
        from bridle.runtimes.codex.tui import TERMINAL

        return TERMINAL

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.codex.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """No: a prompt given at the start is an argument and cannot be swallowed."""
        return False

    # -- worktree and history ---------------------------------------------------------------------

    def instruction_places(self, worktree: str) -> tuple["Place", ...]:
        """Codex reads `AGENTS.md` or, in its place, `AGENTS.override.md`."""
        from bridle.runtimes.instructions import override_places

        return override_places(worktree, self.instruction_path)

    def import_conversation(
        self, messages: "Iterable[PastMessage]", options: RunOptions, env: Mapping[str, str]
    ) -> str | None:
        """A thread of another agent's conversation, by Codex's own import; see
        `importing.ImportsConversation`."""
        from bridle.runtimes.codex.app_server import import_conversation

        return import_conversation(self.launch("live", options, env, ""), messages)

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What a rollout and those of its sub-agents say was used."""
        from bridle.runtimes.codex.transcript import summarize

        return summarize(path)

    def prompt_history(self, path: str) -> "list[Spent]":
        """What each turn of a rollout used."""
        from bridle.runtimes.codex.transcript import prompt_history

        return prompt_history(path)

    def transcript_dir(self, project: str) -> str | None:
        """Codex keeps the threads of all projects together, in folders by day."""
        return os.path.join(PRODUCT.home_in(os.environ), "sessions")

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The rollout of a thread."""
        from bridle.runtimes.codex.transcript import find_rollout

        return find_rollout(PRODUCT.home_in(env), session_id)
