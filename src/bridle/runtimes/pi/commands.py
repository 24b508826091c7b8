"""Commands of Pi's rpc mode: each has an id, by which its answer is known."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bridle.runtimes.pi import wire
from bridle.turns.recorder import Recorder

_T = TypeVar("_T")
Then = Callable[[wire.Response], None]


class Commands:
    """Sends commands of the wire's own, and brings their answers to whoever waits for them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._count = 0
        self._asked: dict[str, Then] = {}
        self._blocking: set[str] = set()

    @property
    def blocked(self) -> bool:
        """Whether a command must be answered before the next prompt is sent."""
        return bool(self._blocking)

    def ask(self, command: str, then: Then, *, blocks: bool = False, **fields: Any) -> str:
        """Send a command and return its id. One that `blocks` is answered before the next prompt
        is sent: Pi works on commands at the same time."""
        self._count += 1
        name = f"bridle-{self._count}"
        self._asked[name] = then
        if blocks:
            self._blocking.add(name)
        self.say({"id": name, "type": command, **fields})
        return name

    def say(self, value: dict[str, Any]) -> None:
        """Send one line."""
        self._recorder.reply(msgspec.json.encode(value) + b"\n")

    def take(self, line: wire.Response) -> bool:
        """Hand over an answer; False when nobody here asked for it."""
        name = str(line.id)
        then = self._asked.pop(name, None)
        self._blocking.discard(name)
        if then is not None:
            then(line)
        return then is not None


def nothing(line: wire.Response) -> None:
    """For a command whose answer tells nothing that the events do not."""


def content(line: wire.Response, kind: type[_T]) -> _T | None:
    """What an answer holds; None when it holds something else."""
    if not line.success:
        return None
    try:
        return msgspec.json.decode(line.data, type=kind)
    except msgspec.MsgspecError:
        return None
