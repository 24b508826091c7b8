"""Views of a run: text for people while it runs, JSON for programs."""

import sys
from typing import Any, Protocol

import msgspec

from bridle.cli.output import (
    Style,
    one_line,
    safe,
    say_error,
    terminal_width,
    write_json,
    write_line,
)
from bridle.core.events import (
    AutoCompactionStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    PermissionDecision,
    PermissionRequest,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
    encode_event,
)
from bridle.core.results import RunResult


class View(Protocol):
    """Shows one run. Contract: `event` for each event, then `end` once."""

    def event(self, event: Event) -> None:
        """Show one event as it happens."""

    def end(self, result: RunResult) -> None:
        """Show the result."""


class JsonView:
    """One object at the end."""

    def event(self, event: Event) -> None:
        """Events are not shown."""

    def end(self, result: RunResult) -> None:
        """The result as one line of JSON."""
        write_json(result)


class StreamView:
    """One event per line as it happens, and the result as the last line."""

    def event(self, event: Event) -> None:
        """The event as one line of JSON, flushed at once."""
        write_line(encode_event(event))

    def end(self, result: RunResult) -> None:
        """The line that ends the stream."""
        write_line(run_end(result))


def run_end(result: RunResult) -> bytes:
    """The last line of `--stream-json`."""
    return msgspec.json.encode({"type": "run_end", **msgspec.to_builtins(result)})


class HumanView:
    """Text on stdout, everything else on stderr.

    On a terminal the text shows as it streams; otherwise stdout gets the final text alone, so that
    another program can read it. With `thinking` a terminal also shows what the agent thinks.
    """

    def __init__(self, *, thinking: bool = False) -> None:
        self._thinking = thinking and sys.stderr.isatty()
        self._live = sys.stdout.isatty()
        self._style = Style(sys.stderr)
        self._width = terminal_width(sys.stderr)
        self._at_line_start = True
        self._shown = ""
        self._typed = ""
        """The open message that a person typed elsewhere."""
        self._refused: set[str | None] = set()
        """Calls whose refusal was shown: their failure adds nothing."""

    def event(self, event: Event) -> None:
        """Text as it streams; one line for each tool call, retry and refusal."""
        if isinstance(event, MessageStart):
            self._typed = event.message_id if event.role == "user" else ""
        elif isinstance(event, MessageUpdate):
            if self._live and event.kind == "text_delta" and event.message_id != self._typed:
                self._text(event.text)
            elif self._thinking:
                self._thought(event)
        elif isinstance(event, MessageEnd) and event.role == "user":
            self._note(f"> {event.text}")
        elif isinstance(event, MessageEnd):
            self._shown = event.text
            self._fresh_line()
        elif isinstance(event, ToolExecutionStart):
            self._note(f"· {event.tool_name} {gist(event.args)}")
        elif isinstance(event, ToolExecutionEnd):
            if event.is_error and event.tool_call_id not in self._refused:
                why = "cut off" if event.result is None else f"failed: {outcome(event.result)}"
                self._note(f"  {event.tool_name} {why}")
        elif isinstance(event, PermissionRequest):
            # The question that follows is written by the code that asks the person.
            self._fresh_line()
        elif isinstance(event, PermissionDecision):
            if event.decision == "deny":
                self._refused.add(event.tool_call_id)
                self._note(f"  {event.tool_name} refused: {event.reason}")
        elif isinstance(event, Retry):
            delay = f" in {event.delay_ms / 1000:.1f} s" if event.delay_ms else ""
            self._note(f"  attempt {event.attempt} failed, again{delay}: {event.error.message}")
        elif isinstance(event, AutoCompactionStart):
            self._note(f"  shortening the conversation {event.reason}")

    def end(self, result: RunResult) -> None:
        """The final text if it was not shown yet, a closing line, and the error if any."""
        if result.text and not (self._live and result.text == self._shown):
            text = safe(result.text) if self._live else result.text
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
        for line in _fitted(closing_line(result), self._width):
            self._note(line)
        problem = result.failure()
        if problem is not None:
            say_error(problem)

    def _thought(self, event: MessageUpdate) -> None:
        """The agent's thinking, dim, on stderr."""
        if event.kind == "thinking_delta":
            self._fresh_line()
            sys.stderr.write(self._style.dim(safe(event.text)))
        elif event.kind == "thinking_end":
            sys.stderr.write("\n")
        sys.stderr.flush()

    def _text(self, text: str) -> None:
        text = safe(text)
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._at_line_start = text.endswith("\n")

    def _fresh_line(self) -> None:
        if not self._at_line_start:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._at_line_start = True

    def _note(self, text: str) -> None:
        self._fresh_line()
        indent = "  " if text.startswith("  ") else ""
        line = indent + one_line(text, self._width - len(indent))
        sys.stderr.write(self._style.dim(line) + "\n")
        sys.stderr.flush()


def closing_line(result: RunResult) -> str:
    """The last line: status, refused calls, time, tokens, cost."""
    ended = result.status.replace("_", " ")
    if result.refusals:
        ended += f", {result.refusals} tool call{'s' if result.refusals > 1 else ''} refused"
    parts = [f"{ended} in {result.duration_ms / 1000:.1f} s"]
    usage = result.usage
    if usage.total:
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        cached_text = f" (+{cached:,} cached)" if cached else ""
        parts.append(f"{usage.input_tokens:,}{cached_text} tokens in, {usage.output_tokens:,} out")
        cost = result.cost_usd
        parts.append("cost unknown" if cost is None else f"${cost:.4f}")
    return " · ".join(parts)


def _fitted(line: str, width: int) -> list[str]:
    """A line of parts between dots, broken between them where it is too long."""
    lines: list[str] = []
    for part in line.split(" · "):
        if lines and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines


_GIST_KEYS = (
    "command",
    "commands",
    "cmd",
    "file_path",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "title",
)


_OUTCOME_KEYS = ("error", "output", "stderr", "message", "text", "result")
"""Where agents that report a result as an object say what happened."""


def gist(value: Any) -> str:
    """A call in one line: its most informative argument, else all of them."""
    return _first_text(value, _GIST_KEYS)


def outcome(value: Any) -> str:
    """The result of a call: the text in it, else all of it."""
    return _first_text(value, _OUTCOME_KEYS)


def _first_text(value: Any, keys: tuple[str, ...]) -> str:
    if isinstance(value, dict):
        for key in keys:
            if value.get(key):
                return _first_text(value[key], keys)
    if isinstance(value, list | tuple) and len(value) == 1:
        return _first_text(value[0], keys)
    if isinstance(value, str):
        return value.strip("\n")
    return msgspec.json.encode(value, enc_hook=str).decode()
