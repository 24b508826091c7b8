"""Gemini's session files: where they are, and what they say was used."""

import calendar
import contextlib
import os
import time
from collections.abc import Iterator

import msgspec

from bridle.core import structs
from bridle.core.errors import ResumeRefused
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.history import Spent


class _Tokens(msgspec.Struct, frozen=True):
    """Tokens of one answer: `input` with cached ones, `output` without thoughts."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int = 0

    @property
    def usage(self) -> Usage:
        """The same in Bridle's meaning."""
        return Usage(
            input_tokens=self.input - self.cached,
            output_tokens=self.output + self.thoughts,
            cache_read_tokens=self.cached,
            reasoning_tokens=self.thoughts,
        )


class _Part(msgspec.Struct, frozen=True):
    result: msgspec.Raw | None = msgspec.field(name="functionResponse", default=None)


class _Entry(msgspec.Struct, frozen=True):
    id: str = ""
    type: str = ""
    model: str = ""
    content: list[_Part | str] | _Part | str = ""
    tokens: _Tokens | None = None

    @property
    def is_prompt(self) -> bool:
        """Whether a user wrote it; the results of tools have the type `user` too."""
        parts = self.content if isinstance(self.content, list) else [self.content]
        given = any(isinstance(part, str) or part.result is None for part in parts)
        return self.type == "user" and given


class _Patch(msgspec.Struct, frozen=True):
    messages: list[_Entry] = []


class _Line(_Entry, frozen=True):
    session_id: str = msgspec.field(name="sessionId", default="")
    patch: _Patch | None = msgspec.field(name="$set", default=None)


class _Projects(msgspec.Struct, frozen=True):
    projects: dict[str, str] = {}


_decode = structs.decoder(_Line).decode


def chats_dir(config_dir: str, project: str) -> str | None:
    """The folder of `project`'s sessions, by the short name that Gemini gave the project; None if
    it never worked there.

    The name is searched where Gemini searches: in its list, then in the folders themselves, each of
    which names its project.
    """
    paths = (os.path.realpath(project), os.path.abspath(project))
    folder = os.path.join(config_dir, "tmp")
    try:
        with open(os.path.join(config_dir, "projects.json"), "rb") as file:
            names = structs.decode(file.read(), _Projects).projects
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        names = {}
    name = names.get(paths[0]) or names.get(paths[1]) or _owned_by(folder, paths)
    return os.path.join(folder, name, "chats") if name else None


def _owned_by(folder: str, paths: tuple[str, ...]) -> str | None:
    """The name in `folder` whose mark names a project at one of `paths`."""
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
    """The file of a session: its name contains the minute, and ends with the first part of the id.

    To load a session over ACP, Gemini begins another file, and then continues with the first.
    """
    first = session_id.partition("-")[0]
    # One JSON object before 0.41 or later, lines since.
    endings = (f"-{first}.jsonl", f"-{first}.json")
    found = [
        (name, folder)
        for folder, _, names in os.walk(os.path.join(config_dir, "tmp"))
        for name in names
        if os.path.basename(folder) == "chats" and name.endswith(endings)
    ]
    name, folder = min(found, default=("", ""))
    return os.path.join(folder, name) if name else None


def parse_transcript(path: str) -> TranscriptSummary | None:
    """What the session in `path` used; None if the file is missing or not a session.

    Gemini writes an answer again when its tools have ended: the last one counts. When it resumes a
    session, it lists all earlier messages again without tokens; these do not count.
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
        usage += tokens.usage
    return transcript_summary(usage, model=model)


def prompt_history(path: str) -> list[Spent]:
    """What each prompt of the session in `path` used.

    Gemini writes an answer again when its tools have ended, possibly after the next prompt: the
    last one counts, at the place of the first. Lines that list older messages again do not count.
    """
    prompts: list[dict[str, Spent]] = []
    places: dict[str, dict[str, Spent]] = {}
    for entry in _lines(path):
        if entry.is_prompt:
            prompts.append({})
        elif entry.type == "gemini" and entry.tokens is not None and prompts:
            spent = Spent(usage=entry.tokens.usage, model=entry.model or None)
            places.setdefault(entry.id, prompts[-1])[entry.id] = spent
    return [sum(answers.values(), start=Spent()) for answers in prompts]


def check_load(config_dir: str, session_id: str) -> None:
    """Raise `ResumeRefused` for a session that Gemini would lose by loading it over ACP.

    Gemini names the file of a session by its id and the minute, and begins such a file again when
    it loads the session. In the minute in which the session began that is the session's own file,
    whose messages are then gone.
    """
    projects = os.path.join(config_dir, "tmp")
    now = time.gmtime()
    name = f"session-{time.strftime('%Y-%m-%dT%H-%M', now)}-{session_id[:8]}.jsonl"
    for folder in os.listdir(projects) if os.path.isdir(projects) else ():
        path = os.path.join(projects, folder, "chats", name)
        if any(entry.type in ("user", "gemini") for entry in _lines(path)):
            raise ResumeRefused(
                f"Gemini would lose session {session_id}, which began within this minute",
                hint=f"try again in {60 - now.tm_sec} s",
                until=time.strftime(
                    "%Y-%m-%dT%H:%M:%SZ", time.gmtime(calendar.timegm(now) + 60 - now.tm_sec)
                ),
            )


def _lines(path: str) -> Iterator[_Line]:
    """The readable lines of a session's file; none if there is no such file."""
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    yield _decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
    except OSError:
        return


class _NoSession(Exception):
    """The file does not begin like a session."""


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
