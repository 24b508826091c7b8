"""The server: life, keys, hosts, recording, and the blocking form for the command line."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import pytest

from bridle.testing import ScriptedModel
from tests.testing.client import PROTOCOLS, Client

SCRIPT = [{"text": "one", "shell": "true"}, {"text": "two"}]


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys, bridle.testing\n"
        "heavy = {'starlette', 'uvicorn', 'anyio', 'asyncio', 'logging', 'ruamel.yaml'}\n"
        "heavy.add('msgspec')\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_unknown_names_are_refused() -> None:
    import bridle.testing

    with pytest.raises(AttributeError, match="nothing_here"):
        _ = bridle.testing.nothing_here
    for name in bridle.testing.__all__:
        assert getattr(bridle.testing, name) is not None


def test_nothing_is_left_running() -> None:
    before = set(threading.enumerate())
    with ScriptedModel(SCRIPT) as model:
        url = model.url
        port = int(url.rpartition(":")[2])
        assert httpx2.head(url).status_code == 200
    assert set(threading.enumerate()) == before
    with pytest.raises(httpx2.ConnectError):
        httpx2.head(url)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
    assert len(model.requests) == 1
    model.stop()


def test_a_server_can_be_started_again() -> None:
    model = ScriptedModel(SCRIPT)
    with pytest.raises(RuntimeError, match="not been started"):
        _ = model.url
    for _ in range(2):
        assert model.start().start() is model
        assert Client(model.url, "gemini", stream=False).ask("x").text == "one"
        model.stop()


def test_it_works_in_async_code() -> None:
    async def main() -> str:
        async with ScriptedModel(SCRIPT) as model, httpx2.AsyncClient() as http:
            client = Client(model.url, "openai-chat", stream=True)
            client.say("x")
            got = await http.post(model.url + client.path, json=client.body())
            return client.read(got).text

    assert asyncio.run(main()) == "one"


def test_only_loopback() -> None:
    for host in ("0.0.0.0", "192.168.1.1", "example.org", ""):
        with pytest.raises(ValueError, match="loopback only"):
            ScriptedModel(SCRIPT, host=host)
    with ScriptedModel(SCRIPT, host="localhost") as model:
        assert httpx2.head(model.url).status_code == 200


def test_a_request_for_another_host_is_refused() -> None:
    with ScriptedModel(SCRIPT) as model:
        got = httpx2.get(f"{model.url}/v1/models", headers={"host": "evil.example"})
        assert got.status_code == 421
        assert model.requests[-1].outcome == "refused"


def test_a_taken_port_is_an_error() -> None:
    with ScriptedModel(SCRIPT) as model:
        port = int(model.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            ScriptedModel(SCRIPT, port=port).start()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_token_is_asked_for(protocol: str) -> None:
    with ScriptedModel(SCRIPT, token="open-sesame") as model:
        assert model.api_key == "open-sesame"
        wrong = Client(model.url, protocol, stream=True, key="sesame")
        wrong.say("x")
        response = wrong.post()
        assert response.status_code in (400, 401)
        assert "error" in response.json()
        assert model.requests[-1].outcome == "refused"
        assert Client(model.url, protocol, stream=True, key="open-sesame").ask("x").text == "one"
        named = Client(model.url, protocol, stream=True, key=model.key_for("a"))
        assert named.ask("x").text == "one"


def test_keys_are_never_stored() -> None:
    secret = "very-secret-key"
    with ScriptedModel(SCRIPT) as model:
        for protocol in PROTOCOLS:
            Client(model.url, protocol, stream=True, key=secret).ask("x")
        path = "/v1beta/models/m:generateContent?key=very-secret-key&alt=json"
        body = Client(model.url, "gemini", stream=False).body()
        httpx2.post(model.url + path, json=body)
        httpx2.get(f"{model.url}/v1/models", headers={"Cookie": secret, "api-key": secret})
        told = repr(model.requests)
        assert secret not in told
        markers = {request.headers.get("authorization") for request in model.requests} - {None}
        assert len(markers) == 1
        (marker,) = markers
        assert marker is not None
        assert marker.startswith("<key:")
        assert f"key={marker}" in model.requests[-2].path
        assert model.requests[0].headers["x-api-key"] == marker


def test_requests_are_recorded() -> None:
    with ScriptedModel(SCRIPT) as model:
        client = Client(model.url, "anthropic-messages", stream=True)
        client.ask("first prompt")
        client.go_on()
        client.say("<system-reminder>noise</system-reminder>")
        client.ask("second prompt")
        assert model.prompts() == ["first prompt", "second prompt"]
        assert [result.text for result in model.tool_results()] == ["done"]
        first = model.requests[0]
        assert (first.index, first.method, first.path) == (0, "POST", "/v1/messages?beta=true")
        assert first.body["messages"][0]["content"] == "first prompt"
        assert (first.outcome, first.conversation, first.turn) == ("turn", "default", 0)


def test_waiting_for_a_request() -> None:
    with ScriptedModel(SCRIPT) as model:
        client = Client(model.url, "openai-chat", stream=True)
        later = threading.Thread(target=client.ask, args=("hello",))
        later.start()
        found = model.wait_for_request(lambda request: request.turn == 0, timeout=30)
        later.join()
        assert found.question is not None
        assert found.question.prompts == ("hello",)
        with pytest.raises(TimeoutError, match="1 requests came"):
            model.wait_for_request(lambda request: request.turn == 1, timeout=0.01)


MAIN = """
import sys
from bridle.testing import server_main

def ready(url):
    print(url, flush=True)

server_main(sys.argv[1], token=None, ready=ready)
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_blocking_form_ends_on_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- text: one\n")
    argv = [sys.executable, "-c", MAIN, str(script)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert Client(url, "openai-chat", stream=True).ask("x").text == "one"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    assert (process.returncode, out, err) == (0, "ended\n", "")
