"""Copilot's own files: where conversations are, and what they and its summary say was used."""

import os
from collections.abc import Callable

import msgspec

from bridle.core import structs
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.copilot.wire import decode_envelope
from bridle.runtimes.wire import InclusiveCounts

_RECORD = b'"session.usage_record"'
_TAIL = 1024 * 1024
"""Bytes from a conversation's end in which its last call is searched."""


class Afterwards(msgspec.Struct, frozen=True, kw_only=True):
    """What only files say, once the process has ended."""

    usage: Usage | None = None
    model: str | None = None
    finish_reason: str = ""
    """Why the model stopped in the last call: `stop`, `tool_calls`, or `length` for an answer that
    was cut, which Copilot accepts as an end after it has asked the model to continue twice."""


class _Record(msgspec.Struct, frozen=True):
    usage: msgspec.Raw = msgspec.Raw(b"{}")


class _Named(msgspec.Struct, frozen=True):
    model: str = ""


class _Finish(msgspec.Struct, frozen=True, rename="camel"):
    finish_reason: str | None = None
    interaction_type: str = ""


class _Metrics(msgspec.Struct, frozen=True):
    usage: InclusiveCounts = InclusiveCounts()


class _Summary(msgspec.Struct, frozen=True, rename="camel"):
    model_metrics: dict[str, _Metrics] = {}
    current_model: str | None = None


class _Written(msgspec.Struct, frozen=True, rename="camel"):
    output_tokens: int = 0


_decode_written = structs.decoder(_Written).decode
_decode_record = structs.decoder(_Record).decode
_decode_counts = structs.decoder(InclusiveCounts).decode
_decode_model = structs.decoder(_Named).decode
_decode_finish = structs.decoder(_Finish).decode
_decode_summary = structs.decoder(_Summary).decode


def sessions_dir(home: str) -> str:
    """The folder of all conversations, one folder each, named by its id."""
    return os.path.join(home, "session-state")


def events_path(home: str, session: str) -> str:
    """The transcript of the conversation `session`."""
    return os.path.join(sessions_dir(home), session, "events.jsonl")


def call_record(data: msgspec.Raw) -> tuple[Usage, str]:
    """The tokens of one model call and its model, from the data of a `session.usage_record`."""
    record = _decode_record(data).usage
    return _decode_counts(record).usage(), _decode_model(record).model


def files_reader(
    summary: str | None, place: Callable[[str], str], before: Usage | None
) -> Callable[[str], Afterwards]:
    """The reader of a run's files, for the id of its conversation: the summary at `summary`, and
    the transcript, which `place` finds.

    Both count the whole conversation; `before` is what it had used before the run.
    """

    def read(session: str) -> Afterwards:
        transcript = place(session)
        usage, model = read_summary(summary) if summary else (None, None)
        if usage is None:
            # A killed process wrote no summary, but recorded each call when it was made. Older
            # versions write neither, but a summary at the end of the transcript.
            usage, model = noted_usage(transcript)
        if usage is not None and before is not None:
            usage -= before
        reason = last_finish_reason(transcript)
        return Afterwards(usage=usage, model=model, finish_reason=reason)

    return read


def read_summary(path: str) -> tuple[Usage | None, str | None]:
    """The usage and the model in the file of `--usage-output-file`; None if it is missing."""
    try:
        with open(path, "rb") as file:
            summary = _decode_summary(file.read())
    except (OSError, msgspec.MsgspecError):
        return None, None
    return _sum(summary)


def _sum(summary: _Summary) -> tuple[Usage, str | None]:
    usage = NO_USAGE
    for metrics in summary.model_metrics.values():
        usage += metrics.usage.usage()
    return usage, summary.current_model


def last_finish_reason(path: str) -> str:
    """Why the model stopped in the last call of the conversation at `path`; empty when unknown."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).split(b"\n")
    except OSError:
        return ""
    for raw in reversed(lines):
        if _RECORD in raw:
            try:
                usage = _decode_record(decode_envelope(raw).data).usage
                finish = _decode_finish(usage)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if finish.interaction_type == "conversation-agent":
                return finish.finish_reason or ""
    return ""


def noted_usage(path: str) -> tuple[Usage | None, str]:
    """The tokens of the conversation in the `events.jsonl` at `path`, and the model: the sum of the
    records of model calls; where there are none, what each process noted when it ended.

    None for a file that does not say. A half-written line is skipped.
    """
    usage: Usage | None = None
    ended: Usage | None = None
    model, known, answered, written = "", False, False, 0
    try:
        with open(path, "rb") as file:
            for raw in file:
                try:
                    line = decode_envelope(raw)
                    known = known or line.type == "session.start"
                    if line.type == "session.usage_record":
                        used, named = call_record(line.data)
                        usage, model = (usage or NO_USAGE) + used, named or model
                    elif line.type == "assistant.message":
                        answered = True
                        written += _decode_written(line.data).output_tokens
                    elif line.type == "session.shutdown":
                        total, last = _sum(_decode_summary(line.data))
                        # Some versions count the process, others the whole conversation.
                        if ended is None or total.output_tokens >= written:
                            ended = total
                        else:
                            ended += total
                        model = last or model
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
    except OSError:
        return None, ""
    if not known:
        return None, model
    return usage or ended or (None if answered else NO_USAGE), model


def summarize(path: str) -> TranscriptSummary | None:
    """What the conversation at `path` (its folder, or its `events.jsonl`) used."""
    if os.path.isdir(path):
        path = os.path.join(path, "events.jsonl")
    usage, model = noted_usage(path)
    if usage is None:
        return None
    return transcript_summary(usage, model=model)
