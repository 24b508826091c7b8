"""Reports: the sums of a scan by day, model, project and so on, as `bridle usage --json` prints
them."""

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Literal, get_args

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.usage import NO_USAGE, Usage
from bridle.usage.scans import Found, Skipped
from bridle.usage.tally import QUARTER, Row

By = Literal["day", "week", "month", "model", "runtime", "project", "session", "agent"]
CHOICES: tuple[By, ...] = get_args(By)
Source = Literal["provider", "priced", "mixed", "unknown"]
UNKNOWN = "unknown"
MAIN = "main"
"""The key of what no sub-agent and no named agent used."""


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """What some requests used and cost."""

    usage: Usage = NO_USAGE
    requests: int = 0
    cost_usd: float | None = None
    """The cost of those requests whose cost is known; None if no cost is known."""
    cost_source: Source = "unknown"
    """`provider`: told by the agents. `priced`: from price tables. `mixed`: both."""
    unpriced_models: tuple[str, ...] = ()
    """Models whose requests are not in `cost_usd`."""


class Line(Sum, frozen=True, kw_only=True):
    """One row of a report."""

    key: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Usage and cost by `by`, the rows sorted by their key."""

    by: str
    rows: tuple[Line, ...]
    total: Sum
    skipped: tuple[Skipped, ...] = ()


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests a report is about; None is no limit."""

    since: float | None = None
    """Seconds since 1970, to the quarter of an hour."""
    until: float | None = None
    """Seconds since 1970: before this."""
    runtime: str | None = None
    project: str | None = None
    """A folder: what worked in it or below it."""

    def takes(self, row: Row) -> bool:
        """Whether the report is about `row`."""
        begin = row.quarter * QUARTER
        if self.since is not None and begin < self.since - QUARTER + 1:
            return False
        if self.until is not None and begin >= self.until:
            return False
        if self.runtime is not None and row.runtime != self.runtime:
            return False
        return self.project is None or is_below(row.project, self.project)


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def make_report(
    found: Found,
    by: By = "day",
    chosen: Filter | None = None,
    agents: Mapping[str, str] | None = None,
) -> Report:
    """The report over a scan. `agents` are names of agents by the native ids of their sessions."""
    key = _key_of(by, agents or {})
    wanted = chosen or Filter()
    groups: dict[str, list[Row]] = {}
    for row in found.rows:
        if wanted.takes(row):
            groups.setdefault(key(row), []).append(row)
    rows = [
        Line(key=name, **msgspec.structs.asdict(add_up(group)))
        for name, group in sorted(groups.items())
    ]
    total = add_up(row for group in groups.values() for row in group)
    return Report(by=by, rows=tuple(rows), total=total, skipped=tuple(found.skipped))


def add_up(rows: Iterable[Row]) -> Sum:
    """The sum of some rows."""
    usage = [0, 0, 0, 0, 0]
    requests = told = priced = 0
    told_usd = priced_usd = 0.0
    unpriced: set[str] = set()
    for row in rows:
        usage[0] += row.input_tokens
        usage[1] += row.output_tokens
        usage[2] += row.cache_read_tokens
        usage[3] += row.cache_write_tokens
        usage[4] += row.reasoning_tokens
        requests += row.requests
        told, told_usd = told + row.told, told_usd + row.told_usd
        priced, priced_usd = priced + row.priced, priced_usd + row.priced_usd
        if row.told + row.priced < row.requests and _counts(row):
            unpriced.add(row.model or UNKNOWN)
    source: Source = "mixed" if told and priced else "unknown"
    if source == "unknown" and (told or priced):
        source = "provider" if told else "priced"
    return Sum(
        usage=Usage(
            input_tokens=usage[0],
            output_tokens=usage[1],
            cache_read_tokens=usage[2],
            cache_write_tokens=usage[3],
            reasoning_tokens=usage[4],
        ),
        requests=requests,
        cost_usd=round(told_usd + priced_usd, 9) if told or priced else None,
        cost_source=source,
        unpriced_models=tuple(sorted(unpriced)),
    )


def _counts(row: Row) -> bool:
    """Whether a price could matter: a failed request used nothing."""
    return bool(
        row.input_tokens or row.output_tokens or row.cache_read_tokens or row.cache_write_tokens
    )


def _key_of(by: By, agents: Mapping[str, str]) -> Callable[[Row], str]:
    if by in ("day", "week", "month"):
        days: dict[int, str] = {}

        def period(row: Row) -> str:
            if row.quarter not in days:
                days[row.quarter] = _period(row.quarter, by)
            return days[row.quarter]

        return period
    if by == "agent":
        return lambda row: agents.get(row.session) or row.agent or MAIN
    return lambda row: getattr(row, by) or UNKNOWN


def _period(quarter: int, by: By) -> str:
    """The local day, week or month of a quarter of an hour."""
    if not quarter:
        return UNKNOWN
    day = datetime.fromtimestamp(quarter * QUARTER).date()
    if by == "week":
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02d}"
    return day.isoformat()[: 7 if by == "month" else 10]


# -- times that a person writes -------------------------------------------------------------------


def parse_time(text: str, *, is_end: bool = False) -> float:
    """Seconds since 1970 for `2026-01-31`, `20260131`, `2026-01-31T12:00`, `today`, `yesterday` or
    `7d` (days ago), local unless it has a zone. A day that ends a range is included."""
    day: date | None = None
    today = date.today()
    words = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        if text in words:
            day = words[text]
        elif text.endswith("d") and text[:-1].isdecimal():
            day = today - timedelta(days=int(text[:-1]))
        elif len(text) in (8, 10):
            day = date.fromisoformat(text)
        else:
            return datetime.fromisoformat(text).timestamp()
        if is_end:
            day += timedelta(days=1)
        return datetime(day.year, day.month, day.day).timestamp()
    except (ValueError, OverflowError):
        raise WrongUse(
            f"not a day or time: {text}", hint="write it as 2026-01-31, 7d, today or yesterday"
        ) from None


def own_project(folder: str) -> str:
    """A folder as agents write it down."""
    return os.path.realpath(os.path.expanduser(folder))
