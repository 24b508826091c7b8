"""What an agent's own hooks tell about a terminal session: how they tell it, and how it is read.

Each hook writes its payload into a file of its own in a private folder (the spool), named after the
event. That is one `cat`: no hook waits for another, none can spoil another's words, and one that
fails leaves the agent alone. A report is evidence beside the transcript, never instead of it, so a
lost one costs nothing.
"""

import contextlib
import os
import shlex
import time
from typing import Any, Literal

import msgspec

ReportKind = Literal[
    "prompt", "tool_start", "tool_end", "turn_end", "permission", "session_end", "other"
]

LARGEST = 64 << 10
"""Bytes of a call's arguments or result that are kept."""
_UNREADABLE = 5.0
"""Seconds after which a file that is no JSON is not one that is still being written."""
_MOST = 256
"""Reports that are taken at once."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a hook told."""

    kind: ReportKind
    event: str
    """The runtime's own name for it."""
    text: str = ""
    """The prompt; the agent's last words at the end of a turn; why a session ended."""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Any = None
    result: Any = None
    is_error: bool = False


class ReportShape(msgspec.Struct, frozen=True, kw_only=True):
    """Which hooks of a runtime report what, and where their payload says it."""

    events: dict[str, ReportKind]
    prompt: str = "prompt"
    last_words: str = "last_assistant_message"
    reason: str = "reason"
    tool: str = "tool_name"
    input: str = "tool_input"
    call_id: str = "tool_use_id"
    result: str = "tool_response"
    error: str = "error"
    """Field that a tool's end has when the tool failed."""
    inside: str = "agent_id"
    """Field that only hooks of a sub-agent have; those are passed over."""
    transcript: str = "transcript_path"
    tool_names: dict[str, str] = {}
    """The transcript's names of tools that hooks call otherwise."""
    tool_prefixes: dict[str, str] = {}
    """The same, by how the hooks' name begins."""

    def read(self, event: str, payload: bytes, transcript: str | None = None) -> Report | None:
        """The report in a payload; None for one of a sub-agent, of another transcript, or of
        nothing. Raises `msgspec.DecodeError` for what is no JSON."""
        told = msgspec.json.decode(payload)
        kind = self.events.get(event)
        if kind is None or not isinstance(told, dict) or told.get(self.inside):
            return None
        path = _text(told.get(self.transcript))
        if transcript and path and os.path.basename(path) != os.path.basename(transcript):
            return None
        name, error = _text(told.get(self.tool)), told.get(self.error)
        words = {"prompt": self.prompt, "turn_end": self.last_words, "session_end": self.reason}
        about_tool = kind in ("tool_start", "tool_end", "permission")
        return Report(
            kind=kind,
            event=event,
            text=_text(told.get(words.get(kind, ""))),
            tool_call_id=_text(told.get(self.call_id)) if about_tool else "",
            tool_name=self._named(name) if about_tool else "",
            args=_bounded(told.get(self.input)) if about_tool else None,
            result=_bounded(told.get(self.result) if error is None else error)
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
    """The shell command of a hook that reports `event`. It prints nothing and always ends well:
    runtimes take another end for a refusal."""
    return f"cat 2>/dev/null >{shlex.quote(os.path.join(folder, event))}.$$ || :"


class Spool:
    """The folder that hooks write into, as the driver of a session reads it.

    Contract: `read` never blocks and never raises; the oldest report comes first. Whoever has
    written a report down says `taken`; until then it comes again.
    """

    def __init__(self, folder: str, shape: ReportShape) -> None:
        self._folder = folder
        self._shape = shape

    def read(self, transcript: str | None = None) -> list[tuple[str, Report | None]]:
        """What was told, each with the name to take it by; None for what is of no use."""
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
        """The names of what was told and not taken, the oldest first."""
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
        """It need not come again."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, name))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _bounded(value: Any) -> Any:
    return value if len(msgspec.json.encode(value)) <= LARGEST else None
