"""Copilot's own files: where conversations are kept, and what they and its summary say was used."""

import os
from collections.abc import Mapping

import msgspec

from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.token_counts import InclusiveCounts

HOME_VARIABLE = "COPILOT_HOME"
_RECORD = b'"session.usage_record"'
_TAIL = 1024 * 1024
"""Bytes from a conversation's end in which its last call is looked for."""


class _Record(msgspec.Struct, frozen=True):
    usage: msgspec.Raw = msgspec.Raw(b"{}")


class _Named(msgspec.Struct, frozen=True):
    model: str = ""


class _Finish(msgspec.Struct, frozen=True, rename="camel"):
    finish_reason: str | None = None
    interaction_type: str = ""


class _Line(msgspec.Struct, frozen=True):
    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _Metrics(msgspec.Struct, frozen=True):
    usage: InclusiveCounts = InclusiveCounts()


class _Summary(msgspec.Struct, frozen=True, rename="camel"):
    model_metrics: dict[str, _Metrics] = {}
    current_model: str | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_record = msgspec.json.Decoder(_Record).decode
_decode_counts = msgspec.json.Decoder(InclusiveCounts).decode
_decode_model = msgspec.json.Decoder(_Named).decode
_decode_finish = msgspec.json.Decoder(_Finish).decode
_decode_summary = msgspec.json.Decoder(_Summary).decode


def copilot_home(env: Mapping[str, str]) -> str:
    """Copilot's configuration home in the environment `env`."""
    home = env.get("HOME") or os.path.expanduser("~")
    return env.get(HOME_VARIABLE) or os.path.join(home, ".copilot")


def sessions_dir(home: str) -> str:
    """The folder of all conversations, one folder each, named by its id."""
    return os.path.join(home, "session-state")


def read_summary(path: str) -> tuple[Usage | None, str | None]:
    """What the file of `--usage-output-file` says was used, and the model; None without it."""
    try:
        with open(path, "rb") as file:
            summary = _decode_summary(file.read())
    except (OSError, msgspec.MsgspecError):
        return None, None
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
                usage = _decode_record(_decode_line(raw).data).usage
                finish = _decode_finish(usage)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if finish.interaction_type == "conversation-agent":
                return finish.finish_reason or ""
    return ""


def noted_usage(path: str) -> tuple[Usage | None, str]:
    """What the `events.jsonl` at `path` notes of its model calls, one record each, and the model.

    None for a file that is no conversation. A half-written line is passed over.
    """
    usage, model, known = NO_USAGE, "", False
    try:
        with open(path, "rb") as file:
            for raw in file:
                try:
                    line = _decode_line(raw)
                    known = known or line.type == "session.start"
                    if line.type == "session.usage_record":
                        record = _decode_record(line.data)
                        usage += _decode_counts(record.usage).usage()
                        model = _decode_model(record.usage).model or model
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
    except OSError:
        return None, ""
    return (usage if known else None), model


def summarize(path: str) -> TranscriptSummary | None:
    """What the conversation at `path` (its folder, or its `events.jsonl`) used."""
    if os.path.isdir(path):
        path = os.path.join(path, "events.jsonl")
    usage, model = noted_usage(path)
    if usage is None:
        return None
    return transcript_summary(usage, model=model)
