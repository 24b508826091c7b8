"""`bridle costs`: what Bridle's own sessions and agents used and cost, live."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from bridle.cli.output import one_line, write_json
from bridle.cli.parsing import add_json

if TYPE_CHECKING:
    from bridle.sessions.costs import CostLine, Costs
    from bridle.sessions.store import TurnRow

EXAMPLES = (
    "bridle costs",
    "bridle costs --by agent --follow",
    "bridle costs fix    # each turn of a session",
)
_CHOICES = ("session", "agent", "task", "capability", "runtime", "model", "project")
_SECONDS = 2.0
"""Between two looks of --follow."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle costs`."""
    parser.add_argument("session", metavar="S", nargs="?", help="show each turn of this session")
    parser.add_argument("--by", choices=_CHOICES, default="session", help="what a row is (session)")
    parser.add_argument("--all", action="store_true", help="the sessions of all projects")
    parser.add_argument(
        "--follow", action="store_true", help="print again whenever something changes"
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    """Print the costs, once or whenever they change."""
    last: object = None
    while True:
        found = _turns(args.session) if args.session else _costs(args)
        if found != last:
            _print(args, found)
        if not args.follow:
            return 0
        last = found
        time.sleep(_SECONDS)


def _turns(name: str) -> "list[TurnRow]":
    from bridle.sessions.home import homes
    from bridle.sessions.store import SessionStore, find_record

    home, record = find_record(homes(os.getcwd(), os.environ), name)
    store = SessionStore(home)
    try:
        return store.turns(record.session_id)
    finally:
        store.close()


def _costs(args: argparse.Namespace) -> "Costs":
    from bridle.sessions.costs import cost_report
    from bridle.sessions.home import homes, known_homes
    from bridle.sessions.store import SessionStore
    from bridle.usage.own_prices import own_prices
    from bridle.usage.scans import scan

    places = known_homes(os.environ) if args.all else homes(os.getcwd(), os.environ)
    records = []
    for home in places:
        if os.path.exists(home.database):
            store = SessionStore(home)
            records += store.all()
            store.close()
    unknown = any(each.cost_usd is None and each.usage and each.usage.total for each in records)
    rows = []
    if unknown:
        rows = scan(os.environ, os.environ, own_prices(os.getcwd(), os.environ)).rows
    return cost_report(records, rows, args.by)


def _print(args: argparse.Namespace, found: "Costs | list[TurnRow]") -> None:
    if isinstance(found, list):
        if args.json:
            write_json({"turns": found})
        else:
            _table(
                ["turn", "status", "input", "output", "cache read", "cache write", "cost"],
                [[str(each.turn), each.status, *_numbers(each)] for each in found],
            )
    elif args.json:
        write_json(
            {
                "by": found.by,
                "rows": found.rows,
                "total": {name: getattr(found.total, name) for name in _TOTAL},
            }
        )
    else:
        _table(
            [found.by, "turns", "input", "output", "cache read", "cache write", "cost"],
            [
                [one_line(name, 60), str(line.turns), *_numbers(line)]
                for name, line in [*((row.key, row) for row in found.rows), ("total", found.total)]
            ],
        )
    sys.stdout.flush()


_TOTAL = (
    "sessions",
    "living",
    "turns",
    "usage",
    "cost_usd",
    "cost_source",
    "unpriced_models",
)


def _numbers(found: "CostLine | TurnRow") -> list[str]:
    usage = found.usage
    counts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
    if found.cost_usd is None:
        cost = "?" if usage.total else "-"
    else:
        cost = f"${found.cost_usd:.4f}" + ("+" if getattr(found, "unpriced_models", ()) else "")
    return [*(f"{count:,}" for count in counts), cost]


def _table(head: list[str], rows: list[list[str]]) -> None:
    if not rows:
        sys.stdout.write("nothing was used\n")
        return
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
