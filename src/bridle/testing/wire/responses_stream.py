"""The output items of OpenAI Responses and the events that stream them."""

from typing import Any

import msgspec

from bridle.testing.script import Usage
from bridle.testing.wire.base import Frame, NativeCall, Reply, new_id, sse


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
    told = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": told,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": told + usage.output_tokens,
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
