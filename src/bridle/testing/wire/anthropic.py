"""Anthropic Messages: `POST …/v1/messages`."""

import json
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
    text_of,
    texts_of,
    whole_seconds,
)

_STOP: dict[StopReason, str] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}

_SHAPES: dict[str, tuple[int, str, str]] = {
    "authentication": (401, "authentication_error", "invalid x-api-key"),
    "permission": (403, "permission_error", "Your API key does not have permission to do this."),
    "rate_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit. Please try again later.",
    ),
    "usage_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your account's rate limit. Please try again later.",
    ),
    "quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
        "Billing to upgrade or purchase credits.",
    ),
    "server_error": (500, "api_error", "Internal server error"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "context_overflow": (
        400,
        "invalid_request_error",
        "prompt is too long: 208310 tokens > 200000 maximum",
    ),
    "not_found": (404, "not_found_error", "model: {model}"),
    "bad_request": (400, "invalid_request_error", "The request is not valid."),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
}


class AnthropicMessages:
    """Speaks the Messages API, streaming and plain."""

    name = "anthropic-messages"
    content_type = "text/event-stream; charset=utf-8"

    def read(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Question:
        """Read what a Messages request asks."""
        users: list[str] = []
        replies: list[PastReply] = []
        results: list[ToolResult] = []
        follows_reply = False
        for message in dicts(body.get("messages")):
            content = message.get("content")
            if message.get("role") == "assistant":
                reply = _past_reply(content)
                if reply == _NEVER_SAID:
                    continue
                replies = _add_reply(replies, reply, joined=follows_reply)
                follows_reply = True
                continue
            follows_reply = False
            if message.get("role") == "user":
                users += texts_of(content)
                results += [_result(part) for part in dicts(content) if _is_result(part)]
        return Question(
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            system=text_of(body.get("system")),
            user_texts=tuple(users),
            replies=tuple(replies),
            tools=tuple(_tool(tool) for tool in dicts(body.get("tools"))),
            tool_results=tuple(results),
            session=_session(headers, body),
            json_schema=_schema(body),
            purpose="model_check" if _tries_a_model_out(body) else None,
        )

    def plain(self, reply: Reply) -> dict[str, Any]:
        """Return a whole message."""
        content: list[dict[str, Any]] = []
        if reply.thinking:
            content.append(
                {"type": "thinking", "thinking": reply.thinking, "signature": _SIGNATURE}
            )
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        content += [_tool_use(call, call.args) for call in reply.calls]
        return {**_envelope(reply, content), "usage": _usage(reply.usage)}

    def frames(self, reply: Reply) -> list[Frame]:
        """Return the events from message_start to message_stop."""
        start = _envelope(reply, [])
        start |= {"stop_reason": None, "usage": {**_usage(reply.usage), "output_tokens": 1}}
        frames = [_event("message_start", message=start)]
        for index, block in enumerate(_blocks(reply)):
            frames += block_frames(index, *block)
        frames.append(
            _event(
                "message_delta",
                delta={"stop_reason": _STOP[reply.stop_reason], "stop_sequence": None},
                usage=_usage(reply.usage),
            )
        )
        frames.append(_event("message_stop"))
        return frames

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as the Messages API sends it."""
        status, kind, message = _SHAPES[problem.kind]
        request_id = new_id("req_")
        body = {
            "type": "error",
            "error": {
                "type": problem.error_type or kind,
                "message": problem.message or message.format(model=problem.model),
            },
            "request_id": request_id,
        }
        return Refusal(
            status=problem.status or status,
            headers={"request-id": request_id, **_limit_headers(problem), **problem.headers},
            body=body if problem.body is None else problem.body,
        )

    def stream_refusal(self, problem: Problem, refusal: Refusal) -> list[Frame]:
        """Return a stream that begins well and ends in an `error` event."""
        start = _envelope(Reply(model=problem.model), [])
        start |= {"stop_reason": None, "usage": _usage(Usage(output_tokens=1))}
        body = refusal.body if isinstance(refusal.body, dict) else {"type": "error"}
        return [_event("message_start", message=start), sse(body, "error")]


# Claude Code puts this into the history itself when an interrupted conversation continues.
_NEVER_SAID = PastReply(text="No response requested.")

_SIGNATURE = "c2NyaXB0ZWQgbW9kZWw="


def _past_reply(content: object) -> PastReply:
    texts = [part.get("text") for part in dicts(content) if part.get("type") == "text"]
    ids = [part.get("id") for part in dicts(content) if part.get("type") == "tool_use"]
    return PastReply(
        text=content if isinstance(content, str) else "".join(str(text) for text in texts),
        call_ids=tuple(str(each) for each in ids),
    )


def _add_reply(replies: list[PastReply], reply: PastReply, *, joined: bool) -> list[PastReply]:
    """Add a reply; consecutive assistant messages are one reply that the agent split."""
    if not joined:
        return [*replies, reply]
    last = replies[-1]
    whole = PastReply(text=last.text + reply.text, call_ids=last.call_ids + reply.call_ids)
    return [*replies[:-1], whole]


def _is_result(part: dict[str, Any]) -> bool:
    return part.get("type") == "tool_result"


def _result(part: dict[str, Any]) -> ToolResult:
    return ToolResult(
        call_id=str(part.get("tool_use_id", "")),
        text=text_of(part.get("content")),
        is_error=bool(part.get("is_error")),
    )


def _tool(tool: dict[str, Any]) -> OfferedTool:
    return OfferedTool(
        name=str(tool.get("name", "")),
        schema=tool.get("input_schema") or {},
        description=str(tool.get("description", "")),
    )


def _session(headers: dict[str, str], body: dict[str, Any]) -> str | None:
    header = headers.get("x-claude-code-session-id")
    if header:
        return header
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str):
        return None
    try:
        session = json.loads(user).get("session_id")
    except (ValueError, AttributeError):
        _, found, session = user.partition("_session_")
        return session if found else None
    return session if isinstance(session, str) else None


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    config = body.get("output_config")
    shape = config.get("format") if isinstance(config, dict) else body.get("output_format")
    schema = shape.get("schema") if isinstance(shape, dict) else None
    return schema if isinstance(schema, dict) else None


def _envelope(reply: Reply, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": _STOP[reply.stop_reason],
        "stop_sequence": None,
    }


def _usage(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_tokens,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    }
    if usage.reasoning_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return counts


def _tool_use(call: NativeCall, args: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": args}


def _blocks(reply: Reply) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return each content block as its start and its deltas."""
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": each} for each in reply.thinking_chunks]
        deltas.append({"type": "signature_delta", "signature": _SIGNATURE})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if reply.text:
        deltas = [{"type": "text_delta", "text": each} for each in reply.text_chunks]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call in reply.calls:
        delta = {"type": "input_json_delta", "partial_json": call.args_json}
        blocks.append((_tool_use(call, {}), [delta]))
    return blocks


def block_frames(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> list[Frame]:
    """Return the events of one content block."""
    frames = [_event("content_block_start", index=index, content_block=start)]
    frames += [
        _event("content_block_delta", is_delta=True, index=index, delta=delta) for delta in deltas
    ]
    frames.append(_event("content_block_stop", index=index))
    return frames


def _event(event: str, *, is_delta: bool = False, **fields: Any) -> Frame:
    return sse({"type": event, **fields}, event, delta=is_delta)


def _limit_headers(problem: Problem) -> dict[str, str]:
    headers: dict[str, str] = {}
    if problem.retry_after is not None:
        headers["retry-after"] = whole_seconds(problem.retry_after)
    if problem.kind == "usage_limit":
        reset = problem.resets_at if problem.resets_at is not None else int(problem.now) + 3600
        headers["anthropic-ratelimit-unified-status"] = "rejected"
        headers["anthropic-ratelimit-unified-reset"] = str(reset)
        headers["anthropic-ratelimit-unified-representative-claim"] = "five_hour"
    elif problem.kind == "rate_limit":
        headers |= {
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
        }
        if problem.resets_at is not None:
            headers["anthropic-ratelimit-requests-reset"] = _iso(problem.resets_at)
    return headers


def _iso(seconds: int) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _tries_a_model_out(body: dict[str, Any]) -> bool:
    """Whether Claude Code is testing a model before it switches to it: one message, no tools, room
    for one token. Pi leaves room for one token too when a prompt fills its window."""
    one = len(list(dicts(body.get("messages")))) == 1
    return body.get("max_tokens") == 1 and one and not body.get("tools")
