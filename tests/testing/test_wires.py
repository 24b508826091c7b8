"""Each protocol, streaming and plain, read strictly."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.testing import ScriptedModel
from bridle.testing.script import Usage
from bridle.testing.steps import split_text
from bridle.testing.wire.anthropic import AnthropicMessages
from bridle.testing.wire.base import NativeCall, Reply, Wire
from bridle.testing.wire.chat import ChatCompletions
from bridle.testing.wire.gemini import Gemini
from bridle.testing.wire.responses import OpenAIResponses
from tests.testing.client import PROTOCOLS, Client

SCRIPT = """
- thinking: Let me think about it.
  text: "I will run it. Ünïcödé \U0001f600"
  tool_calls:
    - {name: shell, args: {command: "echo one"}}
    - {name: shell, args: {command: "echo two"}}
  usage:
    {input_tokens: 300, output_tokens: 40, cache_read_tokens: 70, cache_write_tokens: 20,
     reasoning_tokens: 15}
  chunks: 4
- text: All done.
  model: reported-model
"""

USAGE: dict[str, dict[str, Any]] = {
    "anthropic-messages": {
        "input_tokens": 300,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 70,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 15},
        "service_tier": "standard",
    },
    "openai-responses": {
        "input_tokens": 390,
        "input_tokens_details": {"cached_tokens": 70, "cache_write_tokens": 20},
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 15},
        "total_tokens": 430,
    },
    "openai-chat": {
        "prompt_tokens": 390,
        "completion_tokens": 40,
        "total_tokens": 430,
        "prompt_tokens_details": {"cached_tokens": 70, "cache_write_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 15},
    },
    "gemini": {
        "promptTokenCount": 390,
        "cachedContentTokenCount": 70,
        "candidatesTokenCount": 25,
        "thoughtsTokenCount": 15,
        "totalTokenCount": 430,
    },
}
STOPS = {
    "anthropic-messages": ("tool_use", "end_turn"),
    "openai-responses": ("completed", "completed"),
    "openai-chat": ("tool_calls", "stop"),
    "gemini": ("STOP", "STOP"),
}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPT) as running:
        yield running


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_is_played(model: ScriptedModel, protocol: str, stream: bool) -> None:
    client = Client(model.url, protocol, stream=stream)
    first = client.ask("Do it")
    assert first.text == "I will run it. Ünïcödé \U0001f600"
    assert first.thinking == "Let me think about it."
    assert first.calls == [("bash", {"command": "echo one"}), ("bash", {"command": "echo two"})]
    assert first.usage == USAGE[protocol]
    assert first.model == "m"
    assert first.deltas == (4 if stream else 0)
    last = client.go_on()
    assert last.text == "All done."
    assert last.deltas == (1 if stream else 0)
    assert last.model == "reported-model"
    assert (first.stop, last.stop) == STOPS[protocol]
    model.assert_finished()
    assert model.prompts() == ["Do it"]
    assert [result.text for result in model.tool_results()][:1] == ["done"]
    assert {request.protocol for request in model.requests} == {protocol}


def test_gemini_streams_a_json_array_without_alt_sse(model: ScriptedModel) -> None:
    client = Client(model.url, "gemini", stream=True)
    client.array = True
    heard = client.ask("Do it")
    assert heard.text.startswith("I will run it.")
    assert heard.usage == USAGE["gemini"]


@pytest.mark.parametrize(
    ("protocol", "stop"),
    [
        ("anthropic-messages", "max_tokens"),
        ("openai-responses", "incomplete"),
        ("openai-chat", "length"),
        ("gemini", "MAX_TOKENS"),
    ],
)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_a_stop_reason_is_told_in_each_protocol(protocol: str, stop: str, stream: bool) -> None:
    with ScriptedModel([{"text": "cut short", "stop_reason": "max_tokens"}]) as model:
        assert Client(model.url, protocol, stream=stream).ask("x").stop == stop


def test_side_paths_are_answered_without_a_turn(model: ScriptedModel) -> None:
    assert httpx2.head(model.url).status_code == 200
    assert httpx2.get(f"{model.url}/v1/models").json()["data"][0]["id"] == "reported-model"
    assert (
        httpx2.get(f"{model.url}/v1beta/models").json()["models"][0]["name"].startswith("models/")
    )
    assert httpx2.get(f"{model.url}/v1/models/abc").json()["id"] == "abc"
    counted = httpx2.post(f"{model.url}/v1/messages/count_tokens", json={"messages": []})
    assert counted.json()["input_tokens"] > 0
    counted = httpx2.post(f"{model.url}/v1beta/models/m:countTokens", json={"contents": []})
    assert counted.json()["totalTokens"] > 0
    assert httpx2.get(f"{model.url}/nothing/here").status_code == 404
    assert {request.outcome for request in model.requests} == {"side", "refused"}
    assert Client(model.url, "openai-chat", stream=False).ask("x").text.startswith("I will")


def test_a_path_prefix_is_passed_over(model: ScriptedModel) -> None:
    client = Client(f"{model.url}/some/prefix", "anthropic-messages", stream=True)
    assert client.ask("x").text.startswith("I will")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_body_that_is_no_json_is_refused(model: ScriptedModel, protocol: str) -> None:
    path = Client(model.url, protocol, stream=False).path
    for content in (b"{", b"", b"[1]", b"\xff\xfe"):
        response = httpx2.post(model.url + path, content=content)
        assert response.status_code == 400
        assert response.json()["error"]["message"] == "The body is not JSON."


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "content", ['{"messages":5,"input":[3],"contents":{}}', '{"tools":[null,{}],"model":4}']
)
def test_odd_content_is_passed_over(model: ScriptedModel, protocol: str, content: str) -> None:
    path = Client(model.url, protocol, stream=False).path
    response = httpx2.post(model.url + path, content=content)
    # Such a request offers no tools, so the scripted tool calls cannot be made.
    assert response.status_code == 400
    assert "offered" in response.json()["error"]["message"]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@given(texts, st.integers(1, 50), st.one_of(st.none(), st.integers(1, 40)))
def test_chunks_reassemble(text: str, chunks: int, size: int | None) -> None:
    parts = split_text(text, chunks, size)
    assert "".join(parts) == text
    assert all(parts)
    if size is None:
        assert len(parts) == min(chunks, len(text))
    else:
        assert all(len(part) == size for part in parts[:-1])


@given(texts, texts, st.integers(1, 9), st.sampled_from(PROTOCOLS))
def test_every_stream_says_what_its_plain_form_says(
    text: str, thinking: str, chunks: int, protocol: str
) -> None:
    wires: dict[str, Wire] = {
        "anthropic-messages": AnthropicMessages(),
        "openai-responses": OpenAIResponses(),
        "openai-chat": ChatCompletions(),
        "gemini": Gemini(),
    }
    reply = Reply(
        model="m",
        text_chunks=split_text(text, chunks),
        thinking_chunks=split_text(thinking, chunks),
        calls=(NativeCall(id="call_1", name="bash", args={"command": text}),),
        usage=Usage(output_tokens=9, reasoning_tokens=3),
    )
    wire = wires[protocol]
    data = b"".join(frame.data for frame in wire.frames(reply))
    headers = {"content-type": "text/event-stream"}
    streamed = Client("", protocol, stream=True).read(
        httpx2.Response(200, content=data, headers=headers)
    )
    plain = Client("", protocol, stream=False).read(httpx2.Response(200, json=wire.plain(reply)))
    assert streamed.text == plain.text == text
    assert streamed.thinking == plain.thinking == thinking
    assert streamed.calls == plain.calls == [("bash", {"command": text})]
    assert streamed.usage == plain.usage
    assert streamed.stop == plain.stop
    assert sum(frame.delta for frame in wire.frames(reply)) >= len(reply.text_chunks)
