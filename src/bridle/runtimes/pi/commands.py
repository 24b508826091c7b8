"""Commands of Pi's rpc mode: each has an id, by which its answer is known."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bridle.runtimes.pi import wire
from bridle.turns.recorder import Recorder
from bridle.turns.rpc import Requests, encode_line

_T = TypeVar("_T")
Then = Callable[[wire.Response], None]


class Commands:
    """Sends commands and passes each response to its handler."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._requests: Requests[str, wire.Response] = Requests("bridle-{}".format)

    @property
    def blocked(self) -> bool:
        """Whether a command must be answered before the next prompt is sent."""
        return self._requests.blocked

    def ask(self, command: str, then: Then, *, blocks: bool = False, **fields: Any) -> str:
        """Send a command and return its id. One that `blocks` is answered before the next prompt
        is sent: Pi works on commands at the same time."""
        name = self._requests.open(command, then, blocks=blocks)
        self.say({"id": name, "type": command, **fields})
        return name

    def say(self, value: dict[str, Any]) -> None:
        """Send one line."""
        self._recorder.reply(encode_line(value))

    def take(self, line: wire.Response) -> bool:
        """Take a response; False if it belongs to no command of this object."""
        return self._requests.respond(line.id, line)


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
