"""Copilot's terminal interface in a pane: its screen, its hook reports, its growing transcript.

The prompt sign is in every menu too, so it proves readiness only together with the status line of
an idle session (captures: `testdata/tui-*.txt`).

In `events.jsonl`, one `assistant.turn_start` and `assistant.turn_end` surround each model call; the
turn is over after a call whose message asked for no tool. A failed call has no message, and the
error comes after its end. A prompt interrupted before the first word is cut out of the file again.
"""

from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape, report_command
from bridle.drives.tmux.permission_dialogs import row_keys
from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.runtimes.copilot import wire
from bridle.runtimes.copilot.hooks import write_plugin
from bridle.runtimes.copilot.product import DIALECTS
from bridle.runtimes.copilot.stream import error_of_session
from bridle.runtimes.copilot.transcript import call_record
from bridle.runtimes.plan import RunPlan

_LOOKED_AT = 16
"""Lines from the end, empty ones not counted: the tallest menu with its frame."""
_MENU = "enter to select"
_TRUST = "Do you trust the files in this folder?"
_BUSY = "esc interrupt"
_YES = "❯ 1. Yes"
_LEAVING = "ctrl+c again to exit"
_REPORT_SECONDS = 10


def detect_ready(pane: str) -> ReadyState:
    """Classify a capture; pure."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    shown = "\n".join(lines[-_LOOKED_AT:])
    if _MENU in shown:
        if _TRUST not in shown:
            # It asks for permission: a person or a guard answers.
            return Busy(what="permission")
        # Enter trusts the folder for this session alone, but only while that row is chosen. "1"
        # was never tried, so nothing is sent when the choice has moved.
        return Dialog(name="trust", action="Enter" if _YES in shown else None)
    if _BUSY in shown:
        return Busy(what="working")
    if _LEAVING in shown:
        # The hint goes away by itself; no key other than Ctrl-C is known to be harmless.
        return Busy(what="working")
    if all(mark in shown for mark in DIALECTS[-1].ready_marks):
        return Ready()
    return Loading()


def input_line(pane: str) -> str | None:
    """The text between the two last rules, after the prompt sign."""
    lines = [line.rstrip() for line in pane.splitlines()]
    rules = [at for at, line in enumerate(lines) if line.startswith("────")]
    if len(rules) < 2 or not lines[rules[-2] + 1].startswith("❯"):
        return None
    return "\n".join(lines[rules[-2] + 1 : rules[-1]])[1:].strip()


REPORTS = ReportShape(
    events={
        "userPromptSubmitted": "prompt",
        "permissionRequest": "permission",
        "agentStop": "turn_end",
        "sessionEnd": "session_end",
    },
    tool="toolName",
    input="toolInput",
    transcript="",
)
"""What its hooks report of a terminal session. Those of tools name no call, so they could not be
matched with the calls in the transcript."""


def report_plan(plan: RunPlan) -> RunPlan:
    """The plan with a plugin whose hooks report; see `Terminal.report_plan`. The user's and the
    project's hooks run as well."""
    commands = {event: report_command(plan.reports, event) for event in REPORTS.events}
    # Hidden, because the reports lie beside it.
    folder = write_plugin(plan.reports, ".plugin", "bridle-reports", commands, _REPORT_SECONDS)
    return plan.with_arguments(f"--plugin-dir={folder}") or plan


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """The row "Yes" has a number; another one may be marked. Escape refuses, and ends the turn."""
    return row_keys(pane, allowed, consent=("Yes",))


TERMINAL = TerminalFacts(
    input_line=input_line,
    placeholder=r"\[Paste #\d+|\[Saved pasted content to workspace",
    interrupt=("C-c",),
    leave=("C-c", "C-c"),
    queues=True,
    permission_keys=permission_keys,
    reports=REPORTS,
)
"""The first Ctrl-C ends the turn; Escape must come twice and then opens other things too."""


# -- its transcript --------------------------------------------------------------------------------

_PASTED_FILE = "<pasted_content file="


class _User(msgspec.Struct, rename="camel"):
    content: str = ""


class _Start(msgspec.Struct, rename="camel"):
    session_id: str | None = None
    selected_model: str | None = None
    copilot_version: str | None = None


class _Message(wire.Message, frozen=True, rename="camel"):
    tool_requests: tuple[Any, ...] = ()


_users = structs.decoder(_User)
_starts = structs.decoder(_Start)
_messages = structs.decoder(_Message)
_tool_starts = structs.decoder(wire.ToolStart)
_tool_ends = structs.decoder(wire.ToolComplete)
_failures = structs.decoder(wire.Failure)


class CopilotFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    def _take(self, line: bytes) -> None:
        entry = wire.decode_envelope(line)
        recorder = self.recorder
        if recorder.options.include_raw:
            recorder.source(msgspec.json.decode(line))
        match entry.type:
            case "session.start" | "session.resume":
                start = _starts.decode(entry.data)
                recorder.session_started(
                    start.session_id,
                    model=start.selected_model,
                    runtime_version=start.copilot_version,
                )
            case "user.message":
                self._told(_users.decode(entry.data).content, "user.message")
            case "assistant.message":
                self._message(_messages.decode(entry.data))
            case "assistant.turn_end":
                if self._final:
                    self._end_turn()
            case "tool.execution_start" | "tool.execution_complete":
                self._tool(entry)
            case "session.usage_record":
                self._used(entry.data)
            case "session.error":
                if recorder.turn_open:
                    recorder.fail(error_of_session(_failures.decode(entry.data), None))
                    self._end_turn()
            case "abort":
                self._aborted("interrupted at the terminal")
            case "session.compaction_start":
                recorder.compaction_started("automatic")
            case "session.compaction_complete":
                recorder.compaction_ended("automatic")
            case _:
                # No event corresponds to the rest.
                pass

    def _receipt(self, text: str) -> str | None:
        """A very long paste is kept as a file, and the entry only names it."""
        if text.startswith(_PASTED_FILE):
            return self._pending.take_oldest()
        return super()._receipt(text)

    def _message(self, message: _Message) -> None:
        recorder = self.recorder
        if message.parent_tool_call_id is not None:
            recorder.tool_updated(message.parent_tool_call_id, message.content)
            return
        recorder.message_started(message.message_id)
        for kind, text in (("thinking", message.reasoning_text), ("text", message.content)):
            if text:
                self._say(kind, text)
        recorder.message_ended(model=message.model)
        self._final = not message.tool_requests

    def _tool(self, entry: wire.Envelope) -> None:
        recorder = self.recorder
        if entry.type == "tool.execution_start":
            start = _tool_starts.decode(entry.data)
            if start.parent_tool_call_id is None:
                recorder.tool_started(start.tool_call_id, start.tool_name, start.arguments)
            return
        end = _tool_ends.decode(entry.data)
        if end.parent_tool_call_id is None and recorder.turn_open:
            result = end.result.content if end.result is not None else None
            recorder.tool_ended(
                end.tool_call_id,
                is_error=not end.success,
                result=end.error.message if result is None and end.error else result,
            )

    def _used(self, data: msgspec.Raw) -> None:
        """Each model call has one record; side calls cost too."""
        used, model = call_record(data)
        self.recorder.set_usage(self.recorder.usage + used)
        self.recorder.model = model or self.recorder.model
