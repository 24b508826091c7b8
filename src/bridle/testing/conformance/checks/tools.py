"""Checks of tool calls: really executed, paired, several at once, huge output."""

import os

from bridle.core import events as ev
from bridle.core.errors import WrongUse
from bridle.core.options import ModelServer
from bridle.process.private_folders import remove_folders
from bridle.testing.conformance.checks.registry import Check, Seen, offers_tools, refuse_too_large
from bridle.testing.conformance.lab import Outcome
from bridle.testing.conformance.report import Failed, Unsupported, need, shown
from bridle.testing.conformance.scenarios import HUGE_OUTPUT, HUGE_TEXT, NOTE
from bridle.testing.contract import check_event_order
from bridle.testing.request_log import tool_results_of
from bridle.testing.script import ToolCall
from bridle.testing.tools import UntranslatableError, translate


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
    shown_calls = sum("two.txt" in text or "three.txt" in text for text in args)
    need(shown_calls in (1, 2), f"{shown_calls} calls were shown for the two")
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


def _tool_names(seen: Seen) -> str:
    features = seen.lab.features.options
    fields = [name for name in ("allowed_tools", "denied_tools") if name in features]
    if not fields:
        raise Unsupported("takes no names of tools")
    for field in fields:
        place = seen.lab.place(f"names-{field}")
        server = ModelServer(url="http://127.0.0.1:9", api_key="conformance-none")
        wanted = seen.lab.options(place, server, "x", **{field: ("no_such_tool_at_all",)})
        try:
            _, plan = seen.lab.plan(place, wanted)
        except WrongUse as problem:
            need("no_such_tool_at_all" in str(problem), f"is not named: {shown(problem)}")
            continue
        remove_folders(plan.private_dirs)
        raise Failed(f"{field} takes a tool that does not exist")
    return ", ".join(fields)


def _denied(seen: Seen) -> str:
    offers_tools(seen.one("tools"))
    outcome = seen.one("denied_shell")
    need(outcome.refusal is None, f"refused to start: {shown(outcome.refusal)}")
    need(bool(outcome.requests), "the model was never asked")
    need(not os.path.exists(os.path.join(outcome.place.work, "ran.txt")), "the command ran")
    return "not offered" if not _can("shell", outcome) else "offered, and refused"


def _allowed(seen: Seen) -> str:
    outcome = seen.one("allowed_read")
    outcome.completed()
    results = tool_results_of(outcome.requests)
    need(any(NOTE in result.text for result in results), "the file's text did not reach the model")
    need(not _can("shell", outcome), "the shell is still offered")
    need(not _can("write_file", outcome), "writing is still offered")
    return ""


_ASKED = {
    "shell": {"command": "true"},
    "write_file": {"path": "x", "content": "y"},
}


def _can(name: str, outcome: Outcome) -> bool:
    """Whether any request of a run offered its model a tool for the neutral call `name`."""
    for request in outcome.requests:
        try:
            translate(
                ToolCall(name=name, args=_ASKED[name]),
                request.question.tools if request.question else (),
            )
        except UntranslatableError:
            continue
        return True
    return False


CHECKS = (
    Check("tool_call", "a tool call is executed and shown with its end", ("tools",), _tool_call),
    Check("parallel_tools", "tool calls at the same time keep their pairs", ("tools",), _parallel),
    Check(
        "tool_names", "a tool that it does not have is refused before the start", (), _tool_names
    ),
    Check("denied_tool", "a denied shell does not run", ("tools", "denied_shell"), _denied),
    Check("allowed_tool", "an allowed tool works, others are gone", ("allowed_read",), _allowed),
    Check("huge_tool_output", "a tool may print 10 MB on one line", ("huge_output",), _huge_output),
    Check("huge_text", "a reply may be a megabyte long", ("huge_text",), _huge_text),
)
