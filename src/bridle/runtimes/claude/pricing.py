"""Whether the price that Claude Code puts on a run can be believed.

A model that the CLI does not know is priced like its default Opus, so its figure is a guess.
Newer versions say so (`costBasis`: "list" or "unknown"); for older ones the names that stand in
the CLI itself decide, and they are a column of the dialect table.
"""

import re
from collections.abc import Mapping

from bridle.runtimes.claude.wire import ModelTotals

_SUFFIX = re.compile(r"(\[\w+\]|-\d{8}|-v\d+(:\d+)?|@\w+|-latest)+$")


def is_priced(models: Mapping[str, ModelTotals], known: frozenset[str]) -> bool:
    """Whether every model of a run has a list price of its own."""
    return all(
        totals.costBasis == "list"
        if totals.costBasis is not None
        else canonical_name(name) in known
        for name, totals in models.items()
    )


def may_be_priced(model: str | None, known: frozenset[str]) -> bool:
    """Whether a message of `model` may have a list price: without a table only the end tells."""
    return not known or model is None or canonical_name(model) in known


def canonical_name(model: str) -> str:
    """A model's name without provider, date and window: `claude-sonnet-4-5`."""
    name = model.rpartition("/")[2].lower()
    start = name.find("claude-")
    return _SUFFIX.sub("", name[start:] if start > 0 else name).replace(".", "-")
