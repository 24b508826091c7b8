"""Model calls that OpenCode makes again, which only its log tells of."""

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.opencode.stream import read_log_line
from bridle.turns.recorder import Recorder
from tests.runtimes.opencode.captures import capture_lines, make, play

_FAILED = (
    'timestamp=2026-11-15T20:48:29.407Z level=ERROR run=8b3c7665 message="stream error" '
    "providerID=lab modelID=scripted session.id=ses_e1f083d97ffedbjXi6iNsbDyLj small=false "
    'agent=build mode=primary error.error="AI_APICallError: {}"'
)
BUSY = _FAILED.format("Our servers are currently overloaded. Please try again later.").encode()
BROKEN = _FAILED.format('The server had an \\"error\\".').encode()
LIMITED = _FAILED.format("Rate limit reached for x. Please try again in 300s.").encode()
TITLE = BROKEN.replace(b"agent=build", b"agent=title")
FATAL = (
    b"timestamp=2026-11-15T20:51:31.760Z level=ERROR run=9d82e288 message=process "
    b"session.id=ses_e1f083d97ffedbjXi6iNsbDyLj messageID=msg_1 "
    b'error="Incorrect API key provided." stack="AI_APICallError: Incorrect\\n at x"'
)


def _recorder() -> Recorder:
    return Recorder(runtime="opencode", session_id="s", options=RunOptions(prompt="p"))


def test_a_log_line_is_read() -> None:
    said = read_log_line(BROKEN)
    assert said is not None
    assert (said.kind, said.session_id) == ("retry", "ses_e1f083d97ffedbjXi6iNsbDyLj")
    assert said.text == 'AI_APICallError: The server had an "error".'
    assert read_log_line(TITLE) is None
    assert read_log_line(b"level=INFO message=init") is None
    assert read_log_line(b"\xff\xfe garbage") is None


def test_calls_that_failed_and_came_good_are_retries() -> None:
    events, result = play(capture_lines("run-hello.jsonl"), stderr=[BUSY, BROKEN])
    retries = [event for event in events if isinstance(event, ev.Retry)]
    assert [(each.attempt, each.error.kind) for each in retries] == [
        (1, "overloaded"),
        (2, "unavailable"),
    ]
    assert result.status == "completed"


def test_one_more_failure_than_allowed_stops_the_agent() -> None:
    recorder = _recorder()
    normalizer = make(recorder, max_retries=2)
    for _ in range(2):
        normalizer.feed_stderr(BROKEN)
    assert recorder.stop_requested is None
    assert recorder.patience is not None
    normalizer.feed_stderr(BROKEN)
    assert recorder.stop_requested is not None
    normalizer.finish(ProcessExit(code=-15))
    result = recorder.result()
    assert result.error is not None
    assert result.error.kind == "unavailable"
    assert result.native_session_id == "ses_e1f083d97ffedbjXi6iNsbDyLj"
    retries = [event for event in recorder.drain() if isinstance(event, ev.Retry)]
    assert len(retries) == 2


def test_a_long_wait_runs_into_the_clock_with_its_reason() -> None:
    recorder = _recorder()
    normalizer = make(recorder, retry_seconds=7.0)
    normalizer.feed_stderr(LIMITED)
    assert recorder.patience is not None
    assert recorder.patience.seconds == 7.0
    assert recorder.patience.error is not None
    assert recorder.patience.error.kind == "rate_limited"
    assert recorder.patience.error.until is not None


def test_an_answer_that_is_cut_off_each_time_is_not_tried_for_ever() -> None:
    recorder = _recorder()
    normalizer = make(recorder, max_retries=2)
    for _ in range(3):
        normalizer.feed(capture_lines("run-hello.jsonl")[0])
        normalizer.feed_stderr(BROKEN)
    assert recorder.stop_requested is not None
    # OpenCode calls again before the signal reaches it.
    normalizer.feed(capture_lines("run-hello.jsonl")[0])
    normalizer.finish(ProcessExit(code=-15))
    assert recorder.result().status == "failed"
    assert len([event for event in recorder.drain() if isinstance(event, ev.Retry)]) == 2


def test_a_usage_limit_is_a_limit_though_the_log_names_no_status() -> None:
    recorder = _recorder()
    make(recorder).feed_stderr(_FAILED.format("The usage limit has been reached").encode())
    assert recorder.patience is not None
    assert recorder.patience.error is not None
    assert recorder.patience.error.kind == "rate_limited"


def test_the_clock_stops_when_the_model_answers() -> None:
    recorder = _recorder()
    normalizer = make(recorder)
    normalizer.feed_stderr(BUSY)
    normalizer.feed(capture_lines("run-hello.jsonl")[0])
    assert recorder.patience is None


def test_a_call_that_is_not_made_again_is_no_retry() -> None:
    events, result = play(capture_lines("run-e401.jsonl"), stderr=[BROKEN, FATAL], code=1)
    assert not [event for event in events if isinstance(event, ev.Retry)]
    assert result.error is not None
    assert result.error.kind == "not_authenticated"


def test_the_call_for_a_title_does_not_count() -> None:
    events, _ = play(capture_lines("run-hello.jsonl"), stderr=[TITLE] * 9)
    assert not [event for event in events if isinstance(event, ev.Retry)]
