"""The pane of one agent: brings it to its prompt, delivers messages, interrupts, captures.

Nothing here blocks: `begin_*` sets a goal, `step` does the next small step and returns when to call
again. So one thread can drive many panes.
"""

import re
import time
from collections.abc import Callable

from bridle.core.errors import AgentError, WrongUse
from bridle.core.results import ReadyState
from bridle.drives.tmux.errors import PaneGone, ServerGone
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.goals import (
    DELIVER_SECONDS,
    READY_SECONDS,
    Act,
    Done,
    Failed,
    Paste,
    Press,
    Readiness,
    TextDelivery,
    Wait,
)
from bridle.drives.tmux.server import PaneState, TmuxServer
from bridle.process.spec import ProcessExit

_KEY_GAP = 0.12
"""Seconds between keys of a sequence: interfaces may take two at once for one."""
_SHOWS = 1.5
"""Seconds for a pasted text to show, after its goal was given up."""
_KEPT = 3
"""Messages that are remembered, to recognize them if they reappear in the input line."""


class Terminal:
    """The pane of one session.

    Contract: one thread uses it. Every method raises `ServerGone` if the tmux server does not run
    and `PaneGone` if the pane does not exist or its process has ended; otherwise only the errors
    that it names.
    """

    def __init__(
        self,
        server: TmuxServer,
        name: str,
        facts: TerminalFacts,
        detect: Callable[[str], ReadyState],
        *,
        verify: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`verify` is the runtime's `requires_beacon_verification()`."""
        self.server = server
        self.name = name
        self.facts = facts
        self.evidence = ""
        """How the last goal was seen to be reached."""
        self._detect = detect
        self._verify = verify
        self._clock = clock
        self._goal: Readiness | TextDelivery | None = None
        self._next = self._not_before = 0.0
        self._keys: list[str] = []
        self._sent: list[str] = []

    # -- its process ----------------------------------------------------------------------------

    def process(self) -> PaneState:
        """The agent's process, also after its end."""
        return self.server.pane(self.name)

    def exit(self) -> ProcessExit | None:
        """How the agent ended; None while it runs. If the pane or the server is gone, the exit code
        is unknown."""
        try:
            state = self.process()
        except (PaneGone, ServerGone):
            return ProcessExit(code=None)
        return ProcessExit(code=state.exit_code) if state.dead else None

    # -- the screen -----------------------------------------------------------------------------

    def look(self) -> ReadyState:
        """What the pane shows now."""
        return self._detect(self.server.capture(self.name))

    def is_quiet(self) -> bool:
        """Whether it shows a prompt and no sign of work; this alone does not prove idleness."""
        from bridle.core.results import Ready

        if not isinstance(self.look(), Ready):
            return False
        pattern = self.facts.busy_title
        return not pattern or re.search(pattern, self.server.title(self.name)) is None

    # -- goals ----------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a goal is set and not reached yet."""
        return self._goal is not None or bool(self._keys)

    def begin_ready(self, seconds: float = READY_SECONDS) -> None:
        """Bring it to its prompt, and answer the dialogs that the runtime knows."""
        self._begin(Readiness(self._detect, self.facts, self._clock(), seconds))

    def begin_delivery(self, text: str, seconds: float = DELIVER_SECONDS) -> None:
        """Put `text` into the input line and submit it. `WrongUse` for a text that no terminal can
        take, or while another goal is set."""
        self._begin(
            TextDelivery(
                text,
                self.facts,
                self._clock(),
                verify=self._verify,
                own=tuple(self._sent),
                seconds=seconds,
            )
        )
        self._sent = [*self._sent, text][-_KEPT:]

    def give_up(self) -> None:
        """Forget the goal: it was reached in another way, or is no longer wanted.

        A text that was pasted for it may show later. The next message waits for that, because it
        first removes texts of Bridle from the input line.
        """
        if isinstance(self._goal, TextDelivery) and self._goal.under_way:
            self._not_before = self._clock() + _SHOWS
        self._goal = None

    def interrupt(self) -> None:
        """Press the keys that end the running turn; the current goal is given up."""
        self._goal = None
        self.press(*self.facts.interrupt)

    def leave(self) -> None:
        """Press the keys that end the program."""
        self._goal = None
        self.press(*self.facts.leave)

    def press(self, *keys: str) -> None:
        """Press keys one after another, with the pause that interfaces need."""
        self._keys += keys
        self._next = 0.0
        self.step()

    def _begin(self, goal: Readiness | TextDelivery) -> None:
        if self._goal is not None:
            raise WrongUse("the terminal is busy with another message", hint="wait for it")
        self._goal = goal
        self._next = self._not_before

    def step(self) -> float | None:
        """Do what is due; returns when to call again (by the clock), None if nothing is left to do.

        Raises the `AgentError` that says why the goal cannot be reached; the goal is then given up.
        """
        now = self._clock()
        if now < self._next:
            return self._next
        if self._keys:
            self.server.send_keys(self.name, self._keys.pop(0))
            self._next = now + _KEY_GAP
            return self._next if self._keys or self._goal is not None else None
        if self._goal is None:
            return None
        try:
            if self.process().dead:
                raise PaneGone(f"the agent has ended: {self._last_lines()}")
            return self._carry_out(self._goal.saw(self.server.capture(self.name), now), now)
        except AgentError:
            self._goal = None
            raise

    def _carry_out(self, act: Act, now: float) -> float | None:
        if isinstance(act, Done):
            self._goal, self.evidence = None, act.evidence
            return None
        if isinstance(act, Failed):
            raise act.error
        if isinstance(act, Paste):
            self.server.paste(self.name, act.text)
        elif isinstance(act, Press):
            self._keys += act.keys
        self._next = act.until if isinstance(act, Wait) else now
        return self._next

    def _last_lines(self) -> str:
        lines = [line.strip() for line in self.server.capture(self.name).splitlines()]
        return " / ".join([line for line in lines if line][-3:])[:400]
