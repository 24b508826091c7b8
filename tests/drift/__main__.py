"""Tries releases of the agents' CLIs and says which of them Bridle works with.

  scripts/drift --newest           the newest release of every CLI (or of the named ones): works as
                                   tested, works with differences, or does not, with a capture to
                                   attach to a report
  scripts/drift claude             eight releases of the last year, and the release that changed
                                   each check that not all of them pass
  scripts/drift codex 0.145.0      these releases
  scripts/drift --show [claude]    what is known already

Releases are installed outside the checkout, one after another, and run offline on the scripted
model in a home of their own. Results are kept: an interrupted survey goes on where it was.
Exit status: 0 everything works, 1 a release does not work, 2 wrong use, 3 the registry refused.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bridle.runtimes.registry import get_adapter
from tests.drift import releases as registry
from tests.drift import tables
from tests.drift.boundaries import boundaries
from tests.drift.releases import Release, UnknownRelease
from tests.drift.results import ALL, BASIC, FLAG, Result, Store
from tests.drift.survey import (
    KEEP_FREE,
    ROOT,
    NoRoom,
    Survey,
    difference,
    judgement,
    packed,
    surveyed,
)
from tests.drift.trial import runtime_of
from tests.support.clis import RegistryRefused, cli_cache

SAMPLE = 8
KEPT = ROOT / "docs" / "runtimes" / "versions.json"
"""What the documentation's table is made from."""


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(
        prog="scripts/drift",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NAME [VERSION…]",
        help="a CLI and releases of it; NAME… alone "
        "with --newest, --show or --write-docs; every CLI by default",
    )
    parser.add_argument("--newest", action="store_true", help="the newest release only")
    parser.add_argument(
        "--sample", type=int, default=SAMPLE, metavar="N", help=f"releases of a year ({SAMPLE})"
    )
    parser.add_argument(
        "--since", metavar="VERSION", help="the oldest release of the sample, in place of a year's"
    )
    parser.add_argument("--quick", action="store_true", help="only whether it works at all")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CHECK",
        help="only this check; flag:WORD asks whether the help has a word",
    )
    parser.add_argument("--no-bisect", action="store_true", help="try the sample alone")
    parser.add_argument("--again", action="store_true", help="forget what is known about them")
    parser.add_argument("--show", action="store_true", help="try nothing, show what is known")
    parser.add_argument(
        "--write-docs", action="store_true", help=f"put what is known into {KEPT.name}"
    )
    parser.add_argument("--results", metavar="FOLDER", help="where results are kept")
    parser.add_argument(
        "--keep-free", type=float, default=KEEP_FREE, metavar="GB", help="disk space to leave"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    if args.sample < 1:
        parser.error("--sample needs at least 1")
    unknown = [each for each in args.only if each not in ALL and not each.startswith(FLAG)]
    if unknown:
        parser.error(f"there is no check {unknown[0]}; there are {', '.join(ALL)}")
    return args


class Command:
    """One call of `scripts/drift`."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        folder = Path(args.results) if args.results else cli_cache().parent / "drift"
        self.store = Store(folder.absolute())
        self.survey = Survey(self.store, self._say, keep_free=args.keep_free)
        self.checks: Sequence[str] = args.only or (BASIC if args.quick else ALL)
        self.broken = self.refused = False
        """Whether a release that was asked for does not work; whether the registry refused."""

    def run(self) -> int:
        """Do what was asked; returns the exit status."""
        several = self.args.newest or self.args.show or self.args.write_docs
        words = self.args.words
        chosen = words if several else words[:1]
        clis = [registry.known(each) for each in chosen] or registry.names()
        if self.args.write_docs:
            return self._write_docs(clis)
        found = []
        for name in clis:
            try:
                found.append(self._one(name, [] if several else words[1:]))
            except RegistryRefused as problem:
                self.refused = True
                self._say(f"{name}: {problem}")
        if self.args.json:
            _show(json.dumps({"clis": found}, indent=1, ensure_ascii=False))
        return 1 if self.broken else 3 if self.refused else 0

    def _one(self, name: str, versions: Sequence[str]) -> dict[str, Any]:
        if self.args.show:
            releases = self.store.listed(name)
            return self._shown(name, releases, releases)
        every = registry.listed(name)
        self.store.keep_list(name, every)
        if self.args.since:
            year = every[every.index(registry.find(every, self.args.since)) :]
        else:
            year = registry.of_the_last_year(every, registry.today())
        if self.args.newest:
            sample = [every[-1]]
        elif versions:
            sample = sorted((registry.find(every, each) for each in versions), key=every.index)
        else:
            sample = registry.sampled(year, self.args.sample)
        if self.args.again:
            self._forget(sample)
        surveyed(
            every,
            sample,
            self.checks,
            self.survey.probe,
            lambda: self._known(name),
            bisects=not (self.args.newest or self.args.no_bisect) and len(sample) > 1,
        )
        return self._shown(name, every, sample)

    def _forget(self, sample: Sequence[Release]) -> None:
        for each in sample:
            self.store.keep(
                Result(name=each.name, version=each.version, package=each.package, date=each.date)
            )

    def _known(self, name: str) -> dict[str, Result]:
        return self.store.all(name)

    def _shown(
        self, name: str, every: Sequence[Release], sample: Sequence[Release]
    ) -> dict[str, Any]:
        """Print what is known about a CLI, and return it."""
        known = self._known(name)
        tried = [known[each.version] for each in every if each.version in known]
        if self.args.newest:
            tried = [known[sample[-1].version]]
        judgements = {each.version: judgement(each) for each in tried}
        asked = {each.version for each in sample}
        self.broken |= any(
            judgements[each.version].verdict == "broken" for each in tried if each.version in asked
        )
        words = {one.name for each in tried for one in each.checks if one.name.startswith(FLAG)}
        changes = [] if self.args.newest else boundaries(every, known, [*ALL, *sorted(words)])
        captures: dict[str, str] = {}
        if self.args.newest:
            newest = tried[-1].version
            captures[newest] = str(packed(self.store, name, newest))
        if not self.args.json:
            if self.args.newest:
                _show(f"{name} {tried[-1].version} {judgements[tried[-1].version].sentence}")
                _show(f"  capture: {captures[tried[-1].version]}")
            else:
                _show(f"\n{name}")
                _show(tables.terminal_table(tried, judgements))
                if changes:
                    _show(tables.boundary_lines(changes))
        return {
            "name": name,
            "releases": [
                {
                    **msgspec.to_builtins(each),
                    "verdict": judgements[each.version].verdict,
                    "sentence": judgements[each.version].sentence,
                    "capture": captures.get(
                        each.version, str(self.store.captures(name, each.version))
                    ),
                }
                for each in tried
            ],
            "boundaries": [difference(self.store, name, each) for each in changes],
        }

    def _write_docs(self, clis: Sequence[str]) -> int:
        """Put what is known into the file of the documentation's table. Of releases about which
        nothing is kept here, the file keeps what it says."""
        rows = tables.kept_rows(KEPT.read_bytes())
        for name in clis:
            known = self._known(name)
            for release in self.store.listed(name):
                each = known.get(release.version)
                if each is not None and (each.tried or each.refused or each.too_old):
                    rows.append(tables.row(each, judgement(each)))
        rows = [tables.aged(each, _refusal(each)) for each in tables.merged(rows)]
        KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
        _show(f"{KEPT}: {len(rows)} releases; `python scripts/generate_docs.py` makes the page")
        return 0

    @staticmethod
    def _say(line: str) -> None:
        """Progress, with the time."""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        sys.stderr.flush()


def _refusal(row: tables.Row) -> str:
    """What Bridle says when it refuses to start this release; empty where it starts it."""
    refused = get_adapter(runtime_of(row.name)).refusal(row.version)
    return refused.message if refused is not None else ""


def _show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """`scripts/drift`."""
    args = parsed(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return Command(args).run()
    except UnknownRelease as problem:
        sys.stderr.write(f"scripts/drift: {problem}\n")
        return 2
    except (RegistryRefused, NoRoom) as problem:
        sys.stderr.write(f"scripts/drift: {problem}\n")
        return 3
    except KeyboardInterrupt:
        sys.stderr.write("scripts/drift: interrupted; what was found is kept\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
