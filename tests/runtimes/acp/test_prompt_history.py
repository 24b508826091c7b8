"""What single prompts used, by the files of agents that do not tell it."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import ResumeRefused
from bridle.runtimes.contract import History
from bridle.runtimes.gemini import GeminiRuntime
from bridle.runtimes.history import Span, count_prompts, spent_on
from bridle.runtimes.registry import get_adapter


def reader(name: str) -> History:
    product = get_adapter(name)
    assert isinstance(product, History)
    return product


def opencode(folder: Path) -> dict[str, str]:
    """Two prompts, between them a message that OpenCode wrote in the user's name."""
    place = folder / "opencode"
    place.mkdir()
    rows: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("a", {"role": "user"}, {"type": "text", "text": "one"}),
        ("b", _spent(100, 0.5), {"type": "text", "text": "x"}),
        ("c", {"role": "user"}, {"type": "compaction", "auto": True}),
        ("d", _spent(20, 0.25), {"type": "text", "text": "x"}),
        ("e", {"role": "user"}, {"type": "text", "text": "go on", "synthetic": True}),
        ("f", _spent(3, 0.0), {"type": "text", "text": "x"}),
        ("g", {"role": "user"}, {"type": "file"}),
        ("h", _spent(4000, 1.0), {"type": "text", "text": "x"}),
    ]
    store = sqlite3.connect(place / "opencode.db")
    store.execute("CREATE TABLE message (id TEXT, session_id TEXT, data TEXT)")
    store.execute("CREATE TABLE part (id TEXT, message_id TEXT, data TEXT)")
    for name, message, part in rows:
        store.execute("INSERT INTO message VALUES (?, 's', ?)", (name, _text(message)))
        store.execute("INSERT INTO part VALUES (?, ?, ?)", (name, name, _text(part)))
    store.commit()
    store.close()
    return {"XDG_DATA_HOME": str(folder)}


def _spent(count: int, cost: float) -> dict[str, Any]:
    tokens = {"input": count, "output": 1, "cache": {"read": 2}}
    where = {"modelID": "m", "providerID": "p"}
    return {"role": "assistant", "cost": cost, "tokens": tokens, **where}


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def cline(folder: Path) -> dict[str, str]:
    place = folder / "data" / "sessions" / "s"
    place.mkdir(parents=True)

    def answer(count: int) -> dict[str, Any]:
        metrics = {"inputTokens": count + 2, "outputTokens": 1, "cacheReadTokens": 2}
        return {"role": "assistant", "metrics": metrics, "modelInfo": {"id": "p/m"}}

    result = {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}
    prompt = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    told = [prompt, answer(100), result, answer(20), result, answer(3), prompt, answer(4000)]
    data = {"sessionId": "s", "messages": told}
    (place / "s.messages.json").write_bytes(msgspec.json.encode(data))
    return {"CLINE_DIR": str(folder)}


def codex(folder: Path) -> dict[str, str]:
    place = folder / "sessions" / "2026" / "01" / "02"
    place.mkdir(parents=True)
    lines: list[tuple[str, dict[str, Any]]] = []
    total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    for counts in ((100, 20, 3), (4000,)):
        lines.append(("event_msg", {"type": "task_started", "turn_id": "x"}))
        lines.append(("turn_context", {"model": "p/m"}))
        for count in counts:
            total = {
                "input_tokens": total["input_tokens"] + count + 2,
                "cached_input_tokens": total["cached_input_tokens"] + 2,
                "output_tokens": total["output_tokens"] + 1,
            }
            info = {"total_token_usage": total}
            lines.append(("event_msg", {"type": "token_count", "info": info}))
    text = [_text({"timestamp": "t", "type": kind, "payload": what}) for kind, what in lines]
    (place / "rollout-2026-01-02T03-04-05-s.jsonl").write_text("\n".join(text) + "\n")
    return {"CODEX_HOME": str(folder)}


def gemini(folder: Path) -> dict[str, str]:
    """A session that was taken up between its prompts; that began a second file, which stayed
    empty."""
    place = folder / ".gemini" / "tmp" / "repo" / "chats"
    place.mkdir(parents=True)

    def answer(name: str, count: int) -> dict[str, Any]:
        tokens = {"input": count + 2, "output": 1, "cached": 2}
        return {"id": name, "type": "gemini", "content": "x", "tokens": tokens, "model": "p/m"}

    context = {"id": "c", "type": "user", "content": [{"text": "context"}]}
    prompt = {"type": "user", "content": [{"text": "x"}]}
    result = {"id": "r", "type": "user", "content": [{"functionResponse": {"id": "t"}}]}
    head: list[dict[str, Any]] = [{"sessionId": "s"}, {"$set": {"messages": [context]}}]
    told: list[dict[str, Any]] = [
        *head,
        *({**prompt, "id": "1"}, answer("a", 100), {"$set": {"lastUpdated": "now"}}, result),
        *(answer("b", 19), answer("b", 20), answer("d", 3)),
        *({"$set": {"sessionId": "s"}}, {"$set": {"messages": [context, {"id": "1"}]}}),
        *({**prompt, "id": "2"}, answer("e", 4000), answer("d", 3)),
    ]
    for minute, lines in (("00-01", head), ("00-00", told), ("00-02", head)):
        text = "\n".join(map(_text, lines))
        (place / f"session-2026-01-02T{minute}-s.jsonl").write_text(f"{text}\n")
    return {"GEMINI_CLI_HOME": str(folder)}


@pytest.mark.parametrize("made", [opencode, cline, codex, gemini], ids=lambda made: made.__name__)
def test_prompts_are_told_apart(made: Any, tmp_path: Path) -> None:
    product, places = reader(made.__name__), made(tmp_path)
    assert count_prompts(product, places, "s") == 2
    for span, count, calls in (
        (Span(0, 1), 123, 3),
        (Span(1, 1), 4000, 1),
        (Span(0, 2), 4123, 4),
        (Span(1, 5), 4000, 1),
    ):
        told = spent_on(product, places, "s", span)
        assert told is not None
        usage = told.usage
        assert (usage.input_tokens, usage.output_tokens) == (count, calls)
        assert usage.cache_read_tokens == 2 * calls
        assert told.model == "p/m"
    assert spent_on(product, places, "s", Span(2, 1)) is None
    assert spent_on(product, places, "other", Span(0, 1)) is None
    assert count_prompts(product, places, "other") == 0
    assert count_prompts(product, {"HOME": str(tmp_path / "none")}, "s") == 0


def test_what_they_cost(tmp_path: Path) -> None:
    places = opencode(tmp_path)
    costs = [spent_on(reader("opencode"), places, "s", Span(first, 1)) for first in (0, 1)]
    assert [told and told.cost_usd for told in costs] == [0.75, 1.0]


def test_broken_files_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "opencode").mkdir()
    (tmp_path / "opencode" / "opencode.db").write_text("no database")
    assert spent_on(reader("opencode"), {"XDG_DATA_HOME": str(tmp_path)}, "s", Span(0, 1)) is None
    place = tmp_path / ".gemini" / "tmp" / "repo" / "chats"
    place.mkdir(parents=True)
    (place / "session-2026-01-02T00-00-s.jsonl").write_text("no session")
    assert spent_on(reader("gemini"), {"GEMINI_CLI_HOME": str(tmp_path)}, "s", Span(0, 1)) is None
    place = tmp_path / "data" / "sessions" / "s"
    place.mkdir(parents=True)
    (place / "s.messages.json").write_text("[")
    places = {"CLINE_DIR": str(tmp_path)}
    assert spent_on(reader("cline"), places, "s", Span(0, 1)) is None


def test_gemini_must_not_load_a_session_in_the_minute_it_began(tmp_path: Path) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "repo" / "chats"
    chats.mkdir(parents=True)
    env = {"GEMINI_CLI_HOME": str(tmp_path)}
    check = GeminiRuntime().check_load
    header = (
        '{"sessionId":"12345678-rest","kind":"main"}\n{"$set":{"messages":[{"type":"user"}]}}\n'
    )
    said = '{"id":"x","type":"user","content":[{"text":"hello"}]}\n'
    # The minute may end between two lines of this test, so both its names are taken.
    now = time.time()
    names = {
        f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime(at))}-12345678.jsonl"
        for at in (now, now + 59)
    }
    check(env, "12345678-rest")
    for name in names:
        (chats / name).write_text(header)
    check(env, "12345678-rest")
    for name in names:
        (chats / name).write_text(header + "no json\n" + said)
    with pytest.raises(ResumeRefused, match="within this minute"):
        check(env, "12345678-rest")
    check(env, "87654321-rest")
    for name in names:
        os.rename(chats / name, chats / f"session-2020-01-01T00-00-{name[-14:]}")
    check(env, "12345678-rest")
