"""Deciding whether an agent's pane is ready for a prompt; no input or output.

Contract: `saw` is given one capture after the other with the time of each, and says what to do. It
comes to `Done` or `Failed` in bounded time, whatever the pane shows.
"""

from collections.abc import Callable

from bridle.core.results import Busy, Dialog, Ready, ReadyState
from bridle.drives.tmux.acts import Act, Done, Failed, Press, Wait
from bridle.drives.tmux.errors import NotReady
from bridle.drives.tmux.facts import TerminalFacts

Detect = Callable[[str], ReadyState]

READY_SECONDS = 90.0
_LOOK = 0.1
"""Seconds between looks at first; each look that changes nothing doubles them."""
_LOOK_MOST = 0.5
_MOST_KEYS = 12
"""Keys that are sent before the dialogs are given up."""
_REPEATABLE = ("Home", "End")
"""Keys that do the same twice as once. Any other, sent again too soon, would answer the next
dialog, so it waits longer."""
_LONGER = 5.0


class Readiness:
    """One agent's way from its start to its prompt."""

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
        self._look = _LOOK
        self._keys = 0

    def saw(self, pane: str, now: float) -> Act:
        """Judge one look at the pane."""
        facts = self._facts
        if facts.ready == "warmup" and now >= self._began + facts.warmup:
            return Done("warm-up time is over")
        state = self._detect(pane)
        if state != self._state:
            self._state, self._since, self._look = state, now, _LOOK
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
            return Failed(NotReady(f"it asks something no key may answer: {state.name}"))
        if self._keys >= _MOST_KEYS:
            return Failed(NotReady(f"the dialog {state.name} does not go away"))
        self._keys += 1
        keys = tuple(state.action.split())
        longer = 0.0 if keys[-1] in _REPEATABLE else _LONGER * self._facts.dialog_settled
        self._since = now + longer
        return Press(keys)

    def _wait(self, now: float) -> Wait:
        wait, self._look = self._look, min(self._look * 2, _LOOK_MOST)
        return Wait(min(now + wait, self._until))


def _words(state: ReadyState | None) -> str:
    if isinstance(state, Dialog):
        return f"dialog {state.name}"
    return f"busy ({state.what})" if isinstance(state, Busy) else "a program that starts"
