"""The player: lines, answers and ends in, events and bytes out."""

from bridle.core import events as ev
from bridle.core.errors import Aborted, Unavailable
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.testing.contract import check_event_order
from bridle.turns.player import Conversation, Message, Player
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Outgoing, Question

DONE = ProcessExit(code=0)


class Toy:
    """A wire that understands a few words."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self) -> None:
        self.recorder.reply(b"hello\n")

    def feed(self, line: bytes) -> None:
        recorder = self.recorder
        if line == b"ready":
            recorder.ready("toy")
        elif line == b"ask":
            recorder.permission_requested(
                Question(
                    request_id="q1",
                    tool_name="shell",
                    args={},
                    answer=lambda allowed, reason: f"{allowed} {reason}\n".encode(),
                )
            )
        elif line == b"end":
            recorder.turn_ended(text="done")
        elif line.startswith(b"took "):
            recorder.message_taken(line[5:].decode())
        elif line.startswith(b"late "):
            recorder.message_refused(line[5:].decode(), Unavailable("too late"))
        else:
            raise ValueError("no such word")

    def prompt(self, message: Outgoing) -> None:
        self.recorder.turn_started()
        self.recorder.reply(f"prompt {message.text}\n".encode())

    def steer(self, message: Outgoing) -> None:
        self.recorder.reply(f"steer {message.text}\n".encode())

    def abort(self) -> None:
        self.recorder.turn_ended()

    def leave(self) -> None:
        self.recorder.input_done = True

    def finish(self, exit: ProcessExit) -> None:
        if exit.code == 99:
            raise ValueError("broken")
        self.recorder.finish(exit)


def recorder(drive: ev.Drive = "rpc") -> Recorder:
    return Recorder(runtime="toy", session_id="s", options=RunOptions(prompt=""), drive=drive)


def conversation() -> Conversation[Message]:
    made = recorder()
    talk: Conversation[Message] = Conversation(Toy(made), made)
    talk.begin()
    talk.feed(b"ready")
    return talk


def test_an_adapter_that_raises_costs_one_line() -> None:
    made = recorder("print")
    player = Player(Toy(made), made)
    player.feed(b"nonsense")
    player.feed(b"end")
    player.finish(DONE)
    events = player.take_events()
    assert [event.raw for event in events if isinstance(event, ev.Unknown)] == [
        {"line": "nonsense", "problem": "ValueError('no such word')"}
    ]
    assert made.result().status == "completed"
    assert check_event_order(events) == []


def test_an_adapter_that_raises_at_the_end_fails_the_run() -> None:
    made = recorder("print")
    player = Player(Toy(made), made)
    player.finish(ProcessExit(code=99))
    error = made.result().error
    assert error is not None
    assert error.kind == "protocol_drift"


def test_an_answer_gives_bytes_and_a_decision_once() -> None:
    talk = conversation()
    talk.feed(b"ask")
    assert list(talk.questions) == ["q1"]
    talk.take_bytes()
    talk.answer("q1", False, "test", "no")
    talk.answer("q1", True, "test", "yes")
    assert talk.take_bytes() == b"False no\n"
    decisions = [each for each in talk.take_events() if isinstance(each, ev.PermissionDecision)]
    assert [(each.decision, each.by) for each in decisions] == [("deny", "test")]


def test_a_message_waits_until_the_agent_is_ready_and_has_the_last_one() -> None:
    talk = conversation()
    for name in ("a", "b"):
        talk.add(Message(id=name, text=name))
    first = talk.next_message(can_steer=True)
    assert first is not None
    talk.send(first.id)
    assert talk.take_bytes() == b"hello\nprompt a\n"
    assert talk.next_message(can_steer=True) is None
    talk.feed(b"took a")
    assert talk.next_message(can_steer=True) is None
    talk.feed(b"end")
    second = talk.next_message(can_steer=True)
    assert second is not None
    assert (second.id, talk.is_idle) == ("b", False)


def test_a_steer_that_comes_too_late_becomes_the_next_prompt() -> None:
    talk = conversation()
    talk.add(Message(id="a", text="a"))
    talk.send("a")
    talk.feed(b"took a")
    talk.add(Message(id="s", text="s", kind="steer"))
    talk.send("s", steer=True)
    talk.feed(b"late s")
    talk.feed(b"end")
    late = talk.next_message(can_steer=True)
    assert late is not None
    assert (late.id, late.kind) == ("s", "prompt")
    talk.send("s")
    talk.feed(b"took s")
    assert (talk.messages["s"].status, talk.messages["s"].turn) == ("taken", 2)


def test_a_message_that_the_process_died_with_was_not_refused() -> None:
    talk = conversation()
    talk.add(Message(id="a", text="a"))
    talk.send("a")
    talk.recorder.message_refused("a", Unavailable("the agent ended"))
    talk.finish(ProcessExit(code=1))
    assert (talk.messages["a"].status, talk.cut_off) == ("sent", ())


def test_the_messages_of_a_turn_that_the_process_died_in_are_cut_off() -> None:
    talk = conversation()
    talk.add(Message(id="a", text="a"))
    talk.send("a")
    talk.feed(b"took a")
    talk.finish(ProcessExit(code=1))
    assert [message.id for message in talk.cut_off] == ["a"]
    assert check_event_order(talk.take_events()) == []


def test_an_abort_between_turns_has_no_effect() -> None:
    talk = conversation()
    talk.abort(Aborted("enough"))
    assert talk.recorder.error is None
