"""Dialogs that Pi's extensions open in a live conversation: each is answered, none is left open."""

from typing import Any

import msgspec

from bridle.runtimes.pi import wire
from bridle.runtimes.pi.ask import LIVE_TITLE
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question

_TELLING = frozenset({"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"})
"""Methods that want no answer."""


class _Call(msgspec.Struct, frozen=True):
    """The tool call that Bridle's own extension asks about."""

    id: str
    tool: str
    args: Any = None


class Dialogs:
    """The open dialogs of one conversation.

    Bridle's own question and an extension's `confirm` are permission requests. Whatever else an
    extension asks for is cancelled at once, since nobody here can answer it, and so is everything
    that is asked outside a turn.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: list[str] = []

    def take(self, line: wire.Dialog) -> None:
        """Deal with one dialog."""
        if line.method in _TELLING:
            return
        question = _question(line) if self._recorder.turn_open else None
        if question is None:
            self._recorder.unknown(msgspec.to_builtins(line))
            self._recorder.reply(_answer(line.id, cancelled=True))
            return
        self._open.append(line.id)
        self._recorder.permission_requested(question)

    def cancel_all(self) -> None:
        """Cancel what may be open; Pi ignores an answer to a dialog that is over."""
        for name in self._open:
            self._recorder.reply(_answer(name, cancelled=True))
        self._open.clear()

    def forget(self) -> None:
        """The turn is over, and so are its dialogs."""
        self._open.clear()


def _question(line: wire.Dialog) -> Question | None:
    """The permission request that a dialog is, if it is one."""
    name = line.id
    if line.method == "confirm":
        return Question(
            request_id=name,
            tool_name="extension_confirm",
            args={"title": line.title, "message": line.message},
            answer=lambda allowed, reason: _answer(name, confirmed=allowed),
        )
    if line.method != "input" or line.title != LIVE_TITLE:
        return None
    try:
        call = msgspec.json.decode(line.placeholder, type=_Call)
    except msgspec.MsgspecError:
        return None
    return Question(
        request_id=name,
        tool_call_id=call.id,
        tool_name=call.tool,
        args=call.args,
        answer=lambda allowed, reason: _answer(
            name, value=msgspec.json.encode({"allow": allowed, "reason": reason}).decode()
        ),
    )


def _answer(name: str, **said: Any) -> bytes:
    return msgspec.json.encode({"type": "extension_ui_response", "id": name, **said}) + b"\n"
