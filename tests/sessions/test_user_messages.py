"""Which turn each message of the user belongs to."""

import json
from pathlib import Path

from bridle.process.spec import ProcessExit
from bridle.sessions.history import AgentStep, conversation
from bridle.sessions.hooks import hook_events
from bridle.sessions.user_messages import UserMessage, user_messages
from tests.sessions.test_export import exported
from tests.support.driving import check_order
from tests.support.sessions import MadeSession, live_session


def turns_of(made: MadeSession) -> dict[str, tuple[str, int | None]]:
    return {each.id: (each.fate, each.turn) for each in user_messages(made.home, made.record)}


def test_a_refused_prompt_has_no_turn(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.accept("m1", "refused")
    made.send("m1")
    made.ask("m2", "taken")
    made.end_turn()
    assert turns_of(made) == {"m1": ("sent", None), "m2": ("delivered", 1)}


def test_a_turn_that_the_agent_began_by_itself_has_no_message(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.do(made.recorder.turn_started)
    made.end_turn()
    made.ask("m1", "mine")
    made.end_turn()
    made.do(made.recorder.turn_started)
    made.end_turn()
    assert turns_of(made) == {"m1": ("delivered", 2)}


def test_a_steer_that_came_too_late_began_the_next_turn(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "first")
    made.accept("m2", "late", "steer")
    made.send("m2", steer=True)
    made.end_turn()
    made.send("m2")
    made.do(made.recorder.turn_started)
    made.say("second")
    made.end_turn()
    assert turns_of(made) == {"m1": ("delivered", 1), "m2": ("delivered", 2)}
    parts = [
        part
        for part in conversation(made.home, made.record)
        if isinstance(part, UserMessage | AgentStep)
    ]
    assert [part.text for part in parts] == ["first", "late", "second"]


def test_a_message_that_was_carried_to_the_next_process_counts_once(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "first")
    made.end_turn()
    message = made.accept("m2", "second")
    made.send("m2")
    made.do(lambda: made.recorder.finish(ProcessExit(code=None)))
    made.begin(2, (message,))
    made.send("m2")
    made.do(made.recorder.turn_started)
    made.end_turn()
    assert turns_of(made) == {"m1": ("delivered", 1), "m2": ("delivered", 2)}


def test_a_clock_that_was_set_back_changes_no_order(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "first")
    made.end_turn()
    made.now -= 10_000
    made.ask("m2", "second")
    made.now -= 10_000
    made.end_turn()
    made.ask("m3", "third")
    made.end_turn()
    assert [turn for _, turn in turns_of(made).values()] == [1, 2, 3]


def test_a_hundred_messages_at_once_each_have_their_turn(tmp_path: Path) -> None:
    with live_session(tmp_path, [{"text": f"answer {n}"} for n in range(100)]) as live:
        for n in range(100):
            live.send(f"question {n}", "follow_up")
        live.wait_idle()
        live.leave()
        home, record = live.home, live.record
    parts = [
        part for part in conversation(home, record) if isinstance(part, UserMessage | AgentStep)
    ]
    wanted = [words for n in range(100) for words in (f"question {n}", f"answer {n}")]
    assert [part.text for part in parts] == wanted


def test_a_steer_of_a_real_session_stands_in_its_turn(tmp_path: Path) -> None:
    script = [
        {"text": "I wait.", "shell": "while [ ! -e go ]; do sleep 0.05; done; sleep 2"},
        {"text": "I heard."},
    ]
    with live_session(tmp_path, script) as live:
        live.send("Begin.")
        live.wait(lambda: bool(live.driver.player.recorder.tools.names))
        live.send("Stop waiting.", "steer")
        (tmp_path / "work" / "go").touch()
        live.wait_idle()
        live.leave()
        messages = user_messages(live.home, live.record)
    assert [(each.text, each.turn, each.steered) for each in messages] == [
        ("Begin.", 1, False),
        ("Stop waiting.", 1, True),
    ]


def test_what_a_person_typed_is_a_message_of_its_turn(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "sent")
    made.say("one")
    made.do(lambda: made.recorder.typed("typed while it works"))
    made.say("two")
    made.end_turn()
    made.do(made.recorder.turn_started)
    made.do(lambda: made.recorder.typed("typed"))
    made.say("three")
    made.end_turn()
    made.ask("m2", "sent again")
    made.say("four")
    made.end_turn()
    told = user_messages(made.home, made.record)
    assert [(each.text, each.turn, each.steered, each.typed) for each in told] == [
        ("sent", 1, False, False),
        ("typed while it works", 1, True, True),
        ("typed", 2, False, True),
        ("sent again", 3, False, False),
    ]
    parts = [
        part.text
        for part in conversation(made.home, made.record)
        if isinstance(part, UserMessage | AgentStep)
    ]
    assert parts == [
        *("sent", "one", "typed while it works", "two", "typed", "three", "sent again", "four"),
    ]
    hooks = hook_events(made.record, made.log.read())
    said = [hook.data["message"] for hook in hooks if hook.event == "OnMessage"]
    assert said == ["one", "two", "three", "four"]
    made.do(lambda: made.recorder.finish(ProcessExit(code=0)))
    check_order(list(made.log.read()))
    for format in ("markdown", "html", "json"):
        assert "typed while it works" in exported(made.home, made.record, format)
    steps = json.loads(exported(made.home, made.record, "atif"))["steps"]
    assert [step["source"] for step in steps][:8] == ["user", "agent"] * 4
