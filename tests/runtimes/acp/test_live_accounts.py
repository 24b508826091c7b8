"""The live wire against a scripted counterpart: usage and cost, models, images, compaction."""

from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.live import CompactingWire
from bridle.runtimes.history import Span, Spent
from tests.runtimes.acp.wire_bench import WireBench, opened

# -- usage ----------------------------------------------------------------------------------------


def told(count: int) -> dict[str, Any]:
    return {"usage": {"inputTokens": count, "outputTokens": count}}


def test_usage_of_agents_that_count_each_prompt() -> None:
    desk = opened(quirks.CLAUDE)
    for count in (10, 30):
        desk.prompt()
        desk.text("x")
        desk.done(**told(count))
    assert [end.usage.input_tokens for end in desk.ends] == [10, 30]
    assert [event.usage.input_tokens for event in desk.of(ev.UsageTotals)] == [10, 40]


def test_usage_of_agents_that_count_the_session() -> None:
    desk = opened(quirks.COPILOT)
    for count in (10, 40):
        desk.prompt()
        desk.text("x")
        desk.done(**told(count))
    assert [end.usage.input_tokens for end in desk.ends] == [10, 30]
    assert desk.recorder.usage.input_tokens == 40


def test_usage_and_cost_from_files() -> None:
    spent = [1, 2, 30, 400]
    asked: list[Span] = []

    def read(session_id: str, span: Span) -> Spent | None:
        asked.append(span)
        counts = spent[span.first : span.first + span.count]
        usage = Usage(input_tokens=sum(counts))
        return Spent(usage=usage, model="p/m", cost_usd=sum(counts) / 1000)

    desk = opened(quirks.OPENCODE, history=read, earlier=2)
    for _ in range(2):
        desk.prompt()
        desk.text("x")
        desk.done(**told(7))
    assert asked == [Span(2, 1), Span(2, 2)]
    assert [end.usage.input_tokens for end in desk.ends] == [30, 400]
    assert [end.cost_usd for end in desk.ends] == [0.03, pytest.approx(0.4)]
    assert desk.recorder.model == "p/m"


def test_commands_that_no_file_holds_do_not_count() -> None:
    asked: list[int] = []

    def read(session_id: str, span: Span) -> Spent | None:
        asked.append(span.count)
        return Spent(usage=Usage(input_tokens=span.count))

    desk = opened(quirks.GEMINI, history=read)
    nothing: dict[str, Any] = {"_meta": {"quota": {"model_usage": []}}}
    some = {"_meta": {"quota": {"model_usage": [{"model": "m"}]}}}
    for text, quota in (("go", some), ("/memory", nothing), ("/tmp is full", some), ("?", nothing)):
        desk.prompt(text)
        desk.text("x")
        desk.done(**quota)
    # The last one was a prompt: its model gave nothing that could be counted.
    assert asked == [1, 1, 2, 3]


def test_silence_keeps_its_own_reason() -> None:
    desk = opened(quirks.GEMINI, session={"silence_timeout": 5.0})
    desk.prompt()
    assert desk.recorder.patience is not None
    error = desk.recorder.patience.error
    assert error is not None
    desk.recorder.request_stop(error)
    desk.recorder.fail(error)
    tail = "Attempt 1 failed: Resource has been exhausted. Retrying after 62705ms...\n"
    desk.wire.finish(ProcessExit(code=1, stderr_tail=tail))
    told = desk.recorder.result().error
    # What it logs may be of any turn before, so it is shown, not taken for the reason.
    assert told is not None
    assert (told.kind, told.stderr_tail) == ("unavailable", tail)


def test_the_cost_of_a_loaded_session() -> None:
    cost = {"amount": 0.5, "currency": "USD"}
    for row, expected in ((quirks.CLAUDE, 0.5), (quirks.OPENCODE, None)):
        desk = WireBench(row, session={"resume": "s1"})
        desk.open()
        desk.prompt()
        desk.text("x")
        desk.update("usage_update", used=1, cost=cost)
        desk.done()
        assert desk.recorder.cost_usd == expected, "OpenCode tells that of the whole session"


# -- models and images ----------------------------------------------------------------------------


MODELS: dict[str, Any] = {
    "configOptions": [{"id": "model", "category": "model", "currentValue": "small"}]
}


def test_a_prompt_waits_for_the_change_of_the_model() -> None:
    desk = WireBench()
    desk.open(**MODELS)
    desk.wire.set_model("big")
    (change,) = desk.collect()
    assert change["params"] == {"sessionId": "s1", "configId": "model", "value": "big"}
    assert desk.prompt() == []
    (sent,) = desk.answer(change["id"], {})
    assert sent["method"] == "session/prompt"
    desk.text("x")
    desk.done()
    assert desk.recorder.model == "big"
    assert [each.taken for each in desk.deliveries] == [True]


def test_a_model_that_the_agent_refuses() -> None:
    desk = WireBench()
    desk.open(**MODELS)
    desk.wire.set_model("none")
    desk.collect()
    desk.prompt()
    desk.answer_last("session/set_config_option", code=-32602, message="unknown model none")
    assert desk.recorder.is_ready
    desk.wire.set_model("none")
    desk.collect()
    desk.answer_last("session/set_config_option", code=-32602, message="unknown model none")
    desk.prompt(id="second")
    desk.prompt(id="third")
    desk.text("x")
    desk.done()
    assert [(each.id, each.taken) for each in desk.deliveries] == [
        ("m1", False),
        ("second", False),
        ("third", True),
    ]
    assert [end.status for end in desk.ends] == ["failed", "completed"]
    assert desk.recorder.model == "small"


def test_an_aborted_prompt_that_waited_is_never_sent() -> None:
    desk = WireBench()
    desk.open(**MODELS)
    desk.wire.set_model("big")
    desk.collect()
    desk.prompt()
    assert desk.abort() == []
    assert desk.recorder.is_ready
    assert desk.answer_last("session/set_config_option", {}) == []
    assert [each.taken for each in desk.deliveries] == [False]
    assert [end.status for end in desk.ends] == ["aborted"]


def test_an_agent_without_a_choice_of_models() -> None:
    desk = opened()
    desk.wire.set_model("big")
    assert desk.prompt() == []
    (refused,) = desk.deliveries
    assert refused.error is not None
    assert "no choice of model" in refused.error.message
    assert desk.recorder.is_ready


def test_images(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 8)
    (tmp_path / "b.png").write_text("no image")
    desk = opened()
    for problem in ({"images": (str(tmp_path / "b.png"),)}, {"text": "\ud800"}):
        assert desk.prompt(**problem) == []
        assert desk.recorder.is_ready
    (sent,) = desk.prompt(images=(str(image),))
    assert [block["type"] for block in sent["params"]["prompt"]] == ["text", "image"]
    assert [each.taken for each in desk.deliveries] == [False, False]
    blind = WireBench()
    blind.open({})
    assert blind.prompt(images=(str(image),)) == []
    assert [each.taken for each in blind.deliveries] == [False]


# -- compaction -----------------------------------------------------------------------------------


def compacting(desk: WireBench) -> CompactingWire:
    assert isinstance(desk.wire, CompactingWire)
    desk.wire.compact()
    (sent,) = desk.collect()
    assert sent["params"]["prompt"] == [{"type": "text", "text": "/compact"}]
    assert desk.recorder.state == "compacting"
    return desk.wire


def test_compaction_is_no_turn() -> None:
    desk = opened(quirks.CLAUDE)
    compacting(desk)
    desk.text("Compacting...")
    desk.text("\n\nCompacting completed.")
    desk.done(**told(50))
    assert desk.recorder.is_ready
    assert desk.ends == []
    assert desk.recorder.usage.input_tokens == 50
    desk.prompt()
    desk.text("x")
    desk.done(**told(7))
    assert [end.usage.input_tokens for end in desk.ends] == [7]
    assert [event.reason for event in desk.of(ev.AutoCompactionEnd)] == ["asked for"]


def test_a_compaction_that_fails_says_why() -> None:
    desk = opened(quirks.CLAUDE)
    compacting(desk)
    desk.text("\n\nCompacting failed: too short")
    desk.done()
    compacting(desk)
    desk.answer_last("session/prompt", code=-32603, message="Internal error: HTTP 500")
    compacting(desk)
    desk.answer_last("session/prompt", {"stopReason": 3})
    wire = compacting(desk)
    wire.abort_compaction()
    (cancel,) = desk.collect()
    assert cancel["method"] == "session/cancel"
    desk.done("cancelled")
    assert desk.recorder.is_ready
    wire.abort_compaction()
    assert desk.collect() == []
    reasons = [event.reason for event in desk.of(ev.AutoCompactionEnd)]
    assert reasons[0] == "Compacting failed: too short"
    assert "500" in reasons[1]
    assert "is malformed" in reasons[2]
    assert reasons[3] == "the turn was cancelled"
