"""Plans a terminal session whose own hooks report what happens, guarded or not."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.files import new_private_dir
from bridle.runtimes.contract import Adapter, Terminal

if TYPE_CHECKING:
    from bridle.runtimes.plan import RunPlan

    Adapt = Callable[[RunPlan], RunPlan]


def with_reports(runtime: Adapter, env: Mapping[str, str], adapt: "Adapt | None" = None) -> "Adapt":
    """The change of a plan that makes its hooks report; `adapt` (the guard's change) comes first.

    Contract: the folder of the reports is one of the plan's private folders, so it is writable in a
    sandbox and removed with the process. The plan of a runtime without reporting hooks gets
    `adapt` alone.
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
