"""Reports of an agent's hooks about a terminal session: how hooks write them, and who reads them.

Each hook writes its payload into a separate file in a private folder (the spool), named after the
event. That is one `cat`: no hook waits for another, none can damage another's report, and a hook
that fails does not disturb the agent. A report adds evidence to the transcript and never replaces
it, so a lost report does no harm.
"""

import contextlib
import os
import shlex
import time
from typing import Any, Literal

import msgspec

from bridle.turns.recorder import Recorder

ReportKind = Literal[
    "prompt", "tool_start", "tool_end", "turn_end", "permission", "session_end", "other"
]

LARGEST = 64 << 10
"""Largest size in bytes of a call's arguments or result that is kept."""
_UNREADABLE = 5.0
"""Seconds after which a file that is not JSON cannot be one that is still being written."""
_MOST = 256
"""Most reports that are taken at once."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One report of a hook."""

    kind: ReportKind
    event: str
    """The runtime's name for the event."""
    text: str = ""
    """The prompt; the agent's last text at the end of a turn; why a session ended."""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Any = None
    result: Any = None
    is_error: bool = False


class ReportShape(msgspec.Struct, frozen=True, kw_only=True):
    """Which hooks of a runtime report what, and the fields of their payloads."""

    events: dict[str, ReportKind]
    prompt: str = "prompt"
    last_words: str = "last_assistant_message"
    reason: str = "reason"
    tool: str = "tool_name"
    input: str = "tool_input"
    call_id: str = "tool_use_id"
    result: str = "tool_response"
    error: str = "error"
    """Field that the end of a failed tool has."""
    inside: str = "agent_id"
    """Field that only hooks of a sub-agent have; those are ignored."""
    transcript: str = "transcript_path"
    tool_names: dict[str, str] = {}
    """The transcript's tool names, by the hooks' names, where they differ."""
    tool_prefixes: dict[str, str] = {}
    """The same, by the prefix of the hooks' name."""

    def read(self, event: str, payload: bytes, transcript: str | None = None) -> Report | None:
        """The report in a payload; None if it comes from a sub-agent or another transcript, or
        reports nothing. Raises `msgspec.DecodeError` if it is not JSON."""
        fields = msgspec.json.decode(payload)
        kind = self.events.get(event)
        if kind is None or not isinstance(fields, dict) or fields.get(self.inside):
            return None
        path = _text(fields.get(self.transcript))
        if transcript and path and os.path.basename(path) != os.path.basename(transcript):
            return None
        name, error = _text(fields.get(self.tool)), fields.get(self.error)
        words = {"prompt": self.prompt, "turn_end": self.last_words, "session_end": self.reason}
        about_tool = kind in ("tool_start", "tool_end", "permission")
        return Report(
            kind=kind,
            event=event,
            text=_text(fields.get(words.get(kind, ""))),
            tool_call_id=_text(fields.get(self.call_id)) if about_tool else "",
            tool_name=self._named(name) if about_tool else "",
            args=_bounded(fields.get(self.input)) if about_tool else None,
            result=_bounded(fields.get(self.result) if error is None else error)
            if kind == "tool_end"
            else None,
            is_error=kind == "tool_end" and error is not None,
        )

    def _named(self, name: str) -> str:
        for start, meant in self.tool_prefixes.items():
            if name.startswith(start):
                return meant
        return self.tool_names.get(name, name)


def report_command(folder: str, event: str) -> str:
    """The shell command of a hook that reports `event`. It prints nothing and always exits 0: a
    runtime could take another status for a refusal."""
    return f"cat 2>/dev/null >{shlex.quote(os.path.join(folder, event))}.$$ || :"


class Spool:
    """The folder that hooks write their reports into.

    Contract: `read` never blocks and never raises; the oldest report comes first. A report is
    returned again until the driver has recorded it and calls `taken`.
    """

    def __init__(self, folder: str, shape: ReportShape) -> None:
        self._folder = folder
        self._shape = shape

    def read(self, transcript: str | None = None) -> list[tuple[str, Report | None]]:
        """The reports with their file names; None instead of a report that has no use."""
        found = []
        for name in self.names():
            try:
                with open(os.path.join(self._folder, name), "rb") as file:
                    payload = file.read()
                    written = os.fstat(file.fileno()).st_mtime
                report = self._shape.read(name.partition(".")[0], payload, transcript)
            except OSError:
                continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                if time.time() - written < _UNREADABLE:
                    break
                report = None
            found.append((name, report))
        return found

    def names(self) -> list[str]:
        """The file names of the reports that were not taken, oldest first."""
        try:
            with os.scandir(self._folder) as entries:
                aged = [
                    (entry.stat().st_mtime_ns, entry.name)
                    for entry in entries
                    if not entry.name.startswith(".")
                ]
        except OSError:
            return []
        return [name for _, name in sorted(aged) if "." in name[1:]][:_MOST]

    def taken(self, name: str) -> None:
        """The report is recorded: remove it."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, name))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _bounded(value: Any) -> Any:
    return value if len(msgspec.json.encode(value)) <= LARGEST else None


# -- the driver's side ----------------------------------------------------------------------------

_DUE = 1.0
"""Seconds within which the transcript should contain what a hook reported."""


class SessionReports:
    """The reports of one session, each returned once.

    Contract: the driver records what `take` returns, then calls `done`. Reports that an earlier
    driver recorded are passed to `take_up` and are not returned again.
    """

    def __init__(self, folder: str, shape: ReportShape | None) -> None:
        self._spool = Spool(folder, shape) if folder and shape else None
        self._known: set[str] = set()
        self._due_at: float | None = None
        self.prompts: list[str] = []
        """The prompts in the reports that an earlier driver recorded."""

    def take_up(self, name: str, report: Report) -> None:
        """The journal already contains this report."""
        self._known.add(name)
        if report.kind == "prompt":
            self.prompts.append(report.text)

    def taken_up(self) -> None:
        """The whole journal was read: only reports that are still in the spool could come twice."""
        if self._spool is not None:
            self._known &= set(self._spool.names())

    def take(self, now: float, transcript: str | None) -> list[tuple[str, Report]]:
        """The new reports with their names, oldest first."""
        if self._spool is None:
            return []
        found = []
        for name, report in self._spool.read(transcript):
            if report is None or name in self._known:
                self.done(name)
            else:
                found.append((name, report))
        if found and self._due_at is None:
            self._due_at = now + _DUE
        return found

    def done(self, name: str) -> None:
        """The report is in the journal, or has no use."""
        assert self._spool is not None
        self._spool.taken(name)
        self._known.discard(name)

    def is_due(self, now: float) -> bool:
        """Whether the transcript should by now contain what was reported; true once."""
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True


# -- the wire's side ------------------------------------------------------------------------------

_COMMANDS = ("/", "!", "#")
"""Prefixes of texts that the interface handles itself: no turn follows."""


class HookEvidence:
    """The reports about the current turn, used for what the transcript does not contain.

    The transcript is the primary source: it is complete and in order. Reports are kept until the
    transcript had time to contain the same (`BaseTranscriptWire.due`) or the turn ends. No clock is
    read here, so that a session can be replayed.

    Contract: `add` has no visible effect. The other methods act on the recorder, at most once for
    each report.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._prompts: list[Report] = []
        self._starts: dict[str, Report] = {}
        self._ends: dict[str, Report] = {}
        self._stop: Report | None = None
        self._asked: Report | None = None
        self._args: dict[str, Any] = {}

    def add(self, report: Report) -> None:
        """A hook reported."""
        if report.kind == "prompt" and not report.text.startswith(_COMMANDS):
            self._prompts.append(report)
        elif report.kind == "tool_start" and report.tool_call_id:
            self._starts.setdefault(report.tool_call_id, report)
            self._args[report.tool_call_id] = report.args
        elif report.kind == "tool_end" and report.tool_call_id:
            self._ends.setdefault(report.tool_call_id, report)
        elif report.kind == "turn_end":
            self._stop = report
        elif report.kind == "permission":
            self._asked = report

    @property
    def stopped(self) -> bool:
        """Whether a hook reported the end of the turn."""
        return self._stop is not None

    def take_prompts(self) -> list[Report]:
        """The prompts that hooks reported."""
        taken, self._prompts = self._prompts, []
        return taken

    def take_question(self) -> Report | None:
        """The report about the permission that is being asked for."""
        taken, self._asked = self._asked, None
        return taken

    def args_of(self, tool_call_id: str) -> Any:
        """The arguments of a call of this turn, if a hook reported them."""
        return self._args.get(tool_call_id)

    def begin_tools(self) -> None:
        """Record the starts of tools that are missing in the transcript."""
        recorder = self._recorder
        if not recorder.turn_open:
            return
        starts, self._starts = self._starts, {}
        for call_id, report in starts.items():
            if not recorder.tools.knows(call_id):
                recorder.tool_started(call_id, report.tool_name, report.args)

    def end_turn(self) -> None:
        """Record, right before the turn ends, what is missing in the transcript."""
        self.begin_tools()
        recorder = self._recorder
        self._starts.clear()
        ends, self._ends = self._ends, {}
        stop, self._stop = self._stop, None
        self._asked = None
        self._args.clear()
        if not recorder.turn_open:
            return
        for call_id, report in ends.items():
            if call_id in recorder.tools.open:
                recorder.tool_ended(call_id, is_error=report.is_error, result=report.result)
        if stop is None or recorder.error is not None:
            return
        if _bare(stop.text) not in _bare(recorder.words.turn_text):
            recorder.message_started(synthetic=True)
            recorder.text_delta(stop.text, synthetic=True)
            recorder.message_ended(synthetic=True)


def _bare(text: str) -> str:
    return "".join(text.split())
