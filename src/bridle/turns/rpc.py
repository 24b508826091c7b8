"""Requests to an agent, paired with the agent's responses by id.

Four wires work this way: Claude's control protocol, Codex's app-server, Pi's rpc mode and ACP. They
differ in how a message looks; each sends its own frames and uses `Requests` for the ids.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

Id = TypeVar("Id")
Response = TypeVar("Response")
Handler = Callable[[Response], None]

_encoder = msgspec.json.Encoder()


class _Pending(NamedTuple, Generic[Response]):
    method: str
    handler: Handler[Response] | None
    blocks: bool


class Requests(Generic[Id, Response]):
    """The requests of one connection that have no response yet.

    Contract: no input or output. Ids are given out in order and never used twice, so a replay gives
    the same ids. Each response is taken once; one with an unknown id is not taken at all.
    """

    def __init__(self, make_id: Callable[[int], Id], *, first: int = 1) -> None:
        """`make_id` makes an id from a number, counted from `first`."""
        self._make_id = make_id
        self._next = first
        self._pending: dict[object, _Pending[Response]] = {}

    @property
    def pending(self) -> list[str]:
        """The methods of the requests without a response, oldest first."""
        return [request.method for request in self._pending.values()]

    @property
    def blocked(self) -> bool:
        """Whether a request that `blocks` has no response yet."""
        return any(request.blocks for request in self._pending.values())

    def open(
        self, method: str, handler: Handler[Response] | None = None, *, blocks: bool = False
    ) -> Id:
        """Register a request and return its id. `handler` takes the response (`respond`)."""
        request_id = self._make_id(self._next)
        self._next += 1
        self._pending[request_id] = _Pending(method, handler, blocks)
        return request_id

    def close(self, request_id: object) -> str | None:
        """The method of the request that a response belongs to; None for an unknown id. The
        request counts as answered."""
        request = self._pending.pop(request_id, None)
        return None if request is None else request.method

    def respond(self, request_id: object, response: Response) -> bool:
        """Pass a response to the handler of its request; False for an unknown id."""
        request = self._pending.pop(request_id, None)
        if request is None:
            return False
        if request.handler is not None:
            request.handler(response)
        return True


def encode_line(message: dict[str, Any]) -> bytes:
    """A message as one line of JSON."""
    return _encoder.encode(message) + b"\n"
