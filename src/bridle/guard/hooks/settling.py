"""A verdict on a call that waits on an agent's wire, given apart from whoever drives the agent.

The driver must not wait for a judge that is slow, and the agent must not wait for one that is gone:
the verdict is written down among the notes (`notes`), where the driver finds it, by whichever comes
first, the judge or the clock.
"""

import contextlib
import threading
from typing import Protocol

import msgspec

from bridle.guard.hooks.desk import Answer, failed
from bridle.guard.hooks.hook_script import SILENT
from bridle.guard.hooks.notes import append_note
from bridle.turns.guard_contract import GuardVerdict, HookNote, HookShape, WireCall


class Judging(Protocol):
    """What is asked for the verdict."""

    shape: HookShape
    patience: int

    def judged(self, payload: bytes) -> Answer:
        """The answer to a hook's payload."""


class Settling:
    """One call on its way to its verdict. Contract: after `start` exactly one verdict is written
    down, unless the notes cannot be written; then the agent goes on waiting, and nothing runs."""

    def __init__(self, judge: Judging, notes: str, call: WireCall, *, with_args: bool) -> None:
        self._judge = judge
        self._notes = notes
        self._call = call
        self._with_args = with_args
        self._lock = threading.Lock()
        self._settled = False
        self._clock = threading.Timer(judge.patience, self._late)
        self._clock.daemon = True

    def start(self) -> None:
        """Begin to judge."""
        self._clock.start()
        threading.Thread(target=self._work, name="bridle-verdict", daemon=True).start()

    def _work(self) -> None:
        try:
            answer = self._judge.judged(self._payload())
            verdict = answer.note.verdict if answer.note is not None else None
            if verdict is None or verdict.allowed is not answer.allowed:
                raise TypeError("not a verdict")
        except Exception as problem:
            verdict = failed(problem)
        self._write(verdict)

    def _late(self) -> None:
        self._write(GuardVerdict(allowed=False, rule="internal-error", reason=SILENT))

    def _payload(self) -> bytes:
        shape, call = self._judge.shape, self._call
        return msgspec.json.encode(
            {
                shape.event: shape.asks[0],
                shape.tool: call.tool_name,
                shape.input: call.args,
                shape.call_id: call.tool_call_id,
                shape.cwd: call.cwd,
            }
        )

    def _write(self, verdict: GuardVerdict) -> None:
        with self._lock:
            if self._settled:
                return
            self._settled = True
        self._clock.cancel()
        call = self._call
        note = HookNote(
            kind="verdict",
            event=self._judge.shape.asks[0],
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            args=call.args,
            verdict=verdict,
        )
        with contextlib.suppress(OSError):
            append_note(self._notes, note, with_args=self._with_args)
