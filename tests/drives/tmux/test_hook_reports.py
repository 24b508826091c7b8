"""What hooks report about a terminal session: read, kept as evidence, used where it is needed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.drives.tmux.hook_reports import Report, Spool, report_command
from bridle.drives.tmux.pane_wire import PaneWire
from bridle.drives.tmux.records import Observation, record_line
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude.tui import REPORTS, ClaudeFollower
from bridle.testing.contract import check_event_order
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, Outgoing
from tests.support.driving import kinds

SESSION = "0c9b7a5e-1f7c-4a58-9f0e-52f7a9c9a111"


class Talk:
    """A conversation of which lines, hooks and sights are told by hand."""

    def __init__(self) -> None:
        facts = LiveFacts(
            runtime="claude",
            runtime_version="2.1.197",
            dialect="claude",
            cwd="/w",
            own={"session": SESSION},
        )
        self.recorder = Recorder(
            runtime="claude", session_id="s", options=RunOptions(prompt=""), drive="tmux"
        )
        self.wire = PaneWire(ClaudeFollower(facts, self.recorder), self.recorder)
        self.events: list[ev.Event] = []
        self.wire.begin()
        self.saw(Observation(kind="ready", evidence="the pane shows its prompt"))

    def saw(self, seen: Observation) -> None:
        self.wire.feed(record_line(seen).rstrip())
        self.events += self.recorder.drain()

    def hook(self, event: str, **payload: Any) -> None:
        report = REPORTS.read(event, msgspec.json.encode(payload))
        assert report is not None
        self.saw(Observation(kind="hook", id=f"{event}.1", report=report))

    def line(self, **entry: Any) -> None:
        self.wire.feed(json.dumps({"sessionId": SESSION, **entry}).encode())
        self.events += self.recorder.drain()

    def user(self, text: str) -> None:
        self.line(type="user", message={"content": text})

    def assistant(self, *blocks: dict[str, Any], stop: str = "end_turn") -> None:
        message = {"id": f"m{len(self.events)}", "content": list(blocks), "stop_reason": stop}
        self.line(type="assistant", message=message)

    def ended(self) -> None:
        self.line(type="system", subtype="turn_duration")

    def over(self) -> list[ev.Event]:
        self.recorder.leaving = "done"
        self.wire.finish(ProcessExit(code=0))
        self.events += self.recorder.drain()
        assert check_event_order(self.events) == []
        return self.events

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


TOOL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
CALL = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}


def whole(hooks: bool) -> Talk:
    """A turn of which both tell everything."""
    talk = Talk()
    talk.wire.prompt(Outgoing(id="one", text="Go"))
    talk.recorder.replies.clear()
    if hooks:
        talk.hook("UserPromptSubmit", prompt="Go")
    talk.user("Go")
    if hooks:
        talk.saw(Observation(kind="due"))
        talk.hook("PreToolUse", **CALL)
    talk.assistant({"type": "text", "text": "I look."}, TOOL, stop="tool_use")
    if hooks:
        talk.hook("PostToolUse", **CALL, tool_response={"stdout": "a"})
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a"}
    talk.line(type="user", message={"content": [result]})
    talk.assistant({"type": "text", "text": "Done, all of it."})
    if hooks:
        talk.hook("Stop", last_assistant_message="Done,  all of it.")
        talk.saw(Observation(kind="due"))
    talk.ended()
    talk.over()
    return talk


def test_hooks_double_nothing() -> None:
    assert kinds(whole(True).events) == kinds(whole(False).events)


def test_a_transcript_that_lost_every_line() -> None:
    talk = Talk()
    talk.wire.prompt(Outgoing(id="one", text="Go"))
    talk.hook("UserPromptSubmit", prompt="Go")
    talk.hook("PreToolUse", **CALL)
    assert not talk.recorder.turn_open
    talk.saw(Observation(kind="due"))
    # What it has not written down it would not remember after a crash.
    assert talk.recorder.deliveries == []
    talk.hook("PostToolUse", **CALL, tool_response={"stdout": "a"})
    talk.hook("Stop", last_assistant_message="Done.")
    talk.saw(Observation(kind="settled"))
    assert [each.id for each in talk.recorder.deliveries if each.taken] == ["one"]
    talk.over()
    (tool,) = talk.of(ev.ToolExecutionEnd)
    assert (tool.is_error, tool.result) == (False, {"stdout": "a"})
    (end,) = talk.of(ev.AgentEnd)
    assert (end.status, end.text) == ("completed", "Done.")


def test_only_the_last_answer_was_lost() -> None:
    talk = Talk()
    talk.wire.prompt(Outgoing(id="one", text="Go"))
    talk.user("Go")
    talk.assistant({"type": "text", "text": "I look."}, TOOL, stop="tool_use")
    talk.hook("Stop", last_assistant_message="Done.")
    talk.ended()
    (end,) = talk.of(ev.AgentEnd)
    assert (end.status, end.text) == ("completed", "Done.")


def test_a_prompt_that_bridle_did_not_give_opens_nothing() -> None:
    talk = Talk()
    talk.hook("UserPromptSubmit", prompt="typed by a person")
    talk.hook("PreToolUse", **CALL)
    talk.saw(Observation(kind="due"))
    assert not talk.recorder.turn_open
    talk.user("typed by a person")
    talk.ended()
    talk.over()
    assert len(talk.of(ev.AgentStart)) == 1
    assert [each.tool_call_id for each in talk.of(ev.ToolExecutionStart)] == ["t1"]


def test_a_question_nobody_can_answer_by_a_key_is_refused() -> None:
    talk = Talk()
    talk.wire.prompt(Outgoing(id="one", text="Go"))
    talk.recorder.replies.clear()
    talk.user("Go")
    talk.assistant(TOOL, stop="tool_use")
    talk.saw(Observation(kind="permission", id="q", evidence="Something new", answerable=False))
    assert talk.recorder.questions == []
    assert [json.loads(reply)["allow"] for reply in talk.recorder.replies] == [False]
    (decision,) = talk.of(ev.PermissionDecision)
    assert (decision.decision, decision.by) == ("deny", "bridle")


def test_sub_agents_and_other_transcripts_are_passed_over() -> None:
    told = {"prompt": "Go", "transcript_path": "/p/a.jsonl"}
    read = REPORTS.read
    assert read("UserPromptSubmit", msgspec.json.encode(told), "/p/a.jsonl") is not None
    assert read("UserPromptSubmit", msgspec.json.encode(told), "/p/b.jsonl") is None
    inside = msgspec.json.encode({**CALL, "agent_id": "x"})
    assert read("PreToolUse", inside) is None
    assert read("Nonsense", b"{}") is None


def test_the_hook_itself(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), REPORTS)
    for event, payload in (("UserPromptSubmit", '{"prompt": "Go"}'), ("Stop", "{}")):
        run = subprocess.run(
            ["/bin/sh", "-c", report_command(str(tmp_path), event)],
            input=payload.encode(),
            capture_output=True,
            check=False,
            timeout=20,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    (tmp_path / ".settings.json").write_text("{}")
    told = spool.read()
    assert [report and report.kind for _, report in told] == ["prompt", "turn_end"]
    assert spool.read() == told
    for name, _ in told:
        spool.taken(name)
    assert (spool.read(), os.listdir(tmp_path)) == ([], [".settings.json"])


@pytest.mark.parametrize("broken", ["gone", "a file"])
def test_a_hook_that_cannot_report_harms_nobody(tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "reports"
    if broken == "a file":
        folder.write_text("")
    run = subprocess.run(
        ["/bin/sh", "-c", report_command(str(folder), "PreToolUse")],
        input=b"{}" * 100_000,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert (run.returncode, run.stdout) == (0, b"")


def test_what_is_no_report_is_not_waited_for(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), REPORTS)
    (tmp_path / "Stop.1").write_text('{"half')
    (tmp_path / "Stop.2").write_text("{}")
    os.utime(tmp_path / "Stop.2", (2e9, 2e9))
    assert spool.read() == []
    os.utime(tmp_path / "Stop.1", (1e9, 1e9))
    assert spool.read() == [("Stop.1", None), ("Stop.2", Report(kind="turn_end", event="Stop"))]
