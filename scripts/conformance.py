"""Runs the conformance kit on the pinned CLIs and keeps the results for the documentation.

`python scripts/conformance.py [RUNTIME[-VERSION]]…` replaces the rows of those runtimes (of all by
default) in `docs/runtimes/conformance.json`; `scripts/generate_docs.py` then makes the table.
Exit 1 when a check failed.
"""

import argparse
import signal
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.clis import PINS, cli_path  # noqa: E402 - path first

from bridle.runtimes.registry import available_runtimes, get_adapter  # noqa: E402 - path first
from bridle.testing import conformance  # noqa: E402 - path first

RESULTS = ROOT / "docs" / "runtimes" / "conformance.json"


def targets() -> list[tuple[str, str, str]]:
    """Runtime, the pin that serves it, and its version; an empty version needs no CLI."""
    found = []
    for runtime in available_runtimes():
        names = (runtime, get_adapter(runtime).binary)
        pins = next((kept for name in names if (kept := _pins(name))), [])
        found += [(runtime, pin, version) for pin, version in pins or [("", "")]]
    return found


def _pins(name: str) -> list[tuple[str, str]]:
    return [(pin.name, pin.version) for pin in PINS if pin.name == name]


def check(runtime_id: str, pin: str, version: str, only: list[str]) -> conformance.Report:
    """The report of one runtime in one version."""
    runtime = get_adapter(runtime_id)
    if version:
        runtime.use_binary(str(cli_path(pin, version)))
    return conformance.check(
        runtime,
        only,
        progress=lambda line: print(f"{runtime_id}: {line}", flush=True),
    )


def keep(report: conformance.Report) -> None:
    """Put a report in its place among the results. What a pass showed differs each time."""
    kept = [each for each in read() if _key(each) != _key(report)]
    results = {
        each.name: each for old in read() if _key(old) == _key(report) for each in old.checks
    }
    for each in report.checks:
        plain = each.status == "pass"
        results[each.name] = msgspec.structs.replace(each, detail="") if plain else each
    checks = tuple(results[name] for name in conformance.NAMES if name in results)
    kept.append(msgspec.structs.replace(report, checks=checks))
    kept.sort(key=lambda each: (each.runtime, each.version or ""))
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def read() -> list[conformance.Report]:
    """The results that are kept."""
    if not RESULTS.exists():
        return []
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[conformance.Report])


def _key(report: conformance.Report) -> tuple[str, str | None]:
    return report.runtime, report.version


def main() -> int:
    """Check what was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="RUNTIME or RUNTIME-VERSION; all by default")
    parser.add_argument("--only", action="append", default=[], help="only this check")
    args = parser.parse_args()
    wanted = set(args.names)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    failed = False
    for runtime, pin, version in targets():
        if wanted and not {runtime, f"{runtime}-{version}"} & wanted:
            continue
        report = check(runtime, pin, version, args.only)
        keep(report)
        for result in report.checks:
            if result.status != "pass":
                print(f"{runtime} {version}: {result.status} {result.name}: {result.detail}")
        failed = failed or not report.passed
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
