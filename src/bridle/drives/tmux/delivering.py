"""Deciding how a text gets into an agent's input line and out of it; no input or output.

Never a blind Enter: it is pressed only when the pane shows the text. Contract: as `Readiness`.
"""

from bridle.core.errors import WrongUse
from bridle.drives.tmux.acts import Act, Done, Failed, Paste, Press, Wait
from bridle.drives.tmux.errors import NotDelivered
from bridle.drives.tmux.facts import TerminalFacts, squeezed
from bridle.drives.tmux.server import refuse_controls

DELIVER_SECONDS = 30.0
_LOOK = 0.05
_ARRIVES = 3.0
"""Seconds for a pasted text to show, per try; long texts get more."""
_ARRIVES_PER_MEGABYTE = 10.0
_LEAVES = 1.5
"""Seconds for a submitted text to leave the input line, per Enter."""
_BACK_OFF = 0.5
"""Seconds before a lost text is pasted again, doubled each time."""
_BACK_OFF_MOST = 30.0
_ENTERS = 2
_ENTERS_VERIFIED = 6
_CLEARS = 200


class Delivering:
    """One text on its way."""

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
        """`verify`: this interface is known to lose texts and keys, so both are given again.
        `own`: texts of ours that an interrupted turn may have put back into the input line."""
        if not squeezed(text):
            raise WrongUse("an empty message cannot be sent")
        refuse_controls(text)
        self._text = text
        self._facts = facts
        self._verify = verify or facts.ready == "warmup"
        # A driver that was killed may have pasted it and not submitted it.
        self._own = (*own, text)
        self._patience = _ARRIVES + len(text) / (1 << 20) * _ARRIVES_PER_MEGABYTE
        # Time for each try that it may take, however many there are.
        tries = sum(self._patience + _back_off(number) for number in range(facts.retries + 1))
        needed = seconds + self._patience - _ARRIVES
        self._until = now + (max(needed, tries + seconds / 2) if self._verify else needed)
        self._stage = "before"
        self._since = now
        self._pastes = self._enters = self._clears = 0

    @property
    def under_way(self) -> bool:
        """Whether the text was pasted and not submitted yet."""
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
        """The input line must be empty: what stands in it would be sent along."""
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
            # Something is there: pasted again, the text could be there twice.
            return Failed(NotDelivered("the input line shows something else than the text"))
        if not self._verify or self._pastes > self._facts.retries:
            return Failed(NotDelivered("the text did not show in the input line"))
        self._stage, self._since = "lost", now
        return Wait(now + _back_off(self._pastes - 1))

    def _lost(self, pane: str, now: float) -> Act:
        """The time to back off is over; it may have come late."""
        if self._facts.holds(pane, self._text):
            self._stage, self._since = "shown", now
            return Wait(now + self._facts.paste_settled)
        return self._paste(now)

    def _shown(self, pane: str, now: float) -> Act:
        if not self._facts.holds(pane, self._text):
            # Somebody took it out again, or submitted it: only the transcript can tell.
            return Done("the text left the input line before Enter")
        self._enters += 1
        self._stage, self._since = "entered", now
        return Press(("Enter",))

    def _entered(self, pane: str, now: float) -> Act:
        if not self._facts.holds(pane, self._text):
            return Done("the text left the input line")
        if now < self._since + _LEAVES:
            return Wait(now + _LOOK)
        if self._enters >= (_ENTERS_VERIFIED if self._verify else _ENTERS):
            return Failed(NotDelivered("the text stands in the input line and is not taken"))
        # Enter was swallowed: the text is there to see, so Enter alone is given again.
        self._enters += 1
        self._since = now
        return Press(("Enter",))


def _back_off(number: int) -> float:
    """Seconds to wait after try `number`, counted from 0."""
    return min(_BACK_OFF * 2.0 ** min(number, 16), _BACK_OFF_MOST)


_STAGES = {
    "before": "the input line holds somebody's text, or is not there",
    "pasted": "the text did not show in the input line",
    "lost": "the text did not show in the input line",
    "shown": "the text stands in the input line",
    "entered": "the text stands in the input line and is not taken",
}
