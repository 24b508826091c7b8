"""The library's face of sessions over real agents, against the scripted model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption
from bridle.core.options import ModelServer
from bridle.runtimes.base import AgentRuntime
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.pi import PiRuntime
from bridle.sessions.session import Session
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.sessions.studio import Studio, numbered, of_kind
from tests.support.real_cli import real_cli

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
AGENTS = [
    ("claude", "2.1.325", ClaudeRuntime),
    ("codex", "0.166.0", CodexRuntime),
    ("pi", "1.5.0", PiRuntime),
]


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    made = Studio(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(("name", "version", "cls"), AGENTS, ids=[each[0] for each in AGENTS])
async def test_a_conversation(
    name: str, version: str, cls: type[AgentRuntime], studio: Studio
) -> None:
    runtime = cls()
    runtime.use_binary(str(real_cli(name, version)))
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
            if session.features.fork:
                async with session.fork(name="copy") as copy:
                    assert copy.record.parent == session.session_id
                    assert copy.native_session_id != session.native_session_id
                    assert (await copy.prompt("Go on there", **WAIT)).delivered
                    assert (await copy.wait_idle(**WAIT)).status == "completed"
                async with Session.resume("copy", **by) as again:
                    assert again.native_session_id == copy.native_session_id
            else:
                with pytest.raises(UnsupportedOption):
                    await session.fork()
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
