"""What the parts of the agent pass to each other."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    class Source(Protocol):
        """Where replies come from: a script, or a model server."""

        def ask(self, history: list[dict[str, Any]]) -> Iterator[tuple[str, str] | Reply]:
            """Say the next reply: pieces (`text` or `thinking`, words), then the whole reply.

            Raises `Failure` at any point.
            """

        def give_up(self) -> int | None:
            """The reply that was being said is not wanted any more. Returns the script's step that
            is thereby played, None where there is none."""

    class Face(Protocol):
        """Who is told what happens, and who is asked for permission."""

        def emit(self, message: dict[str, Any]) -> None:
            """Tell one thing that happened."""

        def answer(self, request: dict[str, Any]) -> tuple[bool, str]:
            """Ask whether a tool may run; returns the answer and its reason."""

    class Inbox(Protocol):
        """Messages that came while a turn is played."""

        def take(self) -> list[dict[str, Any]]:
            """Those that the turn can still deliver, each with `id`, `text` and `images`."""


class Failure(Exception):
    """A reply did not come, or the run must end. `fields` is what the wire tells of it."""

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
    """One whole reply: what was said and which tools are called."""

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
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
