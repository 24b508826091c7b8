"""Tokens of a conversation, from the running totals of its threads."""

from bridle.core.usage import NO_USAGE, Usage
from bridle.runtimes.codex.live_wire import Tokens
from bridle.runtimes.codex.transcript import usage_of


class Tally:
    """Sums up what this process used.

    A total is told again and again, goes on from that of an earlier process, and falls back to
    nothing when the context overflows, so only its growth counts.
    """

    def __init__(self, thread_id: str, before: Usage) -> None:
        self.usage = NO_USAGE
        self._totals = {thread_id: before}

    def take(self, thread_id: str, total: Tokens) -> None:
        """Take the running total of a thread: ours, or that of an agent it started."""
        now = usage_of(total.as_exec())
        growth = now - self._totals.get(thread_id, NO_USAGE)
        self._totals[thread_id] = now
        if growth.total > 0:
            self.usage += growth
