"""What single prompts of a session used, from the files that agents keep themselves.

For conversations with agents whose protocol does not tell. A journal may be played again long after
its prompts were answered, so a count must not depend on when the files are read: prompts are told
apart by what the files hold, and only those that are asked for are added up. Nothing is ever
written.
"""

import os
from collections.abc import Callable, Iterator, Mapping

import msgspec

from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.acp.history import History, opencode_data
from bridle.runtimes.token_counts import InclusiveCounts

Places = Mapping[str, str]
"""The variables that say where an agent keeps its files."""


class Span(msgspec.Struct, frozen=True):
    """Some prompts in a row: which is the first (from 0), and how many."""

    first: int
    count: int


def spent_on(kind: str, places: Places, session_id: str, span: Span) -> History | None:
    """What the prompts of `span` used; None when the files tell nothing."""
    told = _PROMPTS[kind](places, session_id)
    chosen = told[span.first : span.first + span.count]
    spent = History(usage=NO_USAGE)
    for each in chosen:
        spent = _both(spent, each)
    return spent if chosen else None


def count_prompts(kind: str, places: Places, session_id: str) -> int:
    """How many prompts a session had so far."""
    return len(_PROMPTS[kind](places, session_id))


def _both(one: History, other: History) -> History:
    return History(
        usage=one.usage + other.usage,
        model=other.model or one.model,
        cost_usd=one.cost_usd + other.cost_usd,
    )


# -- OpenCode -------------------------------------------------------------------------------------

_ROWS = """
SELECT message.data, EXISTS (
    SELECT 1 FROM part WHERE part.message_id = message.id
    AND json_extract(part.data, '$.type') IN ('text', 'file', 'compaction')
    AND json_extract(part.data, '$.synthetic') IS NOT TRUE
    AND json_extract(part.data, '$.auto') IS NOT TRUE
) FROM message WHERE message.session_id = ? ORDER BY message.id
"""
"""Every message, and whether it holds something that a user gave: OpenCode makes user messages of
its own when it shortens a context by itself."""


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


# -- Cline ----------------------------------------------------------------------------------------


class _ClineMetrics(InclusiveCounts, frozen=True, rename="camel"):
    cost: float | None = None


class _ClineModel(msgspec.Struct, frozen=True):
    id: str = ""


class _ClineBlock(msgspec.Struct, frozen=True):
    type: str = ""


class _ClineMessage(msgspec.Struct, frozen=True, rename="camel"):
    role: str = ""
    content: list[_ClineBlock] | str = ""
    model_info: _ClineModel = _ClineModel()
    metrics: _ClineMetrics | None = None

    @property
    def is_prompt(self) -> bool:
        """The results of tools are told in a user's name too; they are no prompts."""
        blocks = self.content
        given = isinstance(blocks, str) or any(block.type != "tool_result" for block in blocks)
        return self.role == "user" and given


class _ClineFile(msgspec.Struct, frozen=True):
    messages: list[_ClineMessage] = []


def _cline_prompts(places: Places, session_id: str) -> list[History]:
    home = places.get("CLINE_DIR") or os.path.join(places.get("HOME", ""), ".cline")
    data = places.get("CLINE_DATA_DIR") or os.path.join(home, "data")
    sessions = places.get("CLINE_SESSION_DATA_DIR") or os.path.join(data, "sessions")
    path = os.path.join(sessions, session_id, f"{session_id}.messages.json")
    prompts: list[History] = []
    try:
        with open(path, "rb") as file:
            told = msgspec.json.decode(file.read(), type=_ClineFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []
    for message in told.messages:
        if message.is_prompt:
            prompts.append(History(usage=NO_USAGE))
        elif message.role == "assistant" and message.metrics is not None and prompts:
            metrics, model = message.metrics, message.model_info.id or None
            spent = History(usage=metrics.usage(), model=model, cost_usd=metrics.cost or 0.0)
            prompts[-1] = _both(prompts[-1], spent)
    return prompts


# -- Codex ----------------------------------------------------------------------------------------

_CODEX_MARKS = (b"task_started", b"turn_context", b"token_count", b"token_usage_record")


class _CodexCounts(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    def usage(self) -> Usage:
        cached = self.cached_input_tokens + self.cache_write_input_tokens
        return Usage(
            input_tokens=max(0, self.input_tokens - cached),
            output_tokens=self.output_tokens,
            cache_read_tokens=self.cached_input_tokens,
            cache_write_tokens=self.cache_write_input_tokens,
            reasoning_tokens=self.reasoning_output_tokens,
        )


class _CodexInfo(msgspec.Struct, frozen=True):
    total_token_usage: _CodexCounts | None = None


class _CodexPayload(msgspec.Struct, frozen=True):
    type: str = ""
    model: str = ""
    response_id: str = ""
    usage: _CodexCounts | None = None
    info: _CodexInfo | None = None


class _CodexLine(msgspec.Struct, frozen=True):
    type: str = ""
    payload: _CodexPayload = _CodexPayload()


def _codex_prompts(places: Places, session_id: str) -> list[History]:
    home = places.get("CODEX_HOME") or os.path.join(places.get("HOME", ""), ".codex")
    ending = f"-{session_id}.jsonl"
    for folder, _, names in os.walk(os.path.join(home, "sessions")):
        for name in names:
            if name.endswith(ending):
                return _codex_file(os.path.join(folder, name))
    return []


def _codex_file(path: str) -> list[History]:
    """The turns of a thread. Newer files record each call; older ones tell a running total, which
    is repeated and which an overflow resets, so there its growth counts."""
    recorded: list[History] = []
    grown: list[History] = []
    seen: set[str] = set()
    total = NO_USAGE
    for line in _codex_lines(path):
        payload = line.payload
        if payload.type == "task_started":
            recorded.append(History(usage=NO_USAGE))
            grown.append(History(usage=NO_USAGE))
        elif not grown:
            continue
        elif line.type == "turn_context" and payload.model:
            spent = History(usage=NO_USAGE, model=payload.model)
            recorded[-1], grown[-1] = _both(recorded[-1], spent), _both(grown[-1], spent)
        elif line.type == "token_usage_record" and payload.usage is not None:
            if payload.response_id not in seen:
                seen.add(payload.response_id)
                recorded[-1] = _both(recorded[-1], History(usage=payload.usage.usage()))
        elif payload.info is not None and payload.info.total_token_usage is not None:
            before, total = total, payload.info.total_token_usage.usage()
            if (total - before).total > 0:
                grown[-1] = _both(grown[-1], History(usage=total - before))
    return recorded if seen else grown


def _codex_lines(path: str) -> Iterator[_CodexLine]:
    decode = msgspec.json.Decoder(_CodexLine).decode
    try:
        with open(path, "rb") as file:
            for line in file:
                if any(mark in line for mark in _CODEX_MARKS):
                    try:
                        yield decode(line)
                    except (msgspec.MsgspecError, UnicodeDecodeError):
                        continue
    except OSError:
        return


_PROMPTS: dict[str, Callable[[Places, str], list[History]]] = {
    "cline": _cline_prompts,
    "codex": _codex_prompts,
    "opencode": _opencode_prompts,
}
"""Readers by the row's `history`."""
