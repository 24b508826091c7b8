"""Checks of the translation: unknown messages, garbage and half lines never end a stream."""

from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.options import ModelServer
from bridle.core.results import RunResult
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessExit
from bridle.runs import recorder_for
from bridle.runtimes.plan import RunPlan
from bridle.testing.conformance.checks.registry import Check, Seen
from bridle.testing.conformance.report import Failed, Unsupported, need, shown
from bridle.testing.contract import check_event_order

WORD = "conformance-garbage"
GARBAGE: tuple[bytes, ...] = (
    f'{{"type":"{WORD}","payload":{{"deep":[1,2,{{"x":null}}]}}}}'.encode(),
    f'{{"jsonrpc":"2.0","method":"{WORD}/new","params":{{}}}}'.encode(),
    f"{WORD}: this is no JSON at all".encode(),
    f'{{"type":"{WORD}","half":'.encode(),
    b"\xff\xfe\x00\x80" + WORD.encode(),
    b"[]",
    b"null",
    b"17",
    b"{}",
    b'"' + WORD.encode() + b'"',
    b'{"type":null}',
    b'{"type":["' + WORD.encode() + b'"]}',
    b"[" * 300 + b"]" * 300,
    b"",
    b"   ",
)


class Replay:
    """Lines through a fresh normalizer of the runtime under test."""

    def __init__(self, seen: Seen, plan: RunPlan, options: Any, exit: ProcessExit) -> None:
        self.recorder = recorder_for(seen.lab.runtime, options, plan)
        self._normalizer = seen.lab.runtime.normalizer(plan, self.recorder)
        self._exit = exit

    def play(self, lines: list[bytes]) -> tuple[list[ev.Event], RunResult]:
        """Feed the lines and end; fails when the adapter raises."""
        for line in lines:
            try:
                self._normalizer.feed(line)
            except Exception as problem:
                raise Failed(f"raised {problem!r} on {shown(line)}") from problem
        try:
            self._normalizer.finish(self._exit)
        except Exception as problem:
            raise Failed(f"raised {problem!r} at the end") from problem
        self.recorder.finish(self._exit)
        return self.recorder.drain(), self.recorder.result()


def _is_json(lines: list[bytes]) -> bool:
    """Whether the wire is JSON; on a plain-text wire every line is text."""
    good = 0
    for line in lines:
        try:
            msgspec.json.decode(line)
            good += 1
        except msgspec.MsgspecError:
            pass
    return good * 2 > len(lines)


def _unknown(seen: Seen) -> str:
    outcome = seen.one("talk")
    outcome.completed()
    if not _is_json(outcome.lines):
        raise Unsupported("its output is plain text, where every line means itself")
    assert outcome.plan is not None
    assert outcome.exit is not None
    place = outcome.place
    server = ModelServer(url="http://127.0.0.1:9", api_key=seen.lab.key)
    options = seen.lab.options(place, server, "Please do it.")
    mixed = [each for line in outcome.lines for each in (*GARBAGE, line)] + list(GARBAGE)
    plain, _ = Replay(seen, outcome.plan, options, outcome.exit).play(outcome.lines)
    damaged, result = Replay(seen, outcome.plan, options, outcome.exit).play(mixed)
    need(result.status == "completed", f"with garbage the run ended {result.status}")
    need(_essence(damaged) == _essence(plain), "garbage between the lines changed the events")
    unknown = [event for event in damaged if isinstance(event, ev.Unknown)]
    need(bool(unknown), "no `unknown` event reports the garbage")
    kept = sum(WORD in str(event.raw) for event in unknown)
    need(kept > 0, "the `unknown` events do not keep the garbage")
    return f"{len(unknown)} unknown events among {len(mixed)} lines"


def _essence(events: list[ev.Event]) -> list[tuple[str, str]]:
    """The content of events, without numbers, times and garbage."""
    found = []
    for event in events:
        if isinstance(event, ev.Unknown):
            continue
        tag = str(type(event).__struct_config__.tag)
        text = getattr(event, "text", "") or getattr(event, "tool_name", "")
        found.append((tag, f"{getattr(event, 'kind', '')}:{text}"))
    return found


def _garbage(seen: Seen) -> str:
    lab, place = seen.lab, seen.lab.place("garbage")
    server = ModelServer(url="http://127.0.0.1:9", api_key=lab.key)
    options, plan = lab.plan(place, lab.options(place, server, "Please do it."))
    try:
        failed_exit = ProcessExit(code=1, stderr_tail="something went wrong\n")
        events, result = Replay(seen, plan, options, failed_exit).play(list(GARBAGE))
        need(result.status == "failed", f"garbage and exit 1 gave status {result.status}")
        need(result.error is not None, "garbage and exit 1 gave no error")
        problems = check_event_order(events)
        need(not problems, "; ".join(problems[:3]))
        _, silent = Replay(seen, plan, options, ProcessExit(code=0)).play([])
        need(silent.status == "failed", f"no output at all gave status {silent.status}")
        need(silent.error is not None, "no output at all gave no error")
        assert silent.error is not None
        return f"no output: {silent.error.kind}"
    finally:
        remove_folders(plan.private_dirs)


CHECKS = (
    Check("unknown_messages", "unknown messages change nothing else", ("talk",), _unknown),
    Check("garbage_only", "nothing usable on the wire is a typed failure", (), _garbage),
)
