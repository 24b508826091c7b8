"""The web application of the scripted model: routes requests to protocols and records them."""

import asyncio
import gzip
import json
import re
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridle.testing.conversations import Conversations, Decision
from bridle.testing.request_log import (
    DEFAULT_KEY,
    RecordedRequest,
    RequestLog,
    key_marker,
    redact_headers,
)
from bridle.testing.response import ScriptedResponse
from bridle.testing.script import Fault
from bridle.testing.wire.anthropic import AnthropicMessages
from bridle.testing.wire.base import Frame, Problem, Question, Wire, new_id
from bridle.testing.wire.chat import ChatCompletions
from bridle.testing.wire.gemini import Gemini
from bridle.testing.wire.responses import OpenAIResponses

LOOPBACK_NAMES = frozenset(("127.0.0.1", "localhost", "::1"))

_NAMED_PATH = re.compile(r"^/c/([^/]+)(/.*)?$")
_NAMED_KEY = re.compile(rf"^(?:{DEFAULT_KEY}|scripted)-(.+)$")
_ID_PREFIX = {"anthropic-messages": "toolu"}
_KIND_BY_STATUS = {
    400: "bad_request",
    401: "authentication",
    403: "permission",
    404: "not_found",
    413: "too_large",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}


class ModelApp:
    """Answers requests from the script; every request goes into the log."""

    def __init__(
        self, director: Conversations, log: RequestLog, *, token: str | None, models: list[str]
    ) -> None:
        self._director = director
        self._log = log
        self._token = token
        self._models = models
        self.stopping = asyncio.Event()
        route = Route("/{rest:path}", self.handle, methods=["GET", "POST", "HEAD"])
        self.asgi = Starlette(routes=[route])

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        raw = await request.body()
        seen = _Seen(request, _json_body(raw, request.headers.get("content-encoding")))
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        if host not in LOOPBACK_NAMES:
            return self._note(seen, "refused", 421, _json({"error": "wrong host"}, 421))
        wire = _wire_for(request.method, seen.path, request.url.query)
        if not self._key_fits(seen.key):
            return self._refuse_key(seen, wire)
        if wire is not None:
            if not isinstance(seen.body, dict):
                return self._send_problem(
                    seen, wire, Problem(kind="bad_request", message="The body is not JSON.")
                )
            return self._converse(seen, wire, seen.body)
        return self._beside(seen)

    # Conversations

    def _converse(self, seen: "_Seen", wire: Wire, body: dict[str, Any]) -> Response:
        question = wire.read(seen.path, seen.headers, body)
        decision = self._director.decide(
            question,
            named=seen.named or self._named_by_key(seen.key),
            headers=seen.headers,
            id_prefix=_ID_PREFIX.get(wire.name, "call"),
        )
        if decision.error is not None:
            problem = Problem(kind="bad_request", message=decision.error, model=question.model)
            return self._send_problem(seen, wire, problem, question=question, decision=decision)
        fault = decision.fault
        if fault is not None and decision.reply is None:
            problem = _problem(fault, question.model)
            return self._send_problem(
                seen, wire, problem, question=question, decision=decision, fault=fault
            )
        return self._send_reply(seen, wire, question, decision)

    def _send_reply(
        self, seen: "_Seen", wire: Wire, question: Question, decision: Decision
    ) -> Response:
        reply = decision.reply
        if reply is None:
            raise AssertionError("a decision without an error or a fault has a reply")
        if question.stream:
            frames, kind = wire.frames(reply), wire.content_type
        else:
            frames, kind = [Frame(data=_dump(wire.plain(reply)))], "application/json"
        answer = ScriptedResponse(
            frames,
            content_type=kind,
            headers=dict.fromkeys(("request-id", "x-request-id"), new_id("req_")),
            whole=not question.stream,
            fault=decision.fault,
            stopping=self.stopping,
        )
        self._record(seen, 200, decision=decision, wire=wire, question=question)
        return answer

    def _send_problem(
        self,
        seen: "_Seen",
        wire: Wire,
        problem: Problem,
        *,
        question: Question | None = None,
        decision: Decision | None = None,
        fault: Fault | None = None,
    ) -> Response:
        refusal = wire.refuse(problem)
        if question is not None and _goes_in_stream(wire, question, problem, fault):
            frames, status, kind = wire.stream_refusal(problem, refusal), 200, wire.content_type
            streamed = True
        else:
            text = isinstance(refusal.body, str)
            data = refusal.body.encode() if text else _dump(refusal.body)
            frames, status, streamed = [Frame(data=data)], refusal.status, False
            kind = "text/plain; charset=utf-8" if text else "application/json"
        late = Fault(delay=fault.delay, until=fault.until) if fault is not None else None
        outcome = decision.outcome if decision is not None else "refused"
        self._record(seen, status, decision=decision, wire=wire, question=question, outcome=outcome)
        return ScriptedResponse(
            frames,
            status=status,
            headers=refusal.headers,
            content_type=kind,
            whole=not streamed,
            fault=late,
            stopping=self.stopping,
        )

    # The rest

    def _beside(self, seen: "_Seen") -> Response:
        """Answer what is not a conversation: reachability, model lists, token counts."""
        if seen.method == "HEAD" or (seen.method == "GET" and seen.path in ("", "/")):
            return self._note(seen, "ping", 200, Response())
        if seen.method == "GET" and re.search(r"/models/?$", seen.path):
            return self._note(seen, "models", 200, _json(self._model_list(seen)))
        found = re.search(r"/models/([^/:]+)$", seen.path)
        if seen.method == "GET" and found:
            return self._note(seen, "models", 200, _json(_model(found.group(1))))
        if seen.path.endswith("/messages/count_tokens"):
            return self._note(seen, "count_tokens", 200, _json({"input_tokens": seen.size // 4}))
        if seen.path.endswith(":countTokens"):
            return self._note(seen, "count_tokens", 200, _json({"totalTokens": seen.size // 4}))
        error = {"error": {"message": f"No such path: {seen.path}", "type": "not_found_error"}}
        self._record(seen, 404, outcome="refused")
        return _json(error, 404)

    def _model_list(self, seen: "_Seen") -> dict[str, Any]:
        if "codex" in seen.headers.get("user-agent", ""):
            # Codex reads its own catalogue format here and accepts an empty one.
            return {"models": []}
        if "/v1beta/" in seen.path:
            return {"models": [{**_model(name), "name": f"models/{name}"} for name in self._models]}
        return {
            "object": "list",
            "data": [_model(name) for name in self._models],
            "has_more": False,
            "first_id": self._models[0],
            "last_id": self._models[-1],
        }

    # Keys

    def _key_fits(self, key: str | None) -> bool:
        if self._token is None:
            return True
        return key is not None and (key == self._token or key.startswith(f"{self._token}-"))

    def _named_by_key(self, key: str | None) -> str | None:
        if key is None:
            return None
        if self._token is not None:
            return key[len(self._token) + 1 :] or None
        found = _NAMED_KEY.match(key)
        return found.group(1) if found else None

    def _refuse_key(self, seen: "_Seen", wire: Wire | None) -> Response:
        if wire is not None:
            return self._send_problem(seen, wire, Problem(kind="authentication"))
        if seen.method == "HEAD":
            return self._note(seen, "ping", 200, Response())
        self._record(seen, 401, outcome="refused")
        return _json({"error": {"message": "The key is missing or wrong."}}, 401)

    # The log

    def _note(self, seen: "_Seen", side: str, status: int, response: Response) -> Response:
        outcome = "refused" if status >= 400 else "side"
        self._record(seen, status, outcome=outcome, side=side)
        return response

    def _record(
        self,
        seen: "_Seen",
        status: int,
        *,
        decision: Decision | None = None,
        wire: Wire | None = None,
        question: Question | None = None,
        outcome: str = "turn",
        side: str | None = None,
    ) -> None:
        known = decision if decision is not None else Decision(outcome=outcome, side=side)
        self._log.add(
            RecordedRequest(
                index=0,
                method=seen.method,
                path=seen.shown_path,
                headers=redact_headers(seen.headers),
                body=seen.body,
                protocol=wire.name if wire is not None else None,
                question=question,
                outcome=known.outcome,
                conversation=known.conversation,
                identity=known.identity,
                turn=known.turn,
                side=known.side,
                status=status,
                error=known.error,
            )
        )


class _Seen:
    """A request, as far as it could be parsed."""

    def __init__(self, request: Request, body: Any) -> None:
        self.method = request.method
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.body = body
        self.size = int(self.headers.get("content-length") or 0)
        found = _NAMED_PATH.match(request.url.path)
        self.named = found.group(1) if found else None
        self.path = (found.group(2) or "/") if found else request.url.path
        self.key = _key(self.headers, request.query_params.get("key"))
        query = re.sub(
            r"(?<![^&])key=([^&]*)", lambda m: f"key={key_marker(m.group(1))}", request.url.query
        )
        self.shown_path = request.url.path + (f"?{query}" if query else "")


def _key(headers: dict[str, str], in_query: str | None) -> str | None:
    authorization = headers.get("authorization", "")
    if authorization.lower().startswith("bearer "):
        return authorization[7:].strip()
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or in_query


def _wire_for(method: str, path: str, query: str) -> Wire | None:
    if method != "POST":
        return None
    if path.endswith("/messages"):
        return AnthropicMessages()
    if path.endswith("/responses"):
        return OpenAIResponses()
    if path.endswith("/chat/completions"):
        return ChatCompletions()
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return Gemini(array="alt=sse" not in query)
    return None


def _goes_in_stream(wire: Wire, question: Question, problem: Problem, fault: Fault | None) -> bool:
    if not question.stream or fault is None or fault.in_stream is False:
        return False
    # The Responses service reports an overflow inside a stream that began with status 200.
    usual = wire.name == "openai-responses" and problem.kind == "context_overflow"
    return bool(fault.in_stream) or (usual and fault.status is None and fault.body is None)


def _problem(fault: Fault, model: str) -> Problem:
    now = time.time()
    kind = fault.kind or _KIND_BY_STATUS.get(fault.status or 0)
    if kind is None:
        kind = "server_error" if (fault.status or 500) >= 500 else "bad_request"
    resets_at = fault.resets_at
    if fault.resets_in is not None:
        resets_at = int(now) + fault.resets_in
    return Problem(
        kind=kind,
        status=fault.status,
        message=fault.message,
        error_type=fault.error_type,
        body=fault.body,
        headers=fault.headers,
        retry_after=fault.retry_after,
        resets_at=resets_at,
        now=now,
        model=model,
    )


def _json_body(raw: bytes, encoding: str | None) -> Any:
    if encoding == "gzip":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError):
            return None
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _dump(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")


def _json(data: Any, status: int = 200) -> Response:
    return Response(_dump(data), status_code=status, media_type="application/json")


def _model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "scripted",
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
    }
