"""The goals of a pane, decided without input or output: readiness, and the delivery of a text.

Contract: a goal's `saw` takes one capture of the pane after another, with the time of each, and
returns what to do next. It comes to `Done` or `Failed` in bounded time, whatever the pane shows.
`terminal` carries the acts out.
"""

from collections.abc import Callable

import msgspec

from bridle.core.errors import AgentError, WrongUse
from bridle.core.results import Busy, Dialog, Ready, ReadyState
from bridle.drives.tmux.errors import NotDelivered, NotReady
from bridle.drives.tmux.facts import TerminalFacts, squeezed
from bridle.drives.tmux.server import refuse_controls

# -- acts -----------------------------------------------------------------------------------------


class Wait(msgspec.Struct, frozen=True):
    """Look again at this time (monotonic)."""

    until: float


class Press(msgspec.Struct, frozen=True):
    """Press these keys (tmux names), then look again."""

    keys: tuple[str, ...]


class Paste(msgspec.Struct, frozen=True):
    """Paste this text, then look again."""

    text: str


class Done(msgspec.Struct, frozen=True):
    """The goal is reached; `evidence` says how that was seen."""

    evidence: str


class Failed(msgspec.Struct, frozen=True):
    """The goal cannot be reached."""

    error: AgentError


Act = Wait | Press | Paste | Done | Failed

# -- readiness ------------------------------------------------------------------------------------

Detect = Callable[[str], ReadyState]

READY_SECONDS = 90.0
_READY_LOOK = 0.1
"""Seconds between the first looks; doubled after each look without a change."""
_READY_LOOK_MOST = 0.5
_MOST_KEYS = 12
"""Keys that are sent before Bridle gives up on the dialogs."""
_REPEATABLE = ("Home", "End")
"""Keys that can be repeated without harm. Any other key, repeated too soon, would answer the next
dialog, so Bridle waits longer."""
_LONGER = 5.0


class Readiness:
    """The goal that a started agent shows its prompt."""

    def __init__(
        self, detect: Detect, facts: TerminalFacts, now: float, seconds: float = READY_SECONDS
    ) -> None:
        self._detect = detect
        self._facts = facts
        self._began = now
        warmup = facts.warmup if facts.ready == "warmup" else 0.0
        self._until = now + max(seconds, warmup)
        self._state: ReadyState | None = None
        self._since = now
        self._look = _READY_LOOK
        self._keys = 0

    def saw(self, pane: str, now: float) -> Act:
        """Judge one look at the pane."""
        facts = self._facts
        if facts.ready == "warmup" and now >= self._began + facts.warmup:
            return Done("warm-up time is over")
        state = self._detect(pane)
        if state != self._state:
            self._state, self._since, self._look = state, now, _READY_LOOK
        settled = now - self._since
        if facts.ready == "prompt" and isinstance(state, Ready) and settled >= facts.steady:
            return Done("the pane shows its prompt")
        if isinstance(state, Dialog) and settled >= facts.dialog_settled:
            act = self._answer(state, now)
            if act is not None:
                return act
        if now >= self._until:
            return Failed(NotReady(f"no prompt in time; the pane shows: {_words(state)}"))
        return self._wait(now)

    def _answer(self, state: Dialog, now: float) -> Act | None:
        if state.action is None:
            return Failed(NotReady(f"it shows a dialog that Bridle must not answer: {state.name}"))
        if self._keys >= _MOST_KEYS:
            return Failed(NotReady(f"the dialog {state.name} does not go away"))
        self._keys += 1
        keys = tuple(state.action.split())
        longer = 0.0 if keys[-1] in _REPEATABLE else _LONGER * self._facts.dialog_settled
        self._since = now + longer
        return Press(keys)

    def _wait(self, now: float) -> Wait:
        wait, self._look = self._look, min(self._look * 2, _READY_LOOK_MOST)
        return Wait(min(now + wait, self._until))


def _words(state: ReadyState | None) -> str:
    if isinstance(state, Dialog):
        return f"dialog {state.name}"
    return f"busy ({state.what})" if isinstance(state, Busy) else "a program that starts"


# -- delivery -------------------------------------------------------------------------------------

DELIVER_SECONDS = 30.0
_LOOK = 0.05
_ARRIVES = 3.0
"""Seconds for a pasted text to show, per attempt; long texts get more."""
_LEAVES = 1.5
"""Seconds for a submitted text to leave the input line, per Enter; long texts get more."""
_PER_MEGABYTE = 10.0
"""Seconds that a megabyte of text adds to each of them."""
_BACK_OFF = 0.5
"""Seconds before a lost text is pasted again, doubled each time."""
_BACK_OFF_MOST = 30.0
_ENTERS = 2
_ENTERS_VERIFIED = 6
_CLEARS = 200


class TextDelivery:
    """The goal that a text is in the agent's input line and submitted.

    Enter is never pressed blindly: only while the pane shows the text.
    """

    def __init__(
        self,
        text: str,
        facts: TerminalFacts,
        now: float,
        *,
        verify: bool,
        own: tuple[str, ...] = (),
        seconds: float = DELIVER_SECONDS,
    ) -> None:
        """`verify`: this interface is known to lose texts and keys, so both are repeated. `own`:
        texts of Bridle that an interrupted turn may have put back into the input line."""
        if not squeezed(text):
            raise WrongUse("an empty message cannot be sent")
        refuse_controls(text)
        self._text = text
        self._facts = facts
        self._verify = verify or facts.ready == "warmup"
        # A driver that was killed may have pasted the text without submitting it.
        self._own = (*own, text)
        longer = len(text) / (1 << 20) * _PER_MEGABYTE
        self._patience, self._leaves = _ARRIVES + longer, _LEAVES + longer
        # Enough time for every attempt.
        tries = sum(self._patience + _back_off(number) for number in range(facts.retries + 1))
        needed = seconds + 2 * longer
        self._until = now + (max(needed, tries + seconds / 2) if self._verify else needed)
        self._stage = "before"
        self._since = now
        self._pastes = self._enters = self._clears = 0

    @property
    def under_way(self) -> bool:
        """Whether the text was pasted but not submitted yet."""
        return self._stage in ("pasted", "shown", "lost")

    def saw(self, pane: str, now: float) -> Act:
        """Judge one look at the pane."""
        if now >= self._until:
            return Failed(NotDelivered(f"not in time: {_STAGES[self._stage]}"))
        step = {
            "before": self._before,
            "pasted": self._pasted,
            "shown": self._shown,
            "entered": self._entered,
            "lost": self._lost,
        }[self._stage]
        return step(pane, now)

    def _before(self, pane: str, now: float) -> Act:
        """The input line must be empty: other text in it would be submitted too."""
        typed = self._facts.typed(pane)
        if typed is None and self._facts.ready == "prompt":
            return Wait(now + _LOOK)
        if typed and self._facts.ready == "prompt":
            if self._is_own(pane, typed) and self._clears < _CLEARS:
                self._clears += 1
                return Press(self._facts.clear)
            return Wait(now + _LOOK)
        return self._paste(now)

    def _is_own(self, pane: str, typed: str) -> bool:
        if self._clears:
            return True
        return any(
            self._facts.holds(pane, text) and len(squeezed(typed)) <= len(squeezed(text)) + 2
            for text in self._own
        )

    def _paste(self, now: float) -> Act:
        self._pastes += 1
        self._stage, self._since = "pasted", now
        return Paste(self._text)

    def _pasted(self, pane: str, now: float) -> Act:
        if self._facts.holds(pane, self._text):
            self._stage, self._since = "shown", now
            return Wait(now + self._facts.paste_settled)
        if now < self._since + self._patience:
            return Wait(now + _LOOK)
        if self._facts.typed(pane) and self._facts.ready == "prompt":
            # The line is not empty: a second paste could double the text.
            return Failed(NotDelivered("the input line shows something other than the text"))
        if not self._verify or self._pastes > self._facts.retries:
            return Failed(NotDelivered("the text did not show in the input line"))
        self._stage, self._since = "lost", now
        return Wait(now + _back_off(self._pastes - 1))

    def _lost(self, pane: str, now: float) -> Act:
        """The back-off time is over; the text may have arrived late."""
        if self._facts.holds(pane, self._text):
            self._stage, self._since = "shown", now
            return Wait(now + self._facts.paste_settled)
        return self._paste(now)

    def _shown(self, pane: str, now: float) -> Act:
        if not self._facts.holds(pane, self._text):
            # A person removed or submitted it: only the transcript shows which.
            return Done("the text left the input line before Enter")
        self._enters += 1
        self._stage, self._since = "entered", now
        return Press(("Enter",))

    def _entered(self, pane: str, now: float) -> Act:
        if not self._facts.holds(pane, self._text):
            return Done("the text left the input line")
        most = _ENTERS_VERIFIED if self._verify else _ENTERS
        if now < self._since + self._leaves or self._enters >= most:
            # After the last Enter a slow program still has the rest of the time.
            return Wait(now + _LOOK)
        # Enter was lost: the text is visible, so only Enter is repeated.
        self._enters += 1
        self._since = now
        return Press(("Enter",))


def _back_off(number: int) -> float:
    """Seconds to wait after attempt `number`, counted from 0."""
    return min(_BACK_OFF * 2.0 ** min(number, 16), _BACK_OFF_MOST)


_STAGES = {
    "before": "the input line contains other text, or there is no input line",
    "pasted": "the text did not show in the input line",
    "lost": "the text did not show in the input line",
    "shown": "the text is in the input line",
    "entered": "the text is in the input line but was not accepted",
}
