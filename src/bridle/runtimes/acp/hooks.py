"""Makes an agent that speaks the protocol ask before each tool call.

The protocol's permission request (`session/request_permission`) is optional, and most agents run
some tools without it. So a product is guarded by its own hooks, also over the protocol (`hooks` in
its folder). Here is what products and bridges share: agents that ask on the wire, and products that
a bridge starts.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.runtimes.acp.plan import AcpPlan, with_session
from bridle.turns.guard_contract import GuardHook, GuardMechanism

if TYPE_CHECKING:
    from bridle.runtimes.contract import Guarded

ASKING = GuardMechanism(
    name="session/request_permission",
    fails="closed",
    proof="its first question; a tool that ran without one stops it",
    on_wire=True,
)
_MODES = (None, "default", "build", "act")
"""Modes in which an agent asks; None is its default mode, which must be one of them."""


def refuse_unasked(plan: AcpPlan) -> None:
    """Raise `GuardRefused` for a mode in which the agent does not ask."""
    if plan.session.mode not in _MODES:
        raise GuardRefused(
            f"in the mode {plan.session.mode} the agent does not ask before it acts",
            hint="run it in its default mode",
        )


def guard_by_asking(plan: AcpPlan, hook: GuardHook) -> AcpPlan:
    """Guard an agent that asks on the wire before every call that changes anything."""
    refuse_unasked(plan)
    # The agent does not run this command; in a session it holds the judge of the agent's requests.
    hook.command(ASKING.shape)
    return msgspec.structs.replace(plan, guard=ASKING)


def guard_by_pieces(
    plan: AcpPlan, hook: GuardHook, product: "Guarded", changes: dict[str, Any]
) -> AcpPlan:
    """Guard a product that a bridge starts: the bridge passes arguments on, and settings named in
    `_meta` of the session. `changes` are fields of the mechanism that differ behind the bridge."""
    pieces = product.guard_pieces(plan.spec.argv, hook)
    spec = msgspec.structs.replace(plan.spec, argv=(*plan.spec.argv, *pieces.flags))
    guarded = msgspec.structs.replace(
        plan, spec=spec, guard=msgspec.structs.replace(pieces.mechanism, **changes)
    )
    if not pieces.settings:
        return guarded
    own = plan.session.meta.get("claudeCode", {}).get("options", {})
    known = structs.decode(own.get("settings", "{}"), dict[str, Any])
    text = msgspec.json.encode({**known, **pieces.settings})
    path = write_private(hook.folder, "settings.json", text)
    meta = {**plan.session.meta, "claudeCode": {"options": {**own, "settings": path}}}
    return with_session(guarded, msgspec.structs.replace(plan.session, meta=meta))
