"""Faults come in each provider's own shape, as often as the script says."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bridle.testing import ScriptedModel
from tests.testing.client import PROTOCOLS, Client, parse_sse

SHAPES: list[tuple[str, str, int, str]] = [
    ("authentication", "anthropic-messages", 401, "authentication_error"),
    ("authentication", "openai-responses", 401, "invalid_api_key"),
    ("authentication", "openai-chat", 401, "invalid_api_key"),
    ("authentication", "gemini", 400, "API_KEY_INVALID"),
    ("permission", "anthropic-messages", 403, "permission_error"),
    ("permission", "openai-chat", 403, "permission_denied"),
    ("permission", "gemini", 403, "PERMISSION_DENIED"),
    ("rate_limit", "anthropic-messages", 429, "rate_limit_error"),
    ("rate_limit", "openai-responses", 429, "rate_limit_exceeded"),
    ("rate_limit", "gemini", 429, "RESOURCE_EXHAUSTED"),
    ("usage_limit", "anthropic-messages", 429, "rate_limit_error"),
    ("usage_limit", "openai-responses", 429, "usage_limit_reached"),
    ("usage_limit", "gemini", 429, "PerDay"),
    ("quota", "anthropic-messages", 400, "credit balance is too low"),
    ("quota", "openai-responses", 429, "insufficient_quota"),
    ("quota", "gemini", 429, "exceeded your current quota"),
    ("server_error", "anthropic-messages", 500, "api_error"),
    ("server_error", "openai-chat", 500, "server_error"),
    ("server_error", "gemini", 500, "INTERNAL"),
    ("overloaded", "anthropic-messages", 529, "overloaded_error"),
    ("overloaded", "openai-responses", 503, "server_is_overloaded"),
    ("overloaded", "gemini", 503, "UNAVAILABLE"),
    ("context_overflow", "anthropic-messages", 400, "prompt is too long: 208310 tokens > 200000"),
    ("context_overflow", "openai-chat", 400, "maximum context length is 128000 tokens"),
    ("context_overflow", "gemini", 400, "exceeds the maximum number of tokens allowed"),
    ("not_found", "anthropic-messages", 404, "model: m"),
    ("not_found", "openai-responses", 404, "model_not_found"),
    ("not_found", "gemini", 404, "models/m is not found"),
    ("bad_request", "openai-chat", 400, "invalid_request_error"),
    ("too_large", "anthropic-messages", 413, "request_too_large"),
]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize(("kind", "protocol", "status", "sign"), SHAPES)
def test_a_kind_has_the_providers_shape(
    kind: str, protocol: str, status: int, sign: str, stream: bool
) -> None:
    with ScriptedModel([{"fault": {"kind": kind}}]) as model:
        client = Client(model.url, protocol, stream=stream)
        client.say("x")
        response = client.post()
        assert response.status_code == status
        assert sign in response.text
        assert "error" in response.json()
        (request,) = model.requests
        assert (request.outcome, request.turn, request.status) == ("fault", 0, status)
        model.assert_finished()


def test_responses_tells_an_overflow_inside_the_stream() -> None:
    with ScriptedModel([{"context_overflow": True}]) as model:
        client = Client(model.url, "openai-responses", stream=True)
        client.say("x")
        response = client.post()
        assert response.status_code == 200
        last = parse_sse(response.text)[-1]
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["code"] == "context_length_exceeded"
        client.stream = False
        plain = client.post()
        assert plain.status_code == 400
        assert plain.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_can_come_inside_a_stream(protocol: str) -> None:
    with ScriptedModel([{"fault": {"kind": "overloaded", "in_stream": True}}]) as model:
        client = Client(model.url, protocol, stream=True)
        client.say("x")
        response = client.post()
        assert response.status_code == 200
        first, last = parse_sse(response.text)
        assert "error" in json.dumps(last)
        assert "error" not in first or first["error"] is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_n_failures_then_success(protocol: str) -> None:
    script = [
        {"fault": {"status": 500, "times": 2}},
        {"fault": {"status": 429}, "text": "first"},
        {"text": "second"},
    ]
    with ScriptedModel(script) as model:
        client = Client(model.url, protocol, stream=True)
        client.say("x")
        assert [client.post().status_code for _ in range(3)] == [500, 500, 429]
        assert client.go_on().text == "first"
        assert client.ask("y").text == "second"
        assert [request.turn for request in model.requests] == [0, 0, 1, 1, 2]
        model.assert_finished()


def test_a_fault_without_reply_never_ends() -> None:
    with ScriptedModel([{"fault": {"status": 503}}]) as model:
        client = Client(model.url, "openai-chat", stream=False)
        client.say("x")
        assert {client.post().status_code for _ in range(12)} == {503}


@pytest.mark.parametrize(
    ("status", "sign"),
    [(400, "invalid_request"), (401, "authentication"), (418, "invalid_request"), (502, "api_err")],
)
def test_any_status(status: int, sign: str) -> None:
    with ScriptedModel([{"fault": {"status": status}}]) as model:
        client = Client(model.url, "anthropic-messages", stream=True)
        client.say("x")
        response = client.post()
        assert response.status_code == status
        assert response.json()["error"]["type"].startswith(sign)


def test_everything_about_a_failure_can_be_chosen() -> None:
    fault: dict[str, Any] = {"kind": "rate_limit", "status": 430, "message": "Later.", "times": 1}
    fault |= {"error_type": "odd", "headers": {"x-own": "1"}, "retry_after": 1.5}
    script = [{"fault": fault}, {"fault": {"status": 500, "body": "plain text"}}]
    with ScriptedModel(script) as model:
        client = Client(model.url, "openai-chat", stream=True)
        client.say("x")
        response = client.post()
        assert response.status_code == 430
        assert response.json()["error"]["message"] == "Later."
        assert response.json()["error"]["type"] == "odd"
        assert response.headers["x-own"] == "1"
        assert response.headers["retry-after"] == "1.5"
        broken = client.post()
        assert (broken.status_code, broken.text) == (500, "plain text")
        assert broken.headers["content-type"].startswith("text/plain")


def test_limits_tell_when_they_end() -> None:
    script = [{"fault": {"kind": "usage_limit", "resets_at": 1900000000}}]
    with ScriptedModel(script) as model:
        codex = Client(model.url, "openai-responses", stream=True)
        codex.say("x")
        error = codex.post().json()["error"]
        assert error["resets_at"] == 1900000000
        claude = Client(model.url, "anthropic-messages", stream=True)
        claude.say("x")
        headers = claude.post().headers
        assert headers["anthropic-ratelimit-unified-reset"] == "1900000000"
        assert headers["anthropic-ratelimit-unified-status"] == "rejected"
    with ScriptedModel([{"fault": {"kind": "rate_limit", "resets_in": 90}}]) as model:
        before = int(time.time())
        claude = Client(model.url, "anthropic-messages", stream=True)
        claude.say("x")
        told = claude.post().headers["anthropic-ratelimit-requests-reset"]
        allowed = [before + 90 + late for late in range(60)]
        shown = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each)) for each in allowed]
        assert told in shown


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("cut", [True, 0, 10])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cut_reply_comes_whole_the_next_time(protocol: str, cut: Any, stream: bool) -> None:
    with ScriptedModel([{"text": "whole " * 20, "fault": {"cut": cut}}]) as model:
        client = Client(model.url, protocol, stream=stream)
        client.say("x")
        with pytest.raises(httpx2.RemoteProtocolError):
            client.post()
        # An agent may ask again without streaming: it is the same turn.
        client.stream = False
        assert client.go_on().text == "whole " * 20
        assert [request.outcome for request in model.requests] == ["fault", "turn"]
        model.assert_finished()


def test_a_cut_comes_after_so_many_bytes() -> None:
    with ScriptedModel([{"text": "whole", "fault": {"cut": 25}}]) as model:
        client = Client(model.url, "anthropic-messages", stream=True)
        client.say("x")
        got: list[bytes] = []
        url = model.url + client.path
        with (
            pytest.raises(httpx2.RemoteProtocolError),
            httpx2.stream("POST", url, json=client.body(), headers=client.headers()) as response,
        ):
            got.extend(response.iter_bytes())
        assert b"".join(got) == b"event: message_start\ndata"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_malformed_frame(protocol: str) -> None:
    with ScriptedModel([{"text": "good", "fault": {"malformed": True}}]) as model:
        client = Client(model.url, protocol, stream=True)
        client.say("x")
        response = client.post()
        assert "good" not in response.text
        with pytest.raises(json.JSONDecodeError):
            parse_sse(response.text)
        client.stream = False
        assert client.go_on().text == "good"


def test_a_malformed_plain_body() -> None:
    with ScriptedModel([{"text": "good", "fault": {"malformed": True}}]) as model:
        client = Client(model.url, "openai-chat", stream=False)
        client.say("x")
        with pytest.raises(json.JSONDecodeError):
            client.post().json()


@pytest.mark.parametrize("manner", ["delay", "stall", "slow"])
def test_waiting_holds_the_reply_back(manner: str) -> None:
    with ScriptedModel([{"text": "abc", "chunks": 3, "fault": {manner: 0.2}}]) as model:
        client = Client(model.url, "anthropic-messages", stream=True)
        began = time.monotonic()
        assert client.ask("x").text == "abc"
        assert time.monotonic() - began >= 0.2
        model.assert_finished()


def test_a_reply_waits_until_a_file_exists(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with (
        ScriptedModel([{"text": "abc", "fault": {"until": str(go)}}]) as model,
        ThreadPoolExecutor(1) as pool,
    ):
        client = Client(model.url, "anthropic-messages", stream=True)
        reply = pool.submit(client.ask, "x")
        model.wait_for_request(lambda request: True, 30)
        with pytest.raises(TimeoutError):
            reply.result(0.3)
        go.touch()
        assert reply.result(30).text == "abc"
        model.assert_finished()


def test_a_stall_ends_with_the_server() -> None:
    model = ScriptedModel([{"text": "abc", "fault": {"stall": 600}}])
    with model:
        client = Client(model.url, "anthropic-messages", stream=True)
        client.say("x")
        url = model.url + client.path
        with httpx2.stream("POST", url, json=client.body(), headers=client.headers()) as response:
            pieces = response.iter_bytes()
            assert b"message_start" in next(pieces)
            model.stop()
            with pytest.raises(httpx2.RemoteProtocolError):
                list(pieces)
