"""What the prompts of a session used, from the files that agents keep themselves.

Only for agents whose protocol does not report it; the product reads its own files. Nothing is
written.

A run takes the difference between two totals of the session. A conversation adds up its own
prompts: its journal may be replayed long after they were answered, so the count must not depend on
when the files are read.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from bridle.core.results import TranscriptSummary
from bridle.core.usage import NO_USAGE, Usage

Places = Mapping[str, str]
"""The variables that say where an agent keeps its files."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a session, or some prompts of it, used."""

    usage: Usage = NO_USAGE
    model: str | None = None
    cost_usd: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            usage=self.usage + other.usage,
            model=other.model or self.model,
            cost_usd=self.cost_usd + other.cost_usd,
        )


class Span(msgspec.Struct, frozen=True):
    """Consecutive prompts: the index of the first, and their number."""

    first: int
    count: int


class TranscriptReader(Protocol):
    """A product that reads its own transcripts."""

    def find_transcript(self, session_id: str, env: Mapping[str, str]) -> str | None:
        """The transcript of a session that ran in `env`."""

    def parse_transcript(self, path: str) -> TranscriptSummary | None:
        """What the transcript says was used."""

    def prompt_history(self, path: str) -> list[Spent]:
        """What each prompt in the transcript used."""


def read_history(
    product: TranscriptReader, env: Mapping[str, str], session_id: str
) -> Spent | None:
    """The totals of a session of `product` that ran in `env`; None when there are none."""
    path = product.find_transcript(session_id, env)
    summary = product.parse_transcript(path) if path else None
    if summary is None:
        return None
    usage = Usage(**{name: getattr(summary, name) for name in Usage.__struct_fields__})
    return Spent(usage=usage, model=summary.model or None, cost_usd=summary.cost_usd or 0.0)


def spent_on(
    product: TranscriptReader, places: Places, session_id: str, span: Span
) -> Spent | None:
    """What the prompts of `span` used; None when the files do not say."""
    chosen = _prompts(product, places, session_id)[span.first : span.first + span.count]
    return sum(chosen, start=Spent()) if chosen else None


def count_prompts(product: TranscriptReader, places: Places, session_id: str) -> int:
    """How many prompts a session had so far."""
    return len(_prompts(product, places, session_id))


def _prompts(product: TranscriptReader, places: Places, session_id: str) -> list[Spent]:
    path = product.find_transcript(session_id, places)
    return product.prompt_history(path) if path else []
