"""What OpenCode's database says was used: one SQLite file contains all sessions.

A fork contains copies of all messages of its source, under new ids, which are older than the fork
itself. OpenCode records a call for the session's title nowhere.
"""

import os
from collections.abc import Mapping, Sequence

import msgspec

from bridle.core import structs
from bridle.runtimes.usage_reader import NotUsage, Part, Place, Reading, Request, Tail

_BUSY_SECONDS = 2.0
_MESSAGES = """
SELECT session.id, session.directory, session.parent_id, message.id, message.data
FROM message JOIN session ON session.id = message.session_id
WHERE session.time_created <= message.time_created
ORDER BY message.session_id, message.time_created, message.id
"""


class _Cache(msgspec.Struct, gc=False):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, gc=False):
    """`input` excludes cached tokens, `output` excludes reasoning."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = msgspec.field(default_factory=_Cache)


class _Time(msgspec.Struct, gc=False):
    created: float = 0.0


class _Message(msgspec.Struct, gc=False):
    role: str = ""
    provider: str = msgspec.field(name="providerID", default="")
    model: str = msgspec.field(name="modelID", default="")
    agent: str = ""
    tokens: _Tokens | None = None
    cost: float = 0.0
    time: _Time = msgspec.field(default_factory=_Time)


_decode = structs.decoder(_Message).decode


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """One database, with its log beside it."""
        home = env.get("HOME") or os.path.expanduser("~")
        base = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        path = os.path.join(base, "opencode", env.get("OPENCODE_DB") or "opencode.db")
        return (Place(os.path.dirname(path), os.path.basename(path), ("-wal",)),)

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`."""
        import sqlite3
        from urllib.parse import quote

        with open(path, "rb"):
            pass  # an `OSError` says more than the database's error
        parts: dict[tuple[str, str], Part] = {}
        broken = 0
        try:
            database = sqlite3.connect(
                f"file:{quote(path)}?mode=ro", uri=True, timeout=_BUSY_SECONDS
            )
            try:
                for session, project, parent, key, data in database.execute(_MESSAGES):
                    try:
                        message = _decode(data)
                    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                        broken += 1
                        continue
                    if message.role != "assistant" or message.tokens is None:
                        continue
                    agent = (message.agent or session) if parent else ""
                    part = parts.setdefault(
                        (session, agent),
                        Part(session=parent or session, project=project, agent=agent, requests=[]),
                    )
                    part.requests.append(_request(key, message, message.tokens))
            finally:
                database.close()
        except sqlite3.Error as problem:
            raise NotUsage(f"the database cannot be read: {problem}") from problem
        notes = (f"{broken} message(s) could not be read",) if broken else ()
        return Reading(list(parts.values()), None, notes)


def _request(key: str, message: _Message, tokens: _Tokens) -> Request:
    model = f"{message.provider}/{message.model}" if message.provider else message.model
    return Request(
        key,
        message.time.created / 1000,
        model,
        tokens.input,
        tokens.output + tokens.reasoning,
        tokens.cache.read,
        tokens.cache.write,
        tokens.reasoning,
        0,
        message.cost or None,
    )


READER = _Reader()
