"""The session as one self-contained HTML file: no script, no image, no other host."""

from html import escape
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

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; }
h2 { font-size: 1rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; }
th { text-align: left; padding-right: 1.5rem; font-weight: 500; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font: inherit; }
.code pre { font: 13px/1.45 ui-monospace, monospace; }
.user, .agent { margin: 1rem 0; padding: .6rem .9rem; }
.user, .agent { border: 1px solid var(--line); border-radius: 6px; }
.user { background: var(--soft); }
.who { font-weight: 600; font-size: .8rem; display: block; margin-bottom: .3rem; }
.notice { color: #777; font-size: .85rem; margin: .5rem 0; }
.error { color: #c33; }
details { margin: .5rem 0; border-left: 3px solid var(--line); padding-left: .7rem; }
summary { cursor: pointer; font-size: .9rem; }
.code { margin: .4rem 0; padding: .4rem .6rem; background: var(--soft); border-radius: 4px; }
"""
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
"""
_FORBIDDEN = {code: "\ufffd" for code in (*range(32), 127) if code not in (9, 10)}


def write(home: StateHome, record: SessionRecord, cleaner: TextCleaner, out: BinaryIO) -> None:
    """Write the page, part by part. Messages are shown as text, never as markup."""
    name = _safe(title(record))
    _put(out, f"{_HEAD}<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n")
    rows = "".join(
        f"<tr><th>{_safe(key)}</th><td>{_safe(value)}</td></tr>\n" for key, value in facts(record)
    )
    _put(out, f"<h1>{name}</h1>\n<table>\n{rows}</table>\n")
    turn = 0
    for part in conversation(home, record, cleaner):
        if part.turn and part.turn != turn:
            turn = part.turn
            _put(out, f'<h2 id="turn-{turn}">Turn {turn}</h2>\n')
        if isinstance(part, UserMessage):
            _put(out, _user(part))
        elif isinstance(part, AgentStep):
            _put(out, _step(part))
        else:
            _put(out, _notice(part))
    _put(out, "</body>\n</html>\n")


def _put(out: BinaryIO, text: str) -> None:
    out.write(text.encode(errors="replace"))


def _safe(text: str) -> str:
    """`text`, escaped; characters that HTML forbids are shown as replacement characters."""
    return escape(text.translate(_FORBIDDEN))


def _user(message: UserMessage) -> str:
    name = "User, while the agent worked" if message.steered else "User"
    if message.fate != "delivered":
        name = f"User ({FATES[message.fate]})"
    images = "".join(f'<div class="notice">image: {_safe(path)}</div>' for path in message.images)
    text = _pre(message.text)
    return f'<div class="user"><span class="who">{_safe(name)}</span>{text}{images}</div>\n'


def _step(step: AgentStep) -> str:
    pieces = ['<div class="agent"><span class="who">Agent</span>']
    if step.thinking:
        pieces.append(f"<details><summary>Reasoning</summary>{_pre(step.thinking)}</details>")
    if step.text:
        pieces.append(_pre(step.text))
    pieces += [_tool(tool) for tool in step.tools]
    return "".join([*pieces, "</div>\n"])


def _tool(tool: ToolUse) -> str:
    how = " (failed)" if tool.is_error else " (not ended)" if tool.is_open else ""
    kind = ' class="error"' if tool.is_error else ""
    pieces = [f"<details><summary{kind}>{_safe(tool.name)}{how}</summary>"]
    pieces += [
        f'<div class="code">{_pre(text)}</div>'
        for text in (as_text(tool.args), tool.result_text)
        if text
    ]
    return "".join([*pieces, "</details>"])


def _notice(notice: Notice) -> str:
    event = notice.event
    words = notice.kind.replace("_", " ")
    kind = "notice error" if notice.kind == "error" else "notice"
    if isinstance(event, ev.AgentEnd):
        words = f"turn {event.turn}"
        spent = usage_words(event.usage, event.cost_usd)
        tail = f" · {spent}" if spent else ""
        return f'<div class="{kind}">{words} {_safe(notice.text)}{_safe(tail)}</div>\n'
    text = f": {notice.text}" if notice.text else ""
    return f'<div class="{kind}">{words}{_safe(text)}</div>\n'


def _pre(text: str) -> str:
    # A newline right after the tag would be dropped.
    return f"<pre>\n{_safe(text)}</pre>"
