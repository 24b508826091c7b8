"""Runs the scripted agent as a caller would, in an environment built from nothing."""

from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.process_tree import marked_processes
from bridle.runs import prepare
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.scripted import ScriptedRuntime
from tests.support.driving import check_order as check_order


class Played(msgspec.Struct, frozen=True):
    """One run that is over."""

    events: list[ev.Event]
    result: RunResult
    plan: RunPlan

    @property
    def types(self) -> list[str]:
        return [ev.encode_event(each).decode().split('"')[3] for each in self.events]

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.events if isinstance(each, kind)]


class Stage:
    """A folder to work in and a home that is nobody's."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "work"
        self.home = folder / "home"
        self.cwd.mkdir()
        self.home.mkdir()
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "bridle" / "scripted"

    def options(self, script: Any = None, **fields: Any) -> RunOptions:
        own = dict(fields.pop("provider_options", {}))
        if script is not None:
            own["script"] = script
        fields.setdefault("prompt", "Do it.")
        fields.setdefault("permission_mode", "bypass")
        fields.setdefault("timeout", 60.0)
        return RunOptions(cwd=str(self.cwd), provider_options=own, **fields)

    def play(
        self, script: Any = None, *, permission: PermissionPolicy = refuse_all, **fields: Any
    ) -> Played:
        """Run to the end; nothing of the session may live on."""
        prepared = prepare(
            ScriptedRuntime(),
            self.options(script, **fields),
            env=self.env,
            permission=permission,
        )
        events = list(prepared.run.events())
        played = Played(events, prepared.run.result, prepared.plan)
        check_order(events)
        assert marked_processes(prepared.plan.session_id) == []
        return played
