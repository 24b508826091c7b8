"""The client's side of the protocol without any input or output: ids, pending calls, frames.

What is to be written is handed back as bytes; what was read is handed in line by line. It knows
nothing of runs, recorders or particular agents, so a live session uses it as it is.
"""

from typing import Any, TypeVar

import msgspec

from bridle._version import __version__
from bridle.runtimes.acp import wire
from bridle.turns.rpc import Requests, encode_line

T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True):
    """The agent answered the call of `method` that we made."""

    method: str
    result: msgspec.Raw | None
    error: wire.RpcError | None


class Call(msgspec.Struct, frozen=True):
    """The agent calls a method of ours and waits for the answer under `id`."""

    id: int | str | None
    method: str
    params: msgspec.Raw


class Notice(msgspec.Struct, frozen=True):
    """The agent tells something and expects no answer."""

    method: str
    params: msgspec.Raw


class Noise(msgspec.Struct, frozen=True):
    """A line that is no message of the protocol, or an answer to a call nobody made."""


Incoming = Answer | Call | Notice | Noise


class AcpClient:
    """One connection to one agent.

    Contract: `request` and `notify` give the bytes to write, in order; `receive` takes each line
    once and never raises. Ids count from 0 and are never used twice.
    """

    def __init__(self) -> None:
        self._requests: Requests[int, None] = Requests(int, first=0)

    @property
    def pending(self) -> list[str]:
        """Methods that we called and that are not answered yet, the oldest first."""
        return self._requests.pending

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        """The frame of a call; its answer will come out of `receive` under the method's name."""
        call_id = self._requests.open(method)
        return encode_line({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    def notify(self, method: str, params: dict[str, Any]) -> bytes:
        """The frame of a message that is not answered."""
        return encode_line({"jsonrpc": "2.0", "method": method, "params": params})

    def receive(self, line: bytes) -> Incoming:
        """What a line of the agent's is."""
        try:
            message = wire.decode_envelope(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Noise()
        if message.method is not None:
            if message.id is msgspec.UNSET:
                return Notice(message.method, message.params)
            return Call(message.id, message.method, message.params)
        method = self._requests.close(message.id)
        if method is None:
            return Noise()
        error = message.error if isinstance(message.error, wire.RpcError) else None
        result = message.result if isinstance(message.result, msgspec.Raw) else None
        return Answer(method, result, error)


def result_of(answer: Answer, type_: type[T]) -> T:
    """An answer's result as `type_`; raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(answer.result if answer.result is not None else b"{}", type=type_)


def initialize_params() -> dict[str, Any]:
    """What Bridle says of itself.

    It offers no file system and no terminal: an agent that can read files through its client
    believes them to exist (Gemini then cannot create any), and none needs it.
    """
    return {
        "protocolVersion": wire.PROTOCOL_VERSION,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
        },
        "clientInfo": {"name": "bridle", "title": "Bridle", "version": __version__},
    }


def respond(call_id: int | str | None, result: Any) -> bytes:
    """The frame that answers an agent's call."""
    return encode_line({"jsonrpc": "2.0", "id": call_id, "result": result})


def refuse(call_id: int | str | None, method: str) -> bytes:
    """The frame that tells an agent that its client has no such method."""
    error = {"code": wire.METHOD_NOT_FOUND, "message": f"Method not found: {method}"}
    return encode_line({"jsonrpc": "2.0", "id": call_id, "error": error})


def permission_answer(
    call_id: int | str | None, options: list[wire.PermissionOption], allowed: bool
) -> bytes:
    """The frame that answers a permission request.

    The option is chosen by what it means, since every agent names them differently, and never for
    longer than this once where there is a choice. With no fitting option the request is cancelled.
    """
    wanted = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    for kind in wanted:
        for option in options:
            if option.kind == kind:
                outcome = {"outcome": "selected", "optionId": option.option_id}
                return respond(call_id, {"outcome": outcome})
    return permission_cancelled(call_id)


def permission_cancelled(call_id: int | str | None) -> bytes:
    """The frame that answers a permission request which nobody will decide any more."""
    return respond(call_id, {"outcome": {"outcome": "cancelled"}})
