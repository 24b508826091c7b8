"""Replies, failures and the player of a script.

A script is compiled to steps; each is a reply with the faults that come before it. A turn that is
aborted ends at once, whatever it waits for.
"""

from __future__ import annotations

import os
import time

# Not `threading`: an idle agent should need as little memory as it can.
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Source(Protocol):
        """Where replies come from: a script, or a model server."""

        def ask(self, history: list[dict[str, Any]]) -> Iterator[tuple[str, str] | Reply]:
            """The next reply: pieces (`text` or `thinking`, and its words), then the whole reply.

            Raises `Failure` at any point.
            """

        def give_up(self) -> int | None:
            """Skip the reply that is being given. Returns the step of the script that thereby
            counts as played, None where there is none."""


class Failure(Exception):
    """A reply did not come, or the run must end. `fields` is its description on the wire."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        kind: str | None = None,
        until: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.fields: dict[str, Any] = {"message": message}
        if status is not None:
            self.fields["status"] = status
        if kind is not None:
            self.fields["kind"] = kind
        if until is not None:
            self.fields["until"] = until


class Reply:
    """One whole reply: its text and its tool calls."""

    def __init__(
        self,
        *,
        text: str,
        thinking: str,
        calls: list[dict[str, Any]],
        usage: dict[str, int],
        stop_reason: str,
        model: str,
        step: int | None = None,
    ) -> None:
        self.text = text
        self.thinking = thinking
        self.calls = calls
        self.usage = usage
        self.stop_reason = stop_reason
        self.model = model
        self.step = step


def utc(seconds: float) -> str:
    """A moment as RFC 3339 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Interrupt:
    """A request to end the running turn. Any thread may make it; the turn checks it at every step
    and waits with it instead of sleeping."""

    def __init__(self) -> None:
        self.requested = False
        self._gate = allocate_lock()
        self._gate.acquire()
        self._closing: Callable[[], None] | None = None

    def request(self) -> None:
        """End the turn: wake the thread that waits, close what it reads."""
        if not self.requested:
            self.requested = True
            self._gate.release()
        closing = self._closing
        if closing is not None:
            closing()

    def reset(self) -> None:
        """Forget the request: a new turn begins."""
        if self.requested:
            self.requested = False
            self._gate.acquire()

    def check(self) -> None:
        """Raise `Failure` when the turn must end."""
        if self.requested:
            raise Failure("the turn was aborted", kind="aborted")

    def wait(self, seconds: float | None) -> None:
        """Sleep; raise `Failure` as soon as the turn must end."""
        if seconds and self._gate.acquire(timeout=seconds):
            self._gate.release()
        self.check()

    def close_with(self, closing: Callable[[], None] | None) -> None:
        """Set what wakes up a reader by closing its source; None when nothing is read."""
        self._closing = closing
        if closing is not None and self.requested:
            closing()


_LOOK = 0.02
"""Seconds between two looks for the file that a reply waits for."""
_SHAPES: dict[str, tuple[int, str]] = {
    "authentication": (401, "the scripted key is not valid"),
    "permission": (403, "the scripted key may not do this"),
    "rate_limit": (429, "the scripted rate limit is reached"),
    "usage_limit": (429, "the scripted usage limit is reached"),
    "quota": (400, "the scripted credit balance is too low"),
    "server_error": (500, "scripted server error"),
    "overloaded": (529, "the scripted service is overloaded"),
    "context_overflow": (400, "prompt is too long: scripted context overflow"),
    "not_found": (404, "the scripted model was not found"),
    "bad_request": (400, "the scripted request is not valid"),
    "too_large": (413, "the scripted request is too large"),
}
_USUAL_RESET = 3600
_UNFINISHED = ("This reply does ", "not arrive whole.")


class Player:
    """Plays the replies of a script one after another; counts the faults that it served."""

    def __init__(
        self,
        steps: list[dict[str, Any]],
        ended: dict[str, Any],
        start: int,
        interrupt: Interrupt,
    ) -> None:
        self._interrupt = interrupt
        self._steps = steps
        self._ended = ended
        self._next = start
        self._served: dict[tuple[int, int], int] = {}

    def ask(self, history: list[dict[str, Any]]) -> Iterator[tuple[str, str] | Reply]:
        """Play the next reply, or fail as the script says."""
        if self._next >= len(self._steps):
            yield from self._say(self._ended, None, None)
            return
        index = self._next
        step = self._steps[index]
        for place, stage in enumerate(step["faults"]):
            served = self._served.get((index, place), 0)
            if served < stage["times"]:
                self._served[index, place] = served + 1
                yield from self._spoil(step, stage["fault"], index)
                return
        yield from self._say(step["reply"], index, step["reply"].get("manner"))

    def give_up(self) -> int | None:
        """Skip the reply that is being played: its step counts as played. Returns the step, None
        after the last one."""
        if self._next >= len(self._steps):
            return None
        self._next += 1
        return self._next - 1

    def _spoil(
        self, step: dict[str, Any], fault: dict[str, Any], index: int
    ) -> Iterator[tuple[str, str] | Reply]:
        if fault.get("kind") or fault.get("status") or fault.get("body") is not None:
            self._wait(fault)
            raise refusal(fault)
        reply = step["reply"] or {**self._ended, "text": _UNFINISHED, "thinking": []}
        yield from self._say(reply, index, fault)

    def _wait(self, manner: dict[str, Any]) -> None:
        """Wait as long as the answer is held back."""
        self._interrupt.wait(manner.get("delay"))
        while manner.get("until") and not os.path.exists(manner["until"]):
            self._interrupt.wait(_LOOK)

    def _say(
        self, reply: dict[str, Any], index: int | None, manner: dict[str, Any] | None
    ) -> Iterator[tuple[str, str] | Reply]:
        manner = manner or {}
        self._wait(manner)
        pieces = [("thinking", text) for text in reply["thinking"]]
        pieces += [("text", text) for text in reply["text"]]
        total = sum(len(text) for _, text in pieces)
        cut = manner.get("cut", False)
        broken = manner.get("malformed") or cut is not False
        stop_at = int(cut) if cut is not False and cut is not True else total // 2
        said = 0
        for kind, text in pieces:
            half = max(0, stop_at - said)
            if (broken or manner.get("stall")) and said <= stop_at < said + len(text):
                if text[:half]:
                    yield kind, text[:half]
                self._break(manner)
                text = text[half:]
                said += half
            self._interrupt.wait(manner.get("slow"))
            yield kind, text
            said += len(text)
        if broken or (manner.get("stall") and not pieces):
            self._break(manner)
        if index is not None:
            self._next = index + 1
        yield Reply(
            text="".join(reply["text"]),
            thinking="".join(reply["thinking"]),
            calls=reply["calls"],
            usage=reply["usage"],
            stop_reason=reply["stop_reason"],
            model=reply["model"] or "scripted",
            step=index,
        )

    def _break(self, manner: dict[str, Any]) -> None:
        self._interrupt.wait(manner.get("stall"))
        if manner.get("malformed"):
            raise Failure("the reply holds a broken frame", kind="unavailable", retryable=True)
        if manner.get("cut", False) is not False:
            raise Failure("the reply was cut off", kind="unavailable", retryable=True)


def refusal(fault: dict[str, Any]) -> Failure:
    """The failure that a fault of the script describes."""
    kind = fault.get("kind") or _kind_of(fault.get("status") or 500)
    usual_status, usual_message = _SHAPES[kind]
    status = int(fault.get("status") or usual_status)
    message = fault.get("message") or _body_message(fault.get("body")) or usual_message
    now = time.time()
    retry_after = fault.get("retry_after")
    until = fault.get("resets_at")
    if until is None and fault.get("resets_in") is not None:
        until = now + fault["resets_in"]
    if until is None and kind == "usage_limit":
        until = now + _USUAL_RESET
    if until is None and retry_after is not None:
        until = now + retry_after
    return Failure(
        message,
        status=status,
        until=utc(until) if until is not None and status == 429 else None,
        retryable=can_retry(status) and kind != "usage_limit",
        retry_after=retry_after,
    )


def can_retry(status: int) -> bool:
    """Whether the same call may succeed later."""
    return status in (408, 409, 429) or status >= 500


def _kind_of(status: int) -> str:
    known = {401: "authentication", 403: "permission", 404: "not_found", 413: "too_large"}
    known |= {429: "rate_limit", 503: "overloaded", 529: "overloaded"}
    return known.get(status, "server_error" if status >= 500 else "bad_request")


def _body_message(body: Any) -> str:
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message") if isinstance(inner, dict) else inner
    return str(body)[:500] if body else ""
