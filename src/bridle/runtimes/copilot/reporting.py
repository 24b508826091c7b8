"""Copilot's hooks as reporters of a terminal session, in a plugin given by flag.

Nothing of the user's or the project's is changed, and their hooks run beside these.
"""

import os

import msgspec

from bridle.core.files import write_private
from bridle.drives.tmux.hook_reports import report_command
from bridle.runtimes.copilot.tui import REPORTS
from bridle.runtimes.plan import RunPlan

_SECONDS = 10
_PLUGIN = ".plugin"


def report_plan(plan: RunPlan) -> RunPlan:
    """The plan with a plugin whose hooks report; see `Terminal.report_plan`."""
    hooks = {
        event: [
            {
                "type": "command",
                "bash": report_command(plan.reports, event),
                "timeoutSec": _SECONDS,
            }
        ]
        for event in REPORTS.events
    }
    about = {"name": "bridle-reports", "version": "1.0.0", "hooks": "hooks.json"}
    for name, content in (("plugin.json", about), ("hooks.json", {"version": 1, "hooks": hooks})):
        write_private(plan.reports, os.path.join(_PLUGIN, name), msgspec.json.encode(content))
    folder = os.path.join(plan.reports, _PLUGIN)
    return plan.with_arguments(f"--plugin-dir={folder}") or plan
