"""Sessions as documents: nothing missing, nothing twice, nothing that should not be there."""

import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import Crashed, Unavailable, WrongUse
from bridle.core.events import encode_event
from bridle.core.redaction import Redactor
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.sessions.export import FORMATS, export
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from tests.sessions.atif_rules import problems
from tests.support.sessions import MadeSession, live_session

KEY = "sk-ant-api03-abcdefghijklmnop"


def exported(home: StateHome, record: SessionRecord, format: str, **fields: Any) -> str:
    out = io.BytesIO()
    export(home, record, format, out, **fields)
    return out.getvalue().decode()


@pytest.fixture
def made(tmp_path: Path) -> MadeSession:
    """Two turns, a steer, tools, a failure, a second process, messages that arrived nowhere."""
    made = MadeSession(tmp_path, name="nightly | build")
    recorder = made.recorder
    made.do(lambda: recorder.session_started("native", model="big"))
    made.do(lambda: recorder.ready("initialized"))
    made.ask("m1", f"Fix <b>it</b>. My key is {KEY}.", images=("/pictures/a.png",))
    made.say(
        "Looking.\n```python\nopen(",
        thinking="What is <it>?",
        usage=Usage(input_tokens=10, cache_read_tokens=90, output_tokens=5, reasoning_tokens=2),
        stop_reason="tool_use",
    )
    made.do(lambda: recorder.tool_started("t1", "shell", {"command": "ls `pwd`"}))
    made.accept("m2", "Only the tests.", "steer")
    made.send("m2", steer=True)
    made.do(lambda: recorder.tool_ended("t1", is_error=False, result="a.py\n```\nb.py"))
    made.use("t2", "write_file", "free text", [{"type": "text", "text": "no room"}], is_error=True)
    made.say("Done <script>alert(1)</script>.", usage=Usage(input_tokens=7, output_tokens=3))
    made.end_turn()
    made.ask("m3", "And now?")
    made.say("Hm.", usage=Usage(input_tokens=1, output_tokens=1))
    made.do(lambda: recorder.compaction_ended("full"))
    recorder.fail(Crashed("it fell over"))
    made.do(lambda: recorder.finish(ProcessExit(code=3)))
    made.accept("m4", "Are you there?")
    made.accept("m5", "Never mind.")
    made.drop("m5")
    return made


def test_json_holds_the_record_the_messages_and_every_event_as_it_is(made: MadeSession) -> None:
    text = exported(made.home, made.record, "json")
    document = json.loads(text)
    assert document["format"] == "bridle-session"
    assert document["session"]["session_id"] == made.record.session_id
    assert [event["seq"] for event in document["events"]] == list(
        range(1, len(document["events"]) + 1)
    )
    for event in made.log.read():
        assert encode_event(event).decode() in text
    fates = {each["id"]: (each["fate"], each["turn"]) for each in document["messages"]}
    assert fates == {
        "m1": ("delivered", 1),
        "m2": ("delivered", 1),
        "m3": ("delivered", 2),
        "m4": ("queued", None),
        "m5": ("dropped", None),
    }


def test_markdown_tells_the_conversation_in_its_order(made: MadeSession) -> None:
    text = exported(made.home, made.record, "markdown")
    said = [
        "# nightly | build",
        "## Turn 1",
        "> Fix <b>it</b>.",
        "[image] /pictures/a.png",
        "> What is <it>?",
        "Looking.",
        "**Tool `shell`**",
        "ls `pwd`",
        "a.py",
        "**Tool `write_file`** (failed)",
        "no room",
        "### User, while the agent worked",
        "> Only the tests.",
        "Done <script>",
        "*Turn 1 completed · 17 tokens in, 90 from cache, 8 out*",
        "## Turn 2",
        "> And now?",
        "*Context shortened: full*",
        "*Error: crashed: it fell over*",
        "*Turn 2 failed",
        "*Process ended: process exited 3*",
        "### User (not sent yet)",
        "> Are you there?",
        "### User (dropped before it was sent)",
    ]
    at = 0
    for words in said:
        found = text.find(words, at)
        assert found >= 0, f"{words!r} does not follow in\n{text[at:]}"
        at = found + len(words)


def test_markdown_closes_what_the_agent_left_open(made: MadeSession) -> None:
    text = exported(made.home, made.record, "markdown")
    # The agent's own block is closed before the next heading; the tool's output has a fence that
    # is longer than the one in it.
    assert "```python\nopen(\n```\n" in text
    assert "````\na.py\n```\nb.py\n````" in text


class Page(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        self.links += [name for name, _ in attrs if name in ("src", "href") or name[:2] == "on"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_one_file_and_shows_all_that_was_said_as_text(made: MadeSession) -> None:
    text = exported(made.home, made.record, "html")
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.links == []
    assert not {"script", "img", "link", "iframe", "b"} & set(page.tags)
    for words in ("Fix <b>it</b>.", "Done <script>alert(1)</script>.", "What is <it>?", "no room"):
        assert words in page.text
    assert "default-src 'none'" in text


def test_html_has_no_forbidden_characters(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "bell\x07 and \x00 and\ttab")
    made.say("escape \x1b[31mred")
    made.end_turn()
    text = exported(made.home, made.record, "html")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
    assert "escape �[31mred" in text


def test_atif_keeps_the_rules_and_tells_the_steps(made: MadeSession) -> None:
    trajectory = json.loads(exported(made.home, made.record, "atif"))
    assert problems(trajectory) == []
    steps = trajectory["steps"]
    assert [(step["source"], step["extra"].get("turn")) for step in steps] == [
        ("user", 1),
        ("agent", 1),
        ("user", 1),
        ("agent", 1),
        ("user", 2),
        ("agent", 2),
        ("system", 2),
        ("system", 2),
    ]
    first = steps[1]
    assert [call["function_name"] for call in first["tool_calls"]] == ["shell", "write_file"]
    assert first["tool_calls"][1]["arguments"] == {"value": "free text"}
    assert first["observation"]["results"][1] == {
        "source_call_id": "t2",
        "content": "no room",
        "extra": {"is_error": True},
    }
    assert first["metrics"] == {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "cached_tokens": 90,
        "extra": {"reasoning_tokens": 2},
    }
    assert first["reasoning_content"] == "What is <it>?"
    assert steps[0]["message"][1]["source"] == {
        "media_type": "image/png",
        "path": "/pictures/a.png",
    }
    assert steps[6]["extra"]["context_management"] == {"type": "compaction"}
    assert trajectory["agent"] == {"name": "codex", "version": "1.2.3", "model_name": "big"}
    final = trajectory["final_metrics"]
    assert final["total_steps"] == 8
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        summed = sum(step.get("metrics", {}).get(name, 0) for step in steps)
        assert final[f"total_{name}"] == summed
    assert trajectory["notes"] == "User messages that reached no turn and are not steps: 2."


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        (lambda t: t.update(schema_version="ATIF-v9"), "schema_version"),
        (lambda t: t["steps"].clear(), "steps: at least one"),
        (lambda t: t["steps"].pop(0), "steps[1].step_id: not in order from 1"),
        (lambda t: t["steps"][0].update(metrics={}), "steps[1].metrics: only for the agent"),
        (lambda t: t["steps"][1].pop("message"), "steps[2].message: missing"),
        (lambda t: t["steps"][1].update(turn=1), "steps[2].turn: unknown"),
        (
            lambda t: t["steps"][1]["tool_calls"].pop(0),
            "steps[2].observation: t1 is no call of this step",
        ),
        (lambda t: t["agent"].pop("version"), "agent.version: missing"),
        (lambda t: t["final_metrics"].update(total_steps="8"), "final_metrics.total_steps: of the"),
    ],
)
def test_the_rules_find_what_is_wrong(
    made: MadeSession, spoil: Callable[[dict[str, Any]], object], wanted: str
) -> None:
    trajectory = json.loads(exported(made.home, made.record, "atif"))
    spoil(trajectory)
    assert any(problem.startswith(wanted) for problem in problems(trajectory))


def test_atif_says_so_when_a_runtime_only_tells_totals(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "Go.")
    made.say("Gone.")
    made.recorder.set_usage(Usage(input_tokens=40, output_tokens=2))
    made.recorder.set_cost(0.25, "provider")
    made.end_turn()
    trajectory = json.loads(exported(made.home, made.record, "atif"))
    assert problems(trajectory) == []
    assert "metrics" not in trajectory["steps"][1]
    assert trajectory["final_metrics"]["total_prompt_tokens"] == 40
    assert trajectory["final_metrics"]["total_cost_usd"] == 0.25
    assert "Totals are the runtime's own" in trajectory["notes"]


def test_a_session_in_which_nothing_was_said(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    for format in FORMATS:
        assert exported(made.home, made.record, format)
    trajectory = json.loads(exported(made.home, made.record, "atif"))
    assert problems(trajectory) == []
    assert len(trajectory["steps"]) == trajectory["final_metrics"]["total_steps"] == 1


@pytest.mark.parametrize("format", FORMATS)
def test_no_format_tells_a_secret(made: MadeSession, format: str) -> None:
    made.accept("m6", "the word is hunter2hunter2")
    text = exported(made.home, made.record, format, redactor=Redactor(["hunter2hunter2"]))
    assert KEY not in text
    assert "My key is [redacted:anthropic]." in text
    assert "hunter2" not in text


@pytest.mark.parametrize("format", FORMATS)
def test_a_session_that_is_in_the_middle_of_a_word(tmp_path: Path, format: str) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "Go.")
    made.do(lambda: made.recorder.tool_started("t1", "shell", {"command": "make"}))
    made.do(lambda: made.recorder.tool_updated("t1", "cc -c a.c"))
    made.do(lambda: made.recorder.text_delta("half a sen"))
    with open(made.log.path, "ab") as file:
        file.write(b'{"type":"message_upd')
    with open(f"{made.folder}/ledger.jsonl", "ab") as file:
        file.write(b'{"do":"acc')
    text = exported(made.home, made.record, format)
    for words in ("half a sen", "cc -c a.c", "Go."):
        assert words in text
    if format == "atif":
        assert problems(json.loads(text)) == []
    with open(f"{made.folder}/ledger.jsonl", "rb") as file:
        assert file.read().endswith(b'{"do":"acc'), "the driver's half line is the driver's"


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_event_file_is_told_with_its_line(made: MadeSession, format: str) -> None:
    with open(made.log.path, "ab") as file:
        file.write(b"garbage\n")
    with pytest.raises(Unavailable, match=r"line \d+ of its events"):
        exported(made.home, made.record, format)


def test_an_unknown_format_is_refused(made: MadeSession) -> None:
    with pytest.raises(WrongUse, match="no export format pdf"):
        exported(made.home, made.record, "pdf")


def test_exports_of_a_real_session(tmp_path: Path) -> None:
    script = [
        {"text": "First.", "usage": {"input_tokens": 5, "output_tokens": 2}},
        {"text": "I look.", "shell": "echo found it", "usage": {"input_tokens": 9}},
        {"text": "Second.", "usage": {"input_tokens": 11, "output_tokens": 4}},
    ]
    with live_session(tmp_path, script, name="real") as live:
        live.send("Say something.")
        live.send("Look for it.", "follow_up")
        live.wait_idle()
        live.leave()
        home, record = live.home, live.record
    trajectory = json.loads(exported(home, record, "atif"))
    assert problems(trajectory) == []
    told = [(step["source"], step["message"]) for step in trajectory["steps"]]
    assert told == [
        ("user", "Say something."),
        ("agent", "First."),
        ("user", "Look for it."),
        ("agent", "I look."),
        ("agent", "Second."),
    ]
    assert "found it" in trajectory["steps"][3]["observation"]["results"][0]["content"]
    assert trajectory["final_metrics"]["total_completion_tokens"] >= 6
    document = json.loads(exported(home, record, "json"))
    assert [event["type"] for event in document["events"]][-1] == "session_end"
    assert [each["turn"] for each in document["messages"]] == [1, 2]
    for format in ("markdown", "html"):
        assert "found it" in exported(home, record, format)
