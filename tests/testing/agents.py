"""Starts the real CLIs by hand-made command lines and reads what they print."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from tests.support.real_cli import real_cli

LIMIT = 100.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent printed and the usage it reported, in Bridle's meaning."""

    events: list[dict[str, Any]]
    usage: dict[str, int]
    text: str
    status: int
    stderr: str
    session: str = ""


Agent = Callable[..., Run]
"""Called with the model, the bench, the prompt, and for some `resume` and `interrupt`."""


def _run(
    argv: list[str],
    bench: AgentBench,
    environment: dict[str, str],
    interrupt: Callable[[], object] | None = None,
    sign: bytes | None = None,
) -> tuple[list[Any], int, str]:
    """Run to the end; with `interrupt`, send SIGINT once it has returned and `sign` is printed."""
    process = subprocess.Popen(
        argv,
        cwd=bench.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    before = b""
    limit = threading.Timer(LIMIT, os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    try:
        if interrupt is not None:
            interrupt()
            before = _read_until(process, sign)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        limit.cancel()
    lines = [line for line in (before + out).split(b"\n") if line.strip()]
    return [json.loads(line) for line in lines], process.returncode, err.decode()


def _read_until(process: subprocess.Popen[bytes], sign: bytes | None) -> bytes:
    """Read the agent's output up to the line with the sign; the limit ends a wait in vain."""
    read = b""
    while sign is not None and sign not in read:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the agent ended before the sign"
        read += line
    return read


def claude(version: str, *, model: str | None = None) -> Agent:
    def run(
        server: ScriptedModel,
        bench: AgentBench,
        prompt: str,
        resume: str | None = None,
        interrupt: Callable[[], object] | None = None,
    ) -> Run:
        environment = bench.env | {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
        }
        argv = [str(real_cli("claude", version)), "-p", prompt, "--output-format", "stream-json"]
        argv += ["--verbose", "--permission-mode", "bypassPermissions"]
        argv += ["--model", model or "claude-sonnet-4-5"]
        argv += ["--resume", resume] if resume else []
        argv += ["--include-partial-messages"] if interrupt else []
        events, status, stderr = _run(argv, bench, environment, interrupt, b"text_delta")
        result = next(event for event in reversed(events) if event["type"] == "result")
        told = list(result["modelUsage"].values())
        usage = {
            "input_tokens": sum(each["inputTokens"] for each in told),
            "output_tokens": sum(each["outputTokens"] for each in told),
            "cache_read_tokens": sum(each["cacheReadInputTokens"] for each in told),
            "cache_write_tokens": sum(each["cacheCreationInputTokens"] for each in told),
        }
        return Run(
            events=events,
            usage=usage,
            text=str(result.get("result", "")),
            status=status,
            stderr=stderr,
            session=result["session_id"],
        )

    return run


def codex(version: str, *, model: str) -> Agent:
    def run(
        server: ScriptedModel,
        bench: AgentBench,
        prompt: str,
        resume: str | None = None,
        interrupt: Callable[[], object] | None = None,
    ) -> Run:
        codex_home = bench.home / ".codex"
        codex_home.mkdir(exist_ok=True)
        environment = bench.env | {"CODEX_HOME": str(codex_home), "MODEL_KEY": server.api_key}
        provider = (
            f'{{name="scripted",base_url="{server.url}/v1",env_key="MODEL_KEY",'
            'wire_api="responses",request_max_retries=2,stream_max_retries=2}'
        )
        argv = [str(real_cli("codex", version)), "-c", f'model="{model}"']
        argv += ["-c", 'model_provider="scripted"', "-c", f"model_providers.scripted={provider}"]
        argv += ["exec", "--json", "-s", "danger-full-access"]
        argv += ["resume", resume, prompt] if resume else ["--", prompt]
        events, status, stderr = _run(argv, bench, environment, interrupt)
        ends = [event["usage"] for event in events if event["type"] == "turn.completed"]
        told: dict[str, int] = ends[-1] if ends else {}
        cached = told.get("cached_input_tokens", 0)
        written = told.get("cache_write_input_tokens", 0)
        usage = {
            "input_tokens": told.get("input_tokens", 0) - cached - written,
            "output_tokens": told.get("output_tokens", 0),
            "cache_read_tokens": cached,
            "cache_write_tokens": written,
        }
        said = [
            e["item"]["text"]
            for e in events
            if e["type"] == "item.completed" and e["item"]["type"] == "agent_message"
        ]
        return Run(
            events=events,
            usage=usage,
            text=said[-1] if said else "",
            status=status,
            stderr=stderr,
            session=events[0]["thread_id"],
        )

    return run


_PI_MODELS = {
    "anthropic-messages": "",
    "openai-completions": "/v1",
    "openai-responses": "/v1",
}


def pi(version: str, *, api: str) -> Agent:
    def run(server: ScriptedModel, bench: AgentBench, prompt: str) -> Run:
        folder = bench.home / "pi"
        folder.mkdir(exist_ok=True)
        model = {"id": "played", "contextWindow": 200000, "maxTokens": 8000, "input": ["text"]}
        provider = {"baseUrl": server.url + _PI_MODELS[api], "api": api}
        provider |= {"apiKey": server.api_key}
        told = {"providers": {"lab": {**provider, "models": [model]}}}
        (folder / "models.json").write_text(json.dumps(told))
        environment = bench.env | {
            "PI_CODING_AGENT_DIR": str(folder),
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
        }
        argv = [str(real_cli("pi", version)), "--mode", "json", "--model", "lab/played"]
        argv += ["--thinking", "off", "-ne", prompt]
        events, status, stderr = _run(argv, bench, environment)
        ends = [e["message"] for e in events if e["type"] == "message_end"]
        replies = [message for message in ends if message["role"] == "assistant"]
        names = {
            "input": "input_tokens",
            "output": "output_tokens",
            "cacheRead": "cache_read_tokens",
            "cacheWrite": "cache_write_tokens",
        }
        usage = {
            ours: sum(reply["usage"][theirs] for reply in replies) for theirs, ours in names.items()
        }
        last = replies[-1]["content"] if replies else []
        text = "".join(part["text"] for part in last if part["type"] == "text")
        return Run(events=events, usage=usage, text=text, status=status, stderr=stderr)

    return run
