"""Checks of conversations that outlive a process: resuming, and the transcript on disk."""

import os
from typing import Any

from bridle.core.results import TranscriptSummary
from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.contract import History
from bridle.testing.conformance.checks.delivery import asked
from bridle.testing.conformance.checks.registry import Check, Seen
from bridle.testing.conformance.lab import Lab
from bridle.testing.conformance.report import Failed, Unsupported, need, shown
from bridle.testing.conformance.scenarios import (
    FIRST_ANSWER,
    FIRST_PROMPT,
    HISTORY_USAGE,
)

_LARGEST = 8 * 1024 * 1024


def _resume(seen: Seen) -> str:
    if not seen.lab.features.resume:
        raise Unsupported("the agent cannot continue an earlier conversation")
    first, again = _both(seen)
    one, two = first.completed(), again.completed()
    need(two.native_session_id == one.native_session_id, "another conversation's id came back")
    sent = asked(again)
    need(FIRST_PROMPT in sent, "the first prompt was not sent again")
    need(FIRST_ANSWER in sent, "the first answer was not sent again")
    need(two.text == "It was plum.", f"the text is {shown(repr(two.text))}")
    wanted = Usage(**HISTORY_USAGE[1])
    need(two.usage == wanted, "the first run's tokens were counted again")
    return one.native_session_id or ""


def _both(seen: Seen) -> tuple[Any, Any]:
    outcomes = seen.played("history")
    need(len(outcomes) == 2, "no id was reported, so there is nothing to resume")
    return outcomes[0], outcomes[1]


def _refused(seen: Seen) -> str:
    if not seen.lab.features.resume:
        raise Unsupported("the agent cannot continue an earlier conversation")
    outcome = seen.one("unknown_resume")
    kind = outcome.error_kind
    need(kind == "resume_refused", f"an unknown id gave {kind or 'no error'}")
    need(not outcome.requests, "the model was asked anyway")
    return ""


def _transcript(seen: Seen) -> str:
    outcomes = seen.played("history")
    total = NO_USAGE
    for outcome in outcomes:
        total += outcome.completed().usage
    native = outcomes[0].completed().native_session_id or ""
    found = find_transcript(seen.lab, outcomes[0].place.account, native)
    if found is None:
        raise Unsupported("the agent keeps no transcript that reports its usage")
    path, summary = found
    reported = Usage(
        input_tokens=summary.input_tokens,
        output_tokens=summary.output_tokens,
        cache_read_tokens=summary.cache_read_tokens,
        cache_write_tokens=summary.cache_write_tokens,
        reasoning_tokens=summary.reasoning_tokens,
    )
    if reported != total:
        raise Failed(f"{os.path.basename(path)} reports {reported}, the runs reported {total}")
    return f"{reported.total} tokens"


def find_transcript(lab: Lab, folder: str, native: str) -> tuple[str, TranscriptSummary] | None:
    """The transcript of a conversation below a configuration home, and its content.

    A file named after the conversation's id comes first, then any that parses as a transcript.
    """
    if not isinstance(lab.runtime, History):
        return None
    paths = [os.path.join(place, file) for place, _, files in os.walk(folder) for file in files]
    for path in sorted(paths, key=lambda path: (native not in path, path)):
        if os.path.getsize(path) > _LARGEST:
            continue
        summary = lab.runtime.parse_transcript(path)
        if summary is not None and summary.input_tokens + summary.output_tokens > 0:
            return path, summary
    return None


CHECKS = (
    Check("resume", "a resumed conversation is really sent again", ("history",), _resume),
    Check("resume_refused", "an unknown conversation is refused", ("unknown_resume",), _refused),
    Check(
        "transcript",
        "the transcript has the same usage",
        ("history",),
        _transcript,
    ),
)
