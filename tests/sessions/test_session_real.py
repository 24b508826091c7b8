"""The library's face of sessions over real agents, against the scripted model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer
from bridle.sessions.session import Session
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.sessions.studio import Studio, numbered, of_kind
from tests.support.real_cli import pinned

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]

DEADLINE = 120.0
WAIT: dict[str, Any] = {"timeout": DEADLINE}
SCRIPT = """
- text: I look.
  shell: "echo made > made.txt"
- text: Done.
- text: Second.
- text: The summary of it all.
- text: The summary of it all.
- text: After that.
- text: More.
- text: More still.
"""
AGENTS = [("claude", "2.1.325"), ("codex", "0.166.0"), ("pi", "1.5.0")]
FORKING = [("codex", "0.120.0", ""), ("opencode-acp", "1.18.33", "opencode")]
"""Beside those."""


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    made = Studio(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(("name", "version"), AGENTS, ids=[each[0] for each in AGENTS])
async def test_a_conversation(name: str, version: str, studio: Studio) -> None:
    runtime = pinned(name, version)
    with ScriptedModel(SCRIPT) as model:
        server = ModelServer(url=model.url, api_key="sk-ant-scripted-0123456789abcdefghij")
        options: dict[str, Any] = {"cwd": studio.work, "model_server": server}
        options |= {"permission_mode": "bypass"}
        if runtime.confines_itself:
            # Its own sandbox is not what is tried here, and a temp folder is no place for it.
            options["sandbox"] = "off"
        by: dict[str, Any] = {"runtime": runtime, "model_server": server}
        session = await Session.start(runtime, "Make a file", name="real", **options)
        async with session:
            report = await session.wait_idle(**WAIT)
            assert (report.status, report.text) == ("completed", "Done.")
            assert (studio.work / "made.txt").read_text() == "made\n"  # small
            await session.prompt("Second", **WAIT)
            assert (await session.wait_idle(**WAIT)).text == "Second."
            await session.compact()
            assert (await session.wait_idle(**WAIT)).state == "ready"
            assert await session.abort() is False
            async with session.fork(name="copy") as copy:
                assert copy.record.parent == session.session_id
                assert copy.native_session_id != session.native_session_id
                assert (await copy.prompt("Go on there", **WAIT)).delivered
                assert (await copy.wait_idle(**WAIT)).status == "completed"
            async with Session.resume("copy", **by) as again:
                assert again.native_session_id == copy.native_session_id
            await session.stop("for now")
        async with Session.resume("real", **by) as again:
            assert again.native_session_id == session.native_session_id
            await again.prompt("Go on", **WAIT)
            assert (await again.wait_idle(**WAIT)).status == "completed"
    events = studio.events(session.session_id)
    assert numbered(events)
    assert check_event_order(events) == []
    assert len(of_kind(events, "auto_compaction_start")) == 1
    assert len(of_kind(events, "auto_compaction_end")) == 1
    assert [event.turn for event in events if isinstance(event, ev.AgentEnd)] == [1, 2, 3]
    assert studio.processes() == {}


@pytest.mark.parametrize(("name", "version", "cli"), FORKING, ids=[each[0] for each in FORKING])
async def test_a_copy_of_a_living_session(
    name: str, version: str, cli: str, studio: Studio
) -> None:
    """Both are talked to in turns, each in a process of its own, and know nothing of each other."""
    runtime = pinned(name, version, cli)
    used = {"input_tokens": 100, "output_tokens": 7}
    with ScriptedModel([{"text": f"Answer {n}.", "usage": used} for n in range(4)]) as model:
        server = ModelServer(url=model.url, api_key="sk-ant-scripted-0123456789abcdefghij")
        options: dict[str, Any] = {"cwd": studio.work, "model_server": server}
        options |= {"permission_mode": "bypass"}
        if runtime.confines_itself:
            options["sandbox"] = "off"

        async def say(session: Session, text: str) -> str:
            await session.prompt(text, **WAIT)
            assert (await session.wait_idle(**WAIT)).status == "completed"
            return str([each for each in model.requests if each.outcome == "turn"][-1].body)

        async with Session.start(runtime, None, **options) as session:
            await say(session, "At first")
            async with session.fork() as copy:
                sent = await say(copy, "In the copy")
                assert "At first" in sent
                sent = await say(session, "In the source")
                assert "In the copy" not in sent
                sent = await say(copy, "Once more")
                assert "In the copy" in sent
                assert "In the source" not in sent
                assert copy.native_session_id not in (None, session.native_session_id)
    assert studio.processes() == {}
    for each in (session, copy):
        ends = [end for end in studio.events(each.session_id) if isinstance(end, ev.AgentEnd)]
        assert [end.usage and end.usage.input_tokens for end in ends] == [100, 100]
