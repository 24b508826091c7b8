"""A strict little client of all four protocols, for tests."""

import json
from typing import Any

import httpx2
import msgspec

SHELL_SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
    "required": ["command"],
}
PROTOCOLS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as a client of the protocol understands it."""

    text: str
    thinking: str
    calls: list[tuple[str, dict[str, Any]]]
    usage: dict[str, Any]
    stop: str | None
    deltas: int
    """How many pieces the text came in; 0 when not streamed."""
    model: str
    history: list[Any]
    """What the client adds to its messages before it goes on."""


class Client:
    """Holds one conversation over one protocol."""

    def __init__(
        self, url: str, protocol: str, *, stream: bool, key: str = "k", system: str = "Be good."
    ) -> None:
        self.url = url
        self.protocol = protocol
        self.stream = stream
        self.key = key
        self.system = system
        self.messages: list[Any] = []
        self.tools = [("bash", SHELL_SCHEMA)]
        self.array = False

    def say(self, text: str) -> None:
        if self.protocol == "gemini":
            self.messages.append({"role": "user", "parts": [{"text": text}]})
        else:
            self.messages.append({"role": "user", "content": text})

    def ask(self, text: str) -> Heard:
        """Say something and return the reply, keeping both."""
        self.say(text)
        return self.go_on()

    def go_on(self) -> Heard:
        response = self.post()
        response.raise_for_status()
        heard = self.read(response)
        self.messages += heard.history
        return heard

    def post(self) -> httpx2.Response:
        return httpx2.post(
            self.url + self.path, json=self.body(), headers=self.headers(), timeout=30
        )

    @property
    def path(self) -> str:
        verb = "streamGenerateContent" if self.stream else "generateContent"
        alt = "?alt=sse" if self.stream and not self.array else ""
        return {
            "anthropic-messages": "/v1/messages?beta=true",
            "openai-responses": "/v1/responses",
            "openai-chat": "/v1/chat/completions",
            "gemini": f"/v1beta/models/m:{verb}{alt}",
        }[self.protocol]

    def headers(self) -> dict[str, str]:
        if self.protocol == "anthropic-messages":
            return {"x-api-key": self.key}
        if self.protocol == "gemini":
            return {"x-goog-api-key": self.key}
        return {"authorization": f"Bearer {self.key}"}

    def body(self) -> dict[str, Any]:
        common: dict[str, Any] = {"model": "m", "stream": self.stream}
        if self.protocol == "anthropic-messages":
            tools = [{"name": name, "input_schema": schema} for name, schema in self.tools]
            return common | {"messages": self.messages, "system": self.system, "tools": tools}
        if self.protocol == "openai-responses":
            tools = [{"type": "function", "name": n, "parameters": s} for n, s in self.tools]
            return common | {"input": self.messages, "instructions": self.system, "tools": tools}
        if self.protocol == "openai-chat":
            functions = [{"name": name, "parameters": schema} for name, schema in self.tools]
            told = [{"type": "function", "function": each} for each in functions]
            system = {"role": "system", "content": self.system}
            return common | {"messages": [system, *self.messages], "tools": told}
        declared = [{"name": name, "parametersJsonSchema": schema} for name, schema in self.tools]
        return {
            "contents": self.messages,
            "systemInstruction": {"parts": [{"text": self.system}]},
            "tools": [{"functionDeclarations": declared}],
        }

    def read(self, response: httpx2.Response) -> Heard:
        if not self.stream:
            assert response.headers["content-type"] == "application/json"
            whole = [response.json()]
        elif self.array:
            whole = response.json()
        else:
            assert response.headers["content-type"].startswith("text/event-stream")
            whole = parse_sse(response.text)
        readers = {
            "anthropic-messages": _messages if self.stream else _message,
            "openai-responses": _response_events if self.stream else _response,
            "openai-chat": _chunks if self.stream else _completion,
            "gemini": _gemini,
        }
        heard: Heard = readers[self.protocol](whole)
        return heard if self.stream else msgspec.structs.replace(heard, deltas=0)


def parse_sse(text: str) -> list[Any]:
    """Parse a whole event stream; an event name must agree with the data."""
    assert text.endswith("\n\n")
    events = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert set(fields) <= {"event", "data"}
        text = fields["data"]
        data: Any = text if text == "[DONE]" else json.loads(text)
        if "event" in fields:
            assert data["type"] == fields["event"]
        events.append(data)
    return events


def _messages(events: list[Any]) -> Heard:
    """Put a Messages stream together, block by block."""
    assert events[0]["type"] == "message_start"
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    message = events[0]["message"]
    assert message["content"] == []
    blocks: list[dict[str, Any]] = []
    open_block = False
    deltas = 0
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert not open_block
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "json": ""})
            open_block = True
        elif event["type"] == "content_block_stop":
            assert open_block
            open_block = False
        else:
            assert event["type"] == "content_block_delta"
            assert open_block
            deltas += _message_delta(blocks[-1], event["delta"])
    assert not open_block
    for block in blocks:
        partial = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(partial)
    final = events[-2]
    usage = {**message["usage"], **final["usage"]}
    whole = {**message, "content": blocks, "usage": usage, **final["delta"]}
    return msgspec.structs.replace(_message([whole]), deltas=deltas)


def _message_delta(block: dict[str, Any], delta: dict[str, Any]) -> int:
    fields = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
    if delta["type"] == "input_json_delta":
        block["json"] += delta["partial_json"]
        return 0
    field = fields[delta["type"]]
    block[field] += delta[field]
    return int(delta["type"] == "text_delta")


def _message(events: list[Any]) -> Heard:
    (message,) = events
    assert message["role"] == "assistant"
    content = message["content"]
    calls = [each for each in content if each["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": c["id"], "content": "done"} for c in calls]
    history: list[Any] = [{"role": "assistant", "content": content}]
    if results:
        history.append({"role": "user", "content": results})
    return Heard(
        text="".join(each["text"] for each in content if each["type"] == "text"),
        thinking="".join(each["thinking"] for each in content if each["type"] == "thinking"),
        calls=[(call["name"], call["input"]) for call in calls],
        usage=message["usage"],
        stop=message["stop_reason"],
        deltas=0,
        model=message["model"],
        history=history,
    )


def _response_events(events: list[Any]) -> Heard:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    texts: dict[str, str] = {}
    deltas = 0
    for event in events:
        if event["type"] == "response.output_text.delta":
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
            deltas += 1
        if event["type"] == "response.output_text.done":
            assert texts.get(event["item_id"], "") == event["text"]
    final = events[-1]["response"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == final["output"]
    assert events[-1]["type"] == f"response.{final['status']}"
    return msgspec.structs.replace(_response([final]), deltas=deltas)


def _response(events: list[Any]) -> Heard:
    (response,) = events
    output = response["output"]
    history: list[Any] = list(output)
    calls = [item for item in output if item["type"] == "function_call"]
    for call in calls:
        done = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
        history.append(done)
    summaries = [item["summary"] for item in output if item["type"] == "reasoning"]
    messages = [item["content"] for item in output if item["type"] == "message"]
    return Heard(
        text="".join(part["text"] for parts in messages for part in parts),
        thinking="".join(part["text"] for parts in summaries for part in parts),
        calls=[(call["name"], json.loads(call["arguments"])) for call in calls],
        usage=response["usage"],
        stop=response["status"],
        deltas=0,
        model=response["model"],
        history=history,
    )


def _chunks(events: list[Any]) -> Heard:
    assert events[-1] == "[DONE]"
    *chunks, last = events[:-1]
    assert last["choices"] == []
    assert len({chunk["id"] for chunk in [*chunks, last]}) == 1
    message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": ""}
    calls: list[Any] = []
    deltas = 0
    for chunk in chunks:
        (choice,) = chunk["choices"]
        delta = choice["delta"]
        message["content"] += delta.get("content", "")
        message["reasoning_content"] += delta.get("reasoning_content", "")
        deltas += bool(delta.get("content"))
        for call in delta.get("tool_calls", []):
            assert call.pop("index") == len(calls)
            calls.append(call)
    if calls:
        message["tool_calls"] = calls
    whole = {**last, "choices": [{"message": message, **_finish(chunks)}]}
    return msgspec.structs.replace(_completion([whole]), deltas=deltas)


def _finish(chunks: list[Any]) -> dict[str, Any]:
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert [reason for reason in reasons if reason] == reasons[-1:]
    return {"finish_reason": reasons[-1]}


def _completion(events: list[Any]) -> Heard:
    (completion,) = events
    (choice,) = completion["choices"]
    message = choice["message"]
    calls = message.get("tool_calls", [])
    history: list[Any] = [message]
    history += [{"role": "tool", "tool_call_id": c["id"], "content": "done"} for c in calls]
    functions = [call["function"] for call in calls]
    return Heard(
        text=message["content"] or "",
        thinking=message.get("reasoning_content") or "",
        calls=[(each["name"], json.loads(each["arguments"])) for each in functions],
        usage=completion["usage"],
        stop=choice["finish_reason"],
        deltas=0,
        model=completion["model"],
        history=history,
    )


def _gemini(events: list[Any]) -> Heard:
    assert len({event["responseId"] for event in events}) == 1
    candidates = [event["candidates"][0] for event in events]
    assert ["finishReason" in each for each in candidates[:-1]] == [False] * (len(events) - 1)
    parts = [part for each in candidates for part in each["content"]["parts"]]
    texts = [part["text"] for part in parts if "text" in part and not part.get("thought")]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    history: list[Any] = [{"role": "model", "parts": parts}]
    results = [{"name": call["name"], "response": {"output": "done"}} for call in calls]
    if results:
        told = [{"functionResponse": result} for result in results]
        history.append({"role": "user", "parts": told})
    return Heard(
        text="".join(texts),
        thinking="".join(part["text"] for part in parts if part.get("thought")),
        calls=[(call["name"], call["args"]) for call in calls],
        usage=events[-1]["usageMetadata"],
        stop=candidates[-1]["finishReason"],
        deltas=len([text for text in texts if text]),
        model=events[-1]["modelVersion"],
        history=history,
    )
