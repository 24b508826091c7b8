"""Claude Code's hooks as reporters of a terminal session, in settings given by flag.

They stand beside the guard's in the same settings, and beside the user's own and the project's.
Settings that switch all hooks off are left as they are: the transcript then tells alone.
"""

import os
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.drives.tmux.hook_reports import report_command
from bridle.runtimes.claude.flag_settings import read_settings, without_settings
from bridle.runtimes.claude.tui import REPORTS
from bridle.runtimes.json_settings import with_hooks
from bridle.runtimes.plan import RunPlan

_SECONDS = 10


def report_plan(plan: RunPlan) -> RunPlan:
    """The plan with hooks that report; see `Terminal.report_plan`."""
    try:
        given, bare = without_settings(plan)
        settings = read_settings(given)
    except GuardRefused:
        # The CLI will say what is wrong with the user's settings.
        return plan
    # The guard's own file is not writable for a confined agent, and must stay so.
    own = bool(given) and plan.guard is not None and os.path.isfile(given)
    folder, name = os.path.split(given) if own else (plan.reports, ".settings.json")
    whole = with_hooks(settings, _entries(plan.reports))
    path = write_private(folder, name, msgspec.json.encode(whole))
    return bare.with_arguments("--settings", path) or plan


def _entries(folder: str) -> dict[str, list[Any]]:
    commands = {event: report_command(folder, event) for event in REPORTS.events}
    return {
        event: [{"hooks": [{"type": "command", "command": command, "timeout": _SECONDS}]}]
        for event, command in commands.items()
    }
