"""OpenAI Responses: reading `POST …/responses` and answering it."""

import json
from typing import Any

from bridle.testing.wire.base import (
    Frame,
    OfferedTool,
    PastReply,
    Problem,
    Question,
    Refusal,
    Reply,
    ToolResult,
    dicts,
    new_id,
    text_of,
    texts_of,
)
from bridle.testing.wire.openai_errors import openai_refusal
from bridle.testing.wire.responses_stream import ResponseStream, item_of, items_of, usage_of

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_OWN = ("reasoning", "web_search_call", *_CALLS)


class OpenAIResponses:
    """Speaks the Responses API, streaming and plain."""

    name = "openai-responses"
    content_type = "text/event-stream; charset=utf-8"

    def read(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Question:
        """Tell what a Responses request asks."""
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
        told = {"code": error.get("code") or error.get("type"), "message": error.get("message")}
        response |= {"status": "failed", "error": told}
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
