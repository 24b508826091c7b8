"""OpenAI Chat Completions: `POST …/chat/completions`."""

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
)
from bridle.testing.wire.openai_errors import openai_refusal

_FINISH: dict[StopReason, str] = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "refusal": "content_filter",
}

_OVERFLOW = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in "
    "131072 tokens. Please reduce the length of the messages."
)


class ChatCompletions:
    """Speaks Chat Completions, streaming and plain."""

    name = "openai-chat"
    content_type = "text/event-stream; charset=utf-8"

    def read(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Question:
        """Read what a Chat Completions request asks."""
        system: list[str] = []
        users: list[str] = []
        replies: list[PastReply] = []
        results: list[ToolResult] = []
        for message in dicts(body.get("messages")):
            role, content = message.get("role"), message.get("content")
            if role in ("system", "developer"):
                system += texts_of(content)
            elif role == "user":
                users += texts_of(content)
            elif role == "assistant":
                ids = tuple(str(call.get("id", "")) for call in dicts(message.get("tool_calls")))
                replies.append(PastReply(text=text_of(content), call_ids=ids))
            elif role == "tool":
                call_id = str(message.get("tool_call_id", ""))
                results.append(ToolResult(call_id=call_id, text=text_of(content)))
        return Question(
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            system="\n".join(system),
            user_texts=tuple(users),
            replies=tuple(replies),
            tools=tuple(_tool(tool) for tool in dicts(body.get("tools"))),
            tool_results=tuple(results),
            session=_session(headers, body),
            json_schema=_schema(body),
        )

    def plain(self, reply: Reply) -> dict[str, Any]:
        """Return a whole completion."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [_call(call) for call in reply.calls]
        choice = {"index": 0, "message": message, "finish_reason": _FINISH[reply.stop_reason]}
        return {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": 0,
            "model": reply.model,
            "choices": [choice | {"logprobs": None}],
            "usage": _usage(reply.usage),
        }

    def frames(self, reply: Reply) -> list[Frame]:
        """Return the chunks from the role to `[DONE]`."""
        head = {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": reply.model,
        }
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": chunk} for chunk in reply.thinking_chunks]
        deltas += [{"content": chunk} for chunk in reply.text_chunks]
        for index, call in enumerate(reply.calls):
            deltas.append({"tool_calls": [{"index": index, **_call(call)}]})
        frames = [
            _chunk(head, delta, None, is_delta=position > 0)
            for position, delta in enumerate(deltas)
        ]
        frames.append(_chunk(head, {}, _FINISH[reply.stop_reason]))
        frames.append(sse(head | {"choices": [], "usage": _usage(reply.usage)}))
        frames.append(sse("[DONE]"))
        return frames

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as Chat Completions sends it."""
        return openai_refusal(problem, overflow_message=_OVERFLOW)

    def stream_refusal(self, problem: Problem, refusal: Refusal) -> list[Frame]:
        """Return a stream that begins well and then carries the error object."""
        head = {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": problem.model,
        }
        return [_chunk(head, {"role": "assistant", "content": ""}, None), sse(refusal.body)]


def _tool(tool: dict[str, Any]) -> OfferedTool:
    kind = "custom" if tool.get("type") == "custom" else "function"
    inner = tool.get(kind)
    inner = inner if isinstance(inner, dict) else {}
    return OfferedTool(
        name=str(inner.get("name", "")),
        kind=kind,
        schema=inner.get("parameters") or {},
        description=str(inner.get("description", "")),
    )


def _session(headers: dict[str, str], body: dict[str, Any]) -> str | None:
    for name in ("session_id", "session-id", "x-session-affinity", "x-session-id"):
        if headers.get(name):
            return headers[name]
    key = body.get("prompt_cache_key")
    return key if isinstance(key, str) else None


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    shape = body.get("response_format")
    inner = shape.get("json_schema") if isinstance(shape, dict) else None
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def _call(call: NativeCall) -> dict[str, Any]:
    if call.kind == "custom":
        custom = {"name": call.name, "input": call.text}
        return {"id": call.id, "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": call.args_json}
    return {"id": call.id, "type": "function", "function": function}


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    details: dict[str, Any] = {"cached_tokens": usage.cache_read_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _chunk(
    head: dict[str, Any], delta: dict[str, Any], finish: str | None, *, is_delta: bool = False
) -> Frame:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return sse(head | {"choices": [choice]}, delta=is_delta)
