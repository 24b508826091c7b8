"""OpenAI Responses: `POST …/responses`, its output items, and the events that stream them."""

import json
from typing import Any

import msgspec

from bridle.testing.script import Usage
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

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_OWN = ("reasoning", "web_search_call", *_CALLS)


class OpenAIResponses:
    """Speaks the Responses API, streaming and plain."""

    name = "openai-responses"
    content_type = "text/event-stream; charset=utf-8"

    def read(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Question:
        """Read what a Responses request asks."""
        given = body.get("input")
        items = dicts(given)
        system = [str(body["instructions"])] if body.get("instructions") else []
        users = [given] if isinstance(given, str) else []
        for item in items:
            if item.get("role") in ("developer", "system"):
                system += texts_of(item.get("content"))
            elif item.get("role") == "user":
                users += texts_of(item.get("content"))
        return Question(
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            system="\n".join(system),
            user_texts=tuple(users),
            replies=_replies(items),
            tools=tuple(_offered(items, body)),
            tool_results=tuple(_result(item) for item in items if item.get("type") in _OUTPUTS),
            session=_session(headers, body),
            purpose=_purpose(headers),
            json_schema=_schema(body),
        )

    def plain(self, reply: Reply) -> dict[str, Any]:
        """Return a whole response object."""
        response = _response(reply)
        response["output"] = [item_of(draft) for draft in items_of(reply)]
        return _finished(response, reply)

    def frames(self, reply: Reply) -> list[Frame]:
        """Return the events from response.created to response.completed."""
        stream = ResponseStream()
        response = _response(reply)
        stream.add("response.created", response=dict(response))
        stream.add("response.in_progress", response=dict(response))
        drafts = items_of(reply)
        for index, draft in enumerate(drafts):
            stream.add_item(index, draft)
        response["output"] = [item_of(draft) for draft in drafts]
        final = _finished(response, reply)
        stream.add(f"response.{final['status']}", response=final)
        return stream.frames

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as the Responses API sends it."""
        return openai_refusal(problem)

    def stream_refusal(self, problem: Problem, refusal: Refusal) -> list[Frame]:
        """Return a stream that ends in `response.failed`."""
        stream = ResponseStream()
        response = _response(Reply(model=problem.model))
        stream.add("response.created", response=dict(response))
        body = refusal.body if isinstance(refusal.body, dict) else {}
        error = body.get("error") or {}
        details = {"code": error.get("code") or error.get("type"), "message": error.get("message")}
        response |= {"status": "failed", "error": details}
        stream.add("response.failed", response=response)
        return stream.frames


def _replies(items: list[dict[str, Any]]) -> tuple[PastReply, ...]:
    """Group the model's own items: what comes between two inputs is one reply."""
    replies: list[PastReply] = []
    open_reply = False
    for item in items:
        if not (item.get("role") == "assistant" or item.get("type") in _OWN):
            open_reply = False
            continue
        last = replies.pop() if open_reply else PastReply()
        call = item.get("call_id") if item.get("type") in _CALLS else None
        said = text_of(item.get("content")) if item.get("role") == "assistant" else ""
        ids = last.call_ids if call is None else (*last.call_ids, str(call))
        replies.append(PastReply(text=last.text + said, call_ids=ids))
        open_reply = True
    return tuple(replies)


def _result(item: dict[str, Any]) -> ToolResult:
    output = item.get("output")
    return ToolResult(
        call_id=str(item.get("call_id", "")),
        text=output if isinstance(output, str) else text_of(output),
    )


def _offered(items: list[dict[str, Any]], body: dict[str, Any]) -> list[OfferedTool]:
    """Collect tools from the request and from `additional_tools` items among the input."""
    lists = [dicts(body.get("tools"))]
    lists += [dicts(item.get("tools")) for item in items if item.get("type") == "additional_tools"]
    return [tool for tools in lists for tool in _flatten(tools, None)]


def _flatten(tools: list[dict[str, Any]], namespace: str | None) -> list[OfferedTool]:
    found: list[OfferedTool] = []
    for tool in tools:
        if tool.get("type") == "namespace":
            found += _flatten(dicts(tool.get("tools")), str(tool.get("name", "")))
        elif tool.get("type") in ("function", "custom"):
            found.append(
                OfferedTool(
                    name=str(tool.get("name", "")),
                    kind=str(tool["type"]),
                    schema=tool.get("parameters") or {},
                    description=str(tool.get("description", "")),
                    namespace=namespace,
                )
            )
        elif tool.get("type") == "local_shell":
            found.append(OfferedTool(name="local_shell", kind="local_shell"))
    return found


def _session(headers: dict[str, str], body: dict[str, Any]) -> str | None:
    for name in ("thread-id", "session-id", "session_id", "conversation_id"):
        if headers.get(name):
            return headers[name]
    key = body.get("prompt_cache_key")
    return key if isinstance(key, str) else None


def _purpose(headers: dict[str, str]) -> str | None:
    """Codex says in a header whether a request is a turn, a compaction or something else."""
    try:
        kind = json.loads(headers.get("x-codex-turn-metadata", "")).get("request_kind")
    except (ValueError, AttributeError):
        return None
    return kind if isinstance(kind, str) else None


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    text = body.get("text")
    shape = text.get("format") if isinstance(text, dict) else None
    schema = shape.get("schema") if isinstance(shape, dict) else None
    return schema if isinstance(schema, dict) else None


def _response(reply: Reply) -> dict[str, Any]:
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "model": reply.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
    }


def _finished(response: dict[str, Any], reply: Reply) -> dict[str, Any]:
    reasons = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
    reason = reasons.get(reply.stop_reason)
    return response | {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": usage_of(reply.usage),
    }


# -- output items and their events ----------------------------------------------------------------


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An output item before it is written: its id, and one of thinking, text or call."""

    id: str
    thinking: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    call: NativeCall | None = None


def items_of(reply: Reply) -> list[Draft]:
    """Return the output items of a reply, in the order the model makes them."""
    drafts: list[Draft] = []
    if reply.thinking:
        drafts.append(Draft(id=new_id("rs_"), thinking=reply.thinking_chunks))
    if reply.text or not reply.calls:
        drafts.append(Draft(id=new_id("msg_"), text=reply.text_chunks))
    for call in reply.calls:
        prefix = "ctc_" if call.kind == "custom" else "fc_"
        drafts.append(Draft(id=new_id(prefix), call=call))
    return drafts


def item_of(draft: Draft, *, done: bool = True) -> dict[str, Any]:
    """Return an output item, finished or as it is when it begins."""
    status = "completed" if done else "in_progress"
    if draft.call is not None:
        return _call_item(draft, draft.call, status, done=done)
    if draft.thinking:
        summary = [{"type": "summary_text", "text": "".join(draft.thinking)}] if done else []
        return {
            "id": draft.id,
            "type": "reasoning",
            "summary": summary,
            "content": None,
            "encrypted_content": "c2NyaXB0ZWQ=" if done else None,
        }
    part = {"type": "output_text", "text": "".join(draft.text), "annotations": []}
    return {
        "id": draft.id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [part] if done else [],
    }


def _call_item(draft: Draft, call: NativeCall, status: str, *, done: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"id": draft.id, "status": status, "call_id": call.id}
    if call.kind == "local_shell":
        return item | {"type": "local_shell_call", "action": call.args}
    item |= {"name": call.name}
    if call.namespace:
        item["namespace"] = call.namespace
    if call.kind == "custom":
        return item | {"type": "custom_tool_call", "input": call.text if done else ""}
    return item | {"type": "function_call", "arguments": call.args_json if done else ""}


def usage_of(usage: Usage) -> dict[str, Any]:
    """Return usage as OpenAI means it: input includes what came from or went to the cache."""
    total_input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": total_input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": total_input + usage.output_tokens,
    }


class ResponseStream:
    """Collects events, numbering them as the service does."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def add(self, event: str, *, is_delta: bool = False, **fields: Any) -> None:
        """Add one event."""
        data = {"type": event, "sequence_number": len(self.frames), **fields}
        self.frames.append(sse(data, event, delta=is_delta))

    def add_item(self, index: int, draft: Draft) -> None:
        """Add all events of one output item."""
        self.add("response.output_item.added", output_index=index, item=item_of(draft, done=False))
        if draft.call is not None:
            self._add_call(index, draft, draft.call)
        elif draft.thinking:
            self._add_thinking(index, draft)
        else:
            self._add_text(index, draft)
        self.add("response.output_item.done", output_index=index, item=item_of(draft))

    def _add_call(self, index: int, draft: Draft, call: NativeCall) -> None:
        place: dict[str, Any] = {"item_id": draft.id, "output_index": index}
        if call.kind == "custom":
            self.add(
                "response.custom_tool_call_input.delta", is_delta=True, delta=call.text, **place
            )
            self.add("response.custom_tool_call_input.done", input=call.text, **place)
        elif call.kind == "function":
            arguments = call.args_json
            name = "response.function_call_arguments"
            self.add(f"{name}.delta", is_delta=True, delta=arguments, **place)
            self.add(f"{name}.done", arguments=arguments, **place)

    def _add_thinking(self, index: int, draft: Draft) -> None:
        place: dict[str, Any] = {"item_id": draft.id, "output_index": index, "summary_index": 0}
        whole = "".join(draft.thinking)
        empty = {"type": "summary_text", "text": ""}
        self.add("response.reasoning_summary_part.added", part=empty, **place)
        for chunk in draft.thinking:
            self.add("response.reasoning_summary_text.delta", is_delta=True, delta=chunk, **place)
        self.add("response.reasoning_summary_text.done", text=whole, **place)
        self.add("response.reasoning_summary_part.done", part=empty | {"text": whole}, **place)

    def _add_text(self, index: int, draft: Draft) -> None:
        place: dict[str, Any] = {"item_id": draft.id, "output_index": index, "content_index": 0}
        whole = "".join(draft.text)
        empty = {"type": "output_text", "text": "", "annotations": []}
        self.add("response.content_part.added", part=empty, **place)
        for chunk in draft.text:
            self.add("response.output_text.delta", is_delta=True, delta=chunk, **place)
        self.add("response.output_text.done", text=whole, **place)
        self.add("response.content_part.done", part=empty | {"text": whole}, **place)
