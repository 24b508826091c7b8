"""Lets the own hooks of an agent in a terminal report what happens, whatever guards it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.files import new_private_dir
from bridle.runtimes.contract import Adapter, Terminal

if TYPE_CHECKING:
    from bridle.runtimes.plan import RunPlan

    Adapt = Callable[[RunPlan], RunPlan]


def reporting(runtime: Adapter, env: Mapping[str, str], adapt: "Adapt | None" = None) -> "Adapt":
    """What changes a plan so that its hooks report, after `adapt` (the guard's) changed it.

    Contract: the folder of the reports is one of the plan's private folders, so it is writable in a
    sandbox and removed with the process. A runtime whose hooks report nothing is left as it is.
    """

    def changed(plan: "RunPlan") -> "RunPlan":
        if (
            not isinstance(runtime, Terminal)
            or runtime.terminal_facts().reports is None
            or plan.live is None
        ):
            return plan if adapt is None else adapt(plan)
        folder = new_private_dir(env, "reports")
        plan = msgspec.structs.replace(
            plan,
            reports=folder,
            live=msgspec.structs.replace(plan.live, reports=folder),
            private_dirs=(*plan.private_dirs, folder),
        )
        try:
            return runtime.report_plan(plan if adapt is None else adapt(plan))
        except BaseException:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)
            raise

    return changed
