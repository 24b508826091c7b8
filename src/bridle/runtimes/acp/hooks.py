"""How an agent that speaks the protocol is made to ask before each tool call.

The protocol's own question (`session/request_permission`) is the agent's to ask or not, and most
run some tools without it. So where the product behind it has hooks, those are used: the row of
`agents` names the way. An agent of which nothing is known is not guarded but refused.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.runtimes.acp.plan import AcpPlan, SessionPlan
from bridle.runtimes.contract import as_guarded
from bridle.runtimes.registry import get_adapter
from bridle.turns.guard_contract import GuardHook, GuardMechanism

Way = Callable[[AcpPlan, GuardHook], AcpPlan]


def guard_plan(plan: AcpPlan, hook: GuardHook, *, runtime: str) -> AcpPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    way = WAYS.get(plan.agent.guard)
    if way is None:
        raise GuardRefused(
            f"{runtime} is not known to ask before every tool call",
            hint="if it does, declare it with `asks: true`; else hold it with --sandbox and say "
            "--unguarded",
            runtime=runtime,
        )
    return way(plan, hook)


def _by_family(plan: AcpPlan, hook: GuardHook) -> AcpPlan:
    """As the product is guarded without the protocol: by flags, variables and files."""
    guarded = as_guarded(get_adapter(plan.agent.family)).guard_plan(plan, hook)
    assert isinstance(guarded, AcpPlan)
    assert guarded.guard is not None
    return _guarded(guarded, guarded.guard)


def _by_pieces(plan: AcpPlan, hook: GuardHook) -> AcpPlan:
    """The product's hooks by way of its adapter: flags are handed on as they are, settings named
    in `_meta` of the session."""
    pieces = as_guarded(get_adapter(plan.agent.family)).guard_pieces(plan.spec.argv, hook)
    spec = msgspec.structs.replace(plan.spec, argv=(*plan.spec.argv, *pieces.flags))
    guarded = msgspec.structs.replace(plan, spec=spec)
    if pieces.settings:
        own = plan.session.meta.get("claudeCode", {}).get("options", {})
        known = msgspec.json.decode(own.get("settings", "{}"), type=dict[str, Any])
        text = msgspec.json.encode({**known, **pieces.settings})
        path = write_private(hook.folder, "settings.json", text)
        meta = {**plan.session.meta, "claudeCode": {"options": {**own, "settings": path}}}
        guarded = _with_session(guarded, msgspec.structs.replace(plan.session, meta=meta))
    return _guarded(guarded, pieces.mechanism)


def _with_session(plan: AcpPlan, session: SessionPlan) -> AcpPlan:
    """`plan` that opens `session`, in a conversation too."""
    live = plan.live
    if live is not None:
        kept = {**live.own["session"], "meta": session.meta, "mode": session.mode}
        live = msgspec.structs.replace(live, own={**live.own, "session": kept})
    return msgspec.structs.replace(plan, session=session, live=live)


def _guarded(plan: AcpPlan, mechanism: GuardMechanism) -> AcpPlan:
    """`plan` with a mechanism as this agent's row changes it."""
    changed = msgspec.structs.replace(mechanism, **plan.agent.guard_facts)
    return msgspec.structs.replace(plan, guard=changed)


# -- agents that ask by the protocol --------------------------------------------------------------

ASKING = GuardMechanism(
    name="session/request_permission",
    fails="closed",
    proof="its first question; a tool that ran without one stops it",
    on_wire=True,
)
_MODES = (None, "default", "build", "act")
"""Modes in which an agent asks; None is its own, which must be one of them."""


def _by_asking(plan: AcpPlan, hook: GuardHook) -> AcpPlan:
    """Nothing to change: the agent asks before every call that changes anything."""
    _refuse_unasked(plan)
    # The agent does not run it: it holds what judges the agent's questions in a session.
    hook.command(ASKING.shape)
    return _guarded(plan, ASKING)


def _refuse_unasked(plan: AcpPlan) -> None:
    if plan.session.mode not in _MODES:
        raise GuardRefused(
            f"in the mode {plan.session.mode} the agent does not ask before it acts",
            hint="run it in its own mode",
        )


def _by_plugin(plan: AcpPlan, hook: GuardHook) -> AcpPlan:
    """As the product is guarded without the protocol, by a plugin that tells the model why; but the
    agent must ask by the protocol too, so that nothing runs where the plugin is missing."""
    _refuse_unasked(plan)
    return _by_family(plan, hook)


def _by_policy(plan: AcpPlan, hook: GuardHook) -> AcpPlan:
    """Gemini runs no hooks over the protocol, but asks where its policy says so: a rule above all
    others that says so for every tool."""
    path = write_private(hook.folder, "policy/ask.toml", _ASK_ALWAYS)
    spec = msgspec.structs.replace(plan.spec, argv=(*plan.spec.argv, "--admin-policy", path))
    mode = plan.session.mode or "default"
    session = msgspec.structs.replace(plan.session, mode=mode)
    asked = _with_session(msgspec.structs.replace(plan, spec=spec), session)
    return _by_asking(asked, hook)


_ASK_ALWAYS = """\
[[rule]]
toolName = "run_shell_command"
argsPattern = "."
decision = "ask_user"
priority = 999

[[rule]]
toolName = "*"
decision = "ask_user"
priority = 998
"""
"""Commands that it takes for safe it runs unasked, unless a rule looks at the arguments."""


WAYS: dict[str, Way] = {
    "asks": _by_asking,
    "asks-gemini": _by_policy,
    "family": _by_family,
    "pieces": _by_pieces,
    "plugin": _by_plugin,
}
"""By the row's `guard`."""
