"""What single prompts of a session used, from the files that agents keep themselves.

For conversations with agents whose protocol does not tell. A journal may be played again long after
its prompts were answered, so a count must not depend on when the files are read: prompts are told
apart by what the files hold, and only those that are asked for are added up. Nothing is ever
written.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import TypeVar

import msgspec

from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes import contract
from bridle.runtimes.acp.history import History
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.token_counts import InclusiveCounts

T = TypeVar("T")

Places = Mapping[str, str]
"""The variables that say where an agent keeps its files."""


class Span(msgspec.Struct, frozen=True):
    """Some prompts in a row: which is the first (from 0), and how many."""

    first: int
    count: int


def spent_on(kind: str, places: Places, session_id: str, span: Span) -> History | None:
    """What the prompts of `span` used; None when the files tell nothing."""
    told = _prompts(kind, places, session_id)
    chosen = told[span.first : span.first + span.count]
    spent = History(usage=NO_USAGE)
    for each in chosen:
        spent = _both(spent, each)
    return spent if chosen else None


def count_prompts(kind: str, places: Places, session_id: str) -> int:
    """How many prompts a session had so far."""
    return len(_prompts(kind, places, session_id))


def _prompts(kind: str, places: Places, session_id: str) -> list[History]:
    product = get_adapter(kind)
    assert isinstance(product, contract.History)
    path = product.find_transcript(session_id, places)
    return _READERS[kind](path) if path else []


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


def _opencode_prompts(path: str) -> list[History]:
    import sqlite3
    from contextlib import closing

    database, _, session_id = path.partition("#")
    if not os.path.exists(database):
        return []
    prompts: list[History] = []
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5.0)) as store:
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


def _cline_prompts(folder: str) -> list[History]:
    prompts: list[History] = []
    try:
        with open(os.path.join(folder, f"{os.path.basename(folder)}.messages.json"), "rb") as file:
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


def _codex_prompts(path: str) -> list[History]:
    """The turns of a thread. Newer files record each call; older ones tell a running total, which
    is repeated and which an overflow resets, so there its growth counts."""
    recorded: list[History] = []
    grown: list[History] = []
    seen: set[str] = set()
    total = NO_USAGE
    for line in _lines(path, _CodexLine, _CODEX_MARKS):
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


def _lines(path: str, type_: type[T], marks: tuple[bytes, ...]) -> Iterator[T]:
    """The lines that hold one of `marks` and are what they should be."""
    decode = msgspec.json.Decoder(type_).decode
    try:
        with open(path, "rb") as file:
            for line in file:
                if any(mark in line for mark in marks):
                    try:
                        yield decode(line)
                    except (msgspec.MsgspecError, UnicodeDecodeError):
                        continue
    except OSError:
        return


# -- Gemini ---------------------------------------------------------------------------------------


_GEMINI_MARKS = (b'"user"', b'"gemini"')


class _GeminiPart(msgspec.Struct, frozen=True):
    result: msgspec.Raw | None = msgspec.field(name="functionResponse", default=None)


class _GeminiTokens(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int = 0


class _GeminiLine(msgspec.Struct, frozen=True):
    """A line; those that list older messages anew have no type and are not looked into."""

    id: str = ""
    type: str = ""
    content: list[_GeminiPart | str] | _GeminiPart | str = ""
    model: str = ""
    tokens: _GeminiTokens | None = None

    @property
    def is_prompt(self) -> bool:
        """The results of tools are told in a user's name too; they are no prompts."""
        parts = self.content if isinstance(self.content, list) else [self.content]
        given = any(isinstance(part, str) or part.result is None for part in parts)
        return self.type == "user" and given

    def spent(self) -> History:
        tokens = self.tokens or _GeminiTokens()
        usage = Usage(
            input_tokens=tokens.input - tokens.cached,
            output_tokens=tokens.output + tokens.thoughts,
            cache_read_tokens=tokens.cached,
            reasoning_tokens=tokens.thoughts,
        )
        return History(usage=usage, model=self.model or None)


def _gemini_prompts(path: str) -> list[History]:
    """The prompts of a session. An answer is written again when its tools have ended, be it after
    the next prompt: the last writing counts, where the first one stood."""
    prompts: list[dict[str, History]] = []
    places: dict[str, dict[str, History]] = {}
    for line in _lines(path, _GeminiLine, _GEMINI_MARKS):
        if line.is_prompt:
            prompts.append({})
        elif line.type == "gemini" and line.tokens is not None and prompts:
            places.setdefault(line.id, prompts[-1])[line.id] = line.spent()
    return [reduce(_both, answers.values(), History(usage=NO_USAGE)) for answers in prompts]


_READERS: dict[str, Callable[[str], list[History]]] = {
    "cline": _cline_prompts,
    "codex": _codex_prompts,
    "gemini": _gemini_prompts,
    "opencode": _opencode_prompts,
}
"""By the row's `family`: readers of what its runtime's `find_transcript` names."""
