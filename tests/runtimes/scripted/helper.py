"""Runs the scripted agent as a caller would, in an environment built from nothing."""

from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.drives.print_drive import PermissionPolicy, refuse_all
from bridle.drives.processes import marked_processes
from bridle.running import prepare
from bridle.runtimes.base import RunPlan
from bridle.runtimes.scripted import ScriptedRuntime


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


def check_order(events: list[ev.Event]) -> None:
    """The order that every stream of events keeps."""
    assert [each.seq for each in events] == list(range(1, len(events) + 1))
    known = [each for each in events if not isinstance(each, ev.Unknown)]
    assert isinstance(known[0], ev.SessionStart)
    assert isinstance(known[-1], ev.SessionEnd)
    turn_open, message, block = False, None, None
    tools: set[str] = set()
    for each in known:
        match each:
            case ev.AgentStart():
                assert not turn_open
                turn_open = True
            case ev.MessageStart(message_id=name):
                assert turn_open
                assert message is None
                assert not tools
                message = name
            case ev.MessageUpdate(kind=kind):
                assert each.message_id == message
                what, _, edge = kind.partition("_")
                assert block == (None if edge == "start" else what)
                block = None if edge == "end" else what
            case ev.MessageEnd():
                assert each.message_id == message
                assert block is None
                message = None
            case ev.ToolExecutionStart(tool_call_id=call):
                assert turn_open
                assert message is None
                assert call not in tools
                tools.add(call)
            case ev.ToolExecutionEnd(tool_call_id=call):
                tools.remove(call)
            case ev.AgentEnd():
                assert turn_open
                assert message is None
                assert not tools
                turn_open = False
    assert not turn_open
