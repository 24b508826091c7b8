"""How the scripted agent asks before a tool call.

It asks on its wire where the driver holds its stdin, and by a hook command elsewhere. Only a clear
consent lets a tool run.
"""

import msgspec

from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardHook, GuardMechanism

STDIO = GuardMechanism(
    name="questions on its wire", fails="closed", proof="it says at its start that it will ask"
)
COMMAND = GuardMechanism(
    name="hook command",
    fails="closed",
    proof="it runs the hook once at its start",
    proves_at_start=True,
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    on_wire = hook.stdio and "--face" not in plan.spec.argv
    mechanism = STDIO if on_wire else COMMAND
    how = ("--guard", "stdio") if on_wire else ("--guard", hook.command(COMMAND.shape))
    spec = msgspec.structs.replace(
        plan.spec,
        argv=(*plan.spec.argv, *how),
        keep_stdin=plan.spec.keep_stdin or on_wire,
    )
    return msgspec.structs.replace(plan, spec=spec, guard=mechanism)
