"""The scripted agent from its first line to its last.

It takes one request (a JSON object) as the first line of its stdin, or from a private file, and
reports what it does on stdout. Signals end it, and every shell it runs, at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from .conversation import conversation
from .output import ChatFace, JsonFace, Misbehaviour, TextFace
from .replies import Failure, Interrupt
from .tools import kill_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from .conversation import Loop, Sources
    from .output import Face

_FACES = ("json", "text", "chat", "live")
_USAGE = (
    "usage: scripted agent [--request FILE] [--face json|text|chat|live] [--guard stdio|COMMAND]"
)


def main(argv: list[str]) -> int:
    """Run the agent; returns its exit status."""
    try:
        face_name, request = _arguments(argv)
    except (ValueError, OSError) as problem:
        sys.stderr.write(f"scripted agent: {problem}\n{_USAGE}\n")
        return 2
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    misbehaviour = Misbehaviour(request.get("behave", []))
    misbehaviour.begin()
    try:
        if face_name == "live":
            from .live import converse

            status = converse(request, misbehaviour)
        else:
            faces: dict[str, Face] = {"text": TextFace(), "chat": ChatFace()}
            status = _play(request, faces.get(face_name) or JsonFace(misbehaviour), misbehaviour)
    except BrokenPipeError:
        return 1
    finally:
        kill_running()
    return misbehaviour.exit_status(status)


def _arguments(argv: list[str]) -> tuple[str, dict[str, Any]]:
    face, file, guard = "json", "", ""
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--face" and words and words[0] in _FACES:
            face = words.pop(0)
        elif word == "--request" and words:
            file = words.pop(0)
        elif word == "--guard" and words:
            guard = words.pop(0)
        else:
            raise ValueError(f"unknown argument {word!r}")
    if file:
        with open(file, "rb") as opened:
            text = opened.read()
        _remove(file)
    else:
        text = sys.stdin.buffer.readline()
    request = json.loads(text)
    if not isinstance(request, dict):
        raise ValueError("the request must be a JSON object")
    if guard:
        request["guard"] = guard
    return face, request


def _remove(file: str) -> None:
    """Remove the request, and the folder that was made for it alone."""
    os.unlink(file)
    try:
        os.rmdir(os.path.dirname(file))
    except OSError:
        return


def _end(number: int, frame: FrameType | None) -> None:
    """End at once, with all tools, by the same signal."""
    kill_running()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _play(request: dict[str, Any], face: Face, misbehaviour: Misbehaviour) -> int:
    try:
        loop, sources = conversation(request, face, misbehaviour, Interrupt())
        prompt = request["prompt"]
        if prompt:
            loop.work(prompt, request.get("images", []), sources.of(prompt))
        if isinstance(face, ChatFace):
            _chat(face, loop, sources)
    except Failure as failure:
        face.emit({"type": "error", **failure.fields})
        return 1
    except BrokenPipeError:
        raise
    except OSError as problem:
        # Most often a state folder that cannot be written.
        face.emit({"type": "error", "kind": "crashed", "message": str(problem)})
        return 1
    if not misbehaviour.ends_silently():
        face.emit({"type": "result"})
    return 0


def _chat(face: ChatFace, loop: Loop, sources: Sources) -> None:
    while (prompt := face.prompt()) is not None:
        if prompt in ("exit", "/exit", "quit", "/quit"):
            return
        if prompt:
            try:
                loop.work(prompt, [], sources.of(prompt))
            except Failure as failure:
                face.emit({"type": "error", **failure.fields})
