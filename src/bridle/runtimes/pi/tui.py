"""Pi's terminal interface: what a captured pane shows, and its session file as events.

Captures of panes: `testdata/tui-*.txt`. Entries of the session file are whole messages. An answer
that ended by itself ends the turn. One that failed may be followed by another try, of which the
file says nothing: the pane shows when there is none.
"""

import json
import re
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import Aborted, AgentError, ContextOverflow
from bridle.core.files import write_private
from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape
from bridle.drives.tmux.permission_dialogs import row_keys
from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.runtimes.pi.stream import error_of_message
from bridle.runtimes.pi.wire import Message, ToolResult, WireUsage, blocks_of, shown_result
from bridle.runtimes.plan import RunPlan

_FOOTER = re.compile(r"\b\d+\.\d+%/\d+(?:\.\d+)?[kM]\b")
_NO_MODEL_FOOTER = re.compile(r"\b\d+\.\d+%/0 ")
_WORKING = re.compile(r"[⠀-⣿] Working")
_CHOOSE = "↑↓ navigate  enter select  escape/ctrl+c cancel"
_TRUST = "Trust project folder?"
_FOOTER_LINES = 6
_LOWER_LINES = 30


def detect_ready(pane: str) -> ReadyState:
    """What the pane shows; pure. The footer alone does not prove idleness: it is always there."""
    lines = [line for line in pane.splitlines() if line.strip()]
    lower = lines[-_LOWER_LINES:]
    choosing = any(line.strip() == _CHOOSE for line in lower)
    if choosing and any(line.strip() == _TRUST for line in lower):
        # The cursor is on "Trust": Enter would run the project's code from now on. Escape
        # leaves the project untrusted for this session and writes nothing.
        return Dialog(name="trust", action="Escape")
    if choosing:
        return Busy(what="permission")
    if any(_WORKING.search(line) for line in lower):
        return Busy(what="working")
    footer = lines[-_FOOTER_LINES:]
    if any(_FOOTER.search(line) for line in footer):
        return Ready()
    if any(_NO_MODEL_FOOTER.search(line) for line in footer):
        return Dialog(name="no-model", action=None)
    return Loading()


def input_line(pane: str) -> str | None:
    """The text between the two last rules."""
    lines = [line.rstrip() for line in pane.splitlines()]
    rules = [at for at, line in enumerate(lines) if line.startswith("──")]
    if len(rules) < 2:
        return None
    return "\n".join(lines[rules[-2] + 1 : rules[-1]]).strip()


REPORTS = ReportShape(
    events={
        "input": "prompt",
        "tool_execution_start": "tool_start",
        "tool_execution_end": "tool_end",
        "agent_settled": "turn_end",
        "session_shutdown": "session_end",
    }
)
"""What the extension reports of a terminal session; the older version has no `agent_settled`."""

_REPORTS_FILE = ".bridle-reports.ts"

_REPORTER = """\
import { writeFileSync } from "node:fs";
const folder = %(folder)s;
let number = 0;

function report(event, payload) {
  try {
    writeFileSync(`${folder}/${event}.${process.pid}-${++number}`, JSON.stringify(payload));
  } catch {}
}

export default function (pi) {
  pi.on("input", (event) => report("input", { prompt: event.text }));
  pi.on("tool_execution_start", (event) => report("tool_execution_start", {
    tool_use_id: event.toolCallId, tool_name: event.toolName, tool_input: event.args,
  }));
  pi.on("tool_execution_end", (event) => {
    const text = (event.result?.content ?? []).map((block) => block.text ?? "").join("");
    report("tool_execution_end", {
      tool_use_id: event.toolCallId, tool_name: event.toolName,
      ...(event.isError ? { error: text } : { tool_response: text }),
    });
  });
  pi.on("agent_settled", () => report("agent_settled", {}));
  pi.on("session_shutdown", (event) => report("session_shutdown", { reason: event.reason }));
}
"""


def report_plan(plan: RunPlan) -> RunPlan:
    """The plan with an extension that reports, beside those of the user; see
    `Terminal.report_plan`. It writes files itself, so no process is started, and ignores whatever
    fails in it: Pi would hold back a tool whose handler throws."""
    code = _REPORTER % {"folder": json.dumps(plan.reports)}
    path = write_private(plan.reports, _REPORTS_FILE, code)
    return plan.with_arguments("-e", path) or plan


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """Enter while "Yes" is marked; Escape refuses."""
    return row_keys(pane, allowed, consent=("Yes",))


TERMINAL = TerminalFacts(
    input_line=input_line,
    placeholder=r"\[paste #\d+",
    interrupt=("Escape",),
    leave=("C-d",),
    queues=True,
    permission_keys=permission_keys,
    reports=REPORTS,
)


class _Call(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    arguments: Any = None


class _Result(msgspec.Struct, rename="camel"):
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False


class _Entry(msgspec.Struct, rename="camel"):
    type: str = ""
    id: str = ""
    message: msgspec.Raw = msgspec.Raw(b"{}")
    usage: WireUsage | None = None


_entries = structs.decoder(_Entry)
_messages = structs.decoder(Message)
_results = structs.decoder(_Result)
_calls = structs.decoder(list[_Call])


class PiFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    _failure: AgentError | None = None
    _tries = 0

    def _take(self, line: bytes) -> None:
        entry = _entries.decode(line)
        recorder = self.recorder
        if recorder.options.include_raw:
            recorder.source(msgspec.json.decode(line))
        if entry.type == "session":
            recorder.session_started(entry.id)
        elif entry.type == "compaction":
            recorder.compaction_started("", synthetic=True)
            recorder.compaction_ended("success")
            if entry.usage is not None:
                recorder.set_usage(recorder.usage + entry.usage.counted())
        elif entry.type == "message":
            message = _messages.decode(entry.message)
            if message.role == "user":
                self._tries, self._failure = 0, None
                self._told(
                    "".join(block.text for block in blocks_of(message.content)), "user entry"
                )
            elif message.role == "assistant":
                self._assistant(message)
            elif message.role == "toolResult":
                result = _results.decode(entry.message)
                recorder.tool_ended(
                    result.tool_call_id,
                    tool_name=result.tool_name,
                    is_error=result.is_error,
                    result=shown_result(ToolResult(content=message.content)),
                )

    def _assistant(self, message: Message) -> None:
        recorder = self.recorder
        self._failure = None
        self._message(message)
        if message.stop_reason == "toolUse":
            self._final = False
            for call in _calls_of(message.content):
                recorder.tool_started(call.id, call.name, call.arguments)
        elif message.stop_reason == "aborted":
            recorder.fail(Aborted(message.error_message or "interrupted at the terminal"))
            self._end_turn()
        elif message.stop_reason == "error":
            self._failed(message)
        else:
            if message.stop_reason == "length":
                recorder.fail(ContextOverflow("the answer was cut off at the model's output limit"))
            self._end_turn()

    def _message(self, message: Message) -> None:
        """An answer without words is a message only if it cost tokens."""
        recorder = self.recorder
        spoken = [
            block for block in blocks_of(message.content) if block.type in ("text", "thinking")
        ]
        usage = message.usage.counted()
        if not spoken and not usage.total:
            return
        recorder.message_started(message.response_id)
        for block in spoken:
            self._say(block.type, block.text or block.thinking)
        cost = message.usage.cost.total
        recorder.message_ended(
            usage=usage,
            model=message.full_model,
            stop_reason=message.stop_reason or None,
            cost_usd=cost if cost > 0 else None,
        )

    def _failed(self, message: Message) -> None:
        error = error_of_message(message.error_message, message.full_model)
        if not error.retryable:
            self.recorder.fail(error)
            self._end_turn()
            return
        self._tries += 1
        self._failure = error
        self.recorder.retrying(self._tries, None, error)

    def _unfinished(self) -> AgentError:
        return self._failure or super()._unfinished()


def _calls_of(content: msgspec.Raw) -> list[_Call]:
    try:
        return [call for call in _calls.decode(content) if call.type == "toolCall"]
    except msgspec.MsgspecError:
        return []
