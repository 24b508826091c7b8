"""`bridle model-server`: where it is, what it asks for, how it ends."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support import asker
from tests.support.preset_agent import Place

SCRIPT = "- text: hello from the script\n"


@pytest.fixture
def script(place: Place) -> Path:
    path = place.project / "script.yaml"
    path.write_text(SCRIPT)
    return path


def serve(place: Place, *words: str, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        place.command("model-server", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=place.project,
        env=place.environment(**env),
    )


def ask(url: str, key: str) -> str:
    body = {
        "model": "m",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "hi"}],
    }
    request = urllib.request.Request(
        f"{url}/v1/messages",
        json.dumps(body).encode(),
        {"x-api-key": key, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(json.loads(answer.read())["content"][0]["text"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(place: Place, script: Path, number: signal.Signals) -> None:
    process = serve(place, str(script), "--json")
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["url"].startswith("http://127.0.0.1:")
        assert told["pid"] == process.pid
        assert told["script"] == str(script)
        assert told["env"] == {
            "BRIDLE_MODEL_SERVER": told["url"],
            "BRIDLE_MODEL_SERVER_KEY": told["key"],
        }
        assert len(told["key"]) >= 24
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(told["url"], "wrong")
        assert refused.value.code == 401
        refused.value.close()
        assert ask(told["url"], told["key"]) == "hello from the script"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (0, "", "")


def test_it_says_how_to_point_runtimes_at_it(place: Place, script: Path, tmp_path: Path) -> None:
    lib = asker.install(tmp_path / "lib")
    process = serve(place, str(script), PYTHONPATH=lib, BRIDLE_MODEL_SERVER_KEY="a-key-of-my-own")
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if "Ctrl-C" in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert lines[0].startswith("scripted model at http://127.0.0.1:")
    assert "export BRIDLE_MODEL_SERVER_KEY=a-key-of-my-own" in lines
    assert 'bridle run "…" --runtime asker' in lines
    assert not any("--runtime tiny" in line for line in lines)


def test_a_wrong_script_is_told_by_line(place: Place, script: Path) -> None:
    script.write_text("- text: a\n- txet: b\n")
    done = place.bridle("model-server", str(script), "--json")
    assert done.status == 2
    assert f"{script}:2: " in done.err
    assert json.loads(done.out)["error"]["kind"] == "wrong_use"


def test_a_missing_script(place: Place) -> None:
    done = place.bridle("model-server", "[nope]")
    assert done.status == 2
    assert f"{place.project}/[nope]: cannot be read: No such file" in done.err


def test_a_port_that_is_taken(place: Place, script: Path) -> None:
    process = serve(place, str(script), "--json")
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["url"].rpartition(":")[2]
        done = place.bridle("model-server", str(script), "--port", port)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert done.status == 2
    assert f"cannot listen on port {port}: Address already in use" in done.err


@pytest.mark.parametrize("port", ["x", "70000", "-1"])
def test_a_wrong_port(place: Place, script: Path, port: str) -> None:
    assert place.bridle("model-server", str(script), f"--port={port}").status == 2
