"""The table of session verbs: the daemon's wire, and what a row alone is good for."""

from typing import Any

import msgspec
import pytest

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.sessions import ledger, verbs
from bridle.sessions.store import SessionRecord
from bridle.sessions.verbs import VERBS, Receipt, TurnReport, result_type
from tests.sessions.place import Place

WIRE: dict[str, dict[str, Any]] = {
    "hello": {},
    "status": {},
    "shutdown": {},
    "events": {"after": 7, "follow": False},
    "send": {"kind": "steer", "text": "hi", "message_id": "m", "images": ["a.png"], "timeout": 1.5},
    "abort": {"reason": "enough", "clear": True},
    "answer": {"request_id": "r", "allowed": False, "by": "person", "reason": "no"},
    "model": {"model": "big"},
    "compact": {},
    "abort_compaction": {},
    "wait_ready": {"timeout": None},
    "wait_idle": {"timeout": 3.0, "known_questions": ["r"]},
    "stop": {"reason": "done", "timeout": 60.0},
    "show": {},
    "list": {},
    "rename": {"name": "new"},
    "remove": {"force": True, "timeout": None},
    "adopt": {},
    "release": {"timeout": None},
}
"""The requests of protocol 1, all fields given."""


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_read_and_written_as_in_protocol_1(name: str) -> None:
    named = {"session": "s"} if issubclass(VERBS[name], verbs.SessionVerb) else {}
    fields = {**named, **WIRE[name]}
    # Clients of any version send an id, a token and a timeout with every request.
    request = {"id": 1, "op": name, "token": "t", "timeout": None, **fields}
    verb = msgspec.convert(request, VERBS[name])
    written = msgspec.json.decode(msgspec.json.encode(verb))
    assert written == {"op": name, **fields}


def test_every_request_of_protocol_1_is_a_verb() -> None:
    assert set(VERBS) == set(WIRE)


def test_the_result_is_what_the_row_declares() -> None:
    send = verbs.Send(session="s", kind="prompt", text="hi", message_id="m")
    assert result_type(send) == Receipt | None
    assert result_type(verbs.WaitIdle(session="s")) == TurnReport | None
    assert result_type(verbs.Show(session="s")) is SessionRecord


def test_a_commands_ledger_entry_takes_its_fields() -> None:
    answer = verbs.Permit(session="s", request_id="r", allowed=True, by="user", reason="fine")
    assert answer.decision(at=3, ts=4.0) == ledger.Answer(
        at=3, ts=4.0, request_id="r", allowed=True, by="user", reason="fine"
    )
    assert verbs.Abort(session="s", reason="no", clear=True).decision(1, 2.0) == ledger.Abort(
        at=1, ts=2.0, reason="no"
    )


def test_a_row_says_what_its_command_needs(place: Place) -> None:
    host = place.host()
    record = place.start("- shell: sleep 30\n- text: one\n")
    name = record.session_id
    host.idle(record)
    assert host.do(verbs.Abort(session=name)) == {
        "session_id": name,
        "aborted": False,
        "dropped": [],
    }
    assert host.do(verbs.AbortCompaction(session=name)) == {"session_id": name, "aborted": False}
    with pytest.raises(WrongUse, match="no permission request r waits"):
        host.do(verbs.Permit(session=name, request_id="r", allowed=True))
    host.send(record, "go")
    with pytest.raises((WrongUse, UnsupportedOption)):
        host.do(verbs.SetModel(session=name, model="big"))
    with pytest.raises((WrongUse, UnsupportedOption)):
        host.do(verbs.Compact(session=name))
