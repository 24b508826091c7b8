"""What a check is: a name, the scenarios it looks at, and a function that judges them."""

from collections.abc import Callable
from typing import NamedTuple

from bridle.testing.conformance.lab import Lab, Outcome
from bridle.testing.conformance.report import Unsupported


class Seen(NamedTuple):
    """What a check is given to look at."""

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
    """What every runtime keeps, in one line."""
    needs: tuple[str, ...]
    """Names of the scenarios that must have been played."""
    judge: Callable[[Seen], str]
    """Gives the detail of a pass; raises `Failed` or `Unsupported`."""


def offers_tools(outcome: Outcome) -> None:
    """`Unsupported` when the agent offers its model no tool that a script can call."""
    if any(request.outcome == "untranslatable" for request in outcome.requests):
        raise Unsupported("the agent offers its model no shell tool")
