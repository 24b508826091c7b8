"""What a check is: a name, the scenarios it looks at, and a function that judges them."""

from collections.abc import Callable
from typing import NamedTuple

from bridle.testing.conformance.lab import Lab, Outcome
from bridle.testing.conformance.report import Unsupported, need


class Seen(NamedTuple):
    """The outcomes that a check can examine."""

    lab: Lab
    played: Callable[[str], list[Outcome]]
    """The outcomes of a scenario by name; raises what the scenario raised."""

    def one(self, name: str) -> Outcome:
        """The only outcome of a scenario."""
        return self.played(name)[0]


class Check(NamedTuple):
    """One promise of the contract."""

    name: str
    promise: str
    """The promise in one line."""
    needs: tuple[str, ...]
    """Names of the scenarios that must have been played."""
    judge: Callable[[Seen], str]
    """Returns the detail of a pass; raises `Failed` or `Unsupported`."""


def offers_tools(outcome: Outcome) -> None:
    """Raises `Unsupported` if the agent offers its model no tool that a script can call."""
    if any(request.outcome == "untranslatable" for request in outcome.requests):
        raise Unsupported("the agent offers its model no shell tool")


def refuse_too_large(seen: Seen, outcome: Outcome, size: int) -> None:
    """Raises `Unsupported` if the runtime declares that this many characters are too many for its
    model, and the run ended accordingly."""
    limit = seen.lab.features.largest_input
    if limit is None or size <= limit:
        return
    kind = outcome.error_kind
    need(kind == "context_overflow", f"{size} characters ended as {kind}, not context_overflow")
    raise Unsupported(f"{size} characters are more than the agent gives its model")
