"""Checks of one plain reply: order, text, thinking, usage, model, marker."""

from bridle.core import events as ev
from bridle.core.usage import NO_USAGE, Usage
from bridle.testing.conformance.checks.registry import Check, Seen
from bridle.testing.conformance.lab import Outcome
from bridle.testing.conformance.report import Failed, Unsupported, need, shown
from bridle.testing.conformance.scenarios import (
    TALK_USAGE,
    TEXT,
    THINKING,
    TOOLS_USAGE,
)
from bridle.testing.contract import check_event_order


def _order(seen: Seen) -> str:
    outcome = seen.one("talk")
    outcome.completed()
    problems = check_event_order(outcome.events)
    need(not problems, "; ".join(problems[:3]))
    return f"{len(outcome.events)} events"


def _failure_order(seen: Seen) -> str:
    count = 0
    for name in ("error_500", "error_401"):
        outcome = seen.one(name)
        need(outcome.refusal is None, f"{name}: refused to start: {shown(outcome.refusal)}")
        problems = check_event_order(outcome.events)
        need(not problems, f"{name}: " + "; ".join(problems[:3]))
        count += len(outcome.events)
    return f"{count} events"


def _text(seen: Seen) -> str:
    outcome = seen.one("talk")
    result = outcome.completed()
    ends = [event.text for event in outcome.of(ev.MessageEnd) if event.text]
    need(result.text == TEXT, f"the result's text is {shown(repr(result.text))}")
    need(ends == [TEXT], f"the message's text is {shown(ends)}")
    deltas = [e.text for e in outcome.of(ev.MessageUpdate) if e.kind == "text_delta"]
    need("".join(deltas) == TEXT, f"the deltas joined are {shown(repr(''.join(deltas)))}")
    if seen.lab.features.streaming:
        need(len(deltas) > 1, "says that it streams, but the text came in one piece")
    return f"{len(TEXT)} characters in {len(deltas)} pieces"


def _thinking(seen: Seen) -> str:
    outcome = seen.one("talk")
    outcome.completed()
    said = "".join(e.text for e in outcome.of(ev.MessageUpdate) if e.kind == "thinking_delta")
    if not seen.lab.features.thinking:
        need(not said, "shows thinking, but does not say so in its features")
        raise Unsupported("the agent does not show what the model thinks")
    if not seen.lab.features.exact_thinking:
        words = ("".join(text.split()) for text in (said, THINKING))
        need(len(set(words)) == 1, f"the thinking shown is {shown(repr(said))}")
        raise Unsupported("thinking is shown, but the agent loses white space in it")
    # Some agents separate thoughts with empty lines.
    need(said.strip() == THINKING, f"the thinking shown is {shown(repr(said))}")
    return f"{len(said)} characters"


def _usage(seen: Seen) -> str:
    talk, tools = seen.one("talk"), seen.one("tools")
    counted = talk.completed().usage
    wanted = _expectations(seen, talk)
    need(counted in wanted, f"one call: {_short(counted)}, not {_short(wanted[0])}")
    _check_sums(seen, talk)
    if any(request.outcome == "untranslatable" for request in tools.requests):
        return f"{counted.total} tokens in one call"
    several = tools.completed().usage
    total = sum((Usage(**one) for one in TOOLS_USAGE), NO_USAGE)
    need(several == total, f"three calls: {_short(several)}, not {_short(total)}")
    _check_sums(seen, tools)
    return f"{counted.total} tokens in one call, {several.total} in three"


def _check_sums(seen: Seen, outcome: Outcome) -> None:
    """Every place that reports the usage reports the same."""
    result = outcome.completed()
    ends, totals = outcome.of(ev.AgentEnd), outcome.of(ev.UsageTotals)
    for what, usage in (("agent_end", ends[-1].usage), ("the usage event", totals[-1].usage)):
        need(usage == result.usage, f"{what} reports {_short(usage)}, unlike the result")
    if seen.lab.features.message_usage:
        own = [event.usage for event in outcome.of(ev.MessageEnd) if event.usage is not None]
        summed = sum(own, NO_USAGE)
        need(summed == result.usage, f"the messages' usage adds up to {_short(summed)}")


def _expectations(seen: Seen, outcome: Outcome) -> list[Usage]:
    """The script's token counts as the agent sees them on its wire.

    How much of the output was reasoning is not sent on every wire, so it may be missing. OpenAI's
    and Google's wires were made without cache writes, which older agents then count as input.
    """
    whole = Usage(**TALK_USAGE)
    if not seen.lab.features.cache_usage:
        read = whole.total - whole.output_tokens
        return [Usage(input_tokens=read, output_tokens=whole.output_tokens)]
    writes = whole.cache_write_tokens
    as_input = whole - Usage(cache_write_tokens=writes) + Usage(input_tokens=writes)
    protocols = {request.protocol for request in outcome.requests}
    sums = [whole] if protocols == {"anthropic-messages"} else [whole, as_input]
    return [
        *sums,
        *(usage - Usage(reasoning_tokens=usage.reasoning_tokens) for usage in sums),
    ]


def _short(usage: Usage | None) -> str:
    if usage is None:
        return "nothing"
    parts = [getattr(usage, name) for name in Usage.__struct_fields__]
    return "/".join(map(str, parts)) + " (in/out/read/write/reasoning)"


def _model(seen: Seen) -> str:
    outcome = seen.one("talk")
    reported = outcome.completed().model
    asked = {request.question.model for request in outcome.requests if request.question}
    if not reported and not seen.lab.features.reports_model:
        raise Unsupported("the agent does not report which model answered")
    if not reported:
        raise Failed("claims to report which model answered, but reported none")
    bare = {reported, reported.rpartition("/")[2]}
    need(bool(bare & asked), f"reported {reported}, but the model asked for was {sorted(asked)}")
    return reported


def _marker(seen: Seen) -> str:
    need(
        seen.one("talk").completed().marker_detected, "the agent wrote it, but it was not detected"
    )
    return ""


def _marker_echo(seen: Seen) -> str:
    result = seen.one("retried").completed()
    need(not result.marker_detected, "a repetition of the instructions was mistaken for the marker")
    return ""


def _marker_tool(seen: Seen) -> str:
    from bridle.testing.conformance.checks.registry import offers_tools

    outcome = seen.one("tools")
    offers_tools(outcome)
    result = outcome.completed()
    need(not result.marker_detected, "a tool's output was mistaken for the marker")
    return ""


def _session_id(seen: Seen) -> str:
    outcome = seen.one("talk")
    native = outcome.completed().native_session_id
    if native is None:
        if seen.lab.features.resume:
            raise Failed("no id was reported, so the conversation cannot be resumed")
        raise Unsupported("the agent does not name its conversations")
    return native


CHECKS = (
    Check("event_order", "events come in the promised order", ("talk",), _order),
    Check(
        "event_order_failed",
        "events keep the order when the turn fails",
        ("error_500", "error_401"),
        _failure_order,
    ),
    Check("text", "the pieces of a text add up to it exactly", ("talk",), _text),
    Check("thinking", "thinking is shown apart from the text", ("talk",), _thinking),
    Check("usage", "token counts are exact, and the sums agree", ("talk", "tools"), _usage),
    Check("model", "the model that answered is reported", ("talk",), _model),
    Check("session_id", "the conversation's own id is reported", ("talk",), _session_id),
    Check("marker", "the completion marker is found", ("talk",), _marker),
    Check(
        "marker_not_in_echo", "repeated instructions are not the marker", ("retried",), _marker_echo
    ),
    Check("marker_not_in_tools", "a tool's output is not the marker", ("tools",), _marker_tool),
)
