"""What type checkers know of the library: a wrong keyword is found before the program runs."""

import functools
import operator
import re
import subprocess
import sys
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from bridle.core import events as ev
from bridle.core.options import (
    ResumeOptionsDict,
    RunOptions,
    RunOptionsDict,
    SessionOptionsDict,
)

ROOT = Path(__file__).parent.parent
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
PROGRAM = """
from collections.abc import Awaitable
from pathlib import Path
from typing import assert_never, assert_type

import bridle
from bridle import Allow, AnyEvent, Deny, Question, RunResult


def name(event: AnyEvent) -> str:
    match event:
        case bridle.events.SessionStart() | bridle.events.SessionEnd():
            return event.type
        case bridle.events.AgentStart() | bridle.events.AgentEnd():
            return str(event.turn)
        case bridle.events.MessageStart() | bridle.events.MessageUpdate():
            return event.message_id
        case bridle.events.MessageEnd():
            return event.text
        case bridle.events.ToolExecutionStart() | bridle.events.ToolExecutionUpdate():
            return event.tool_call_id
        case bridle.events.ToolExecutionEnd() | bridle.events.PermissionRequest():
            return event.tool_name
        case bridle.events.PermissionDecision():
            return event.decision
        case bridle.events.AutoCompactionStart() | bridle.events.AutoCompactionEnd():
            return event.reason
        case bridle.events.Retry() | bridle.events.UsageTotals() | bridle.events.StateChange():
            return event.type
        case bridle.events.ErrorRaised():
            return event.kind
        case bridle.events.Unknown():
            return event.type
        case _:
            assert_never(event)


def missing_one(event: bridle.events.AgentEnd | bridle.events.Unknown) -> str:
    if event.type == "agent_end":
        return event.status
    return str(event.status)  # E: attr-defined


def yes(question: Question) -> bool:
    return True


def named(question: Question) -> Allow | Deny:
    return Deny("not now") if question.tool_name == "Bash" else Allow()


async def later(question: Question) -> Allow:
    return Allow(by="a person")


def wrong(question: Question) -> str:
    return "yes"


def sync() -> None:
    assert_type(bridle.run_sync("x", cwd=Path("."), allowed_tools=["Read"]), RunResult)
    bridle.run_sync("x", permission=yes, timeout=3, permission_mode="bypass", images=[Path("a")])
    bridle.run_sync("x", permission=named, sandbox="worktree")
    bridle.run_sync("x", permission=later)  # E: arg-type
    bridle.run_sync("x", permission=wrong)  # E: arg-type
    bridle.run_sync("x", max_turn=3)  # E: call-arg
    bridle.run_sync("x", cwd=3)  # E: arg-type
    bridle.run_sync("x", permission_mode="allways")  # E: arg-type
    bridle.run_sync("x", permision_mode="ask")  # E: call-arg
    bridle.run_sync("x", sandbox="on")  # E: arg-type
    with bridle.stream_sync("x", modle="m") as events:  # E: call-arg
        for event in events:
            assert_type(event, AnyEvent)
    assert_type(events.result, RunResult)


async def asynchronous() -> None:
    await bridle.run("x", max_turn=3)  # E: call-arg
    await bridle.run("x", permission=later, on_event=print)
    async with bridle.stream("x", permission=named, sandbox="on") as events:  # E: arg-type
        async for event in events:
            assert_type(event, AnyEvent)
    assert_type(events.result, RunResult)


async def sessions() -> None:
    async with bridle.Session.start("claude", model="m", modle="m") as session:  # E: call-arg
        async for event in session.events():
            assert_type(event, AnyEvent)
        session.subscribe(lambda event: print(event.type))
    await bridle.Session.start("claude", permission=later, cwd=Path("."), timeout=9)
    await bridle.Session.resume("one", max_turns="3")  # E: arg-type
    await session.fork(guards="builder")  # E: call-arg
    with bridle.SyncSession.start("claude", drive="tmx") as other:  # E: arg-type
        for event in other.events():
            assert_type(event, AnyEvent)
    bridle.SyncSession.resume("one", modle="m")  # E: call-arg
    other.fork(modle="m")  # E: call-arg
"""


def mypy(folder: Path) -> list[str]:
    """What mypy reports of the programs in `folder`, with the project's own settings."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.timeout(600)
def test_wrong_calls_are_found_and_right_ones_pass(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    # The examples of the documentation must pass strictly, each as a program of its own.
    for number, code in enumerate(EXAMPLE.findall((ROOT / "docs/library.md").read_text())):
        (tmp_path / f"library_{number}.py").write_text(code)
    expected = {
        (number, line.rpartition("# E: ")[2])
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if "# E: " in line
    }
    found, elsewhere = set(), []
    for line in mypy(tmp_path):
        problem = re.match(r".*program\.py:(\d+): error: .*\[([\w-]+)\]$", line)
        if problem:
            found.add((int(problem[1]), problem[2]))
        elif " error: " in line:
            elsewhere.append(line)
    assert elsewhere == []
    assert found == expected


def taken(hint: Any) -> Any:
    """The type of a field that an accepted type leads to: paths become text, lists tuples."""
    if get_origin(hint) in (Union, UnionType):
        # `Sequence[...]` and the like stay whole; only the members of the union change.
        members = [taken(part) for part in get_args(hint) if part != PathLike[str]]
        return functools.reduce(operator.or_, members)
    if getattr(get_origin(hint), "__name__", "") == "Sequence":
        item: Any = taken(get_args(hint)[0])
        return tuple[item, ...]
    return hint


def test_the_keywords_are_the_fields_of_the_options() -> None:
    fields = get_type_hints(RunOptions)
    keywords = get_type_hints(RunOptionsDict)
    assert {name: taken(hint) for name, hint in keywords.items()} == {
        name: hint for name, hint in fields.items() if name != "prompt"
    }
    # These have a parameter of that name themselves.
    assert set(keywords) - set(get_type_hints(SessionOptionsDict)) == {"timeout"}
    assert set(keywords) - set(get_type_hints(ResumeOptionsDict)) == {"timeout", "cwd"}
    assert not RunOptionsDict.__required_keys__


@pytest.mark.parametrize("kind", ev.AnyEvent.__args__)
def test_the_type_of_an_event_is_its_name_in_json(kind: type[ev.Event]) -> None:
    assert kind.type == kind.__struct_config__.tag
