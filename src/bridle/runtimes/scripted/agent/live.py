"""A conversation of many prompts: JSON lines in, JSON lines out.

The main thread reads, so that a message, an answer or an abort arrives while a turn is played;
each turn is played by a thread of its own. An idle agent has one thread, which waits for a line.

In: `prompt{id,text,images}`, `steer{id,text,images}`, `abort`, `set_model{model}`, `leave`, and the
answers to permission requests. Out: what a run says, and `ready`, `taken{id}`,
`not_taken{id,reason}`, `turn_end`; a turn that failed says `error` before its end.
"""

from __future__ import annotations

import json
import os
import sys
from _thread import allocate_lock, start_new_thread

from .conversation import conversation
from .output import JsonFace
from .replies import Failure, Interrupt
from .tools import kill_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .output import Misbehaviour
    from .replies import Source

KEY_VARIABLE = "BRIDLE_SCRIPTED_API_KEY"
"""Holds the key of the model server; no tool inherits it."""


def converse(request: dict[str, Any], misbehaviour: Misbehaviour) -> int:
    """Hold the conversation until it is left; returns the exit status."""
    key = os.environ.pop(KEY_VARIABLE, "")
    if request.get("server"):
        request["server"]["api_key"] = key
    face = LiveFace(misbehaviour)
    try:
        talk = LiveConversation(request, face, misbehaviour)
    except Failure as failure:
        face.emit({"type": "error", **failure.fields})
        return 1
    except OSError as problem:
        face.emit({"type": "error", "kind": "crashed", "message": str(problem)})
        return 1
    face.emit({"type": "ready"})
    talk.listen()
    return 0


class LiveFace(JsonFace):
    """As in a run, but the thread that reads stdin brings the answers."""

    def __init__(self, misbehaviour: Misbehaviour) -> None:
        super().__init__(misbehaviour)
        self._waiting: dict[str, Answer] = {}
        self._nobody = ""

    def answer(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Ask, and wait until the answer is brought or nobody will bring one."""
        answer = self._waiting[request["request_id"]] = Answer()
        self.emit(request)
        if self._nobody:
            answer.give(False, self._nobody)
        return answer.wait()

    def bring(self, said: dict[str, Any]) -> None:
        """Hand over an answer; one that nobody waits for has no effect."""
        answer = self._waiting.pop(str(said.get("request_id")), None)
        if answer is not None:
            answer.give(said.get("allow") is True, str(said.get("reason", "")))

    def expect_none(self, reason: str) -> None:
        """No answers will come: refuse what is asked, now and from now on."""
        self._nobody = reason
        for name in list(self._waiting):
            self.bring({"request_id": name, "reason": reason})

    def expect_answers(self) -> None:
        """Answers may come again."""
        self._nobody = ""


class Answer:
    """An answer that one thread waits for and another gives; only the first one counts."""

    def __init__(self) -> None:
        self._said: tuple[bool, str] | None = None
        self._guard = allocate_lock()
        self._gate = allocate_lock()
        self._gate.acquire()

    def give(self, allowed: bool, reason: str) -> None:
        """Answer, unless that was done."""
        with self._guard:
            if self._said is None:
                self._said = (allowed, reason)
                self._gate.release()

    def wait(self) -> tuple[bool, str]:
        """The answer, when it is there."""
        self._gate.acquire()
        return self._said or (False, "")


class LiveConversation:
    """The conversation: one turn at a time, messages for it in between."""

    def __init__(self, request: dict[str, Any], face: LiveFace, misbehaviour: Misbehaviour) -> None:
        self._face = face
        self._misbehaviour = misbehaviour
        self._interrupt = Interrupt()
        self._lock = allocate_lock()
        self._playing = False
        self._steers: list[dict[str, Any]] = []
        self._turn = allocate_lock()
        """Held while a turn is played, to wait for its end."""
        self._loop, self._sources = conversation(request, face, misbehaviour, self._interrupt, self)

    def take(self) -> list[dict[str, Any]]:
        """The messages for the turn that is played; see `Inbox`."""
        with self._lock:
            taken, self._steers = self._steers, []
        return taken

    def listen(self) -> None:
        """Take lines until the conversation is left or stdin ends; a turn is played to its end."""
        while line := sys.stdin.buffer.readline():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and not self._obey(said):
                break
        self._face.expect_none("nobody answered")
        self._turn.acquire()

    def _obey(self, said: dict[str, Any]) -> bool:
        """Do what one line asks for; False when the agent must leave."""
        kind = said.get("type")
        if "request_id" in said:
            self._face.bring(said)
        elif kind == "prompt":
            self._prompt(_message(said))
        elif kind == "steer":
            self._steer(_message(said))
        elif kind == "abort":
            self._abort()
        elif kind == "set_model" and not self._playing:
            self._sources.set_model(str(said.get("model")))
        return kind != "leave"

    def _prompt(self, message: dict[str, Any]) -> None:
        if self._playing:
            self._refuse(message, "a turn is being played")
            return
        try:
            for image in message["images"]:
                with open(image["path"], "rb"):
                    pass
            source = self._sources.of(message["text"])
        except (Failure, OSError) as problem:
            self._refuse(message, str(problem))
            return
        self._turn.acquire()
        self._interrupt.reset()
        self._face.expect_answers()
        self._playing = True
        start_new_thread(self._play, (message, source))

    def _steer(self, message: dict[str, Any]) -> None:
        with self._lock:
            playing = self._playing and not self._interrupt.requested
            if playing:
                self._steers.append(message)
        if not playing:
            self._refuse(message, "no turn is being played")

    def _abort(self) -> None:
        if self._playing:
            self._interrupt.request()
            self._face.expect_none("the turn was aborted")
            kill_running()

    def _refuse(self, message: dict[str, Any], reason: str) -> None:
        self._face.emit({"type": "not_taken", "id": message["id"], "reason": reason})

    def _play(self, message: dict[str, Any], source: tuple[str, Source]) -> None:
        """One turn, in a thread of its own."""
        try:
            failed: dict[str, Any] | None = None
            try:
                self._loop.work(message["text"], message["images"], source, message["id"])
            except Failure as failure:
                failed = failure.fields
            except BrokenPipeError:
                raise
            except Exception as problem:
                failed = {"kind": "crashed", "message": str(problem) or type(problem).__name__}
            self._end_turn(failed)
        except BrokenPipeError:
            # Nobody reads the output any more, and the main thread may wait for a line for ever.
            kill_running()
            os._exit(1)
        finally:
            self._turn.release()

    def _end_turn(self, failed: dict[str, Any] | None) -> None:
        with self._lock:
            late, self._steers = self._steers, []
            self._playing = False
        for message in late:
            self._refuse(message, "the turn ended before it could be delivered")
        if failed is not None:
            self._face.emit({"type": "error", **failed})
        if not self._misbehaviour.ends_silently():
            self._face.emit({"type": "turn_end"})


def _message(said: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": str(said.get("id", "")),
        "text": str(said.get("text", "")),
        "images": said.get("images") or [],
    }
