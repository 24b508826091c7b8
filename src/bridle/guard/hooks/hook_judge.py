"""Judges what an agent's hooks ask: the payload of a hook in, a note with the verdict out."""

import os
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.guard.policy import Policy
from bridle.guard.verdict import Call, Verdict
from bridle.turns.guard_contract import HookNote, HookShape

if TYPE_CHECKING:
    from bridle.guard.judge import Judge

LARGEST = 8 << 20
"""Bytes of a payload; a larger one is refused unread."""

_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")
"""How the reason begins when a path below a shared temporary folder is refused."""
_PLACES = 64
"""Working directories for which a prepared judge is kept."""


class HookJudge:
    """Judges the calls of one agent. Contract: never raises; any thread may call it.

    The judge itself is imported with the first call.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._ready: dict[str, Judge] = {}
        self._lock = threading.Lock()

    def judge(self, tool: str, args: Any, cwd: str | None = None) -> Verdict:
        """The verdict on a call made in `cwd` (the policy's own directory when None)."""
        try:
            verdict = self._judge(cwd).judge(Call(tool=tool, input=args))
        except Exception as problem:
            return failed(problem)
        scratch = self.policy.scratch
        if scratch and verdict.rule == "path-outside" and verdict.reason.startswith(_TEMPORARY):
            reason = f"{verdict.reason} Temporary files go below $TMPDIR, which is {scratch}."
            return msgspec.structs.replace(verdict, reason=reason)
        return verdict

    def _judge(self, cwd: str | None) -> "Judge":
        from bridle.guard.judge import Judge

        place = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else ""
        ready = self._ready.get(place)
        if ready is None:
            policy = msgspec.structs.replace(self.policy, cwd=place) if place else self.policy
            ready = Judge(policy)
            with self._lock:
                if len(self._ready) >= _PLACES:
                    self._ready.clear()
                self._ready[place] = ready
        return ready

    def answer(self, payload: bytes, shape: HookShape) -> HookNote:
        """What any payload of a hook results in: a verdict, or a note that a hook fired."""
        if len(payload) > LARGEST:
            return refusal("bad-input", "the call is too large to be judged")
        try:
            fields = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return refusal("bad-input", "the hook's payload is not JSON")
        if not isinstance(fields, dict):
            return refusal("bad-input", "the hook's payload is not an object")
        event = fields.get(shape.event)
        if event is not None and event not in shape.asks:
            # The hook asks for nothing, but some events prove that hooks fire.
            return HookNote(kind="live" if event in shape.live else "event", event=_text(event))
        tool, args = fields.get(shape.tool), fields.get(shape.input)
        return HookNote(
            kind="verdict",
            event=_text(event),
            tool_call_id=_text(fields.get(shape.call_id)),
            tool_name=_text(tool),
            args=args,
            verdict=self.judge(_text(tool), args, fields.get(shape.cwd)),
        )


def refusal(rule: str, reason: str) -> HookNote:
    """The refusal of a payload that is not a call."""
    return HookNote(kind="verdict", verdict=Verdict(decision="block", rule=rule, reason=reason))


def failed(problem: BaseException) -> Verdict:
    """The verdict when the judge itself failed: the call is refused."""
    return Verdict(
        decision="block",
        rule="internal-error",
        reason=f"the guard failed ({type(problem).__name__}); try a simpler call",
    )


def answer_line(note: HookNote, shape: HookShape) -> bytes:
    """The answer to the hook: `allow`, or `block` with what the hook prints."""
    verdict = note.verdict
    if verdict is None or verdict.allowed:
        return b"allow"
    return b"block " + shape.refused(verdict.reason)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
