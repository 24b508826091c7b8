"""The order of events, checked: what `docs/events.md` promises, as a function.

problems = check_event_order(events)
assert problems == []
"""

from collections.abc import Iterable

from bridle.core import events as ev


def kinds(events: Iterable[ev.Event]) -> list[str]:
    """The types of events in order; an update of a message by its own kind (`text_delta`)."""
    return [
        event.kind if isinstance(event, ev.MessageUpdate) else str(event.__struct_config__.tag)
        for event in events
    ]


def steps(events: Iterable[ev.Event]) -> list[str]:
    """`kinds` without what differs from run to run: the output of tools while they run, and how
    many pieces a text comes in."""
    found: list[str] = []
    for kind in kinds(events):
        repeated = kind.endswith("_delta") and found[-1:] == [kind]
        if kind != "tool_execution_update" and not repeated:
            found.append(kind)
    return found


def check_event_order(events: Iterable[ev.Event]) -> list[str]:
    """What is wrong with the order of a whole session's events; empty when nothing is.

    `events` are all events of a run, or of a live session with one process or several in sequence,
    each from `session_start` to `session_end`. Each problem is one line that names the event by its
    `seq`. Contract: never raises on events.
    """
    checker = _Checker()
    for event in events:
        checker.take(event)
    checker.end()
    return checker.problems


class _Checker:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._where = "at the end"
        self._seq = 0
        self._session: str | None = None
        self._over = False
        self._live = False
        self._state = "starting"
        self._turn = 0
        self._turn_open = False
        self._turn_status = ""
        self._last: ev.Event | None = None
        self._error: ev.ErrorRaised | None = None
        self._message: str | None = None
        self._texts: list[str] = []
        self._block: str | None = None
        self._tools: dict[str, str] = {}
        self._compacting = False

    def take(self, event: ev.Event) -> None:
        kind = type(event).__struct_config__.tag
        self._where = f"event {event.seq} ({kind})"
        self._envelope(event)
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(event)
        self._last = event

    def end(self) -> None:
        self._where = "at the end"
        self._need(self._session is not None, "there is no session_start")
        self._need(self._over, "there is no session_end")

    def _need(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.problems.append(f"{self._where}: {otherwise}")

    def _envelope(self, event: ev.Event) -> None:
        self._need(event.seq == self._seq + 1, f"seq follows {self._seq}")
        self._seq = event.seq
        self._need(bool(event.ts) and event.ts.endswith("Z"), "ts is not a time in UTC")
        if isinstance(event, ev.SessionStart):
            self._begin(event)
        self._need(not self._over, "comes after session_end")
        if self._session is None:
            self._need(isinstance(event, ev.SessionStart), "comes before session_start")
            self._session = event.session_id
        self._need(event.session_id == self._session, "belongs to another session")

    # -- session --------------------------------------------------------------------------------

    def _begin(self, event: ev.SessionStart) -> None:
        """A process begins: the first one, or the next of a live session."""
        self._need(event.seq == 1 or (self._live and self._over), "is not the first event")
        self._live = event.drive != "print" or event.seq > 1
        self._over = False
        self._state = "starting"

    def _on_state(self, event: ev.StateChange) -> None:
        self._need(event.old == self._state, f"changes from {event.old}, but is {self._state}")
        self._need(event.old != event.new, "changes nothing")
        self._need(bool(event.evidence), "gives no evidence")
        self._state = event.new
        # A run is never ready for another prompt: with `print` this distinguishes a session.
        self._live = self._live or event.new == "ready"

    def _on_session_end(self, event: ev.SessionEnd) -> None:
        self._need(not self._turn_open, "a turn is still open")
        self._need(not self._compacting, "a compaction is still open")
        self._over = True
        if self._live:
            final = self._state in ("stopped", "failed", "lost")
            self._need(final, f"state is {self._state} and the process is gone")
            return
        self._need(self._turn > 0, "there was no turn")
        wanted = "stopped" if self._turn_status == "completed" else "failed"
        self._need(
            self._state == wanted, f"state is {self._state} after a turn {self._turn_status}"
        )

    # -- turns ----------------------------------------------------------------------------------

    def _on_agent_start(self, event: ev.AgentStart) -> None:
        self._need(not self._turn_open, "the turn before is still open")
        self._need(event.turn == self._turn + 1, f"is turn {event.turn} after turn {self._turn}")
        self._need(self._state == "working", f"state is {self._state}")
        self._turn, self._turn_open, self._error = event.turn, True, None

    def _on_agent_end(self, event: ev.AgentEnd) -> None:
        self._in_turn()
        self._need(event.turn == self._turn, f"ends turn {event.turn} in turn {self._turn}")
        self._need(self._message is None, f"message {self._message} is still open")
        self._need(not self._tools, f"tools still run: {', '.join(self._tools)}")
        self._need(isinstance(self._last, ev.UsageTotals), "usage is not right before it")
        if event.status == "completed":
            self._need(event.error is None, "completed with an error")
            self._need(self._error is None, "completed after an error event")
        else:
            self._need(event.error is not None, f"{event.status} without an error")
            self._need(
                self._error is not None
                and event.error is not None
                and self._error.kind == event.error.kind,
                "no error event of that kind is before it",
            )
        self._turn_open, self._turn_status = False, event.status

    def _on_error(self, event: ev.ErrorRaised) -> None:
        if not self._live:
            # In a live session it may also say why the process ended between turns.
            self._in_turn()
        self._error = event

    def _on_usage(self, event: ev.UsageTotals) -> None:
        self._in_turn()

    def _in_turn(self) -> None:
        self._need(self._turn_open, "no turn is open")

    # -- messages -------------------------------------------------------------------------------

    def _on_message_start(self, event: ev.MessageStart) -> None:
        self._in_turn()
        self._need(self._message is None, f"message {self._message} is still open")
        self._message, self._texts, self._block = event.message_id, [], None

    def _on_message_update(self, event: ev.MessageUpdate) -> None:
        self._need(event.message_id == self._message, "its message is not open")
        block, _, step = event.kind.partition("_")
        if step == "start":
            self._need(self._block is None, f"the {self._block} block is still open")
            self._block = block
            return
        self._need(self._block == block, f"no {block} block is open")
        if step == "end":
            self._block = None
            return
        self._need(bool(event.text), "the delta is empty")
        if block == "text":
            self._texts.append(event.text)

    def _on_message_end(self, event: ev.MessageEnd) -> None:
        self._need(event.message_id == self._message, "its message is not open")
        self._need(self._block is None, f"the {self._block} block is still open")
        self._need(event.text == "".join(self._texts), "its text is not its deltas joined")
        self._message = None

    # -- tools and the rest ---------------------------------------------------------------------

    def _on_tool_execution_start(self, event: ev.ToolExecutionStart) -> None:
        self._in_turn()
        self._need(self._message is None, f"message {self._message} is still open")
        self._need(event.tool_call_id not in self._tools, "this tool call runs already")
        self._tools[event.tool_call_id] = event.tool_name

    def _on_tool_execution_update(self, event: ev.ToolExecutionUpdate) -> None:
        self._need(event.tool_call_id in self._tools, "this tool call does not run")

    def _on_tool_execution_end(self, event: ev.ToolExecutionEnd) -> None:
        name = self._tools.pop(event.tool_call_id, None)
        self._need(name is not None, "this tool call does not run")
        self._need(name is None or name == event.tool_name, f"the tool was called {name}")

    def _on_permission_request(self, event: ev.PermissionRequest) -> None:
        self._in_turn()

    def _on_permission_decision(self, event: ev.PermissionDecision) -> None:
        # A decision without a request is legal: the agent's own mode refused without asking.
        self._in_turn()

    def _on_retry(self, event: ev.Retry) -> None:
        self._in_turn()

    def _on_auto_compaction_start(self, event: ev.AutoCompactionStart) -> None:
        self._need(not self._compacting, "a compaction is still open")
        self._compacting = True

    def _on_auto_compaction_end(self, event: ev.AutoCompactionEnd) -> None:
        self._need(self._compacting, "no compaction is open")
        self._compacting = False
