"""Choosing what a version of a CLI speaks, from a table with proof for each row."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from bridle.core.errors import ProtocolDrift


class Word(msgspec.Struct, frozen=True):
    """A flag or feature that ends a CLI which does not know it.

    Of a version that was never run nobody knows whether it knows the word, so it is looked up in
    the CLI's own list (`runtimes.unproven`) and left out if it is not there.
    """

    text: str
    """The word as the CLI lists it."""
    field: str
    """The field of the dialect that stands for it. Without the word, a tuple loses it, a truth
    value becomes False, a text becomes empty."""
    lost: str = ""
    """What a run loses without it, for the warning; empty if nothing is lost: where the word is
    unknown there is nothing to switch off."""
    listed_by: tuple[str, ...] = ("--help",)
    """The arguments that make the CLI print the list. Words of one list cost one process."""
    guard: bool = False
    """Whether a guarded run is refused without it."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """What one version range of an agent accepts and emits.

    Each runtime extends this with the facts its adapter needs; adapters contain no version numbers.
    """

    name: str
    since: tuple[int, ...]
    """First version (as numbers) that this row describes; it holds until the next row's. Versions
    older than that of the first row are refused."""
    seen: tuple[str, ...]
    """Versions that were actually run."""
    capture: str
    """File below the runtime's `testdata/` that proves the row."""
    lost: tuple[str, ...] = ()
    """What every run loses with a version of this row, one warning each."""
    words: tuple[Word, ...] = ()
    """What is looked up in the CLI's own lists, for a version that was never run; of these, the
    words that the row uses."""


D = TypeVar("D", bound=Dialect)


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading dotted numbers of a version text; empty when there are none."""
    numbers: list[int] = []
    for part in version.strip().lstrip("v").split("."):
        digits = ""
        for char in part:
            if not char.isdigit():
                break
            digits += char
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def oldest_supported(table: Sequence[Dialect], version: str | None) -> str:
    """The oldest version that works, if `version` is older; otherwise empty."""
    numbers = version_numbers(version) if version else ()
    oldest = min((row.since for row in table), default=())
    if not numbers or numbers >= oldest:
        return ""
    return ".".join(str(each) for each in (*oldest, 0, 0)[: max(3, len(oldest))])


def choose_dialect(runtime: str, table: Sequence[D], version: str | None) -> tuple[D, bool, str]:
    """The row for `version`, whether it was ever run, and a warning when it was not.

    A version older than every row gets the oldest one, but nothing is started with it
    (`oldest_supported`); an unknown one gets the newest: a best guess,
    always reported. Raises `ProtocolDrift` only for an empty table.
    """
    if not table:
        raise ProtocolDrift(f"runtime {runtime} has no dialect")
    rows = sorted(table, key=lambda row: row.since)
    numbers = version_numbers(version) if version else ()
    if not numbers:
        row = rows[-1]
        nearest = row.seen[-1] if row.seen else row.name
        return row, False, f"{runtime}: version unknown, treated as {nearest}"
    fitting = [row for row in rows if row.since <= numbers]
    row = fitting[-1] if fitting else rows[0]
    if any(version_numbers(seen) == numbers for seen in row.seen):
        return row, True, ""
    known = ", ".join(row.seen)
    return row, False, f"{runtime} {version} was never tested (tested: {known}); using {row.name}"
