"""Real CLIs on the scripted model: the sums of the stream, of the session files and of the model's
own log agree."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.core.usage import NO_USAGE, Usage
from bridle.testing.bench import AgentBench
from bridle.usage.scans import scan
from tests.support.real_cli import newest

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(600)]

SCRIPT = [
    {
        "text": "I will write.",
        "shell": "echo hello > hello.txt",
        "usage": {
            "input_tokens": 100,
            "output_tokens": 30,
            "cache_read_tokens": 40,
            "reasoning_tokens": 5,
        },
    },
    {"text": "Done.", "usage": {"input_tokens": 210, "output_tokens": 11, "cache_read_tokens": 90}},
    {"text": "Again.", "usage": {"input_tokens": 350, "output_tokens": 7}},
]
ACCOUNTS = {
    "claude": ".claude",
    "codex": ".codex",
    "pi": ".pi/agent",
    "copilot": ".copilot",
    "opencode": "opencode",
    "gemini": "",
    "cline": ".cline",
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_stream_files_and_model_agree_over_a_resume(bench: AgentBench, name: str) -> None:
    runtime = newest(name)
    model = bench.model(SCRIPT)
    account = bench.home / ACCOUNTS[name]
    account.mkdir(parents=True, exist_ok=True)
    first = bench.run(runtime, model, account_dir=str(account))
    assert first.result.status == "completed", first.result.error
    session = first.result.native_session_id
    resumed: dict[str, Any] = {"resume": session} if runtime.features.resume else {}
    again = bench.run(runtime, model, account_dir=str(account), prompt="Go on.", **resumed)
    assert again.result.status == "completed", again.result.error
    used: list[Any] = [
        SCRIPT[each.turn]["usage"] for each in model.requests if each.turn is not None
    ]
    # OpenCode's folders are named by variables.
    env = {"HOME": str(bench.home), "XDG_DATA_HOME": str(account / "data")}
    found = scan(env, env)
    naive = naive_tokens(account)
    asked = sum((Usage(**each) for each in used), NO_USAGE)
    stream = first.result.usage + again.result.usage
    files = sum(
        (
            Usage(**{field: getattr(row, field) for field in Usage.__struct_fields__})
            for row in found.rows
        ),
        NO_USAGE,
    )
    print(  # noqa: T201 - the table of the report; shown with `pytest -s`
        f"\n{name}: model {asked.total}, stream {stream.total}, files {files.total}, naive {naive}"
    )
    assert found.skipped == []
    assert {row.session for row in found.rows} == {session, again.result.native_session_id}
    # A runtime that cannot resume plays the script from its beginning again.
    assert sum(row.requests for row in found.rows) == len(used) >= 3
    # Claude's files do not say which part of the output is reasoning.
    unsaid = files.reasoning_tokens == 0
    assert stream.total == files.total == asked.total
    assert files == (stream - Usage(reasoning_tokens=stream.reasoning_tokens) if unsaid else stream)


def naive_tokens(account: Path) -> int:
    """What adding up everything that looks like a count of output and input would say."""
    total = 0
    for path in account.rglob("*.jsonl"):
        for line in path.read_text(errors="replace").splitlines():
            try:
                total += _counts(json.loads(line))
            except ValueError:
                continue
    return total


def _counts(value: object) -> int:
    if isinstance(value, list):
        return sum(_counts(each) for each in value)
    if not isinstance(value, dict):
        return 0
    own = {"input", "output", "cacheRead", "input_tokens", "output_tokens", "inputTokens"}
    own |= {"cache_read_input_tokens", "outputTokens"}
    return sum(
        each if key in own and isinstance(each, int) else _counts(each)
        for key, each in value.items()
    )
