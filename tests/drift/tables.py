"""Shows results: a table for the terminal, the kept table of the documentation."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from tests.drift.boundaries import Boundary
from tests.drift.releases import order
from tests.drift.results import GUARD, SESSION, Judgement, Result, Verdict

WORDS: dict[Verdict, str] = {
    "as_tested": "works as tested",
    "differences": "works with differences",
    "broken": "does not work",
    "too_old": "refused",
    "not_installed": "not tried",
    "unfinished": "works, as far as tried",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One release in the documentation's table."""

    name: str
    version: str
    date: str | None
    verdict: Verdict
    differences: tuple[str, ...] = ()
    """The checks that differ; for a release that does not work, the reason."""


def row(result: Result, judgement: Judgement) -> Row:
    """A result as one row."""
    differences = tuple(dict.fromkeys(each.check for each in judgement.differences))
    if judgement.because:
        differences = (judgement.because,)
    return Row(
        name=result.name,
        version=result.version,
        date=result.date,
        verdict=judgement.verdict,
        differences=differences,
    )


def merged(rows: Sequence[Row]) -> list[Row]:
    """The last row about each release, in the order of names and versions."""
    last = {(each.name, each.version): each for each in rows}
    return sorted(last.values(), key=lambda each: (each.name, order(each.version)))


def aged(each: Row, refusal: str) -> Row:
    """The row of a release that Bridle refuses now, whatever was found when it was tried; `refusal`
    is the message, empty for a release that is started."""
    if not refusal:
        return each
    return msgspec.structs.replace(each, verdict="too_old", differences=(refusal,))


def version_table(rows: Sequence[Row]) -> str:
    """The table of the documentation: the releases that were tried, and what they do. Releases
    next to each other that do the same share a line."""
    groups = [list(group) for _, group in groupby(rows, key=_alike)]
    return _markdown(
        ["CLI", "releases", "tried", "published by", "verdict", "differs in"],
        (
            [
                group[0].name,
                " to ".join(dict.fromkeys((group[0].version, group[-1].version))),
                str(len(group)),
                group[-1].date or "",
                WORDS[group[0].verdict],
                _listed(group[0]),
            ]
            for group in groups
        ),
    )


def _alike(each: Row) -> tuple[str, Verdict, str]:
    return each.name, each.verdict, _listed(each)


def _listed(each: Row) -> str:
    if each.verdict == "unfinished":
        return ""
    if each.verdict == "too_old":
        # The release itself is in the line already.
        return " ".join(each.differences).partition(": ")[2]
    if each.verdict == "differences":
        return ", ".join(f"`{name}`" for name in each.differences)
    return " ".join(" ".join(each.differences).replace("|", "\\|").split())


def terminal_table(results: Sequence[Result], judgements: Mapping[str, Judgement]) -> str:
    """The releases of one CLI, a line each."""
    lines = [f"{'release':<12}{'by':<12}{'kit':<9}{'guard':<7}{'session':<9}verdict"]
    for each in results:
        kit = [one for one in each.checks if one.name not in (*GUARD, SESSION)]
        guard = [one for one in each.checks if one.name in GUARD]
        passed = sum(one.status == "pass" for one in kit)
        held = sum(one.status == "pass" for one in guard)
        lines.append(
            f"{each.version:<12}{each.date or '-':<12}"
            f"{f'{passed}/{len(kit)}' if kit else '-':<9}"
            f"{f'{held}/{len(guard)}' if guard else '-':<7}"
            f"{each.status(SESSION) or '-':<9}"
            f"{_one_line(judgements[each.version].sentence)}"
        )
    return "\n".join(lines)


def boundary_lines(found: Sequence[Boundary]) -> str:
    """The changes of one CLI, a line for each pair of releases."""
    pairs: dict[tuple[str, str, bool, int], list[str]] = {}
    for each in found:
        pairs.setdefault((each.before, each.after, each.fails, each.between), []).append(each.check)
    lines = []
    for (before, after, fails, between), checks in pairs.items():
        verb = "fails" if fails else "passes"
        unsure = f" ({between} releases between are not tried)" if between else ""
        lines.append(f"{verb} since {after}, not yet in {before}{unsure}: {', '.join(checks)}")
    return "\n".join(lines)


def kept_rows(data: bytes) -> list[Row]:
    """The rows of the documentation's file."""
    return msgspec.json.decode(data, type=list[Row])


def _one_line(text: str, longest: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(each) + " |" for each in rows]
    return "\n".join(lines)
