"""Gemini's session files: where they are, and what they say was used."""

import contextlib
import os
from collections.abc import Iterator

import msgspec

from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE, Usage


class _Tokens(msgspec.Struct, frozen=True):
    """Tokens of one answer: `input` with cached ones, `output` without thoughts."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int = 0


class _Entry(msgspec.Struct, frozen=True):
    id: str = ""
    type: str = ""
    model: str = ""
    tokens: _Tokens | None = None


class _Patch(msgspec.Struct, frozen=True):
    messages: list[_Entry] = []


class _Line(_Entry, frozen=True):
    session_id: str = msgspec.field(name="sessionId", default="")
    patch: _Patch | None = msgspec.field(name="$set", default=None)


class _Projects(msgspec.Struct, frozen=True):
    projects: dict[str, str] = {}


_decode = msgspec.json.Decoder(_Line).decode


def chats_dir(config_dir: str, project: str) -> str | None:
    """The folder of `project`'s sessions, by the short name Gemini gave the project; None when it
    never worked there.

    The name is looked for where Gemini looks: in its list, then in the folders themselves, each of
    which says whose it is.
    """
    paths = (os.path.realpath(project), os.path.abspath(project))
    folder = os.path.join(config_dir, "tmp")
    try:
        with open(os.path.join(config_dir, "projects.json"), "rb") as file:
            names = msgspec.json.decode(file.read(), type=_Projects).projects
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        names = {}
    name = names.get(paths[0]) or names.get(paths[1]) or _owned_by(folder, paths)
    return os.path.join(folder, name, "chats") if name else None


def _owned_by(folder: str, paths: tuple[str, ...]) -> str | None:
    """The name in `folder` that is marked as that of a project at one of `paths`."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    for name in names:
        mark = os.path.join(folder, name, ".project_root")
        with contextlib.suppress(OSError), open(mark, encoding="utf-8", errors="replace") as file:
            if file.read().strip() in paths:
                return name
    return None


def find_session(config_dir: str, session_id: str) -> str | None:
    """The file of a session: its name holds the minute, and ends with the first part of the id.

    To take a session up over ACP, Gemini begins another file, and then goes on with the first.
    """
    ending = f"-{session_id.partition('-')[0]}.jsonl"
    found = [
        (name, folder)
        for folder, _, names in os.walk(os.path.join(config_dir, "tmp"))
        for name in names
        if os.path.basename(folder) == "chats" and name.endswith(ending)
    ]
    name, folder = min(found, default=("", ""))
    return os.path.join(folder, name) if name else None


def summarize(path: str) -> TranscriptSummary | None:
    """What the session in `path` used; None when it is missing or something else.

    An answer is written again when its tools have ended: the last writing counts. When a session
    is taken up again, all before is listed anew, without tokens: those say nothing.
    """
    entries: dict[str, tuple[_Tokens, str]] = {}
    try:
        for entry in _entries(path):
            if entry.type == "gemini" and entry.tokens is not None:
                entries[entry.id] = (entry.tokens, entry.model)
    except (OSError, _NoSession):
        return None
    usage, model = NO_USAGE, ""
    for tokens, name in entries.values():
        model = name or model
        usage += Usage(
            input_tokens=tokens.input - tokens.cached,
            output_tokens=tokens.output + tokens.thoughts,
            cache_read_tokens=tokens.cached,
            reasoning_tokens=tokens.thoughts,
        )
    return transcript_summary(usage, model=model)


class _NoSession(Exception):
    """The file does not begin as a session does."""


def _entries(path: str) -> Iterator[_Entry]:
    with open(path, "rb") as file:
        for number, line in enumerate(file):
            try:
                entry = _decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                entry = _Line()
            if number == 0 and not entry.session_id:
                raise _NoSession
            if entry.patch is not None:
                yield from entry.patch.messages
            elif entry.id:
                yield entry
