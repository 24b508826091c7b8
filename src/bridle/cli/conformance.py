"""`bridle conformance`: the conformance kit on an installed runtime, as a table or JSON."""

import argparse
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from bridle.cli.output import Style, one_line, write_json
from bridle.cli.parsing import add_json, key_value, positive_number
from bridle.config import load_config

if TYPE_CHECKING:
    from bridle.testing import conformance

EXAMPLES = ("bridle conformance claude",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle conformance`."""
    parser.add_argument("runtime", metavar="R", help="name of the runtime")
    parser.add_argument("--binary", metavar="PATH", help="the CLI to check, if not the usual one")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only this check; repeat",
    )
    parser.add_argument(
        "--run-timeout",
        metavar="S",
        type=positive_number,
        help="seconds that one run of the agent may take (120)",
    )
    parser.add_argument(
        "--provider-option",
        metavar="K=V",
        type=key_value,
        action="append",
        default=[],
        dest="provider_options",
        help="one of the runtime's own options, for every run; repeat",
    )
    add_json(parser)


def execute(args: argparse.Namespace) -> int:
    """Run the kit; 1 when a check fails."""
    from bridle.runtimes.registry import get_adapter
    from bridle.testing import conformance
    from bridle.testing.conformance.runner import RUN_SECONDS

    # SIGTERM must not leave agents behind: exit as on Ctrl-C.
    signal.signal(signal.SIGTERM, _leave)
    runtime = get_adapter(args.runtime, load_config())
    if args.binary:
        runtime.use_binary(args.binary)
    report = conformance.check(
        runtime,
        args.only,
        options={"provider_options": own} if (own := dict(args.provider_options)) else None,
        run_seconds=args.run_timeout or RUN_SECONDS,
        progress=lambda line: _say(f"{runtime.id}: played {line}"),
    )
    if args.json:
        write_json(report)
    else:
        _show(report)
    return 0 if report.passed else 1


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _say(line: str) -> None:
    sys.stderr.write(f"{one_line(line)}\n")
    sys.stderr.flush()


def _show(report: "conformance.Report") -> None:
    style = Style(sys.stdout)
    width = max(len(check.name) for check in report.checks)
    words = {"pass": "pass", "fail": style.red("FAIL"), "unsupported": style.dim("n/a ")}
    sys.stdout.write(f"{report.runtime} {report.version or '(version unknown)'}")
    sys.stdout.write(f", dialect {report.dialect}\n\n")
    for note in report.notes or ():
        sys.stdout.write(f"note: {one_line(note)}\n\n")
    for check in report.checks:
        line = f"{words[check.status]}  {check.name:<{width}}  {one_line(check.detail, 300)}"
        sys.stdout.write(f"{line.rstrip()}\n")
    counts = [
        f"{sum(check.status == status for check in report.checks)} {text}"
        for status, text in (
            ("pass", "passed"),
            ("fail", "failed"),
            ("unsupported", "not supported by this agent"),
        )
    ]
    sys.stdout.write(f"\n{', '.join(counts)}\n")
