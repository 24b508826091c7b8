"""Codex's terminal interface: what a pane shows, how it takes input, and its rollout as events.

One trap of the screen: while an answer streams, the line that says so disappears and the input line
looks as when idle. Newer versions end every turn with a line of its own, so a turn without one
still runs; in older ones only the pane's title (a spinner in front of the folder's name) shows it.

Nobody can choose a thread's id, and Codex creates the rollout only with the first prompt. The
process holds the file open, which distinguishes it from those of other agents in the same folder.
Items are written when they are complete, so a tool's start and end come together, under the names
of the print drive. What belongs to no open turn (a background command that ends later) is left out.
"""

import os
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import Crashed
from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.core.usage import NO_USAGE, Usage
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape
from bridle.drives.tmux.permission_dialogs import row_keys
from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.runtimes.codex.stream import turn_error
from bridle.runtimes.codex.transcript import find_rollout, header_of, usage_of
from bridle.runtimes.codex.wire import ErrorText, WireUsage, snake_case
from bridle.turns.wire import LiveFacts

_LOGIN = ("Sign in with ChatGPT", "Choose how you want to use Codex")
_TRUST = ("Trust this folder?", "Do you trust the contents of this directory?")
_MIGRATION = ("1. Try new model", "2. Use existing model")
_APPROVAL = ("Would you like to run the following", "Would you like to make the following edits")
_UPDATE = ("Update available!", "Skip until next version")
_HOOKS = ("Hooks need review", "Continue without trusting")
_YES = ("› 1. Trust", "› 1. Yes")
_PROMPT = "›"
_ENDS_TURNS = ("Ask Codex to do anything", "for shortcuts")
"""What only versions show that end each turn with one of the next."""
_TURN_ENDS = ("  Worked for ", "■ ")


def detect_ready(pane: str) -> ReadyState:
    """Judge a pane; the newest thing on the screen, at its bottom, decides."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    if not lines:
        return Loading()
    if any(line.startswith("Pane is dead") for line in lines):
        return Busy(what="error")
    bottom = "\n".join(lines[-20:])
    if any(mark in bottom for mark in _LOGIN):
        return Dialog(name="login", action=None)
    if any(mark in bottom for mark in _TRUST):
        # Only while that row is chosen; the other one ends Codex.
        yes = any(line.startswith(_YES) for line in lines)
        return Dialog(name="trust", action="Enter" if yes else None)
    if all(mark in bottom for mark in _MIGRATION):
        # Enter would change the model, also in the user's configuration.
        return Dialog(name="model_migration", action=None)
    if all(mark in bottom for mark in _UPDATE):
        return Dialog(name="update", action=None)
    if all(mark in bottom for mark in _HOOKS):
        # Escape trusts none of them, and changes nothing.
        return Dialog(name="hooks", action="Escape")
    if any(mark in bottom for mark in _APPROVAL):
        return Busy(what="permission")
    if any("Working (" in line and "esc to interrupt" in line for line in lines[-8:]):
        return Busy(what="working")
    composer = _composer(lines)
    if composer is None:
        return Loading()
    return Busy(what="working") if _is_answering(lines, composer) else Ready()


def _composer(lines: list[str]) -> int | None:
    """The place of the input line: near the bottom, over the status line with the folder."""
    footer = next((i for i in range(len(lines) - 1, -1, -1) if _is_footer(lines[i])), None)
    if footer is None or footer < len(lines) - 3:
        return None
    return next((i for i in range(footer - 1, -1, -1) if lines[i].startswith(_PROMPT)), None)


def _is_answering(lines: list[str], composer: int) -> bool:
    """Whether the last prompt has an answer that was not ended."""
    if not any(mark in line for line in lines[composer:] for mark in _ENDS_TURNS):
        return False
    asked = next((i for i in range(composer - 1, -1, -1) if lines[i].startswith(_PROMPT)), None)
    if asked is None:
        return False
    since = lines[asked + 1 : composer]
    return any(line.startswith("• ") for line in since) and not any(
        line.startswith(_TURN_ENDS) for line in since
    )


def _is_footer(line: str) -> bool:
    return line.startswith("  ") and (" · " in line or "esc again to edit" in line)


def input_line(pane: str) -> str | None:
    """The content of the input line: from the last prompt sign to the status line."""
    lines = [line.rstrip() for line in pane.splitlines()]
    starts = [at for at, line in enumerate(lines) if line.startswith(_PROMPT)]
    if not starts:
        return None
    shown = [lines[starts[-1]][1:]]
    for line in lines[starts[-1] + 1 :]:
        if _is_footer(line):
            break
        shown.append(line)
    return "\n".join(shown).strip()


_OLDER_HINTS = (
    "Explain this codebase",
    "Summarize recent commits",
    "Implement {feature}",
    "Find and fix a bug in @filename",
    "Write tests for @filename",
    "Improve documentation in @filename",
    "Run /review on my current changes",
    "Use /skills to list available skills",
)
"""What older versions show in an empty input line, one of them at a time."""

REPORTS = ReportShape(
    events={
        "UserPromptSubmit": "prompt",
        "PreToolUse": "tool_start",
        "PostToolUse": "tool_end",
        "PermissionRequest": "permission",
        "Stop": "turn_end",
        "SessionEnd": "session_end",
    },
    tool_names={"Bash": "command_execution", "apply_patch": "file_change"},
    tool_prefixes={"mcp__": "mcp_tool_call"},
)
"""What its hooks report of a terminal session."""


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """The letter behind the row; Escape refuses, and ends the turn."""
    if allowed and "Yes, proceed (y)" in pane:
        return ("y",)
    return row_keys(pane, allowed, consent=())


TERMINAL = TerminalFacts(
    input_line=input_line,
    hints=("Ask Codex to do anything", *_OLDER_HINTS),
    placeholder=r"\[Pasted Content \d+ chars\]",
    interrupt=("Escape",),
    leave=("C-c", "C-c"),
    queues=True,
    busy_title=r"^[⠀-⣿] ",
    permission_keys=permission_keys,
    reports=REPORTS,
)


# -- its rollout as events ------------------------------------------------------------------------


def transcript_path(facts: LiveFacts, pid: int | None = None) -> str | None:
    """The rollout of the thread: the one a resumed id names, else the one that the process holds
    open, else the only new one of this folder."""
    if facts.resume:
        return find_rollout(facts.own["home"], facts.resume)
    held = _held_open(pid) if pid is not None else []
    if held:
        return held[0]
    return None if _shows_files(pid) else _only_new(facts)


def _shows_files(pid: int | None) -> bool:
    """Whether the system shows which files the process has open."""
    return pid is not None and os.path.isdir(f"/proc/{pid}/fd")


def _held_open(pid: int) -> list[str]:
    """Rollouts that the process has open; the first was opened first. Sub-agents' come later."""
    folder = f"/proc/{pid}/fd"
    found = []
    try:
        for name in sorted(os.listdir(folder), key=int):
            path = os.readlink(os.path.join(folder, name))
            base = os.path.basename(path)
            if base.startswith("rollout-") and base.endswith(".jsonl"):
                found.append(path)
    except OSError:
        pass
    return sorted(set(found), key=os.path.basename)


def _only_new(facts: LiveFacts) -> str | None:
    """The one rollout of this folder that is younger than the session; None when there are
    several: then nothing says whose they are."""
    fitting = []
    for folder, _, names in os.walk(os.path.join(facts.own["home"], "sessions")):
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith("rollout-") and os.stat(path).st_mtime >= facts.own["began"]:
                header = header_of(path)
                if header is not None and header.cwd == facts.cwd:
                    fitting.append(path)
    return fitting[0] if len(fitting) == 1 else None


class _Totals(msgspec.Struct):
    total_token_usage: WireUsage | None = None


class _Payload(msgspec.Struct):
    type: str = ""
    id: str = ""
    cli_version: str | None = None
    model: str | None = None
    item: dict[str, Any] | None = None
    response_id: str = ""
    usage: WireUsage | None = None
    error: ErrorText | None = None
    reason: str = ""
    # Only in older versions:
    message: str = ""
    text: str = ""
    name: str = ""
    arguments: str = ""
    input: str = ""
    call_id: str = ""
    output: Any = None
    info: _Totals | None = None
    last_agent_message: str | None = None


class _Line(msgspec.Struct):
    type: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_lines = structs.decoder(_Line)
_payloads = structs.decoder(_Payload)


class CodexFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    _read = frozenset(
        {"session_meta", "turn_context", "event_msg", "token_usage_record", "compacted"}
    )
    _thread: str | None = None
    _sum: Usage = NO_USAGE
    _counted: frozenset[str] = frozenset()

    def _take(self, line: bytes) -> None:
        entry = _lines.decode(line)
        if entry.type not in self._read:
            return
        payload = _payloads.decode(entry.payload)
        if self.recorder.options.include_raw:
            self.recorder.source(msgspec.json.decode(line))
        self._entry(entry.type, payload)

    def _entry(self, kind: str, payload: _Payload) -> None:
        recorder = self.recorder
        if kind == "session_meta":
            # A resumed or forked thread repeats the header of the one it came from.
            if self._thread is None:
                self._thread = payload.id
                recorder.session_started(payload.id, runtime_version=payload.cli_version)
        elif kind == "turn_context":
            recorder.model = payload.model or recorder.model
        elif kind == "token_usage_record":
            self._used(payload)
        elif kind == "compacted":
            recorder.compaction_started("", synthetic=True)
            recorder.compaction_ended("success")
        else:
            self._event(payload)

    def _event(self, payload: _Payload) -> None:
        if payload.type == "task_started":
            self._final = False
            self.recorder.turn_started(evidence="task_started")
        elif payload.type == "task_complete":
            if payload.error is not None:
                model = self.recorder.options.model or self.recorder.model
                self.recorder.fail(turn_error(payload.error.message, model))
            self._end_turn()
        elif payload.type == "turn_aborted":
            self._aborted(payload.reason or "interrupted at the terminal")
        elif payload.type == "item_completed" and payload.item is not None:
            self._item(payload.item)

    def _used(self, payload: _Payload) -> None:
        """Count each model call once, even if it is written twice."""
        if payload.usage is None or payload.response_id in self._counted:
            return
        self._counted |= {payload.response_id}
        self._sum += usage_of(payload.usage)
        self.recorder.set_usage(self._sum)

    def _item(self, item: dict[str, Any]) -> None:
        recorder = self.recorder
        kind, item_id = str(item.get("type")), str(item.get("id") or "")
        if kind == "UserMessage":
            self._user(item)
        elif not recorder.turn_open:
            return
        elif kind == "AgentMessage":
            if not recorder.message_open:
                recorder.message_started(item_id or None)
            self._say("text", _joined(item.get("content")))
            recorder.message_ended()
        elif kind == "Reasoning":
            if not recorder.message_open:
                recorder.message_started(item_id or None)
            self._say("thinking", "\n\n".join(map(str, item.get("summary_text") or [])))
        elif kind == "CommandExecution":
            self._command(item_id, item)
        elif kind not in _NOT_TOOLS:
            self._tool(item_id, kind, item)

    def _user(self, item: dict[str, Any]) -> None:
        """Codex opens its turn before it writes the message, and takes others into it."""
        self.recorder.turn_started(evidence="UserMessage")
        self._user_said(_joined(item.get("content")))

    def _command(self, item_id: str, item: dict[str, Any]) -> None:
        from shlex import join

        words = item.get("command")
        command = join(map(str, words)) if isinstance(words, list) else str(words or "")
        code = item.get("exit_code")
        output = item.get("aggregated_output")
        self.recorder.tool_started(
            item_id, "command_execution", {"command": command}, synthetic=True
        )
        self.recorder.tool_ended(
            item_id,
            is_error=code not in (0, None) or item.get("status") in _BAD,
            result={"output": output or "", "exit_code": code},
        )

    def _tool(self, item_id: str, kind: str, item: dict[str, Any]) -> None:
        fields = {name: value for name, value in item.items() if name not in ("type", "id")}
        self.recorder.tool_started(item_id, snake_case(kind), fields, synthetic=True)
        self.recorder.tool_ended(item_id, is_error=item.get("status") in _BAD, result=fields)


_BAD = ("failed", "declined")
_NOT_TOOLS = frozenset({"Plan", "HookPrompt", "ContextCompaction", "EnteredReviewMode"})


def _joined(content: Any) -> str:
    """The text of a message's content blocks."""
    if not isinstance(content, list):
        return str(content or "")
    return "".join(str(block.get("text") or "") for block in content if isinstance(block, dict))


_NAMES = {"exec_command": "command_execution", "shell": "command_execution"}
_NAMES |= {"shell_command": "command_execution", "apply_patch": "file_change"}
_FAILED = ("Process exited with code ", "Exit code: ")


class OlderCodexFollower(CodexFollower):
    """The rollout of older versions.

    It holds messages, and beside them the calls as the model made them and the results that the
    model got. Usage is a running total. Of a failed turn it says only that it ended, without an
    answer; the reason is on the screen alone.
    """

    _read = CodexFollower._read | {"response_item"}
    _total = NO_USAGE
    _answered = False

    def _entry(self, kind: str, payload: _Payload) -> None:
        if kind == "response_item":
            self._call(payload)
        elif kind != "event_msg" or not self._older_event(payload):
            super()._entry(kind, payload)

    def _older_event(self, payload: _Payload) -> bool:
        """Take an event that only these versions write; returns whether it was one."""
        recorder = self.recorder
        if payload.type == "user_message":
            recorder.turn_started(evidence="user_message")
            self._user_said(payload.message)
        elif payload.type == "agent_message" and recorder.turn_open:
            self._answered = True
            if not recorder.message_open:
                recorder.message_started()
            self._say("text", payload.message)
            recorder.message_ended()
        elif payload.type == "agent_reasoning" and recorder.turn_open:
            if not recorder.message_open:
                recorder.message_started()
            self._say("thinking", payload.text)
        elif payload.type == "token_count":
            self._count(payload.info)
        elif payload.type == "task_complete" and payload.last_agent_message is None:
            if recorder.turn_open and not self._answered:
                recorder.fail(Crashed("the turn ended without an answer", hint="see its screen"))
            return False
        else:
            self._answered = self._answered and payload.type != "task_started"
            return False
        return True

    def _count(self, info: _Totals | None) -> None:
        """Totals are repeated, and begin again after an overflow: only growth counts."""
        if info is None or info.total_token_usage is None:
            return
        total = usage_of(info.total_token_usage)
        growth, self._total = total - self._total, total
        if growth.total > 0:
            self._sum += growth
            self.recorder.set_usage(self._sum)

    def _call(self, payload: _Payload) -> None:
        recorder = self.recorder
        if not recorder.turn_open:
            return
        if payload.type in ("function_call", "custom_tool_call"):
            self._answered = True
            name = _NAMES.get(payload.name, payload.name)
            recorder.tool_started(payload.call_id, name, _arguments(payload))
        elif payload.type in ("function_call_output", "custom_tool_call_output"):
            text = payload.output if isinstance(payload.output, str) else str(payload.output)
            recorder.tool_ended(payload.call_id, is_error=_failed(text), result=text)


def _arguments(payload: _Payload) -> Any:
    try:
        given = msgspec.json.decode(payload.arguments or payload.input)
    except msgspec.DecodeError:
        given = payload.arguments or payload.input
    if isinstance(given, dict) and "cmd" in given:
        return {"command": given["cmd"]}
    return given


def _failed(output: str) -> bool:
    """Whether the result that the model got says that the call failed."""
    for mark in _FAILED:
        _, found, rest = output.partition(mark)
        if found:
            return not rest.startswith("0")
    return False
