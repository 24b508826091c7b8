"""The log of all requests to the scripted model, for assertions. Keys are never stored."""

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridle.testing.wire.base import Question, ToolResult

DEFAULT_KEY = "bridle-scripted-key"
"""The key of a server that has no token. Not an ordinary word: agents' keys are redacted."""

_SECRET_HEADERS = frozenset(
    (
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "x-goog-api-key",
        "api-key",
        "cookie",
    )
)


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request and how it was answered."""

    index: int
    method: str
    path: str
    """Path and query as received, without the value of any key."""
    headers: dict[str, str]
    """Lower-case names; a key is replaced by a marker with four digits of its hash."""
    body: Any
    """The JSON body, or None."""
    protocol: str | None = None
    """`anthropic-messages`, `openai-responses`, `openai-chat`, `gemini`, or None."""
    question: Question | None = None
    outcome: str = "side"
    """`turn`, `fault`, `side`, `overrun`, `untranslatable`, `unmatched` or `refused`."""
    conversation: str | None = None
    """The conversation of the script that answered."""
    identity: str | None = None
    """Which of this conversation's agents sent it."""
    turn: int | None = None
    """Index of the turn in the script that answered, from 0."""
    side: str | None = None
    """What a side request was for."""
    status: int = 200
    error: str | None = None


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with lower-case names and no secret values."""
    return {
        name.lower(): key_marker(value) if name.lower() in _SECRET_HEADERS else value
        for name, value in headers.items()
    }


def key_marker(value: str) -> str:
    """The marker that replaces a key: four digits of its hash distinguish keys."""
    bare = value.partition(" ")[2] if value.lower().startswith("bearer ") else value
    return f"<key:{hashlib.sha256(bare.encode()).hexdigest()[-4:]}>"


class RequestLog:
    """Collects requests from the server's thread and lets others wait for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[RecordedRequest] = []

    def add(self, request: RecordedRequest) -> None:
        """Store a request under the next index."""
        with self._changed:
            numbered = msgspec.structs.replace(request, index=len(self._requests))
            self._requests.append(numbered)
            self._changed.notify_all()

    def all(self) -> list[RecordedRequest]:
        """Return the requests so far, in the order of their answers."""
        with self._changed:
            return list(self._requests)

    def wait_for(
        self, predicate: Callable[[RecordedRequest], bool], timeout: float
    ) -> RecordedRequest:
        """Return the first matching request, past or future; `TimeoutError` if none comes."""
        deadline = time.monotonic() + timeout
        seen = 0
        with self._changed:
            while True:
                for request in self._requests[seen:]:
                    if predicate(request):
                        return request
                seen = len(self._requests)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(
                        f"no request matched within {timeout:g} s; {seen} requests came"
                    )
                self._changed.wait(left)


def prompts_of(requests: list[RecordedRequest]) -> list[str]:
    """Return each prompt once for each agent, in the order of arrival."""
    seen: dict[str | None, tuple[str, ...]] = {}
    found: list[str] = []
    for request in requests:
        if request.question is None or request.outcome == "side":
            continue
        before = seen.get(request.identity, ())
        now = request.question.prompts
        if now[: len(before)] == before:
            found += now[len(before) :]
        else:
            found += [prompt for prompt in now if prompt not in before]
        seen[request.identity] = now
    return found


def tool_results_of(requests: list[RecordedRequest]) -> list[ToolResult]:
    """Return each tool result once, in the order of arrival."""
    seen: set[tuple[str | None, str]] = set()
    found: list[ToolResult] = []
    for request in requests:
        if request.question is None or request.outcome == "side":
            continue
        for result in request.question.tool_results:
            key = (request.identity, result.call_id)
            if key not in seen:
                seen.add(key)
                found.append(result)
    return found
