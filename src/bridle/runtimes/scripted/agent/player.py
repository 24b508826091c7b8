"""Plays a compiled script: steps, each a reply with the faults that come before it."""

from __future__ import annotations

import time

from .parts import Failure, Reply, utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .interrupt import Interrupt

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
    """Says the replies of a script one after another; keeps count of the faults served."""

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
        """Say the next reply or fail as the script says."""
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
        """The reply that was being said is not wanted any more: its step is played. Returns the
        step, None after the last one."""
        if self._next >= len(self._steps):
            return None
        self._next += 1
        return self._next - 1

    def _spoil(
        self, step: dict[str, Any], fault: dict[str, Any], index: int
    ) -> Iterator[tuple[str, str] | Reply]:
        if fault.get("kind") or fault.get("status") or fault.get("body") is not None:
            self._interrupt.wait(fault.get("delay"))
            raise refusal(fault)
        reply = step["reply"] or {**self._ended, "text": _UNFINISHED, "thinking": []}
        yield from self._say(reply, index, fault)

    def _say(
        self, reply: dict[str, Any], index: int | None, manner: dict[str, Any] | None
    ) -> Iterator[tuple[str, str] | Reply]:
        manner = manner or {}
        self._interrupt.wait(manner.get("delay"))
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
    """The failure that an error answer of the script stands for."""
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
