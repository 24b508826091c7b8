"""Carries the conversation of a session over to an agent of another runtime.

`native_import` imports it into the other agent, where its adapter offers that
(`bridle.runtimes.past_conversation`): Codex's does. OpenCode has an import too, of files in its own
export format, which nothing here writes yet. Claude Code and Pi resume only what they wrote
themselves, and the Agent Client Protocol has no import. For all others `brief` summarizes what the
other agent must know, and says what is missing.
"""

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.guard.tools import PATH_FIELDS, lookup, only_reads, patch_paths
from bridle.sessions.history import AgentStep, Notice, Part, ToolUse, as_text, conversation
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import TextCleaner, UserMessage

if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter
    from bridle.runtimes.past_conversation import PastMessage

SIZE = 24_000
"""Characters of a brief: about 6,000 tokens, which is small for every model."""
_LEAST = 6_000

_ASKED = 2_000
_OUTCOME = 800
_CALL = 300
_RESULT = 600
_SAID = 3_000
"""Characters of one message, outcome, call, result and text that are kept."""
_MOST_FILES = 400
_MOST_COMMANDS = 20

_INTRODUCTION = """\
You take over a conversation that another coding agent ({runtime}) had with the user, in the same
working directory. This brief was written by a program from that conversation's record. Take it as
what you know of the work so far. It is not complete: look at the files themselves before you rely
on anything here, and do not repeat finished work.
"""
_SPACES = re.compile(r"\s+")


def brief(
    home: StateHome,
    record: SessionRecord,
    *,
    size: int = SIZE,
    cleaner: TextCleaner | None = None,
) -> str:
    """What another agent must know to continue a session: what was asked and done, which files were
    touched, its state, and the end of the transcript.

    At most `size` characters (6,000 at least); what does not fit is left out, oldest first, and
    the brief says how much that was. Works on a running session too. Raises `Unavailable` for a
    damaged event file.
    """
    size = max(size, _LEAST)
    digest = _Digest(record, size)
    for part in conversation(home, record, cleaner):
        digest.take(part)
    return digest.text()


def native_import(
    home: StateHome,
    record: SessionRecord,
    target: "Adapter",
    options: RunOptions,
    *,
    env: Mapping[str, str],
    cleaner: TextCleaner | None = None,
) -> str | None:
    """Import a session's conversation into `target`; returns the native id to resume.

    `options` and `env` are those of the new session: its working directory, account and provider
    decide where the conversation is stored. None when `target` has no import or does not accept
    this conversation; use `brief` then. The agent's reasoning and images are not carried over.
    Calls no model. Raises `NotInstalled`, and `Unavailable` for a damaged event file.
    """
    from bridle.runtimes.past_conversation import ImportsConversation

    if not isinstance(target, ImportsConversation):
        return None
    messages = list(_past_messages(conversation(home, record, cleaner)))
    if not any(message.from_user for message in messages):
        return None
    return target.import_conversation(messages, options, env)


def _past_messages(parts: Iterator[Part]) -> "Iterator[PastMessage]":
    from bridle.runtimes.past_conversation import PastMessage, PastTool

    for part in parts:
        if isinstance(part, UserMessage):
            if part.fate == "delivered":
                yield PastMessage(from_user=True, text=part.text, ts=part.sent_at or "")
        elif isinstance(part, AgentStep):
            tools = tuple(
                PastTool(
                    id=tool.id,
                    name=tool.name,
                    args=tool.args,
                    result=tool.result_text,
                    is_error=tool.is_error,
                )
                for tool in part.tools
            )
            yield PastMessage(from_user=False, text=part.text, ts=part.ts, tools=tools)


class _Digest:
    """Collects the content of a brief from the parts of a conversation, in bounded memory."""

    def __init__(self, record: SessionRecord, size: int) -> None:
        self._record = record
        self._size = size
        self._asked: list[str] = []
        self._unheard: list[str] = []
        self._outcomes: deque[str] = deque(maxlen=60)
        self._turns = self._ended = 0
        self._files: dict[str, Touch] = {}
        self._forgotten_files = 0
        self._commands: deque[str] = deque(maxlen=_MOST_COMMANDS)
        self._command_count = 0
        self._tools = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._entries = 0
        self._cut = 0
        self._thought = False
        self._open_turn = 0
        self._error = ""

    # -- taking ---------------------------------------------------------------------------------

    def take(self, part: Part) -> None:
        """Take the next part of the conversation."""
        if isinstance(part, UserMessage):
            self._take_message(part)
        elif isinstance(part, AgentStep):
            self._take_step(part)
        else:
            self._take_notice(part)

    def _take_message(self, message: UserMessage) -> None:
        images = f" [with {len(message.images)} images]" if message.images else ""
        text = self._short(message.text, _ASKED) + images
        if message.fate != "delivered":
            self._unheard.append(text)
            return
        self._open_turn = message.turn or 0
        self._asked.append(f"{len(self._asked) + 1}. {_indented(text)}")
        self._remember(f"USER: {text}")

    def _take_step(self, step: AgentStep) -> None:
        self._open_turn = step.turn
        self._thought = self._thought or bool(step.thinking)
        if step.text:
            self._remember(f"AGENT: {self._short(step.text, _SAID)}")
        for tool in step.tools:
            self._take_tool(tool)

    def _take_tool(self, tool: ToolUse) -> None:
        self._tools += 1
        for path, touch in files_of(tool, self._record.workdir).items():
            known = self._files.pop(path, touch)
            self._files[path] = "changed" if "changed" in (known, touch) else "read"
        while len(self._files) > _MOST_FILES:
            del self._files[next(iter(self._files))]
            self._forgotten_files += 1
        for command in commands_of(tool):
            self._command_count += 1
            self._commands.append(self._short(_SPACES.sub(" ", command), _CALL))
        how = "failed" if tool.is_error else "not ended" if tool.is_open else "gave"
        call = self._short(_SPACES.sub(" ", as_text(tool.args)), _CALL)
        result = self._short(tool.result_text, _RESULT)
        self._remember(f"TOOL {tool.name} {call}\n{how}: {result}".rstrip(": "))

    def _take_notice(self, notice: Notice) -> None:
        event = notice.event
        if isinstance(event, ev.AgentEnd):
            self._turns, self._open_turn = event.turn, 0
            self._ended += 1
            self._error = f"{event.error.kind}: {event.error.message}" if event.error else ""
            said = self._short(event.text, _OUTCOME) or "(no closing words)"
            failed = f" ({self._error})" if self._error else ""
            self._outcomes.append(f"- Turn {event.turn} {notice.text}{failed}: {_indented(said)}")
        elif notice.kind in ("compaction", "permission"):
            self._remember(f"NOTE: {notice.kind}: {self._short(notice.text, _CALL)}")

    def _remember(self, entry: str) -> None:
        """Keep an entry of the transcript, up to what a brief can show."""
        self._entries += 1
        self._tail.append(entry)
        self._tail_size += len(entry)
        while self._tail_size > self._size and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())

    def _short(self, text: str, most: int) -> str:
        """`text`, or its beginning and end when it is too long."""
        text = text.strip()
        if len(text) <= most:
            return text
        self._cut += 1
        gone = f" [… {len(text) - most:,} characters …] "
        first = most * 2 // 3
        return f"{text[:first]}{gone}{text[len(text) - (most - first) :]}"

    # -- the brief ------------------------------------------------------------------------------

    def text(self) -> str:
        """The whole brief."""
        size = self._size
        sections = [
            f"# A conversation taken over from {self._record.runtime}\n\n"
            + _INTRODUCTION.format(runtime=self._record.runtime)
            + f"\n{self._facts()}",
            _section("What was asked", self._fitted(self._asked, size // 4, "messages")),
            _section("What was done", self._fitted(self._outcome_lines(), size // 7, "turns")),
            _section("Files", self._fitted(self._file_lines(), size // 12, "files")),
            _section("Last commands", self._fitted(self._command_lines(), size // 14, "commands")),
            _section("Current state", [self._standing()]),
        ]
        before = "\n".join(section for section in sections if section)
        room = size - len(before) - len(_END) - 600
        tail, shown = self._transcript(room)
        after = [tail, _section("What is not in this brief", self._left_out(shown)), _END]
        return "\n".join([before, *(section for section in after if section)])[:size]

    def _facts(self) -> str:
        record = self._record
        model = f", model {record.model}" if record.model else ""
        version = f" {record.runtime_version}" if record.runtime_version else ""
        lines = [
            f"- Agent: {record.runtime}{version}{model}",
            f"- Working directory: {record.workdir}",
            f"- Begun {record.started_at}, {self._turns} turns, {self._tools} tool calls",
        ]
        if record.task:
            lines.append(f"- Task: {record.task}")
        return "\n".join(lines) + "\n"

    def _outcome_lines(self) -> list[str]:
        gone = self._ended - len(self._outcomes)
        return [*([f"- ({gone} earlier turns left out)"] if gone else []), *self._outcomes]

    def _file_lines(self) -> list[str]:
        latest = [f"- {path} ({touch})" for path, touch in self._files.items()]
        # Changed files come last: the last lines are kept when space is short.
        return sorted(latest, key=lambda line: line.endswith("(changed)"))

    def _command_lines(self) -> list[str]:
        return [f"- `{command}`" for command in self._commands]

    def _standing(self) -> str:
        record = self._record
        lines = [
            f"The session is {record.state}{f' ({record.evidence})' if record.evidence else ''}."
        ]
        if self._open_turn:
            lines.append(f"Turn {self._open_turn} was not finished: its request may be half done.")
        elif self._error:
            lines.append(f"The last turn failed: {self._short(self._error, _CALL)}.")
        elif self._turns:
            lines.append("The last turn was finished.")
        if self._unheard:
            lines.append("Messages of the user that never reached the agent:")
            unheard = [f"- {_indented(each)}" for each in self._unheard]
            lines += self._fitted(unheard, self._size // 12, "messages")
        return "\n".join(lines)

    def _transcript(self, room: int) -> tuple[str, int]:
        """The end of the transcript that fits, and its number of entries."""
        kept: deque[str] = deque()
        for entry in reversed(self._tail):
            room -= len(entry) + 2
            if room < 0:
                break
            kept.appendleft(entry)
        shown = "".join(f"{entry}\n\n" for entry in kept)
        return f"\n## The end of the transcript\n\n{shown}" if kept else "", len(kept)

    def _left_out(self, shown: int) -> list[str]:
        gone, all_of_them = self._entries - shown, self._entries
        lines = (
            (gone, f"{gone} of {all_of_them} entries of the transcript, the oldest."),
            (self._cut, "The middle of long texts, marked with […]."),
            (self._thought, "The agent's reasoning."),
            (self._forgotten_files, f"{self._forgotten_files} files that were named early on."),
            (self._command_count, "Files that commands changed and that no other tool named."),
        )
        found = [f"- {line}" for holds, line in lines if holds]
        return found or ["- Only the agent's own memory, which cannot be carried over."]

    def _fitted(self, lines: list[str], room: int, what: str) -> list[str]:
        """The first line and as many of the last as fit, at least one, with a note about those in
        between."""
        if sum(len(line) + 1 for line in lines) <= room:
            return lines
        first = self._short(lines[0], room // 3)
        rest = deque([self._short(lines[-1], room // 3)] if len(lines) > 1 else [])
        room -= len(first) + sum(map(len, rest)) + 100
        for line in reversed(lines[1:-1]):
            room -= len(line) + 1
            if room < 0:
                break
            rest.appendleft(line)
        gone = len(lines) - 1 - len(rest)
        return [first, *([f"  (… {gone} {what} left out …)"] if gone else []), *rest]


_END = """
## Now

Continue from here with what the user asks next. If a request above is unfinished and nothing newer
replaces it, finish it.
"""


def _section(title: str, lines: list[str]) -> str:
    return f"\n## {title}\n\n" + "\n".join(lines) + "\n" if lines else ""


def _indented(text: str) -> str:
    return text.replace("\n", "\n   ")


# -- the files and commands of a tool call ---------------------------------------------------------

Touch = Literal["changed", "read"]

_VIEWS = ("view", "read", "undo_view")
_LONGEST = 500
"""Characters; a longer value is not a path."""


def files_of(tool: ToolUse, workdir: str) -> dict[str, Touch]:
    """The files that a call names, by the guard's table of tools; relative to `workdir` where they
    are below it.

    A failed call counts as having read its files. Files of a shell command are not included.
    """
    args: Any = tool.args
    if not isinstance(args, dict):
        return {}
    known = lookup(tool.name)
    if known is not None and known.action not in ("read", "write", "patch", "editor"):
        return {}
    changes = known is None and not only_reads(tool.name)
    if known is not None:
        changes = known.action in ("write", "patch")
        if known.action == "editor":
            changes = args.get("command") not in _VIEWS
    touch: Touch = "changed" if changes and not tool.is_error else "read"
    fields = PATH_FIELDS | {"filePath", *(known.paths if known else ())}
    named = list(_named(args, fields))
    if known is not None and known.action == "patch":
        for field in known.text:
            if isinstance(text := args.get(field), str):
                named += [path for path, _ in patch_paths(text)]
    return {_shown(path, workdir): touch for path in named if _is_path(path)}


def commands_of(tool: ToolUse) -> list[str]:
    """The commands that a call runs in a shell."""
    known = lookup(tool.name)
    args: Any = tool.args
    runs = not only_reads(tool.name) if known is None else known.action == "shell"
    if not isinstance(args, dict) or not runs:
        return []
    fields = known.text if known is not None else ("command",)
    found = [args[field] for field in fields if field in args]
    return [each if isinstance(each, str) else " ".join(map(str, each)) for each in found if each]


def _named(args: dict[str, Any], fields: frozenset[str] | set[str]) -> Iterator[str]:
    for key, value in args.items():
        if key in ("changes", "edits") and isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from _named(each, fields)
        elif key == "changes" and isinstance(value, dict):
            yield from value
        elif key in fields:
            yield from (each for each in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def _is_path(text: str) -> bool:
    return bool(text.strip()) and len(text) <= _LONGEST and "\n" not in text and "://" not in text


def _shown(path: str, workdir: str) -> str:
    if workdir and os.path.isabs(path):
        below = os.path.relpath(path, workdir)
        return path if below.startswith("..") else below
    return os.path.normpath(path)
