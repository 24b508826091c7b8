"""How an agent is made to ask before each tool call: the contract between adapters and the guard.

An adapter says in data how its CLI asks (`GuardMechanism`), and puts it into a plan with what the
guard offers it (`GuardHook`). The driver holds the session's `Guard`: it answers in process, takes
what hooks outside of it were told, and notices a tool call that nobody asked about.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from bridle.core.results import GuardReport

REASON = "{reason}"
"""Stands in a `HookShape.refusal` where the reason goes."""


NOTES = "notes.jsonl"
"""The file in a lasting guard's folder to which whoever judges writes."""
UNSEEN = "arguments_not_told"
"""Stands in the arguments of a call whose agent asks without telling them."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one tool call, from the judge to the event that reports it."""

    decision: Literal["allow", "block"]
    reason: str = ""
    rule: str
    """The rule that decided; `allowed` when none spoke against the call."""

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
    """Where a runtime's hook payload tells the call, and what the hook must print to refuse it.

    The defaults are the shape that most runtimes have taken over from one another.
    """

    tool: str = "tool_name"
    input: str = "tool_input"
    call_id: str = "tool_use_id"
    cwd: str = "cwd"
    event: str = "hook_event_name"
    """Field that names the event; a payload without it asks about a tool."""
    asks: tuple[str, ...] = ("PreToolUse",)
    """Events that ask whether a tool may run."""
    live: tuple[str, ...] = ("SessionStart", "UserPromptSubmit")
    """Events that come before the first tool and so prove that hooks fire."""
    refusal: dict[str, Any] = msgspec.field(default_factory=_usual_refusal)
    """What is printed to refuse, `REASON` replaced."""
    consent: dict[str, Any] | None = None
    """What is printed to allow; None prints nothing."""
    refusal_status: int = 0
    """Exit status of a hook that refuses."""
    timed: bool = True
    """Whether the hook must keep the time: not for a runtime that stops a tool whose hook takes too
    long."""
    watched: bool = False
    """Whether a second shell refuses when the one that asks is killed: for a runtime that runs the
    tool then."""
    foretold: bool = False
    """Whether the hook refuses on stderr before it asks, and takes that back on stdout: for a
    runtime that reads stderr when nothing came on stdout, however the hook ended. Needs a
    `consent`."""

    def refused(self, reason: str) -> bytes:
        """What a hook prints to refuse, as one line."""
        return msgspec.json.encode(_filled(self.refusal, reason))

    def allowed(self) -> bytes:
        """What a hook prints to allow, as one line; empty when it prints nothing."""
        return b"" if self.consent is None else msgspec.json.encode(self.consent)


def _filled(value: Any, reason: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, reason) for key, each in value.items()}
    return reason if value == REASON else value


class GuardMechanism(msgspec.Struct, frozen=True, kw_only=True):
    """How one runtime is made to ask, in one drive."""

    name: str
    """What it is called there: `PreToolUse over stdio`, `extension`, …"""
    fails: Literal["open", "closed"]
    """What the runtime does by itself when the hook crashes, hangs or prints garbage."""
    proof: str
    """How it is shown, before the first tool call, that the guard is live."""
    shape: HookShape = HookShape()
    matching: Literal["id", "count"] = "id"
    """Whether hooks and wire name a call by the same id, or can only be counted against each
    other."""
    names_differ: bool = False
    """Whether the wire has other names for tools than the hooks; then a verdict without an id is
    that on the oldest call that has none."""
    tells_refused: bool = True
    """Whether the wire tells of a call that was refused."""
    unasked: frozenset[str] = frozenset()
    """Tools, by the wire's names, that the runtime runs without asking; they change nothing."""
    on_wire: bool = False
    """Whether the agent asks on its own wire and waits for the answer. Nothing shows before its
    first question that it will; a tool that ran unasked stops it."""
    proves_at_start: bool = False
    """Whether the proof comes before a session is ready for its first prompt. Elsewhere it comes
    with that prompt, before the model is called."""


class GuardPieces(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a product ask, for an adapter that starts it by way of another program."""

    mechanism: GuardMechanism
    flags: tuple[str, ...] = ()
    settings: dict[str, Any] = {}


class GuardAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a program inside the agent asks over loopback TCP, one JSON object a line.

    The token only opens the way to ask: an answer goes to whoever asked, so an agent's own command
    that uses it learns a verdict and forges none.
    """

    host: str
    port: int
    token: str


class GuardHook(Protocol):
    """What the guard offers an adapter for one session.

    Contract: nothing here starts anything; files that the CLI reads go into `folder`, which is the
    guard's own, outside of the worktree, read-only to a confined agent, and removed with the guard.
    """

    folder: str
    stdio: bool
    """Whether the driver holds the agent's stdin and answers questions that come on its stdout."""
    lasting: bool
    """Whether the agent outlives whoever answers now: then only `command` can be used."""

    def command(self, shape: HookShape) -> str:
        """A shell command that takes a payload on stdin, answers in `shape`, and refuses whatever
        goes wrong."""

    def address(self) -> GuardAddress:
        """Where a program inside the agent can ask."""


class HookNote(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a hook told the guard."""

    kind: Literal["live", "verdict", "event"]
    """`live` proves that hooks fire, `verdict` answers a call, `event` asks and proves nothing."""
    event: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Any = None
    verdict: Verdict | None = None


class GuardFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver of a session must know of its guard, kept with the session."""

    capability: str
    mechanism: GuardMechanism
    folder: str
    """Where its files are, while the agent lives."""
    proof: str = ""
    """What showed before the start that it will fire; empty where that shows later."""


class WireCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call whose agent waits on its wire for a verdict that others give (`Guard.note`)."""

    tool_call_id: str
    tool_name: str
    args: Any
    cwd: str | None = None


Judging = Callable[[str, Any, str | None], Verdict]
"""`judge(tool, input, cwd)`; must not raise."""


class Guard:
    """The guard of one session, as its driver sees it.

    Contract: `note` may be called from any thread; everything else by the driver alone. `ask` never
    raises. Whoever has a verdict on a call counts it exactly once.
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
        """Whether `ask` gives verdicts; else they come as notes, also on calls of the wire."""
        self.waiting: dict[str, Callable[[Verdict], None]] = {}
        """Who is to hear the verdict on a call of the wire, by the call's id."""
        self._unjudged: list[WireCall] = []
        self.mechanism = mechanism
        self.capability = capability
        self.live = ""
        """What proved that it fires; empty until then."""
        self.allowed = 0
        self.blocked = 0
        self.on_note: Callable[[], None] | None = None
        """Called, from any thread, when a hook told something: a driver may wake itself by it."""
        self._judge = judge
        self._notes: deque[HookNote] = deque()
        self._judged: set[str] = set()
        self._spare = 0

    def ask(self, tool_call_id: str, tool: str, args: Any, cwd: str | None = None) -> Verdict:
        """The verdict on a call that came over the agent's own wire."""
        self.proved("a tool call asked")
        try:
            verdict = self._judge(tool, args, cwd)
            if not isinstance(verdict, Verdict):
                raise TypeError("not a verdict")
        except Exception as problem:
            # In doubt, refuse: an error of ours must not open the door.
            verdict = Verdict(
                decision="block",
                rule="internal-error",
                reason=f"the guard failed ({type(problem).__name__})",
            )
        self._count(tool_call_id, verdict)
        return verdict

    def await_verdict(self, call: WireCall, answer: Callable[[Verdict], None]) -> None:
        """A call waits on the wire for a verdict that is not given here: `answer` hears it."""
        self.proved("a tool call asked")
        self.waiting[call.tool_call_id] = answer
        self._unjudged.append(call)

    def take_unjudged(self) -> list[WireCall]:
        """The calls that wait and of which nobody was told yet; whoever takes them sees to it that
        each gets its verdict."""
        taken = [call for call in self._unjudged if call.tool_call_id in self.waiting]
        self._unjudged.clear()
        return taken

    def note(self, note: HookNote) -> None:
        """Take what a hook told."""
        self._notes.append(note)
        if self.on_note is not None:
            self.on_note()

    def take(self) -> list[HookNote]:
        """What hooks told since the last call, oldest first; verdicts are counted now."""
        taken = []
        while self._notes:
            note = self._notes.popleft()
            self.proved(note.event or note.kind)
            if note.verdict is not None:
                self._count(note.tool_call_id, note.verdict)
            taken.append(note)
        return taken

    def proved(self, evidence: str) -> None:
        """Something happened that only a guard which fires makes happen."""
        self.live = self.live or evidence

    def was_asked(self, tool_call_id: str, tool: str) -> bool:
        """Whether a call that has just run was allowed before; uses one verdict up where calls can
        only be counted."""
        mechanism = self.mechanism
        if tool in mechanism.unasked:
            return True
        if mechanism.matching == "id":
            return tool_call_id in self._judged
        self._spare -= 1
        return self._spare >= 0

    def report(self) -> GuardReport:
        """What the result says."""
        return GuardReport(
            capability=self.capability,
            state="live" if self.live else "unproved",
            mechanism=self.mechanism.name,
            allowed=self.allowed,
            blocked=self.blocked,
        )

    @classmethod
    def of_session(cls, facts: GuardFacts) -> "Guard":
        """The guard of a session as its driver sees it: hooks alone ask, and tell (`note`)."""

        def refuse(tool: str, args: Any, cwd: str | None) -> Verdict:
            return Verdict(decision="block", rule="no-guard", reason="its hooks must be asked")

        return cls(refuse, facts.mechanism, capability=facts.capability, judges=False)

    def renewed(self) -> "Guard":
        """The same guard for the next process of its session: it has yet to be seen to fire."""
        return Guard(self._judge, self.mechanism, capability=self.capability)

    def _count(self, tool_call_id: str, verdict: Verdict) -> None:
        if verdict.allowed:
            self.allowed += 1
            self._spare += 1
            self._judged.add(tool_call_id)
        else:
            self.blocked += 1
