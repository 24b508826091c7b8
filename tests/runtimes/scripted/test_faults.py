"""Each fault of a script ends in the error that it means, on a script and on a model server."""

import time
from calendar import timegm
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentRun
from tests.runtimes.scripted.runs import ScriptedBench

FAULTS: list[tuple[dict[str, Any], str, int]] = [
    ({"status": 401}, "not_authenticated", 0),
    ({"kind": "authentication"}, "not_authenticated", 0),
    ({"status": 403}, "not_authenticated", 0),
    ({"status": 429}, "rate_limited", 3),
    ({"status": 429, "retry_after": 3000 / 10}, "rate_limited", 0),
    ({"kind": "usage_limit", "resets_in": 7200}, "rate_limited", 0),
    ({"kind": "quota"}, "billing", 0),
    ({"status": 500}, "unavailable", 3),
    ({"status": 529}, "overloaded", 3),
    ({"kind": "overloaded"}, "overloaded", 3),
    ({"kind": "context_overflow"}, "context_overflow", 0),
    ({"kind": "too_large"}, "context_overflow", 0),
    ({"kind": "not_found"}, "unavailable", 0),
    ({"kind": "bad_request"}, "unavailable", 0),
    ({"cut": True}, "unavailable", 3),
    ({"cut": 3}, "unavailable", 3),
    ({"malformed": True}, "unavailable", 3),
]


def _by_server(bench: ScriptedBench, script: Any, **fields: Any) -> AgentRun:
    with ScriptedModel(script) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        return bench.play(model_server=server, **fields)


@pytest.mark.parametrize("way", ["script", "server"])
@pytest.mark.parametrize(("fault", "kind", "retries"), FAULTS, ids=str)
def test_fault(
    bench: ScriptedBench, way: str, fault: dict[str, Any], kind: str, retries: int
) -> None:
    script = [{"shell": "touch before"}, {"fault": fault}]
    played = bench.play(script) if way == "script" else _by_server(bench, script)
    assert played.result.error is not None
    assert played.result.error.kind == kind
    assert played.result.status == "failed"
    assert played.result.exit_code == 1
    assert [each.attempt for each in played.of(ev.Retry)] == list(range(1, retries + 1))
    assert {each.error.kind for each in played.of(ev.Retry)} <= {kind}
    assert (bench.work / "before").exists()
    end = played.of(ev.AgentEnd)[0]
    assert (end.status, end.error and end.error.kind) == ("failed", kind)


@pytest.mark.parametrize("way", ["script", "server"])
def test_a_limit_says_until_when(bench: ScriptedBench, way: str) -> None:
    script = [{"fault": {"kind": "usage_limit", "resets_in": 7200}}]
    before = time.time()
    played = bench.play(script) if way == "script" else _by_server(bench, script)
    assert played.result.error is not None
    assert played.result.error.until is not None
    until = timegm(time.strptime(played.result.error.until, "%Y-%m-%dT%H:%M:%SZ"))
    assert before + 7198 <= until <= time.time() + 7202


def test_a_limit_without_a_time_says_none(bench: ScriptedBench) -> None:
    error = bench.play([{"fault": {"status": 429}}]).result.error
    assert error is not None
    assert error.until is None


@pytest.mark.parametrize("way", ["script", "server"])
@pytest.mark.parametrize("fault", [{"status": 529}, {"status": 429}, {"cut": True}], ids=str)
def test_failures_and_then_success(bench: ScriptedBench, way: str, fault: dict[str, Any]) -> None:
    script = [{"text": "It came after all.", "fault": {**fault, "times": 2}}]
    played = bench.play(script) if way == "script" else _by_server(bench, script)
    assert played.result.status == "completed"
    assert played.result.text == "It came after all."
    assert [each.attempt for each in played.of(ev.Retry)] == [1, 2]
    assert played.result.usage.input_tokens == 100


def test_more_failures_than_tries(bench: ScriptedBench) -> None:
    script = [{"text": "Never.", "fault": {"status": 500, "times": 3}}]
    played = bench.play(script, provider_options={"max_retries": "2"})
    assert played.result.error is not None
    assert played.result.error.kind == "unavailable"
    assert len(played.of(ev.Retry)) == 2


def test_what_arrived_before_a_cut_is_not_lost(bench: ScriptedBench) -> None:
    played = bench.play(
        [{"text": "12345678", "fault": {"cut": True, "times": 9}}],
        provider_options={"max_retries": 0},
    )
    assert [each.text for each in played.of(ev.MessageEnd)] == ["1234"]


@pytest.mark.parametrize("way", ["script", "server"])
def test_a_stall_lasts_until_the_timeout(bench: ScriptedBench, way: str) -> None:
    script = [{"text": "12345678", "fault": {"stall": 300}}]
    played = (
        bench.play(script, timeout=1.0)
        if way == "script"
        else _by_server(bench, script, timeout=1.0)
    )
    assert played.result.status == "timed_out"
    assert played.result.error is not None
    assert played.result.error.kind == "timeout"


def test_a_short_stall_is_only_slow(bench: ScriptedBench) -> None:
    played = bench.play([{"text": "12345678", "fault": {"stall": 0.05}}])
    assert (played.result.status, played.result.text) == ("completed", "12345678")


def test_slow_and_late_replies_arrive(bench: ScriptedBench) -> None:
    played = bench.play([{"text": "abc", "chunks": 3, "fault": {"slow": 0.01, "delay": 0.01}}])
    assert (played.result.status, played.result.text) == ("completed", "abc")


def test_a_reply_waits_until_a_file_exists(bench: ScriptedBench, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = [{"text": "abc", "fault": {"until": str(go)}}]
    assert bench.play(script, timeout=0.5).result.status == "timed_out"
    go.touch()
    assert bench.play(script).result.text == "abc"


@pytest.mark.parametrize(
    ("reason", "kind"), [("max_tokens", "context_overflow"), ("refusal", "unavailable")]
)
def test_stop_reasons_that_are_failures(bench: ScriptedBench, reason: str, kind: str) -> None:
    played = bench.play([{"text": "Half an ans", "stop_reason": reason}])
    assert played.result.error is not None
    assert played.result.error.kind == kind
    assert played.result.text == "Half an ans"


def test_a_refused_connection_ends(bench: ScriptedBench) -> None:
    with ScriptedModel([{"text": "."}]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
    played = bench.play(model_server=server)
    assert played.result.error is not None
    assert played.result.error.kind == "unavailable"
    assert len(played.of(ev.Retry)) == 3


def test_the_same_events_from_a_script_and_from_a_server(bench: ScriptedBench) -> None:
    script = [
        {"thinking": "Hm.", "text": "First.", "shell": "echo x > out.txt", "chunks": 2},
        {
            "tool_calls": [
                {"name": "read_file", "args": {"path": "out.txt"}},
                {"name": "write_file", "args": {"path": "two.txt", "content": "2"}},
            ],
            "usage": {"input_tokens": 3, "output_tokens": 9, "reasoning_tokens": 2},
        },
        {"text": "Done.\nORCHESTRA_COMPLETE", "usage": {"cache_read_tokens": 11}},
    ]
    played = bench.play(script)
    (bench.work / "two.txt").unlink()
    served = _by_server(bench, script)
    assert served.kinds == played.kinds
    assert served.result.usage == played.result.usage
    assert served.result.text == played.result.text
    assert served.result.marker_detected
    assert (bench.work / "two.txt").read_text() == "2"
    assert served.plan.private_dirs
    assert list((bench.home / ".local/state/bridle/run").iterdir()) == []


def test_a_chosen_key_is_kept_out_of_everything(bench: ScriptedBench) -> None:
    with ScriptedModel([{"text": "my key is sk-very-secret-key"}], token="sk-very-secret-key") as m:
        played = bench.play(model_server=ModelServer(url=m.url, api_key=m.api_key))
    assert played.result.text == "my key is [redacted]"
    assert "sk-very-secret-key" not in " ".join(played.plan.spec.argv)
    assert "sk-very-secret-key" not in str(played.plan.spec.env)
