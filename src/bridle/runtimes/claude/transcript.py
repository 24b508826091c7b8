"""Claude Code's transcripts: where they are, and what they say was used.

A message has as many lines as blocks, each with the whole usage; so each message id counts once,
with its last line, across all files. A fork copies the lines of its source, times included, below
its own first line: what is older than the file's first line was paid for by the source, and counts
in the source's file only.
"""

import contextlib
import os
import re

import msgspec

from bridle.core import structs
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import Usage
from bridle.runtimes.claude.wire import WireUsage, usage_of
from bridle.turns.wire import LiveFacts

_LONGEST_KEY = 200
_OUTSIDE = re.compile(r"[^A-Za-z0-9]")


class _Message(msgspec.Struct):
    id: str = ""
    model: str = ""
    usage: WireUsage | None = None


class _Line(msgspec.Struct):
    type: str = ""
    timestamp: str = ""
    message: _Message | None = None


class _Attachment(msgspec.Struct):
    source_uuid: str = ""


class _Named(msgspec.Struct):
    uuid: str = ""
    attachment: _Attachment | None = None


class _Kind(msgspec.Struct):
    type: str = ""
    timestamp: str = ""


def project_key(project: str) -> str:
    """The folder name that Claude gives a project: its real path with every character except ASCII
    letters and digits replaced."""
    return _OUTSIDE.sub("-", os.path.realpath(project))


def transcript_dir(project: str, config_home: str) -> str | None:
    """The folder of a project's transcripts; None when it is not known.

    Past 200 characters Claude cuts the key and adds its own hash; the folder is then searched for,
    and returned only if exactly one fits.
    """
    projects = os.path.join(config_home, "projects")
    key = project_key(project)
    if len(key) <= _LONGEST_KEY:
        return os.path.join(projects, key)
    start = key[:_LONGEST_KEY] + "-"
    try:
        fitting = [name for name in os.listdir(projects) if name.startswith(start)]
    except OSError:
        return None
    return os.path.join(projects, fitting[0]) if len(fitting) == 1 else None


def files_of(path: str) -> list[str]:
    """A session's files: the transcript itself and those of its sub-agents."""
    folder = os.path.join(os.path.splitext(path)[0], "subagents")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    return [path, *(os.path.join(folder, name) for name in names if name.endswith(".jsonl"))]


def parse_transcript(path: str) -> TranscriptSummary | None:
    """What a session used by its transcript, its sub-agents included; None when it is missing or
    holds no line that can be read.

    The call that compacts a session is in no transcript, so its tokens are not in the sum.
    """
    return sum_transcripts(files_of(path))


def sum_transcripts(paths: list[str]) -> TranscriptSummary | None:
    """The sum over several files, each message counted once; None when the first is unreadable."""
    messages: dict[str, _Message] = {}
    readable = 0
    for number, path in enumerate(paths):
        try:
            with open(path, "rb") as file:
                readable += _collect(file.read(), messages)
        except OSError:
            if number == 0:
                return None
    if not readable:
        return None
    total = Usage()
    for message in messages.values():
        if message.usage is not None:
            total += usage_of(message.usage)
    return transcript_summary(
        total, model=next((each.model for each in reversed(messages.values()) if each.model), "")
    )


_lines = structs.decoder(_Line)
_kinds = structs.decoder(_Kind)


def _collect(data: bytes, messages: dict[str, _Message]) -> int:
    """Take the assistant messages of a file that it did not inherit; returns how many lines could
    be read. Times are compared as text: all are UTC in the same format."""
    readable = 0
    began = ""
    for raw in data.split(b"\n"):
        if b'"assistant"' not in raw:
            kind = _kind(raw)
            readable += bool(kind.type)
            began = began or kind.timestamp
            continue
        try:
            line = _lines.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        readable += 1
        began = began or line.timestamp
        if line.timestamp and line.timestamp < began:
            continue
        message = line.message
        if line.type == "assistant" and message is not None and message.model != "<synthetic>":
            messages[message.id] = message
    return readable


def _kind(raw: bytes) -> _Kind:
    try:
        return _kinds.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Kind()


def held_messages(path: str, messages: tuple[str, ...]) -> set[str] | None:
    """Which of the messages with these ids a transcript holds: as a separate line, or as part of a
    running turn. None when it cannot be read."""
    decoder = structs.decoder(_Named)
    wanted = {each.encode(): each for each in messages}
    held: set[str] = set()
    try:
        with open(path, "rb") as file:
            for line in file:
                if any(each in line for each in wanted):
                    with contextlib.suppress(msgspec.MsgspecError):
                        named = decoder.decode(line)
                        held |= {
                            named.uuid,
                            named.attachment.source_uuid if named.attachment else "",
                        }
    except OSError:
        return None
    return held & set(messages)


def session_path(facts: LiveFacts) -> str | None:
    """The transcript of a conversation that Bridle planned; it appears with the first prompt."""
    folder = transcript_dir(facts.cwd, facts.own["home"])
    return None if folder is None else os.path.join(folder, f"{facts.own['session']}.jsonl")
