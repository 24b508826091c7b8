"""Runs whose answer is a value that fits a schema, in one process or two."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.events import Event
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import RunResult
from bridle.process.process_tree import marked_processes
from bridle.runs import prepare, run, run_sync, stream_sync
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.sessions.session import Session
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.runtimes.scripted.runs import ScriptedBench
from tests.support.tiny_agent import TinyRuntime

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "string"}}},
    "required": ["files"],
}
GOOD = '{"files": ["a.py"]}'
VALUE = {"files": ["a.py"]}


@pytest.fixture
def bench(tmp_path: Path) -> ScriptedBench:
    return ScriptedBench(tmp_path)


def play(
    bench: ScriptedBench, script: list[dict[str, Any]], **fields: Any
) -> tuple[list[Event], RunResult]:
    fields.setdefault("output_schema", SCHEMA)
    options = bench.scripted(script, **fields)
    prepared = prepare(ScriptedRuntime(), options, env=bench.env)
    events = list(prepared.run.events())
    assert check_event_order(events) == []
    assert marked_processes(prepared.plan.session_id) == []
    return events, prepared.run.result


def ends(events: list[Event]) -> list[tuple[int, str]]:
    return [(end.turn, end.status) for end in events if isinstance(end, ev.AgentEnd)]


def test_an_answer_that_fits_at_once(bench: ScriptedBench) -> None:
    events, result = play(bench, [{"text": "I look.", "shell": "true"}, {"text": GOOD}])
    assert (result.status, result.structured, result.error) == ("completed", VALUE, None)
    assert ends(events) == [(1, "completed")]
    assert json.loads(msgspec.json.encode(result))["structured"] == VALUE


def test_the_prompt_asks_for_it(bench: ScriptedBench) -> None:
    with ScriptedModel([{"text": GOOD}]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        _, result = play(bench, [], prompt="List them.", model_server=server)
        assert result.structured == VALUE
        asked = str(model.requests[0].body)
    assert "List them." in asked
    assert "JSON Schema" in asked
    assert "required" in asked


def test_an_answer_that_does_not_fit_is_asked_for_once_more(bench: ScriptedBench) -> None:
    own = {"cost_per_turn": "0.01"}
    script = [{"text": "It is a.py."}, {"text": GOOD}, {"text": "never"}]
    events, result = play(bench, script, provider_options=own, include_raw=True)
    assert (result.status, result.structured, result.error) == ("completed", VALUE, None)
    assert result.text == GOOD
    assert result.cost_usd == pytest.approx(0.02)
    assert ends(events) == [(1, "failed"), (2, "completed")]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.session_id for event in events}) == 1
    [first, second] = [event for event in events if isinstance(event, ev.UsageTotals)]
    assert first.cost_usd == pytest.approx(0.01)
    assert second.cost_usd == pytest.approx(0.02)
    assert isinstance(events[-1], ev.SessionEnd)
    assert sum(isinstance(event, ev.SessionStart) for event in events) == 1


def test_it_is_asked_for_once_more_and_not_again(bench: ScriptedBench) -> None:
    events, result = play(bench, [{"text": "a"}, {"text": '{"files": [1]}'}, {"text": GOOD}])
    assert (result.status, result.exit_status) == ("failed", 1)
    assert result.error is not None
    assert result.error.kind == "schema_mismatch"
    assert "$.files[0]" in result.error.message
    assert result.structured is msgspec.UNSET
    assert "structured" not in json.loads(msgspec.json.encode(result))
    assert ends(events) == [(1, "failed"), (2, "failed")]


def test_the_agent_hears_what_was_wrong(bench: ScriptedBench) -> None:
    with ScriptedModel([{"text": '{"files": 3}'}, {"text": GOOD}]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        _, result = play(bench, [], model_server=server)
        assert result.structured == VALUE
        again = str(model.requests[-1].body)
    assert "3 is not of type" in again
    assert not os.listdir(bench.home / ".local/state/bridle/run"), "no private folder is left"


def test_a_failed_run_is_not_repaired(bench: ScriptedBench) -> None:
    events, result = play(bench, [{"fault": {"status": 401, "times": 1}}, {"text": GOOD}])
    assert result.error is not None
    assert result.error.kind == "not_authenticated"
    assert ends(events) == [(1, "failed")]


def test_the_repair_keeps_to_the_budget_and_the_time(bench: ScriptedBench) -> None:
    own = {"cost_per_turn": "0.01"}
    script = [{"text": "a"}, {"text": GOOD}]
    _, result = play(bench, script, provider_options=own, budget_usd=0.015)
    assert result.status == "budget_exceeded"
    assert result.cost_usd == pytest.approx(0.02)


def test_a_runtime_that_cannot_resume_says_so() -> None:
    result = run_sync("say words", runtime=TinyRuntime(), output_schema=SCHEMA)
    assert result.error is not None
    assert result.error.kind == "schema_mismatch"
    assert "cannot resume" in result.error.hint


@pytest.mark.parametrize("as_text", [True, False])
async def test_a_schema_in_a_file_or_as_text(bench: ScriptedBench, as_text: bool) -> None:
    file = bench.home / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    for given in (json.dumps(SCHEMA), str(file)) if as_text else (file,):
        result = await run(
            "List them.",
            runtime=ScriptedRuntime(),
            cwd=bench.work,
            output_schema=given,
            provider_options={"script": [{"text": GOOD}]},
        )
        assert result.structured == VALUE


@pytest.mark.parametrize(
    "schema", [{"type": "objekt"}, "/no/such/file.json", "{not json", {"$ref": "#/$defs/x"}]
)
def test_a_bad_schema_is_wrong_use_before_the_start(bench: ScriptedBench, schema: Any) -> None:
    with pytest.raises(WrongUse):
        play(bench, [{"text": GOOD}], output_schema=schema)


def test_an_abort_in_the_second_process(bench: ScriptedBench) -> None:
    script = [{"text": "a"}, {"text": "slowly", "shell": "sleep 60"}]
    events = stream_sync(
        "go",
        runtime=ScriptedRuntime(),
        cwd=bench.work,
        permission_mode="bypass",
        output_schema=SCHEMA,
        provider_options={"script": script},
    )
    seen: list[Event] = []
    for event in events:
        seen.append(event)
        if isinstance(event, ev.ToolExecutionStart):
            with pytest.raises(WrongUse, match="no result yet"):
                _ = events.result
            events.abort()
    assert events.result.status == "aborted"
    assert ends(seen) == [(1, "failed"), (2, "aborted")]
    assert check_event_order(seen) == []


def test_leaving_the_block_early_ends_it(bench: ScriptedBench) -> None:
    script = [{"text": "slowly", "shell": "sleep 60"}, {"text": GOOD}]
    with stream_sync(
        "go",
        runtime=ScriptedRuntime(),
        cwd=bench.work,
        permission_mode="bypass",
        output_schema=SCHEMA,
        provider_options={"script": script},
    ) as events:
        reader = iter(events)
        session_id = next(reader).session_id
    assert events.result.status != "completed"
    assert marked_processes(session_id) == []


async def test_a_session_refuses_it_by_name(bench: ScriptedBench) -> None:
    with pytest.raises(UnsupportedOption, match="output_schema") as caught:
        await Session.start("scripted", cwd=bench.work, output_schema=SCHEMA)
    assert caught.value.option == "output_schema"


def test_without_a_schema_nothing_is_said_of_it() -> None:
    result = RunResult(runtime="r", status="completed")
    assert "structured" not in json.loads(msgspec.json.encode(result))
    assert RunOptions(prompt="x").output_schema is None
