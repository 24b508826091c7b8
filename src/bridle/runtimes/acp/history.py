"""What a session used, from the files that agents keep themselves.

Only for agents whose protocol does not tell. Each reader gives the session's whole total; what one
run added is the difference between two readings. Nothing is ever written.
"""

import os
from collections.abc import Callable, Mapping

import msgspec

from bridle.core.usage import NO_USAGE, Usage


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a session."""

    usage: Usage
    model: str | None = None
    cost_usd: float = 0.0


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


# -- OpenCode -------------------------------------------------------------------------------------


class _Cache(msgspec.Struct, frozen=True):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()


class _OpencodeMessage(msgspec.Struct, frozen=True):
    role: str = ""
    model_id: str = msgspec.field(name="modelID", default="")
    provider_id: str = msgspec.field(name="providerID", default="")
    cost: float = 0.0
    tokens: _Tokens = _Tokens()


def opencode_data(env: Mapping[str, str]) -> str:
    """The folder of OpenCode's database."""
    base = env.get("XDG_DATA_HOME") or os.path.join(_home(env), ".local", "share")
    return os.path.join(base, "opencode")


def _read_opencode(env: Mapping[str, str], session_id: str) -> History | None:
    import sqlite3

    path = os.path.join(opencode_data(env), "opencode.db")
    if not os.path.exists(path):
        return None
    usage, model, cost = NO_USAGE, None, 0.0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0) as store:
            rows = store.execute("SELECT data FROM message WHERE session_id = ?", (session_id,))
            for (data,) in rows.fetchall():
                told = msgspec.json.decode(data, type=_OpencodeMessage)
                tokens = told.tokens
                if told.role != "assistant":
                    continue
                usage += Usage(
                    input_tokens=tokens.input,
                    output_tokens=tokens.output + tokens.reasoning,
                    cache_read_tokens=tokens.cache.read,
                    cache_write_tokens=tokens.cache.write,
                    reasoning_tokens=tokens.reasoning,
                )
                cost += told.cost
                model = f"{told.provider_id}/{told.model_id}" if told.model_id else model
        store.close()
    except (sqlite3.Error, msgspec.MsgspecError):
        return None
    return History(usage=usage, model=model, cost_usd=cost)


# -- agents with a runtime of their own, which reads their files ----------------------------------


def _read_cline(env: Mapping[str, str], session_id: str) -> History | None:
    data = env.get("CLINE_DATA_DIR") or os.path.join(
        env.get("CLINE_DIR") or os.path.join(_home(env), ".cline"), "data"
    )
    sessions = env.get("CLINE_SESSION_DATA_DIR") or os.path.join(data, "sessions")
    return _by_runtime("cline", os.path.join(sessions, session_id))


def _read_codex(env: Mapping[str, str], session_id: str) -> History | None:
    home = env.get("CODEX_HOME") or os.path.join(_home(env), ".codex")
    ending = f"-{session_id}.jsonl"
    for folder, _, names in os.walk(os.path.join(home, "sessions")):
        for name in names:
            if name.endswith(ending):
                return _by_runtime("codex", os.path.join(folder, name))
    return None


def _by_runtime(name: str, path: str) -> History | None:
    from bridle.runtimes.registry import get_runtime

    told = get_runtime(name).parse_transcript(path)
    if told is None:
        return None
    usage = Usage(
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cache_read_tokens=told.cache_read_tokens,
        cache_write_tokens=told.cache_write_tokens,
        reasoning_tokens=told.reasoning_tokens,
    )
    return History(usage=usage, model=told.model or None, cost_usd=told.cost_usd or 0.0)


READERS: dict[str, Callable[[Mapping[str, str], str], History | None]] = {
    "cline": _read_cline,
    "codex": _read_codex,
    "opencode": _read_opencode,
}
"""Readers by the row's `history`: the agent's environment and a session's id in, totals out."""
