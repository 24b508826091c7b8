"""Pauses between failing model calls: shown, kept in bounds, and read from what agents log."""

from pathlib import Path

import pytest

from bridle.core import errors as er
from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.codex.stream import CodexLog, CodexNormalizer, without_log
from bridle.runtimes.retries import Retry, RetryClock
from bridle.turns.recorder import Recorder

LOGS = Path(__file__).parents[2] / "src/bridle/runtimes/codex/testdata/0.166.0/exec"
STARTED = (b'{"type":"thread.started","thread_id":"t"}', b'{"type":"turn.started"}')


def recorder() -> Recorder:
    return Recorder(runtime="r", session_id="s", options=RunOptions(prompt="go"))


def retry(seconds: float, **more: bool) -> Retry:
    error = er.RateLimited("slow down")
    return Retry(attempt=1, error=error, delay_ms=round(seconds * 1000), **more)


def test_a_short_pause_is_shown_and_has_a_clock() -> None:
    desk = recorder()
    clock = RetryClock(desk, 10.0)
    clock.again(retry(2))
    assert desk.patience is not None
    assert desk.patience.seconds == 12.0
    assert desk.patience.error is clock.error
    assert desk.stop_requested is None
    (shown,) = [event for event in desk.drain() if isinstance(event, ev.Retry)]
    assert (shown.delay_ms, shown.error.kind) == (2000, "rate_limited")
    assert shown.error.until is not None
    clock.progress()
    assert desk.patience is None
    assert clock.error is None


def test_a_long_pause_ends_the_run() -> None:
    desk = recorder()
    RetryClock(desk, 10.0).again(retry(3600))
    assert isinstance(desk.stop_requested, er.RateLimited)
    assert desk.stop_requested.until is not None


def test_what_the_wire_tells_is_shown_once() -> None:
    desk = recorder()
    RetryClock(desk, 10.0).again(retry(2, told=True))
    assert desk.patience is not None
    assert not [event for event in desk.drain() if isinstance(event, ev.Retry)]


def test_progress_leaves_a_clock_of_others_alone() -> None:
    desk = recorder()
    desk.expect(5.0)
    RetryClock(desk).progress()
    assert desk.patience is not None


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [("overloaded", "overloaded", False), ("rate_limit", "rate_limited", True)],
)
def test_codex_logs_its_pauses(name: str, kind: str, told: bool) -> None:
    log = CodexLog()
    lines = (LOGS / f"retry_after_{name}.stderr").read_bytes().splitlines()
    (found,) = [each for line in lines if (each := log.feed(line)) is not None]
    assert (found.error.kind, found.told, found.attempt) == (kind, told, 1)
    assert found.delay_ms is not None
    assert 590_000 < found.delay_ms <= 600_000


def test_codex_is_stopped_in_a_long_pause_and_its_log_is_not_shown(tmp_path: Path) -> None:
    desk = recorder()
    normalizer = CodexNormalizer(desk, str(tmp_path))
    text = (LOGS / "retry_after_rate_limit.stderr").read_text()
    for started in STARTED:
        normalizer.feed(started)
    for line in text.splitlines():
        normalizer.feed_stderr(line.encode())
    assert isinstance(desk.stop_requested, er.RateLimited)
    normalizer.finish(ProcessExit(code=1, stderr_tail=f"{text}Error: something\n"))
    error = desk.result().error
    assert error is not None
    assert (error.kind, error.until is not None) == ("rate_limited", True)
    assert error.stderr_tail == "Error: something\n"


def test_a_log_line_that_was_cut_is_left_out_too() -> None:
    text = (LOGS / "retry_after_overloaded.stderr").read_text()
    assert without_log(text[300:] + "kept\n") == "kept\n"


@pytest.mark.parametrize(
    "line", [b"", b"\xff\xfe", b'x codex_otel.trace_safe: event.name="codex.retry"']
)
def test_odd_log_lines_do_no_harm(line: bytes) -> None:
    found = CodexLog().feed(line)
    assert found is None or found.delay_ms is None
