"""Claude Code's terminal interface: what a captured pane shows, and its transcript as events.

The order of the rules matters: the prompt sign appears in every menu and beside every past message,
so it proves readiness only under a rule, with nothing above it that says otherwise.

Most dialogs have "no" as their default, and which do changes between versions, so Enter is only
ever sent when the wanted row is seen to be chosen. Where rows are numbered, the number is the key;
where they are not, Home and End choose. Keys that come before a menu takes them are lost one by
one, so a sequence of two would end in Enter on the wrong row.
"""

import itertools
import os
import re
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.core.usage import Usage
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape, report_command
from bridle.drives.tmux.permission_dialogs import row_keys
from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude.command import read_settings, without_settings
from bridle.runtimes.claude.hooks import HOOK_SECONDS
from bridle.runtimes.claude.stream import error_of_tag
from bridle.runtimes.claude.wire import Block, WireUsage, usage_of
from bridle.runtimes.options import with_hooks
from bridle.runtimes.plan import RunPlan
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts

_LOOKED_AT = 15
"""Lines from the end, empty ones not counted, that are looked at."""
_SPINNER = re.compile(r"^\S \S+… \(\d+", re.MULTILINE)
_IDLE_MARKS = ("? for shortcuts", "(shift+tab to cycle)", "paste again to expand")

SETTLED = 1.0
"""Seconds that a dialog must have looked the same before its key is sent."""
_ROW = re.compile(r"^\s*(❯?)\s*(?:(\d)\.)?\s*(\S.*)$")

DIALOGS = (
    # name, text that shows it, beginning of the row that is meant
    ("trust", "one you trust?", "Yes, I trust"),
    ("api_key", "Detected a custom API key", "Yes"),
    ("bypass_warning", "running in Bypass Permissions mode", "Yes, I accept"),
    ("fullscreen_offer", "Try the new fullscreen renderer?", "Not now"),
)
"""Dialogs that may appear first, with the row that says yes to what the session was started for,
and no to an offer nobody asked for."""


def detect_ready(pane: str) -> ReadyState:
    """Classify a capture. Pure; fooled by an agent that prints such screens, so prefer hooks."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    shown = "\n".join(lines[-_LOOKED_AT:])
    if "Enter to confirm" in shown:
        return _dialog(lines)
    if "Do you want to" in shown and "Esc to cancel" in shown:
        return Busy(what="permission")
    if "Retrying in" in shown:
        return Busy(what="retrying")
    if "esc to interrupt" in shown or _SPINNER.search(shown):
        return Busy(what="working")
    if _has_prompt(lines[-_LOOKED_AT:]) and any(mark in shown for mark in _IDLE_MARKS):
        return Ready()
    if "Unable to connect to Anthropic services" in shown:
        # The first start asks the service who the user is; with no network the CLI now exits.
        return Dialog(name="offline", action=None)
    return Loading()


def _dialog(lines: list[str]) -> Dialog:
    """The dialog and the one key (by tmux's name for it) that is safe to send now.

    A dialog is drawn before it takes keys, and may be drawn anew with its first choice just after
    it took one. So send a key only when captures showed the same state for `SETTLED` seconds, then
    look again. Home and End may be repeated, since they do the same twice as once (Down wraps
    around); Enter or a number repeated too soon would answer the next dialog.
    """
    text = "\n".join(lines)
    for name, mark, wanted in DIALOGS:
        if mark in text:
            return Dialog(name=name, action=_key(lines, wanted))
    return Dialog(name="unknown", action=None)


def _key(lines: list[str], wanted: str) -> str | None:
    rows = [found for line in lines if (found := _ROW.match(line))]
    meant = [at for at, row in enumerate(rows) if row[3].startswith(wanted)]
    chosen = [at for at, row in enumerate(rows) if row[1]]
    if not meant or not chosen:
        return None
    if meant[-1] == chosen[-1]:
        return "Enter"
    if rows[meant[-1]][2]:
        return rows[meant[-1]][2]
    return "End" if chosen[-1] < meant[-1] else "Home"


def _has_prompt(lines: list[str]) -> bool:
    """Whether a line with the prompt sign is right below a rule."""
    return any(
        line.startswith("❯") and above.startswith("───")
        for above, line in itertools.pairwise(lines)
    )


def input_line(pane: str) -> str | None:
    """The content of the input line: from the last prompt sign to the rule below it."""
    lines = [line.rstrip() for line in pane.splitlines()]
    starts = [
        at
        for at in range(1, len(lines))
        if lines[at].startswith("❯") and lines[at - 1].startswith("───")
    ]
    if not starts:
        return None
    shown = [lines[starts[-1]][1:]]
    for line in lines[starts[-1] + 1 :]:
        if line.startswith("───"):
            break
        shown.append(line)
    return "\n".join(shown).strip()


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """The row "Yes" has a number; Escape refuses, and ends the turn as "No" does too."""
    return row_keys(pane, allowed, consent=("Yes",))


REPORTS = ReportShape(
    events={
        "UserPromptSubmit": "prompt",
        "PreToolUse": "tool_start",
        "PostToolUse": "tool_end",
        "PostToolUseFailure": "tool_end",
        "PermissionRequest": "permission",
        "Stop": "turn_end",
        "SessionEnd": "session_end",
    }
)
"""What its hooks report of a terminal session."""


def report_plan(plan: RunPlan) -> RunPlan:
    """The plan with hooks that report; see `Terminal.report_plan`."""
    try:
        given, bare = without_settings(plan)
        settings = read_settings(given)
    except GuardRefused:
        # The CLI will say what is wrong with the user's settings.
        return plan
    # The guard's own file is not writable for a confined agent, and must stay so.
    own = bool(given) and plan.guard is not None and os.path.isfile(given)
    folder, name = os.path.split(given) if own else (plan.reports, ".settings.json")
    whole = with_hooks(settings, _entries(plan.reports))
    path = write_private(folder, name, msgspec.json.encode(whole))
    return bare.with_arguments("--settings", path) or plan


def _entries(folder: str) -> dict[str, list[Any]]:
    commands = {event: report_command(folder, event) for event in REPORTS.events}
    return {
        event: [{"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]}]
        for event, command in commands.items()
    }


TERMINAL = TerminalFacts(
    dialog_settled=SETTLED,
    paste_settled=0.6,
    input_line=input_line,
    hints=("Press up to edit queued messages", 'Try "'),
    placeholder=r"\[Pasted text #\d+",
    interrupt=("Escape",),
    leave=("C-d", "C-d"),
    queues=True,
    permission_keys=permission_keys,
    reports=REPORTS,
)
"""Enter right after a paste is swallowed, hence the long pause."""


_SYNTHETIC = "<synthetic>"
_INTERRUPTED = "[Request interrupted by user"
_GOES_ON = (None, "tool_use", "pause_turn")
"""Stop reasons after which the agent continues by itself."""
_NOT_A_PROMPT = ("<command-name>", "<command-message>", "<local-command-", "<bash-", "Caveat: ")
"""How entries begin that commands of the interface leave behind."""


class _Message(msgspec.Struct):
    id: str = ""
    model: str = ""
    content: str | list[Block] = ""
    stop_reason: str | None = None
    usage: WireUsage | None = None


class _Attachment(msgspec.Struct):
    type: str = ""
    prompt: str | list[Block] = ""


class _Line(msgspec.Struct, rename="camel"):
    type: str = ""
    subtype: str = ""
    session_id: str | None = None
    version: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    api_error_status: int | None = None
    error: object = None
    message: _Message | None = None
    attachment: _Attachment | None = None
    retry_attempt: int = 0
    retry_in_ms: float | None = None


class _Kind(msgspec.Struct):
    type: str = ""


_kinds = structs.decoder(_Kind)
_lines = structs.decoder(_Line)
_READ = frozenset({"user", "assistant", "system", "attachment"})


class ClaudeFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    _open_id: str | None = None
    _model: str | None = None
    _usage: Usage | None = None
    _stop_reason: str | None = None
    _compacted = False

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        super().__init__(facts, recorder)
        self._early: list[tuple[bytes, _Line]] = []

    def _take(self, line: bytes) -> None:
        if _kinds.decode(line).type not in _READ:
            return
        entry = _lines.decode(line)
        if entry.is_sidechain:
            return
        if entry.type == "assistant" and self.waits and not self.recorder.turn_open:
            self._early.append((line, entry))
            return
        self._play(line, entry)

    def _told(self, text: str, evidence: str) -> None:
        super()._told(text, evidence)
        self._play_early()

    def _take_prompts(self) -> None:
        super()._take_prompts()
        self._play_early()

    def finish(self, exit: ProcessExit) -> None:
        """Record the answer to a prompt that was never written down."""
        self._play_early()
        super().finish(exit)

    def _play_early(self) -> None:
        """Record what came before the prompt that it answers."""
        early, self._early = self._early, []
        for line, entry in early:
            self._play(line, entry)

    def _play(self, line: bytes, entry: _Line) -> None:
        self.recorder.session_started(entry.session_id, runtime_version=entry.version)
        if self.recorder.options.include_raw:
            self.recorder.source(msgspec.json.decode(line))
        if entry.type == "user" and entry.message is not None:
            self._user(entry, entry.message)
        elif entry.type == "assistant" and entry.message is not None:
            self._assistant(entry, entry.message)
        elif entry.type == "attachment" and entry.attachment is not None:
            if entry.attachment.type == "queued_command":
                self._told(_text(entry.attachment.prompt), "queued_command")
        elif entry.type == "system":
            self._system(entry)

    def _user(self, entry: _Line, message: _Message) -> None:
        if entry.is_compact_summary or (entry.is_meta and isinstance(message.content, str)):
            return
        blocks = [] if isinstance(message.content, str) else message.content
        results = [block for block in blocks if block.type == "tool_result"]
        for block in results:
            self._close_message()
            self.recorder.tool_ended(
                block.tool_use_id, is_error=bool(block.is_error), result=block.content
            )
        text = _text(message.content)
        if text.startswith(_INTERRUPTED):
            self._aborted("interrupted at the terminal")
        elif text and not results and not entry.is_meta and not text.startswith(_NOT_A_PROMPT):
            self._told(text, "user entry")

    def _assistant(self, entry: _Line, message: _Message) -> None:
        if message.model == _SYNTHETIC:
            if entry.is_api_error_message:
                tag = entry.error if isinstance(entry.error, str) else None
                text = _text(message.content)
                model = self.recorder.options.model or self.recorder.model
                self.recorder.fail(error_of_tag(tag, entry.api_error_status, text, model=model))
                self._final = True
            return
        blocks = message.content if isinstance(message.content, list) else []
        for block in blocks:
            if block.type in ("text", "thinking"):
                self._open(message)
                self._say(block.type, block.text or block.thinking)
            elif block.type == "tool_use":
                self._open(message)
                self._close_message()
                self.recorder.tool_started(block.id, block.name, block.input)
        self._final = message.stop_reason not in _GOES_ON

    def _open(self, message: _Message) -> None:
        """Open the message, or continue it; its usage counts once."""
        if self._open_id == message.id:
            return
        self._close_message()
        self._open_id, self._model = message.id, message.model or None
        self._stop_reason = message.stop_reason
        self._usage = usage_of(message.usage) if message.usage is not None else None
        self.recorder.message_started(message.id)

    def _close_message(self) -> None:
        if self._open_id is not None and self.recorder.message_open:
            self.recorder.message_ended(
                usage=self._usage, model=self._model, stop_reason=self._stop_reason
            )
            self._usage = None

    def _end_turn(self) -> None:
        super()._end_turn()
        self._open_id = None

    def _system(self, entry: _Line) -> None:
        if entry.subtype == "turn_duration":
            self._end_turn()
        elif entry.subtype == "compact_boundary":
            self.recorder.compaction_started("", synthetic=True)
            self.recorder.compaction_ended("success")
        elif entry.subtype == "api_error" and self.recorder.turn_open:
            error = error_of_tag(None, entry.api_error_status, "a model call failed")
            delay = None if entry.retry_in_ms is None else round(entry.retry_in_ms)
            self.recorder.retrying(entry.retry_attempt, delay, error)


def _text(content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if block.type == "text")
