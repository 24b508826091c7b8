"""Sessions as text for people: the list, one session, its requests, and its transcript."""

import os
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from bridle.cli.output import Style, one_line, safe, terminal_width
from bridle.cli.run_view import gist, outcome
from bridle.core.events import (
    AgentEnd,
    AgentStart,
    AutoCompactionEnd,
    AutoCompactionStart,
    ErrorRaised,
    Event,
    MessageEnd,
    MessageUpdate,
    PermissionDecision,
    PermissionRequest,
    Retry,
    SessionEnd,
    SessionStart,
    StateChange,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from bridle.core.times import age, seconds_of
from bridle.core.usage import Usage
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import UserMessage

_WIDE = 80
_SHORT_ID = 8
_GIST = 100
"""Characters of a permission request's arguments."""


def called(record: SessionRecord) -> str:
    """The session's name, else its id."""
    return record.name or record.session_id


def usage_text(usage: Usage | None, cost: float | None) -> str:
    """Tokens and cost in a few words; empty if nothing was counted."""
    if usage is None or not usage.total:
        return "" if cost is None else f"${cost:.4f}"
    tokens = f"{_short(usage.total)} tokens"
    return tokens if cost is None else f"{tokens}, ${cost:.4f}"


def _short(count: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


# -- the list ---------------------------------------------------------------------------------


def write_list(records: list[SessionRecord], *, places: bool = False) -> None:
    """Write a table with headings; on a narrow terminal two lines for each session.

    Ids are shortened on a terminal, where the beginning is enough to name a session; a program that
    reads the text gets them in full. `places` adds the project of each session.
    """
    on_terminal = sys.stdout.isatty()
    width = terminal_width(sys.stdout)
    rows = [_row(record, short=on_terminal, place=places) for record in records]
    if on_terminal and width < _WIDE:
        for row in rows:
            head = "  ".join(cell for cell in row[:4] if cell)
            sys.stdout.write(one_line(head, width) + "\n")
            tokens = f"{row[6]} tokens" if row[6] else ""
            parts = (row[4], f"turn {row[5]}", tokens, *row[7:])
            more = " · ".join(cell for cell in parts if cell)
            sys.stdout.write(f"  {one_line(more, width - 2)}\n")
        return
    heads = ["ID", "NAME", "STATE", "AGE", "RUNTIME", "TURNS", "TOKENS", "COST"]
    heads += [*(["PROJECT"] if places else []), "LAST"]
    rows.insert(0, heads)
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads) - 1)]
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        line = "  ".join([*cells, row[-1]]).rstrip()
        limit = width if on_terminal else 10_000
        sys.stdout.write((line if len(line) <= limit else line[: limit - 1] + "…") + "\n")


def _row(record: SessionRecord, *, short: bool, place: bool) -> list[str]:
    usage, cost = record.usage, record.cost_usd
    cells = [
        record.session_id[:_SHORT_ID] if short else record.session_id,
        safe(record.name or ""),
        record.state,
        age(time.time() - seconds_of(record.started_at)),
        f"{record.runtime} ({record.drive})",
        str(record.turn),
        _short(usage.total) if usage is not None and usage.total else "",
        "" if cost is None else f"${cost:.4f}",
    ]
    if place:
        cells.append(record.project or "")
    return [*cells, _last_words(record)]


def _last_words(record: SessionRecord) -> str:
    """The error of the last turn, else the agent's last text."""
    error = _error(record)
    if error:
        return one_line(f"{error.get('kind', 'error')}: {error.get('message', '')}", 200)
    last = record.last_turn
    return one_line(last.text, 200) if last is not None else ""


def _error(record: SessionRecord) -> dict[str, Any]:
    """Why the session or its last turn failed; empty when neither did."""
    last = record.last_turn
    if last is not None and last.error is not None:
        return msgspec.to_builtins(last.error)  # type: ignore[no-any-return]  # it is a struct
    return record.error or {}


# -- one session ------------------------------------------------------------------------------


def write_record(record: SessionRecord) -> None:
    """Write everything known about a session, one fact per line, the important ones first."""
    now = time.time()
    name = f" ({record.name})" if record.name else ""
    who = " ".join(word for word in (record.runtime, record.runtime_version) if word)
    pid = f", pid {record.pid}" if record.pid else ""
    facts: list[tuple[str, str]] = [
        ("session", f"{record.session_id}{name}"),
        ("state", record.state + (f" ({record.evidence})" if record.evidence else "")),
        ("agent", f"{who}, driven by {record.drive}{pid}"),
        ("model", record.model or ""),
        ("folder", record.workdir),
        ("started", f"{record.started_at} ({age(now - seconds_of(record.started_at))} ago)"),
        ("ready", record.ready_at or ""),
        ("ended", record.ended_at or ""),
        ("stop reason", record.stop_reason or ""),
        ("turns", _turns(record)),
        ("usage", usage_text(record.usage, record.cost_usd)),
        ("last answer", record.last_turn.text if record.last_turn is not None else ""),
    ]
    error = _error(record)
    if error:
        facts.append(("error", f"{error.get('kind', '')}: {error.get('message', '')}"))
        facts.append(("hint", str(error.get("hint") or "")))
    facts += [
        ("native id", record.native_session_id or ""),
        ("parent", record.parent or ""),
        ("handover", record.handover or ""),
        ("sandbox", record.sandbox or ""),
        ("guard", record.guard or ""),
        ("project", record.project or ""),
        ("agent name", record.agent or ""),
        ("capability", record.capability or ""),
        ("task", record.task or ""),
        ("actor", record.actor or ""),
        *(("warning", text) for text in record.warnings),
    ]
    for name, value in facts:
        if value:
            sys.stdout.write(f"{name + ':':<13}{one_line(value)}\n")


def _turns(record: SessionRecord) -> str:
    last = record.last_turn
    if last is None:
        return str(record.turn) if record.turn else "none yet"
    return f"{record.turn}, the last one {last.status.replace('_', ' ')}"


# -- permission requests and failures ---------------------------------------------------------


def write_failure(error: dict[str, Any]) -> None:
    """Print on stderr why a turn or its session failed: kind and message, then the hint."""
    sys.stderr.write(f"bridle: error: {error.get('kind')}: {one_line(error.get('message', ''))}\n")
    if error.get("hint"):
        sys.stderr.write(f"hint: {one_line(error['hint'])}\n")


def write_requests(record: SessionRecord, known: Collection[str] = ()) -> set[str]:
    """Print on stderr which permissions a session waits for and how to answer, except those that
    are `known`; returns the ids of all of them."""
    for asked in record.questions:
        if asked.request_id not in known:
            sys.stderr.write(
                f"it asks: {one_line(asked.tool_name)} {one_line(gist(asked.args), _GIST)}\n"
                f"hint: `bridle session permit {called(record)} {asked.request_id} allow` or"
                " `deny`, or attach\n"
            )
    sys.stderr.flush()
    return {asked.request_id for asked in record.questions}


# -- the transcript ---------------------------------------------------------------------------


class Transcript:
    """Writes events to stdout as a readable conversation.

    Contract: call `show` for each event, in order. `messages` returns the user's messages and is
    called when a turn begins. `verbose` adds the thinking and every change of state.
    """

    def __init__(self, messages: Callable[[], list[UserMessage]], *, verbose: bool = False) -> None:
        self._messages = messages
        self._verbose = verbose
        self._style = Style(sys.stdout)
        self._shown: set[str] = set()
        self._thinking = ""

    def show(self, event: Event) -> None:
        """Write an event if a person should see it."""
        text = self._text(event)
        if text:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def _text(self, event: Event) -> str:
        if isinstance(event, MessageEnd):
            text = safe(event.text).rstrip()
            return _said(text) if event.role == "user" else text
        if isinstance(event, MessageUpdate):
            return self._thought(event)
        if isinstance(event, AgentStart):
            return "\n".join(
                [self._dim(f"── turn {event.turn} · {event.ts}"), *self._asked(event.turn)]
            )
        return self._note(event)

    def _thought(self, event: MessageUpdate) -> str:
        if not self._verbose or not event.kind.startswith("thinking"):
            return ""
        if event.kind != "thinking_end":
            self._thinking = "" if event.kind == "thinking_start" else self._thinking + event.text
            return ""
        thought, self._thinking = self._thinking, ""
        return "\n".join(self._dim(f"  {line}") for line in safe(thought).splitlines())

    def _asked(self, turn: int) -> list[str]:
        found = [
            each for each in self._messages() if each.turn == turn and each.id not in self._shown
        ]
        self._shown |= {each.id for each in found}
        return [_said(safe(each.text)) for each in found]

    def _note(self, event: Event) -> str:
        line = ""
        if isinstance(event, ToolExecutionStart):
            line = f"· {event.tool_name} {gist(event.args)}"
        elif isinstance(event, ToolExecutionEnd):
            if event.is_error:
                why = "cut off" if event.result is None else f"failed: {outcome(event.result)}"
                line = f"  {event.tool_name} {why}"
        elif isinstance(event, PermissionRequest):
            line = f"? {event.tool_name} {gist(event.args)}"
        elif isinstance(event, PermissionDecision):
            reason = f": {event.reason}" if event.reason else ""
            verdict = "allowed" if event.decision == "allow" else "refused"
            line = f"  {event.tool_name} {verdict} by {event.by}{reason}"
        elif isinstance(event, Retry):
            line = f"  attempt {event.attempt} failed, retrying: {event.error.message}"
        elif isinstance(event, AutoCompactionStart):
            line = f"  compaction started {event.reason}"
        elif isinstance(event, AutoCompactionEnd):
            line = f"  compaction ended {event.reason}"
        elif isinstance(event, ErrorRaised):
            return self._style.red(one_line(f"{event.kind}: {event.message}"))
        elif isinstance(event, AgentEnd):
            counted = usage_text(event.usage, event.cost_usd)
            line = f"── {event.status.replace('_', ' ')}" + (f" · {counted}" if counted else "")
        elif isinstance(event, SessionStart):
            who = " ".join(word for word in (event.runtime, event.runtime_version) if word)
            line = f"── {who} · {event.model or 'model unknown'} · {event.cwd}"
        elif isinstance(event, SessionEnd):
            line = f"── ended: {event.reason or event.exit_code}"
        elif isinstance(event, StateChange) and self._verbose:
            line = f"  {event.old} → {event.new} ({event.evidence})"
        indent = "  " if line.startswith("  ") else ""
        return self._dim(indent + one_line(line, 400)) if line else ""

    def _dim(self, text: str) -> str:
        return self._style.dim(text)


def _said(text: str) -> str:
    """A message of the user, with a mark on every line."""
    return "\n".join(f"> {line}" for line in text.splitlines() or [""])


def place_of(record: SessionRecord) -> str:
    """A session's folder, relative to the current one where that is shorter."""
    return min(record.workdir, os.path.relpath(record.workdir), key=len)
