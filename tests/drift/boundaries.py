"""Finds the release that changed a check, by trying the middle of what is still unknown."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from tests.drift.releases import Release
from tests.drift.results import ALL, Result


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """Two releases next to each other, of those that were tried, between which a check changed."""

    check: str
    before: str
    after: str
    fails: bool
    """Whether the later one fails; otherwise the earlier one does."""
    between: int = 0
    """Releases in between that were not tried yet."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The next release to try, and the checks to run on it."""

    version: str
    checks: tuple[str, ...]


def boundaries(
    releases: Sequence[Release], results: Mapping[str, Result], checks: Sequence[str] = ALL
) -> list[Boundary]:
    """Every change of a check between passing and not, in the order of checks and releases.

    A check that is not supported counts as not passed where both releases were tried by the same
    dialect; where another dialect declares it, the change is Bridle's.
    """
    found = []
    for check in checks:
        last: tuple[int, Result] | None = None
        for at, each in enumerate(releases):
            result = results.get(each.version)
            if result is None or result.status(check) is None:
                continue
            if last is not None and _changes(last[1], result, check):
                between = releases[last[0] + 1 : at]
                found.append(
                    Boundary(
                        check=check,
                        before=last[1].version,
                        after=each.version,
                        fails=result.status(check) != "pass",
                        between=sum(_can_tell(results.get(one.version), check) for one in between),
                    )
                )
            last = at, result
    return found


def _changes(before: Result, after: Result, check: str) -> bool:
    old, new = before.status(check), after.status(check)
    if "unsupported" in (old, new) and before.dialect != after.dialect:
        return False
    return (old == "pass") != (new == "pass")


def _can_tell(result: Result | None, check: str) -> bool:
    """Whether trying a release may still say something about a check."""
    return result is None or check in result.missing([check])


def next_step(
    releases: Sequence[Release], results: Mapping[str, Result], checks: Sequence[str] = ALL
) -> Step | None:
    """The release in the middle of the first boundary that is still wide, None when all are found.

    It is tried for every check whose boundary it divides.
    """
    wide = [each for each in boundaries(releases, results, checks) if each.between]
    if not wide:
        return None
    first = wide[0]
    places = {each.version: at for at, each in enumerate(releases)}
    low, high = places[first.before], places[first.after]
    open_places = [
        at
        for at in range(low + 1, high)
        if _can_tell(results.get(releases[at].version), first.check)
    ]
    middle = min(open_places, key=lambda at: abs(2 * at - low - high))
    version = releases[middle].version
    known = results.get(version)
    divided = [
        each.check
        for each in wide
        if places[each.before] < middle < places[each.after] and _can_tell(known, each.check)
    ]
    return Step(version=version, checks=tuple(dict.fromkeys(divided)))


_WORD = re.compile(r"(?<![\w-])--[a-z][\w-]+|^ {0,4}[a-z][\w-]+(?= {2,}|$)", re.M)


def changed_words(before: str, after: str) -> tuple[list[str], list[str]]:
    """The flags, subcommands and features that one help text has and the other has not: removed,
    added."""
    old, new = ({word.strip() for word in _WORD.findall(text)} for text in (before, after))
    return sorted(old - new), sorted(new - old)
