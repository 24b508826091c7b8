"""`bridle usage`: what all agents used and what it cost, from their own session files."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from bridle.cli.output import Style, one_line, terminal_width, warn, write_json
from bridle.cli.parsing import add_json
from bridle.core.errors import WrongUse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.usage.prices import Prices
    from bridle.usage.reports import Filter, Report, Sum

EXAMPLES = (
    "bridle usage",
    "bridle usage --by model --since 7d",
    "bridle usage --by session --project . --json",
    "bridle usage --by month --csv > usage.csv",
)
_CHOICES = ("day", "week", "month", "model", "runtime", "project", "session", "agent")
_SECONDS = 2.0
"""Between two looks of --follow."""
_BAR = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle usage`."""
    parser.add_argument("--by", choices=_CHOICES, default="day", help="what a row is (day)")
    parser.add_argument("--since", metavar="D", help="from this day on: 2026-01-31, 7d, today")
    parser.add_argument("--until", metavar="D", help="up to this day, included")
    parser.add_argument("--runtime", metavar="R", help="only this runtime")
    parser.add_argument("--project", metavar="DIR", help="only what worked in this folder")
    parser.add_argument("--home", metavar="DIR", help="read another home folder than yours")
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")
    parser.add_argument(
        "--follow", action="store_true", help="print again whenever something changes"
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    """Print a report, once or whenever it changes."""
    if args.json and args.csv:
        raise WrongUse("--json and --csv exclude each other")
    if args.home is not None and not os.path.isdir(args.home):
        raise WrongUse(f"no such folder: {args.home}", hint="--home takes a home folder")
    from bridle.usage.own_prices import own_prices

    chosen, prices = _filter(args), own_prices(os.getcwd(), os.environ)
    last: Report | None = None
    while True:
        found = _report(args, chosen, prices)
        if found != last:
            _print(args, found, again=last is not None)
        if not args.follow:
            return 0
        last = found
        _wait()


def _wait() -> None:
    import time

    time.sleep(_SECONDS)


def _filter(args: argparse.Namespace) -> "Filter":
    from bridle.usage.reports import Filter, own_project, parse_time

    return Filter(
        since=parse_time(args.since) if args.since else None,
        until=parse_time(args.until, is_end=True) if args.until else None,
        runtime=_runtime(args.runtime) if args.runtime else None,
        project=own_project(args.project) if args.project else None,
    )


def _runtime(name: str) -> str:
    """The runtime under which the files of `name` are counted: an alias has none of its own."""
    from bridle.core.entry_points import registered
    from bridle.core.errors import UnknownRuntime

    targets = registered()
    if name not in targets:
        raise UnknownRuntime(name, sorted(targets))
    package = targets[name].partition(":")[0]
    return min(other for other, target in targets.items() if target.partition(":")[0] == package)


def _report(args: argparse.Namespace, chosen: "Filter", prices: "Mapping[str, Prices]") -> "Report":
    from bridle import usage

    agents = _agents() if args.by == "agent" else None
    return usage.report(args.by, only=chosen, home=args.home, prices=prices, agents=agents)


def _agents() -> dict[str, str]:
    """The names of Bridle's agents, by the native ids of their sessions."""
    from bridle.sessions.home import known_homes
    from bridle.sessions.store import SessionStore

    found: dict[str, str] = {}
    for home in known_homes(os.environ):
        if os.path.exists(home.database):
            store = SessionStore(home)
            for record in store.all():
                name = record.agent or record.name
                if record.native_session_id and name:
                    found[record.native_session_id] = name
            store.close()
    return found


# -- output ---------------------------------------------------------------------------------------


def _print(args: argparse.Namespace, report: "Report", *, again: bool) -> None:
    if args.json:
        write_json(as_json(report))
    elif args.csv:
        _csv(report)
    else:
        if again and sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[J")
        table(report)
    sys.stdout.flush()
    if report.skipped and not args.json:
        count = len(report.skipped)
        first = report.skipped[0]
        more = f" (and {count - 1} more; --json lists them)" if count > 1 else ""
        warn(f"left out: {first.path}: {first.reason}{more}")


def as_json(report: "Report") -> object:
    """The report with its fields in their documented order."""
    return {
        "by": report.by,
        "rows": [{"key": row.key, **_fields(row)} for row in report.rows],
        "total": _fields(report.total),
        "skipped": report.skipped,
    }


def _fields(found: "Sum") -> dict[str, object]:
    return {
        "usage": found.usage,
        "requests": found.requests,
        "cost_usd": found.cost_usd,
        "cost_source": found.cost_source,
        "unpriced_models": found.unpriced_models,
    }


_COLUMNS = (
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cache read", "cache_read_tokens"),
    ("cache write", "cache_write_tokens"),
)


def _csv(report: "Report") -> None:
    import csv

    from bridle.core.usage import Usage

    names = Usage.__struct_fields__
    writer = csv.writer(sys.stdout, lineterminator="\n")
    head = [report.by, *names, "requests", "cost_usd", "cost_source", "unpriced_models"]
    writer.writerow(head)
    for key, row in [*((row.key, row) for row in report.rows), ("total", report.total)]:
        counts = [getattr(row.usage, name) for name in names]
        cost = "" if row.cost_usd is None else row.cost_usd
        models = " ".join(row.unpriced_models)
        writer.writerow([key, *counts, row.requests, cost, row.cost_source, models])


def table(report: "Report") -> None:
    """Print a report for people: a row each, a bar for its share, and the total."""
    style = Style(sys.stdout)
    rows = [(one_line(row.key, 60), row) for row in report.rows]
    if not rows:
        sys.stdout.write("nothing was used\n")
        return
    with_bars = sys.stdout.isatty() and terminal_width(sys.stdout) >= 100
    most = max((_weight(row) for _, row in rows), default=0.0)
    cells = [[report.by, *(name for name, _ in _COLUMNS), "requests", "cost", ""]]
    for name, row in [*rows, ("total", report.total)]:
        counts = [f"{getattr(row.usage, field):,}" for _, field in _COLUMNS]
        bar = _bar(_weight(row), most) if with_bars and name != "total" else ""
        cells.append([name, *counts, f"{row.requests:,}", cost_text(row), bar])
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    for number, line in enumerate(cells):
        shown = [line[0].ljust(widths[0])]
        shown += [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
        text = "  ".join(shown) + (f"  {style.dim(line[-1])}" if line[-1] else "")
        if number == len(cells) - 1:
            sys.stdout.write("-" * len("  ".join(shown)) + "\n")
        sys.stdout.write(text.rstrip() + "\n")
    if report.total.unpriced_models:
        names = ", ".join(report.total.unpriced_models)
        sys.stdout.write(f"+ without a known price: {one_line(names)}\n")


def cost_text(found: "Sum") -> str:
    """The cost of a row, for people; `+` if there is more that nobody can price."""
    if found.cost_usd is None:
        return "?" if found.unpriced_models else "-"
    more = "+" if found.unpriced_models else ""
    return (
        f"${found.cost_usd:,.2f}{more}" if found.cost_usd >= 1 else f"${found.cost_usd:.4f}{more}"
    )


def _weight(found: "Sum") -> float:
    return found.cost_usd if found.cost_usd is not None else found.usage.total / 1_000_000


def _bar(part: float, most: float) -> str:
    eighths = round(part / most * _BAR * 8) if most else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")
