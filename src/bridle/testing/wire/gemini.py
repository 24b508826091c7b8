"""Gemini: `…/models/NAME:generateContent` and `:streamGenerateContent`."""

import json
import re
from typing import Any

from bridle.testing.script import StopReason, Usage
from bridle.testing.wire.base import (
    Frame,
    NativeCall,
    OfferedTool,
    PastReply,
    Problem,
    Question,
    Refusal,
    Reply,
    ToolResult,
    dicts,
    new_id,
    sse,
    texts_of,
    whole_seconds,
)

_FINISH: dict[StopReason, str] = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "stop_sequence": "STOP",
    "refusal": "SAFETY",
}

_SHAPES: dict[str, tuple[int, str, str]] = {
    "authentication": (
        400,
        "INVALID_ARGUMENT",
        "API key not valid. Please pass a valid API key.",
    ),
    "permission": (403, "PERMISSION_DENIED", "The caller does not have permission"),
    "rate_limit": (
        429,
        "RESOURCE_EXHAUSTED",
        "Resource has been exhausted (e.g. check quota).",
    ),
    "usage_limit": (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "quota": (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "server_error": (500, "INTERNAL", "An internal error has occurred."),
    "overloaded": (
        503,
        "UNAVAILABLE",
        "The model is overloaded. Please try again later.",
    ),
    "context_overflow": (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "not_found": (
        404,
        "NOT_FOUND",
        "models/{model} is not found for API version v1beta, or is not supported for "
        "generateContent.",
    ),
    "bad_request": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "too_large": (413, "INVALID_ARGUMENT", "Request payload size exceeds the limit."),
}

_BY_STATUS = {401: "UNAUTHENTICATED"}
_TYPES = "type.googleapis.com/google.rpc"
_MODEL = re.compile(r"/models/([^/:]+):(\w+)")


class Gemini:
    """Speaks generateContent; a stream is SSE, or one JSON array without `alt=sse`."""

    name = "gemini"

    def __init__(self, *, array: bool = False) -> None:
        self.array = array
        self.content_type = "application/json" if array else "text/event-stream"

    def read(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Question:
        """Read what a generateContent request asks."""
        users: list[str] = []
        replies: list[PastReply] = []
        results: list[ToolResult] = []
        for content in dicts(body.get("contents")):
            parts = dicts(content.get("parts"))
            if content.get("role") == "model":
                replies.append(_past_reply(parts))
                continue
            users += texts_of(parts)
            results += [_result(part) for part in parts if "functionResponse" in part]
        found = _MODEL.search(path)
        system = body.get("systemInstruction")
        return Question(
            model=found.group(1) if found else "",
            stream=bool(found) and found is not None and found.group(2).startswith("stream"),
            system="\n".join(texts_of(system.get("parts")) if isinstance(system, dict) else []),
            user_texts=tuple(users),
            replies=tuple(replies),
            tools=tuple(_tools(body)),
            tool_results=tuple(results),
            session=headers.get("x-gemini-session-id"),
            json_schema=_schema(body),
        )

    def plain(self, reply: Reply) -> dict[str, Any]:
        """Return a whole response."""
        parts: list[dict[str, Any]] = []
        if reply.thinking:
            parts.append({"text": reply.thinking, "thought": True})
        if reply.text:
            parts.append({"text": reply.text})
        parts += [_call(call) for call in reply.calls]
        return _response(reply, new_id(""), parts, last=True)

    def frames(self, reply: Reply) -> list[Frame]:
        """Return one response for each delta; the last has the finish reason and usage."""
        parts = [{"text": each, "thought": True} for each in reply.thinking_chunks]
        parts += [{"text": each} for each in reply.text_chunks]
        parts += [_call(call) for call in reply.calls]
        response_id = new_id("")
        pieces = [_response(reply, response_id, [part], last=False) for part in parts]
        pieces.append(_response(reply, response_id, [{"text": ""}], last=True))
        return self._framed(pieces)

    def _framed(self, pieces: list[dict[str, Any]]) -> list[Frame]:
        last = len(pieces) - 1
        if not self.array:
            return [sse(piece, delta=index < last) for index, piece in enumerate(pieces)]
        return [
            Frame(
                data=(
                    ("[" if index == 0 else ",\r\n")
                    + json.dumps(piece, ensure_ascii=False)
                    + ("]" if index == last else "")
                ).encode(),
                delta=index < last,
            )
            for index, piece in enumerate(pieces)
        ]

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as the Gemini API sends it."""
        shape_status, word, message = _SHAPES[problem.kind]
        status = problem.status or shape_status
        error: dict[str, Any] = {
            "code": status,
            "message": problem.message or message.format(model=problem.model),
            "status": problem.error_type or _BY_STATUS.get(status, word),
        }
        details = _details(problem)
        if details:
            error["details"] = details
        headers = {}
        if problem.retry_after is not None:
            headers["retry-after"] = whole_seconds(problem.retry_after)
        return Refusal(
            status=status,
            headers={**headers, **problem.headers},
            body={"error": error} if problem.body is None else problem.body,
        )

    def stream_refusal(self, problem: Problem, refusal: Refusal) -> list[Frame]:
        """Return a stream that carries the error object after an empty beginning."""
        begin = _response(Reply(model=problem.model), new_id(""), [{"text": ""}], last=False)
        body = refusal.body if isinstance(refusal.body, dict) else {"error": {}}
        return self._framed([begin, body])


def _past_reply(parts: list[dict[str, Any]]) -> PastReply:
    said = [str(part["text"]) for part in parts if "text" in part and not part.get("thought")]
    calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
    return PastReply(text="".join(said), call_ids=tuple(str(call.get("id", "")) for call in calls))


def _result(part: dict[str, Any]) -> ToolResult:
    response = part["functionResponse"]
    response = response if isinstance(response, dict) else {}
    given = response.get("response")
    given = given if isinstance(given, dict) else {}
    text = given.get("output", given.get("error"))
    return ToolResult(
        call_id=str(response.get("id") or response.get("name", "")),
        text=text if isinstance(text, str) else json.dumps(given, ensure_ascii=False),
        is_error="error" in given,
    )


def _tools(body: dict[str, Any]) -> list[OfferedTool]:
    return [
        OfferedTool(
            name=str(each.get("name", "")),
            schema=each.get("parametersJsonSchema") or each.get("parameters") or {},
            description=str(each.get("description", "")),
        )
        for group in dicts(body.get("tools"))
        for each in dicts(group.get("functionDeclarations"))
    ]


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    config = body.get("generationConfig")
    if not isinstance(config, dict):
        return None
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return schema if isinstance(schema, dict) else None


def _call(call: NativeCall) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": call.args}}


def _response(
    reply: Reply, response_id: str, parts: list[dict[str, Any]], *, last: bool
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    response: dict[str, Any] = {"candidates": [candidate], "modelVersion": reply.model}
    response["responseId"] = response_id
    if last:
        candidate["finishReason"] = _FINISH[reply.stop_reason]
        response["usageMetadata"] = _usage(reply.usage)
    return response


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": prompt + usage.output_tokens,
    }


def _details(problem: Problem) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = []
    if problem.kind == "authentication":
        details.append({"@type": f"{_TYPES}.ErrorInfo", "reason": "API_KEY_INVALID"})
    if problem.kind in ("rate_limit", "usage_limit", "quota"):
        period = "PerMinute" if problem.kind == "rate_limit" else "PerDay"
        violation = {"quotaId": f"GenerateRequests{period}PerProjectPerModel"}
        details.append({"@type": f"{_TYPES}.QuotaFailure", "violations": [violation]})
    wait = problem.retry_after
    if wait is None and problem.resets_at is not None:
        wait = max(0, problem.resets_at - int(problem.now))
    if wait is not None:
        details.append({"@type": f"{_TYPES}.RetryInfo", "retryDelay": f"{whole_seconds(wait)}s"})
    return details
