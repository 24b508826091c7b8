"""Checks of tool calls: really executed, paired, several at once, huge output."""

import os

from bridle.core import events as ev
from bridle.testing.conformance.checks.registry import Check, Seen, offers_tools, refuse_too_large
from bridle.testing.conformance.lab import Outcome
from bridle.testing.conformance.report import need, shown
from bridle.testing.conformance.scenarios import HUGE_OUTPUT, HUGE_TEXT
from bridle.testing.contract import check_event_order


def _read(outcome: Outcome, name: str) -> str:
    try:
        with open(os.path.join(outcome.place.work, name), encoding="utf-8") as file:
            return file.read().strip()
    except OSError as problem:
        return str(problem.strerror)


def _pairs(outcome: Outcome) -> int:
    """Number of tool calls, each with one start and one end of the same id."""
    starts = [event.tool_call_id for event in outcome.of(ev.ToolExecutionStart)]
    ends = [event.tool_call_id for event in outcome.of(ev.ToolExecutionEnd)]
    need(len(set(starts)) == len(starts), f"a tool call was started twice: {starts}")
    need(sorted(starts) == sorted(ends), f"started {sorted(starts)}, ended {sorted(ends)}")
    return len(starts)


def _tool_call(seen: Seen) -> str:
    outcome = seen.one("tools")
    offers_tools(outcome)
    outcome.completed()
    need(_read(outcome, "one.txt") == "one", f"one.txt: {_read(outcome, 'one.txt')}")
    starts, ends = outcome.of(ev.ToolExecutionStart), outcome.of(ev.ToolExecutionEnd)
    need(bool(starts) and bool(ends), "no tool call was shown")
    need("one.txt" in shown(starts[0].args, 4000), f"its arguments: {shown(starts[0].args)}")
    need(not ends[0].is_error, f"shown as an error: {shown(ends[0].result)}")
    problems = check_event_order(outcome.events)
    need(not problems, "; ".join(problems[:3]))
    return f"{starts[0].tool_name}, {len(starts)} calls"


def _parallel(seen: Seen) -> str:
    outcome = seen.one("tools")
    offers_tools(outcome)
    outcome.completed()
    for name, word in (("two.txt", "two"), ("three.txt", "three")):
        need(_read(outcome, name) == word, f"{name}: {_read(outcome, name)}")
    count = _pairs(outcome)
    # Some agents run both inside one call of a scripting tool; then one call shows both.
    args = [shown(event.args, 4000) for event in outcome.of(ev.ToolExecutionStart)]
    told = sum("two.txt" in text or "three.txt" in text for text in args)
    need(told in (1, 2), f"{told} calls were shown for the two")
    return f"{count} calls, each with its end"


def _huge_output(seen: Seen) -> str:
    outcome = seen.one("huge_output")
    offers_tools(outcome)
    refuse_too_large(seen, outcome, HUGE_OUTPUT)
    result = outcome.completed()
    need(result.text == "Seen.", f"the text is {shown(repr(result.text))}")
    need(_pairs(outcome) >= 1, "no tool call was shown")
    longest = max(map(len, outcome.lines), default=0)
    return f"longest line {longest} bytes"


def _huge_text(seen: Seen) -> str:
    outcome = seen.one("huge_text")
    result = outcome.completed()
    need(result.text == HUGE_TEXT, f"{len(result.text)} characters of {len(HUGE_TEXT)} came")
    longest = max(map(len, outcome.lines), default=0)
    return f"{len(HUGE_TEXT)} characters, longest line {longest} bytes"


CHECKS = (
    Check("tool_call", "a tool call is executed and shown with its end", ("tools",), _tool_call),
    Check("parallel_tools", "tool calls at the same time keep their pairs", ("tools",), _parallel),
    Check("huge_tool_output", "a tool may print 10 MB in a line", ("huge_output",), _huge_output),
    Check("huge_text", "a reply may have a megabyte", ("huge_text",), _huge_text),
)
