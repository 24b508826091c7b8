"""What single prompts of a session used, from the files that agents keep themselves.

For conversations with agents whose protocol does not tell. A journal may be played again long after
its prompts were answered, so a count must not depend on when the files are read: prompts are told
apart by what the files hold, and only those that are asked for are added up. Nothing is ever
written.
"""

import os
from collections.abc import Callable, Mapping

import msgspec

from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.acp.history import History, opencode_data

Places = Mapping[str, str]
"""The variables that say where an agent keeps its files."""


class Span(msgspec.Struct, frozen=True):
    """Some prompts in a row: which is the first (from 0), and how many."""

    first: int
    count: int


def spent_on(kind: str, places: Places, session_id: str, span: Span) -> History | None:
    """What the prompts of `span` used; None when the files tell nothing."""
    return _READERS[kind](places, session_id, span)


def count_prompts(kind: str, places: Places, session_id: str) -> int:
    """How many prompts a session had so far."""
    return _COUNTERS[kind](places, session_id)


def _added(told: list[History], span: Span) -> History | None:
    chosen = told[span.first : span.first + span.count]
    if not chosen:
        return None
    models = [each.model for each in chosen if each.model]
    return History(
        usage=sum((each.usage for each in chosen), start=NO_USAGE),
        model=models[-1] if models else None,
        cost_usd=sum(each.cost_usd for each in chosen),
    )


# -- OpenCode -------------------------------------------------------------------------------------

_ROWS = """
SELECT message.data, EXISTS (
    SELECT 1 FROM part WHERE part.message_id = message.id
    AND json_extract(part.data, '$.type') IN ('text', 'file')
    AND json_extract(part.data, '$.synthetic') IS NOT TRUE
) FROM message WHERE message.session_id = ? ORDER BY message.id
"""
"""Every message, and whether it holds words or files that nobody but a user gave: OpenCode makes
user messages of its own when it shortens a context."""


class _Cache(msgspec.Struct, frozen=True):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()


class _Message(msgspec.Struct, frozen=True):
    role: str = ""
    model_id: str = msgspec.field(name="modelID", default="")
    provider_id: str = msgspec.field(name="providerID", default="")
    cost: float = 0.0
    tokens: _Tokens = _Tokens()

    def spent(self) -> History:
        tokens = self.tokens
        usage = Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output + tokens.reasoning,
            cache_read_tokens=tokens.cache.read,
            cache_write_tokens=tokens.cache.write,
            reasoning_tokens=tokens.reasoning,
        )
        model = f"{self.provider_id}/{self.model_id}" if self.model_id else None
        return History(usage=usage, model=model, cost_usd=self.cost)


def _opencode_prompts(places: Places, session_id: str) -> list[History]:
    import sqlite3
    from contextlib import closing

    path = os.path.join(opencode_data(places), "opencode.db")
    if not os.path.exists(path):
        return []
    prompts: list[History] = []
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0)) as store:
            rows = store.execute(_ROWS, (session_id,)).fetchall()
        for data, is_given in rows:
            told = msgspec.json.decode(data, type=_Message)
            if told.role == "user" and is_given:
                prompts.append(History(usage=NO_USAGE))
            elif told.role == "assistant" and prompts:
                prompts[-1] = _both(prompts[-1], told.spent())
    except (sqlite3.Error, msgspec.MsgspecError):
        return []
    return prompts


def _both(one: History, other: History) -> History:
    return History(
        usage=one.usage + other.usage,
        model=other.model or one.model,
        cost_usd=one.cost_usd + other.cost_usd,
    )


# -- Cline ----------------------------------------------------------------------------------------


def _cline_prompts(places: Places, session_id: str) -> list[History]:
    from bridle.runtimes.cline.transcript import prompts_of, sessions_dir

    return [
        History(usage=told.usage, model=told.model or None, cost_usd=told.cost_usd)
        for told in prompts_of(os.path.join(sessions_dir(places), session_id))
    ]


# -- Codex ----------------------------------------------------------------------------------------


def _codex_turns(places: Places, session_id: str) -> tuple[str, list[int]] | None:
    """The file of a thread, and where in it each turn begins."""
    from bridle.runtimes.codex.transcript import find_rollout

    home = places.get("CODEX_HOME") or os.path.join(places.get("HOME", ""), ".codex")
    path = find_rollout(home, session_id)
    if path is None:
        return None
    starts, position = [], 0
    try:
        with open(path, "rb") as file:
            for line in file:
                if b'"type":"task_started"' in line[:200]:
                    starts.append(position)
                position += len(line)
    except OSError:
        return None
    return path, starts


def _codex_spent(places: Places, session_id: str, span: Span) -> History | None:
    from bridle.runtimes.codex.transcript import read_rollout

    found = _codex_turns(places, session_id)
    if found is None or not found[1][span.first : span.first + span.count]:
        return None
    path, starts = found
    told = read_rollout(path, starts[span.first])
    later = starts[span.first + span.count :]
    rest = read_rollout(path, later[0]) if later else None
    if told is None:
        return None
    return History(usage=told.usage - (rest.usage if rest else NO_USAGE), model=told.model)


_READERS: dict[str, Callable[[Places, str, Span], History | None]] = {
    "cline": lambda places, session_id, span: _added(_cline_prompts(places, session_id), span),
    "codex": _codex_spent,
    "opencode": lambda places, session_id, span: _added(
        _opencode_prompts(places, session_id), span
    ),
}
_COUNTERS: dict[str, Callable[[Places, str], int]] = {
    "cline": lambda places, session_id: len(_cline_prompts(places, session_id)),
    "codex": lambda places, session_id: len((_codex_turns(places, session_id) or ("", []))[1]),
    "opencode": lambda places, session_id: len(_opencode_prompts(places, session_id)),
}
