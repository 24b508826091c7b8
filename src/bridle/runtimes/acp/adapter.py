"""The base of every adapter whose agent speaks the Agent Client Protocol.

The protocol is a way to drive a product, not a product of its own: `AcpAdapter` gives a product its
drive `rpc`. `OverAcp` also sends single runs over the protocol, for the `-acp` aliases, for bridges
and for agents that speak nothing else.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.options import RunOptions, SpawnOptions
from bridle.runtimes.acp.product import AcpProduct
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.alternatives import supporters
from bridle.runtimes.contract import Adapter, Guarded
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import account_folder
from bridle.runtimes.product import Mode

if TYPE_CHECKING:
    from bridle.core.results import ReadyState
    from bridle.process.spec import ProcessSpec
    from bridle.runtimes.acp.plan import AcpPlan
    from bridle.sandbox import SandboxNeeds
    from bridle.turns.guard_contract import HookShape
    from bridle.turns.recorder import Recorder
    from bridle.turns.wire import LiveFacts, LiveWire, Normalizer


class AcpAdapter(AcpProduct):
    """An adapter whose live conversations go over the protocol."""

    def plan_acp(
        self, options: RunOptions, env: Mapping[str, str], session_id: str, *, live: bool
    ) -> "AcpPlan":
        """The plan of one prompt, or of a conversation's process, over the protocol."""
        from bridle.runtimes.acp.plan import plan_session

        return plan_session(self, options, env, session_id, live=live)

    def plan_live(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """The process and the session of a conversation."""
        from bridle.runtimes.acp.live import conversation

        options = msgspec.structs.replace(options, prompt="", images=())
        plan = self.plan_acp(options, env, session_id, live=True)
        return conversation(self, plan, env)

    def live_wire(self, facts: "LiveFacts", recorder: "Recorder") -> "LiveWire":
        """The wire of a conversation."""
        from bridle.runtimes.acp.live import wire_of

        return wire_of(self, facts, recorder)


class OverAcp(AcpAdapter):
    """An adapter that speaks nothing but the protocol, in runs too."""

    session_by_print = False

    def dialect(self, version: str | None) -> tuple[AcpQuirks, bool, str]:
        """The quirks, whether that version was ever run, and a warning if not."""
        return self.quirks_of(version)

    def mode_dialects(self, mode: Mode) -> Sequence[Dialect]:
        """The quirks."""
        return (*self.older_quirks, self.quirks)

    def plan_run(self, options: RunOptions, env: Mapping[str, str], session_id: str) -> RunPlan:
        """The process and the session of one prompt."""
        return self.plan_acp(options, env, session_id, live=False)

    def normalizer(self, plan: RunPlan, recorder: "Recorder") -> "Normalizer":
        """The machine that plays the session of one prompt."""
        from bridle.runtimes.acp.plan import AcpPlan
        from bridle.runtimes.acp.stream import AcpNormalizer

        assert isinstance(plan, AcpPlan)
        history = None
        if plan.quirks.history:
            from bridle.runtimes.history import read_history

            history = partial(read_history, self, plan.spec.env)
        log = self.retry_log() if plan.quirks.failure_log else None
        return AcpNormalizer(recorder, plan.quirks, plan.session, history=history, log=log)

    def unasked(self, options: RunOptions) -> str:
        """Its requests are refused; the plan says more about an agent that asks only when it would
        leave its sandbox."""
        return "" if self.quirks.sandbox_modes else Adapter.unasked(self, options)

    def sandbox_needs(self, options: RunOptions, spec: "ProcessSpec") -> "SandboxNeeds":
        """Those of the product. The whole home of a session with a scripted model is writable: it
        contains nothing of the user's."""
        needs = self.product_needs(options, spec)
        if options.model_server is None or options.account_dir is None:
            return needs
        from bridle.sandbox import SandboxNeeds

        account = account_folder(options.account_dir)
        return SandboxNeeds(writable=(account,), scratch_variables=needs.scratch_variables)

    def product_needs(self, options: RunOptions, spec: "ProcessSpec") -> "SandboxNeeds":
        """What the product's CLI must be able to write in a sandbox."""
        return super().sandbox_needs(options, spec)

    # -- what only the product's other drives have ----------------------------------------------

    def build_spawn_command(self, options: SpawnOptions) -> str:
        """The command of the agent as a server on its stdin and stdout. The protocol carries the
        model, the mode, the permissions and the first prompt."""
        import shlex

        for name in ("system_prompt", "append_system_prompt", "append_system_prompt_file"):
            if getattr(options, name) is not None:
                raise UnsupportedOption(self.id, name, supporters(name, self.id))
        return shlex.join([self.settings.binary or self.binary, *self.quirks.flags])

    def build_print_command(
        self, prompt: str, model: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Refused: the answer comes by the protocol, not as text on stdout."""
        raise WrongUse(
            f"runtime {self.id} answers by the protocol, not with plain text",
            hint="run it with `bridle run`",
        )

    def guard_shape(self) -> "HookShape":
        """Refused: no hook of a worktree is known to run over the protocol."""
        return Guarded.guard_shape(self)

    def deploy_guard(self, worktree: str, command: str | None, mark: str) -> str:
        """Refused, as `guard_shape`."""
        return Guarded.deploy_guard(self, worktree, command, mark)

    def detect_ready(self, pane: str) -> "ReadyState":
        """Ready: there is no terminal interface."""
        return Adapter.detect_ready(self, pane)

    def requires_beacon_verification(self) -> bool:
        """No: a prompt is a call with an answer, and cannot be lost."""
        return False


class AcpAlias(OverAcp):
    """The first base of a product's alias: the same product, driven over the protocol only."""

    def __init_subclass__(cls) -> None:
        """State the product's facts under the name `<product>-acp`, with the quirks as dialect."""
        facts = getattr(cls, "product", None)
        if facts is not None and "product" not in vars(cls):
            cls.product = msgspec.structs.replace(
                facts,
                id=f"{facts.id}-acp",
                dialects=(*cls.older_quirks, cls.quirks),
                session_by_print=False,
            )
        super().__init_subclass__()

    def plan_interactive(self, options: RunOptions, env: Mapping[str, str]) -> RunPlan:
        """Refused: the protocol has no terminal interface."""
        raise UnsupportedOption(
            self.id,
            "interactive",
            supporters("interactive", self.id),
            reason="it has no terminal interface",
        )
