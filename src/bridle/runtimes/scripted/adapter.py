"""The adapter to the scripted agent: joins its facts, requests, wires and files.

See `docs/runtimes/scripted.md` for what the agent does; `agent/` is the agent itself.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.core.options import Provider, RunOptions
from bridle.core.results import ReadyState, TranscriptSummary
from bridle.process.spec import ProcessSpec
from bridle.runtimes.contract import Guarded, History, Interactive, Live
from bridle.runtimes.options import check_range
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import CliAdapter, Command, Environment, Launch
from bridle.runtimes.product import Mode
from bridle.runtimes.scripted import command
from bridle.runtimes.scripted.product import PRODUCT, ScriptedOptions
from bridle.runtimes.scripted.stream import ScriptedNormalizer
from bridle.runtimes.scripted.transcript import parse_transcript, state_dir
from bridle.turns.guard_contract import GuardHook
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Normalizer

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds


class ScriptedRuntime(CliAdapter, Live, Interactive, Guarded, History):
    """An agent that plays a script with real tools. There is no model, and it says so."""

    product = PRODUCT

    # -- processes --------------------------------------------------------------------------------

    def check(self, options: RunOptions, own: ScriptedOptions, dialect: Any, mode: Mode) -> None:
        """Refuse numbers out of range, unknown behaviours and a budget without a price."""
        check_range("max_retries", own.max_retries, 0, 20)
        check_range("cost_per_turn", own.cost_per_turn or 0.0, 0, 1e6)
        command.check(options, own)

    def environment(self, launch: Launch) -> Environment:
        """The caller's variables, and the key of a conversation's model server."""
        return command.environment(launch)

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        """The call of the agent, with its request."""
        return command.build(launch, env)

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        """The variables that name a scripted model."""
        return command.provider_env(provider, env)

    def sandbox_needs(self, options: RunOptions, spec: ProcessSpec) -> "SandboxNeeds":
        """The folder of its transcripts."""
        from bridle.sandbox import SandboxNeeds

        if options.model_server is not None and options.account_dir is None:
            return SandboxNeeds()
        folder = options.account_dir or state_dir(spec.env)
        return SandboxNeeds(writable=(os.path.abspath(os.path.expanduser(folder)),))

    # -- wires and guard --------------------------------------------------------------------------

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        """The translator of the agent's wire."""
        return ScriptedNormalizer(recorder)

    def live_wire(self, facts: LiveFacts, recorder: Recorder) -> LiveWire:
        """The wire of a conversation."""
        from bridle.runtimes.scripted.live import ScriptedLiveWire

        return ScriptedLiveWire(facts, recorder)

    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        """It asks on its wire, or by a hook command where it has none."""
        from bridle.runtimes.scripted.hooks import guard_plan

        return guard_plan(plan, hook)

    # -- its terminal interface and its files -----------------------------------------------------

    def detect_ready(self, pane: str) -> ReadyState:
        """What a captured pane shows; pure."""
        from bridle.runtimes.scripted.tui import detect_ready

        return detect_ready(pane)

    def requires_beacon_verification(self) -> bool:
        """It reads its terminal line by line: no prompt is lost."""
        return False

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """The usage that one of its transcripts records."""
        return parse_transcript(path)

    def transcript_dir(self, project: str) -> str | None:
        """The folder of all its transcripts; they are not kept by project."""
        return state_dir(os.environ)
