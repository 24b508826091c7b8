"""Whether a message was submitted by a driver that was killed before it could say so."""

import time

import msgspec

from bridle.drives.tmux.following import plain
from bridle.drives.tmux.orders import Order

_PATIENCE = 2.5
"""Seconds for the agent to tell of a message that was perhaps submitted."""
_orders = msgspec.json.Decoder(Order)


class Doubt(msgspec.Struct, kw_only=True):
    """The first order that a driver finds when it takes a pane up.

    Contract: hooks tell of every prompt once, so a message was submitted when they told its text
    more often than it had been ordered before.
    """

    until: float
    """When it is given up (monotonic)."""
    before: list[str]
    """The texts that were delivered for certain."""
    told: list[str]
    """The prompts that hooks told of."""

    @classmethod
    def about(cls, path: str, done: int, told: list[str]) -> "Doubt | None":
        """The doubt about what stands at `done` in the input file; None when nothing does."""
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        if b"\n" not in data[done:]:
            return None
        carried_out = [_orders.decode(line) for line in data[:done].split(b"\n") if line]
        before = [order.text for order in carried_out if order.do == "deliver"]
        return cls(until=time.monotonic() + _PATIENCE, before=before, told=told)

    def submitted(self, text: str) -> bool:
        """Whether hooks told of this message."""
        wanted = plain(text)
        told = sum(plain(each) == wanted for each in self.told)
        return told > sum(plain(each) == wanted for each in self.before)
