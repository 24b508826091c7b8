"""The contract between adapters and the guard: how an agent asks before each tool call.

An adapter describes as data how its CLI asks (`GuardMechanism`), and sets it up with what the guard
offers (`GuardHook`). The driver holds the session's `Guard`: it answers calls in process, collects
the verdicts that hooks outside the process gave, and detects a tool call that nobody asked about.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from bridle.core.results import GuardReport

REASON = "{reason}"
"""Placeholder for the reason in a `HookShape.refusal`."""


NOTES = "notes.jsonl"
"""The file in a lasting guard's folder that the judge writes its verdicts to."""
UNSEEN = "arguments_not_told"
"""Placeholder for the arguments of a call whose agent asks without sending them."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one tool call, from the judge to the event that reports it."""

    decision: Literal["allow", "block"]
    reason: str = ""
    rule: str
    """The rule that decided; `allowed` when no rule refused the call."""

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.decision == "allow"


def _usual_refusal() -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": REASON,
        }
    }


class HookShape(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a runtime's hook payload, and what the hook must print to refuse a call.

    The defaults are the shape that most runtimes share.
    """

    tool: str = "tool_name"
    input: str = "tool_input"
    call_id: str = "tool_use_id"
    cwd: str = "cwd"
    event: str = "hook_event_name"
    """Field with the event's name; a payload without it asks about a tool."""
    asks: tuple[str, ...] = ("PreToolUse",)
    """Events that ask whether a tool may run."""
    live: tuple[str, ...] = ("SessionStart", "UserPromptSubmit")
    """Events that come before the first tool, and so prove that hooks fire."""
    refusal: dict[str, Any] = msgspec.field(default_factory=_usual_refusal)
    """What the hook prints to refuse, with `REASON` replaced."""
    consent: dict[str, Any] | None = None
    """What the hook prints to allow; None prints nothing."""
    refusal_status: int = 0
    """Exit status of the hook when it refuses."""
    timed: bool = True
    """Whether the hook itself must enforce a timeout; false for a runtime that blocks the tool when
    its hook takes too long."""
    watched: bool = False
    """Whether a second shell refuses the call when the hook's shell is killed; needed for a runtime
    that would then run the tool."""
    foretold: bool = False
    """Whether the hook first refuses on stderr and then allows on stdout; needed for a runtime that
    reads stderr whenever stdout is empty, however the hook ended. Requires a `consent`."""

    def refused(self, reason: str) -> bytes:
        """The line that a hook prints to refuse."""
        return msgspec.json.encode(_filled(self.refusal, reason))

    def allowed(self) -> bytes:
        """The line that a hook prints to allow; empty if it prints nothing."""
        return b"" if self.consent is None else msgspec.json.encode(self.consent)


def _filled(value: Any, reason: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, reason) for key, each in value.items()}
    return reason if value == REASON else value


class GuardMechanism(msgspec.Struct, frozen=True, kw_only=True):
    """How one runtime asks in one drive."""

    name: str
    """The mechanism's name: `PreToolUse over stdio`, `extension`, …"""
    fails: Literal["open", "closed"]
    """What the runtime does by itself when the hook crashes, hangs or prints garbage."""
    proof: str
    """What proves, before the first tool call, that the guard is live."""
    shape: HookShape = HookShape()
    matching: Literal["id", "count"] = "id"
    """Whether hooks and wire share call ids, or calls and verdicts can only be counted."""
    names_differ: bool = False
    """Whether the wire uses other tool names than the hooks; then a verdict without an id belongs
    to the oldest call that has no verdict."""
    tells_refused: bool = True
    """Whether the wire reports refused calls."""
    unasked: frozenset[str] = frozenset()
    """Tools, by the wire's names, that the runtime runs without asking; they are read-only."""
    on_wire: bool = False
    """Whether the agent asks on its own wire and waits for the answer. Nothing proves the guard
    before the first question; a tool that ran unasked stops the agent."""
    proves_at_start: bool = False
    """Whether the proof comes before a session is ready for its first prompt. Otherwise it comes
    with that prompt, before the model is called."""


class GuardPieces(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a product ask, for an adapter that starts it through another program."""

    mechanism: GuardMechanism
    flags: tuple[str, ...] = ()
    settings: dict[str, Any] = {}


class GuardAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a program inside the agent asks over loopback TCP, one JSON object per line.

    The token only permits asking. The answer goes to the program that asked, so a command of the
    agent that uses the token can learn a verdict but cannot forge one.
    """

    host: str
    port: int
    token: str


class GuardHook(Protocol):
    """What the guard offers an adapter for one session.

    Contract: no method starts a process. Files that the CLI reads go into `folder`, which belongs
    to the guard: outside the worktree, read-only to a sandboxed agent, removed with the guard.
    """

    folder: str
    stdio: bool
    """Whether the driver holds the agent's stdin and answers requests that come on its stdout."""
    lasting: bool
    """Whether the agent outlives the process that answers now: then only `command` works."""

    def command(self, shape: HookShape) -> str:
        """A shell command that reads a payload on stdin, answers in `shape`, and refuses if
        anything goes wrong."""

    def address(self) -> GuardAddress:
        """Where a program inside the agent can ask."""


class HookNote(msgspec.Struct, frozen=True, kw_only=True):
    """One report of a hook to the guard."""

    kind: Literal["live", "verdict", "event"]
    """`live` proves that hooks fire, `verdict` answers a call, `event` asks and proves nothing."""
    event: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Any = None
    verdict: Verdict | None = None


def current_note(stored: Any) -> Any:
    """A stored `HookNote`, as plain data in the current form: older files have `allowed` instead of
    `decision`."""
    verdict = stored.get("verdict") if isinstance(stored, dict) else None
    if not isinstance(verdict, dict) or "allowed" not in verdict:
        return stored
    decision = "allow" if verdict["allowed"] is True else "block"
    return {**stored, "verdict": {**verdict, "decision": decision}}


class GuardFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver must know about a session's guard; stored with the session."""

    capability: str
    mechanism: GuardMechanism
    folder: str
    """The folder of its files, as long as the agent runs."""
    proof: str = ""
    """What proved before the start that it will fire; empty if the proof comes later."""


class WireCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call whose agent waits on its wire for a verdict that arrives by `Guard.note`."""

    tool_call_id: str
    tool_name: str
    args: Any
    cwd: str | None = None


Judging = Callable[[str, Any, str | None], Verdict]
"""`judge(tool, input, cwd)`; must not raise."""


class Guard:
    """The guard of one session, as its driver sees it.

    Contract: `note` may be called from any thread, everything else only by the driver. `ask` never
    raises. Each verdict on a call is counted exactly once.
    """

    def __init__(
        self,
        judge: Judging,
        mechanism: GuardMechanism,
        *,
        capability: str,
        judges: bool = True,
    ) -> None:
        self.judges = judges
        """Whether `ask` gives verdicts; otherwise they arrive as notes, also for wire calls."""
        self.waiting: dict[str, Callable[[Verdict], None]] = {}
        """The callbacks that take the verdict on a wire call, by call id."""
        self._unjudged: list[WireCall] = []
        self.mechanism = mechanism
        self.capability = capability
        self.live = ""
        """The evidence that the guard fires; empty until then."""
        self.allowed = 0
        self.blocked = 0
        self.on_note: Callable[[], None] | None = None
        """Called from any thread when a hook reports; wakes the driver."""
        self._judge = judge
        self._notes: deque[HookNote] = deque()
        self._judged: set[str] = set()
        self._spare = 0

    def ask(self, tool_call_id: str, tool: str, args: Any, cwd: str | None = None) -> Verdict:
        """The verdict on a call that came over the agent's wire."""
        self.proved("a tool call asked")
        try:
            verdict = self._judge(tool, args, cwd)
            if not isinstance(verdict, Verdict):
                raise TypeError("not a verdict")
        except Exception as problem:
            # Fail closed: an internal error must not allow the call.
            verdict = Verdict(
                decision="block",
                rule="internal-error",
                reason=f"the guard failed ({type(problem).__name__})",
            )
        self._count(tool_call_id, verdict)
        return verdict

    def await_verdict(self, call: WireCall, answer: Callable[[Verdict], None]) -> None:
        """A wire call waits for a verdict that arrives as a note; `answer` takes it."""
        self.proved("a tool call asked")
        self.waiting[call.tool_call_id] = answer
        self._unjudged.append(call)

    def take_unjudged(self) -> list[WireCall]:
        """The waiting calls that were not returned before; the caller must have each judged."""
        taken = [call for call in self._unjudged if call.tool_call_id in self.waiting]
        self._unjudged.clear()
        return taken

    def note(self, note: HookNote) -> None:
        """Take a report of a hook."""
        self._notes.append(note)
        if self.on_note is not None:
            self.on_note()

    def take(self) -> list[HookNote]:
        """The reports since the last call, oldest first; their verdicts are counted now."""
        taken = []
        while self._notes:
            note = self._notes.popleft()
            self.proved(note.event or note.kind)
            if note.verdict is not None:
                self._count(note.tool_call_id, note.verdict)
            taken.append(note)
        return taken

    def proved(self, evidence: str) -> None:
        """Record the first evidence that the guard fires."""
        self.live = self.live or evidence

    def was_asked(self, tool_call_id: str, tool: str) -> bool:
        """Whether the guard allowed a call that has just run. If calls can only be counted, this
        uses up one verdict."""
        mechanism = self.mechanism
        if tool in mechanism.unasked:
            return True
        if mechanism.matching == "id":
            return tool_call_id in self._judged
        self._spare -= 1
        return self._spare >= 0

    def report(self) -> GuardReport:
        """The guard's part of the result."""
        return GuardReport(
            capability=self.capability,
            state="live" if self.live else "unproved",
            mechanism=self.mechanism.name,
            allowed=self.allowed,
            blocked=self.blocked,
        )

    @classmethod
    def of_session(cls, facts: GuardFacts) -> "Guard":
        """The guard of a session whose verdicts come from hooks only (`note`)."""

        def refuse(tool: str, args: Any, cwd: str | None) -> Verdict:
            return Verdict(decision="block", rule="no-guard", reason="only hooks can be asked")

        return cls(refuse, facts.mechanism, capability=facts.capability, judges=False)

    def renewed(self) -> "Guard":
        """The same guard for the next process of its session, not proved yet."""
        return Guard(self._judge, self.mechanism, capability=self.capability)

    def _count(self, tool_call_id: str, verdict: Verdict) -> None:
        if verdict.allowed:
            self.allowed += 1
            self._spare += 1
            self._judged.add(tool_call_id)
        else:
            self.blocked += 1
