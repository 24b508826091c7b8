"""What Gemini's session files say was used.

Gemini writes an answer again when its tools have ended: the last one counts. When it resumes a
session, it lists all earlier messages again without tokens.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bridle.core import structs
from bridle.core.times import seconds_of
from bridle.runtimes.usage_reader import Lines, NotUsage, Part, Place, Reading, Request, Tail


class _Tokens(msgspec.Struct, gc=False):
    """`input` includes cached tokens, `output` excludes thoughts."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int = 0


class _Entry(msgspec.Struct, gc=False):
    id: str = ""
    type: str = ""
    timestamp: str = ""
    model: str = ""
    tokens: _Tokens | None = None


class _Patch(msgspec.Struct, gc=False):
    messages: list[_Entry] = []


class _Line(_Entry, gc=False):
    session_id: str = msgspec.field(name="sessionId", default="")
    patch: _Patch | None = msgspec.field(name="$set", default=None)


_decode = structs.decoder(_Line).decode


def _wanted(line: bytes) -> bool:
    return b'"tokens"' in line or b'"sessionId"' in line


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """Sessions in the folder of their project, those of sub-agents in a folder below."""
        home = env.get("GEMINI_CLI_HOME") or env.get("HOME") or os.path.expanduser("~")
        root = os.path.join(home, ".gemini", "tmp")
        return (Place(root, "*/chats/session-*.jsonl"), Place(root, "*/chats/*/*.jsonl"))

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`."""
        session = tail.state.decode() if tail else ""
        lines = Lines(path, tail, _wanted)
        found: dict[str, Request] = {}
        settled = -1
        for raw in lines:
            if lines.is_loose:
                settled = len(found)
            try:
                line = _decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                lines.skip()
                continue
            session = session or line.session_id
            if not session:
                raise NotUsage("not a session of Gemini")
            for entry in _entries(line):
                if entry.type == "gemini" and entry.tokens is not None:
                    found[entry.id] = _request(entry, entry.tokens)
        if not session:
            raise NotUsage("not a session of Gemini")
        folder = os.path.dirname(path)
        agent = "" if os.path.basename(folder) == "chats" else session
        root = session if not agent else os.path.basename(folder)
        project = _project(folder if not agent else os.path.dirname(folder))
        part = Part(session=root, project=project, agent=agent, requests=list(found.values()))
        loose = len(found) - settled if settled >= 0 else 0
        return Reading([part], lines.blocks.tail(session.encode()), lines.notes(), loose)


def _entries(line: _Line) -> Iterator[_Entry]:
    if line.patch is not None:
        yield from line.patch.messages
    elif line.id:
        yield line


def _request(entry: _Entry, tokens: _Tokens) -> Request:
    return Request(
        entry.id,
        seconds_of(entry.timestamp),
        entry.model,
        max(0, tokens.input - tokens.cached),
        tokens.output + tokens.thoughts,
        tokens.cached,
        0,
        tokens.thoughts,
    )


def _project(chats: str) -> str:
    """The project of a folder of sessions, by the mark that Gemini leaves beside it."""
    mark = os.path.join(os.path.dirname(chats), ".project_root")
    try:
        with open(mark, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


READER = _Reader()
