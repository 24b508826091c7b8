"""A conversation over the pipes of a process that the test holds."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridle.core import events as ev
from bridle.core.errors import Crashed, TimedOut, UnsupportedOption, WrongUse
from bridle.core.events import Event
from bridle.core.handles import ConnectionState
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions
from bridle.drives.connection import RuntimeConnection
from bridle.runtime import get_runtime
from bridle.runtimes.plan import RunPlan
from bridle.testing.contract import check_event_order
from bridle.turns.wire import Question
from tests.conftest import wait_until

DEADLINE = 60.0
IDLE = ConnectionState(status="idle")
LONG = """
- text: looking
  shell: "touch began; while [ ! -e go ]; do sleep 0.02; done"
- text: the end
- text: after that
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Sink:
    """An awaitable `write` over anyio's stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def write(self, data: bytes) -> int:
        await self._stream.send(data)
        return len(data)

    async def aclose(self) -> None:
        await self._stream.aclose()


class Piped:
    """A process as the contract wants it."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process = process
        self.stdin = Sink(process.stdin)
        self.stdout = process.stdout


def planned(folder: Path, script: str, permission: str = "bypass", **own: Any) -> RunPlan:
    file = folder / "script.yaml"
    file.write_text(script)
    options = RunOptions(
        prompt="",
        cwd=str(folder),
        provider_options={"script": str(file), **own},
        permission_mode="bypass" if permission == "bypass" else "ask",
        account_dir=str(folder / "account"),
    )
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    return get_runtime("scripted").plan_live(options, env, new_session_id())


@asynccontextmanager
async def connected(
    plan: RunPlan, events: list[Event], **more: Any
) -> AsyncIterator[tuple[RuntimeConnection, anyio.abc.Process]]:
    spec = plan.spec
    async with await anyio.open_process(
        list(spec.argv), cwd=spec.cwd, env=spec.env, stderr=subprocess.DEVNULL
    ) as process:
        runtime = get_runtime("scripted")
        made = runtime.connect(Piped(process), plan=plan, on_event=events.append, **more)
        async with made as connection:
            yield connection, process


async def test_prompt_follow_up_steer_and_state(tmp_path: Path) -> None:
    events: list[Event] = []
    async with connected(planned(tmp_path, LONG), events) as (connection, process):
        await connection.send_prompt("begin")
        await anyio.to_thread.run_sync(lambda: wait_until((tmp_path / "began").exists))
        assert await connection.get_state() == ConnectionState(
            status="working", current_tool="shell"
        )
        await connection.steer("look there too")
        await connection.follow_up("afterwards")
        with pytest.raises(TimedOut):
            await connection.wait_idle(0.1)
        (tmp_path / "go").touch()
        assert await connection.wait_idle(DEADLINE) == IDLE
        await connection.close()
        await connection.close()
        assert await process.wait() == 0
        with pytest.raises(WrongUse, match="closed"):
            await connection.send_prompt("too late")
    ends = [event for event in events if isinstance(event, ev.AgentEnd)]
    assert [(end.turn, end.text) for end in ends] == [(1, "the end"), (2, "after that")]
    assert check_event_order(events) == []


async def test_abort_failure_and_death(tmp_path: Path) -> None:
    events: list[Event] = []
    async with connected(planned(tmp_path, LONG), events) as (connection, process):
        await connection.abort()
        await connection.send_prompt("begin")
        await anyio.to_thread.run_sync(lambda: wait_until((tmp_path / "began").exists))
        await connection.follow_up("never")
        await connection.abort("enough")
        assert await connection.wait_idle(DEADLINE) == IDLE
        (tmp_path / "go").touch()
        with pytest.raises(WrongUse, match="empty"):
            await connection.send_prompt(" ")
        process.kill()
        assert (await connection.wait_idle(DEADLINE)).status in ("idle", "error")
        await anyio.to_thread.run_sync(
            lambda: wait_until(lambda: isinstance(events[-1], ev.SessionEnd))
        )
        assert (await connection.get_state()).status == "error"
        with pytest.raises(Crashed):
            await connection.send_prompt("anyone?")
    [end] = [event for event in events if isinstance(event, ev.AgentEnd)]
    assert (end.status, end.error and end.error.message) == ("aborted", "enough")


async def test_a_failed_turn_is_told_until_the_next(tmp_path: Path) -> None:
    script = "- {fault: {status: 401, times: 1}}\n- {text: better}\n"
    events: list[Event] = []
    async with connected(planned(tmp_path, script), events) as (connection, _):
        await connection.send_prompt("go")
        assert (await connection.wait_idle(DEADLINE)).status == "error"
        await connection.send_prompt("again")
        assert await connection.wait_idle(DEADLINE) == IDLE


async def test_a_policy_answers_while_the_agent_is_read(tmp_path: Path) -> None:
    async def decide(question: Question) -> bool:
        await anyio.sleep(0.01)
        return True

    plan = planned(tmp_path, '- shell: "touch allowed"\n- text: done\n', "ask")
    events: list[Event] = []
    async with connected(plan, events, permission=decide) as (connection, _):
        await connection.send_prompt("go")
        assert await connection.wait_idle(DEADLINE) == IDLE
    assert (tmp_path / "allowed").exists()


async def test_a_budget_ends_the_turn(tmp_path: Path) -> None:
    script = "- {text: dear, shell: 'sleep 60; touch late'}\n- text: never\n"
    plan = planned(tmp_path, script, cost_per_turn=0.01)
    options = RunOptions(prompt="", budget_usd=0.001)
    events: list[Event] = []
    async with connected(plan, events, options=options) as (connection, _):
        await connection.send_prompt("go")
        assert (await connection.wait_idle(DEADLINE)).status == "error"
        # The turn is ended by the connection, not by the process's end.
        await anyio.to_thread.run_sync(
            lambda: wait_until(lambda: any(isinstance(event, ev.AgentEnd) for event in events))
        )
    [end] = [event for event in events if isinstance(event, ev.AgentEnd)]
    assert (end.status, end.text) == ("budget_exceeded", "dear")
    assert not (tmp_path / "late").exists()


async def test_what_nobody_answers_in_time_is_refused(tmp_path: Path) -> None:
    async def hang(question: Question) -> tuple[bool, str, str]:
        await anyio.sleep_forever()
        raise AssertionError("not reached")

    plan = planned(tmp_path, '- shell: "touch allowed"\n- text: done\n', "ask")
    events: list[Event] = []
    more = {"permission": hang, "permission_timeout": 0.05}
    async with connected(plan, events, **more) as (connection, _):
        await connection.send_prompt("go")
        assert await connection.wait_idle(DEADLINE) == IDLE
    [decision] = [event for event in events if isinstance(event, ev.PermissionDecision)]
    assert (decision.decision, decision.by) == ("deny", "bridle")
    assert "in time" in decision.reason
    assert not (tmp_path / "allowed").exists()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_of_asyncio_and_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.yaml").write_text(f"- text: {'x' * 300_000}\n")
    monkeypatch.setenv("BRIDLE_SCRIPT", str(tmp_path / "script.yaml"))
    runtime = get_runtime("scripted")
    spec = runtime.plan_live(
        RunOptions(prompt="", cwd=str(tmp_path)), {"PATH": "/usr/bin:/bin"}, new_session_id()
    ).spec
    process = await asyncio.create_subprocess_exec(
        *spec.argv, cwd=spec.cwd, env=spec.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    events: list[Event] = []
    options = RunOptions(prompt="", cwd=str(tmp_path), account_dir=str(tmp_path / "account"))
    connection = runtime.connect(process, options=options, on_event=events.append)
    with pytest.raises(WrongUse, match="not open"):
        await connection.send_prompt("too early")
    async with connection:
        await connection.send_prompt("go")
        assert await connection.wait_idle(DEADLINE) == IDLE
    assert await asyncio.wait_for(process.wait(), DEADLINE) == 0
    [end] = [event for event in events if isinstance(event, ev.AgentEnd)]
    assert len(end.text) == 300_000


def test_a_runtime_without_a_protocol_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOption, match="drive rpc"):
        get_runtime("aider").connect(None)  # type: ignore[arg-type]  # refused before it is used
