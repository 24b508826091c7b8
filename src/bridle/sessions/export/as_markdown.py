"""The session as a conversation in Markdown: readable as plain text and rendered."""

import re
from typing import BinaryIO

from bridle.core import events as ev
from bridle.sessions.export.facts import FATES, facts, title
from bridle.sessions.history import (
    AgentStep,
    Notice,
    ToolUse,
    as_text,
    conversation,
    usage_words,
)
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import TextCleaner, UserMessage

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_TICKS = re.compile(r"`+")


def write(home: StateHome, record: SessionRecord, cleaner: TextCleaner, out: BinaryIO) -> None:
    """Write the document, part by part."""
    head = [f"# {_line(title(record))}\n\n", "| | |\n|---|---|\n"]
    head += [f"| {name} | {_cell(value)} |\n" for name, value in facts(record)]
    _put(out, "".join(head))
    turn = 0
    for part in conversation(home, record, cleaner):
        if part.turn and part.turn != turn:
            turn = part.turn
            _put(out, f"\n## Turn {turn}\n")
        if isinstance(part, UserMessage):
            _put(out, _user(part))
        elif isinstance(part, AgentStep):
            _put(out, _step(part))
        else:
            _put(out, _notice(part))


def _put(out: BinaryIO, text: str) -> None:
    out.write(text.encode(errors="replace"))


def _user(message: UserMessage) -> str:
    name = "User, while the agent worked" if message.steered else "User"
    if message.fate != "delivered":
        name = f"User ({FATES[message.fate]})"
    images = "".join(f"\n> [image] {_line(path)}" for path in message.images)
    return f"\n### {name}\n\n{_quoted(message.text)}{images}\n"


def _step(step: AgentStep) -> str:
    pieces = ["\n### Agent\n"]
    if step.thinking:
        pieces.append(f"\n*Reasoning*\n\n{_quoted(step.thinking)}\n")
    if step.text:
        pieces.append(f"\n{_closed(step.text)}\n")
    pieces += [_tool(tool) for tool in step.tools]
    return "".join(pieces)


def _tool(tool: ToolUse) -> str:
    how = " (failed)" if tool.is_error else " (not ended)" if tool.is_open else ""
    pieces = [f"\n**Tool `{_line(tool.name).replace('`', '')}`**{how}\n"]
    if args := as_text(tool.args):
        pieces.append(f"\n{_block(args, 'json' if not isinstance(tool.args, str) else '')}\n")
    if result := tool.result_text:
        pieces.append(f"\n{_block(result)}\n")
    return "".join(pieces)


def _notice(notice: Notice) -> str:
    event, text = notice.event, _line(notice.text)
    if isinstance(event, ev.AgentEnd):
        spent = usage_words(event.usage, event.cost_usd)
        return f"\n*Turn {event.turn} {text}{f' · {spent}' if spent else ''}*\n"
    words = {
        "session_start": "Process started",
        "session_end": "Process ended",
        "compaction": "Context shortened",
        "retry": "Model call tried again",
        "permission": "Permission",
        "error": "Error",
    }[notice.kind]
    return f"\n*{words}{f': {text}' if text else ''}*\n"


def _line(text: str) -> str:
    """`text` on one line."""
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _quoted(text: str) -> str:
    """A quotation: markup that is opened in it ends with it."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def _block(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _closed(text: str) -> str:
    """The agent's Markdown. An open code block is closed, because it would swallow the rest of the
    document."""
    fence = ""
    for found in _FENCE.finditer(text):
        mark = found[1]
        if not fence:
            fence = mark
        elif mark[0] == fence[0] and len(mark) >= len(fence):
            fence = ""
    return f"{text}\n{fence}" if fence else text
