"""One agent's judge as its hooks reach it: a payload in, a verdict and an answer out."""

import os
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.guard.policy import Policy
from bridle.turns.guard_contract import GuardVerdict, HookNote, HookShape

if TYPE_CHECKING:
    from bridle.guard.judge import Judge

LARGEST = 8 << 20
"""Bytes of a payload; a larger one is refused unread."""

_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")
"""How the reason begins when a path below a temporary folder is refused."""
_PLACES = 64
"""Working directories for which a ready judge is kept."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is told to do."""

    allowed: bool
    printed: bytes = b""
    """What the hook prints, in its runtime's shape."""
    note: HookNote | None = None


class Desk:
    """Judges the calls of one agent. Contract: never raises, may be called from any thread.

    The judge itself is imported with the first call.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._ready: dict[str, Judge] = {}
        self._lock = threading.Lock()

    def judge(self, tool: str, args: Any, cwd: str | None = None) -> GuardVerdict:
        """The verdict on a call made in `cwd` (the policy's own when None)."""
        try:
            from bridle.guard.verdict import Call

            verdict = self._judge(cwd).judge(Call(tool=tool, input=args))
        except Exception as problem:
            return failed(problem)
        return GuardVerdict(
            allowed=verdict.decision == "allow",
            rule=verdict.rule,
            reason=verdict.reason + self._instead(verdict.rule, verdict.reason),
        )

    def _instead(self, rule: str, reason: str) -> str:
        """Where to write what an agent wanted to write below a temporary folder of everybody's."""
        scratch = self.policy.scratch
        if rule != "path-outside" or not scratch or not reason.startswith(_TEMPORARY):
            return ""
        return f" Temporary files go below $TMPDIR, which is {scratch}."

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

    def answer(self, payload: bytes, shape: HookShape) -> Answer:
        """The answer to a hook's payload, whatever it holds."""
        if len(payload) > LARGEST:
            return refused(shape, "bad-input", "the call is too large to be judged")
        try:
            told = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return refused(shape, "bad-input", "the hook's payload is not JSON")
        if not isinstance(told, dict):
            return refused(shape, "bad-input", "the hook's payload is not an object")
        event = told.get(shape.event)
        if event is None or event in shape.asks:
            return self._asked(told, shape, str(event or ""))
        # It asks for nothing; that it came shows that hooks fire.
        live = HookNote(kind="live", event=event) if event in shape.live else None
        return Answer(allowed=True, note=live)

    def _asked(self, told: dict[str, Any], shape: HookShape, event: str) -> Answer:
        tool, args = told.get(shape.tool), told.get(shape.input)
        verdict = self.judge(tool if isinstance(tool, str) else "", args, told.get(shape.cwd))
        note = HookNote(
            kind="verdict",
            event=event,
            tool_call_id=_text(told.get(shape.call_id)),
            tool_name=_text(tool),
            args=args,
            verdict=verdict,
        )
        printed = shape.allowed() if verdict.allowed else shape.refused(verdict.reason)
        return Answer(allowed=verdict.allowed, printed=printed, note=note)


def refused(shape: HookShape, rule: str, reason: str) -> Answer:
    """A refusal of something that is no call."""
    verdict = GuardVerdict(allowed=False, rule=rule, reason=reason)
    return Answer(
        allowed=False,
        printed=shape.refused(reason),
        note=HookNote(kind="verdict", verdict=verdict),
    )


def failed(problem: BaseException) -> GuardVerdict:
    """The verdict when the judge itself broke: in doubt, refuse."""
    return GuardVerdict(
        allowed=False,
        rule="internal-error",
        reason=f"the guard failed ({type(problem).__name__}); try a simpler call",
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
