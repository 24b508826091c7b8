"""`bridle runtime`: the available agents, what each can do, and the default."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from bridle.cli.output import Style, one_line, terminal_width, warn, write_json
from bridle.cli.parsing import Verbs
from bridle.config import Config, load_config
from bridle.runtimes.inventory import RuntimeReport, report_runtime, report_runtimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridle.doctor import Diagnosis, Finding


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bridle runtime`."""
    verbs = Verbs(parser)
    verbs.add("list", "list all runtimes", "bridle runtime list")
    show = verbs.add("show", "show what one runtime can do", "bridle runtime show codex")
    show.add_argument("runtime", metavar="R", help="the runtime's name")
    doctor = verbs.add(
        "doctor",
        "check the installed CLIs",
        "bridle runtime doctor claude --probe",
        description="Check what is installed: versions, flags, login, and what they need.",
    )
    doctor.add_argument("runtime", metavar="R", nargs="?", help="only this runtime")
    doctor.add_argument(
        "--probe",
        action="store_true",
        help="also play scripted scenarios through the CLI, offline and at no cost",
    )
    change = verbs.add("set", "choose the default runtime", "bridle runtime set default codex")
    change.add_argument("key", choices=("default",), metavar="default", help="what to set")
    change.add_argument("runtime", metavar="R", help="the runtime's name")
    change.add_argument(
        "--project", action="store_true", help="in the project's file instead of the user's"
    )


def execute(args: argparse.Namespace) -> int:
    """List, show, examine or set."""
    config = load_config(ignoring="runtime.default" if args.verb == "set" else "")
    if args.verb == "list":
        return _list(config, as_json=args.json)
    if args.verb == "show":
        return _show(config, args.runtime, as_json=args.json)
    if args.verb == "doctor":
        return _doctor(config, args)
    return _set_default(config, args)


def _list(config: Config, *, as_json: bool) -> int:
    reports = report_runtimes(config)
    if as_json:
        write_json({"runtimes": reports})
        return 0
    rows = [["", "RUNTIME", "VERSION", "DIALECT", "NOTES"]]
    for report in reports:
        version = report.version or ("unknown" if report.installed else "not installed")
        mark = "*" if report.default else ""
        rows.append([mark, report.name, version, report.dialect or "", _notes(report)])
    width = terminal_width(sys.stdout)
    if sys.stdout.isatty() and any(sum(map(len, row)) + 8 > width for row in rows):
        _narrow(rows, width)
    else:
        _table(rows)
    sys.stdout.write("* is the default\n")
    return 0


def _narrow(rows: list[list[str]], width: int) -> None:
    """The rows with their last cell below them, wrapped: a terminal would break it anywhere."""
    import textwrap

    heads = [row[:-1] for row in rows]
    sizes = [max(len(row[at]) for row in heads) for at in range(len(heads[0]))]
    for row, head in zip(rows[1:], heads[1:], strict=True):
        cells = [cell.ljust(size) for cell, size in zip(head, sizes, strict=True)]
        line = "  ".join(cells).rstrip()
        if len(line) > width:
            line = " ".join(" ".join(head).split())
        sys.stdout.write(f"{line}\n")
        for text in textwrap.wrap(row[-1], max(16, width - 6)):
            sys.stdout.write(f"      {text}\n")


def _notes(report: RuntimeReport) -> str:
    return one_line("; ".join((*report.reasons, *report.hints)))


def _show(config: Config, name: str, *, as_json: bool) -> int:
    report = report_runtime(name, config)
    if as_json:
        write_json(report)
        return 0
    on = [key for key, value in report.features.items() if value is True]
    facts: dict[str, Any] = {
        "runtime": f"{report.name}{' (default)' if report.default else ''}",
        "declared by": report.declared_by,
        "stability": report.stability,
        "installed": report.binary or "no",
        "version": report.version or "unknown",
        "tested": "yes, this version" if report.tested else "not this version",
        "dialect": report.dialect or "",
        "login": report.credentials,
        "instructions": report.instruction_file,
        "drives": ", ".join(report.drives),
        "features": ", ".join(on) or "none",
        "options": ", ".join(report.options) or "only those that all runtimes have",
        "notes": _notes(report),
    }
    _table([[key, str(value)] for key, value in facts.items() if value])
    return 0


def _doctor(config: Config, args: argparse.Namespace) -> int:
    """1 when something is broken."""
    from bridle.doctor import examine, examine_all
    from bridle.runtimes.registry import get_adapter

    if args.runtime:
        runtime = get_adapter(args.runtime, config)
        found = [examine(runtime, probe=args.probe, wanted=True, progress=_progress)]
    else:
        found = examine_all(config, probe=args.probe, progress=_progress)
    if args.json:
        write_json({"runtimes": found})
    else:
        _show_diagnoses(found)
    return 1 if any(each.broken for each in found) else 0


def _progress(line: str) -> None:
    sys.stderr.write(f"{one_line(line)}\n")
    sys.stderr.flush()


def _show_diagnoses(found: "list[Diagnosis]") -> None:
    """Each runtime with its checks; what all of them share comes once, at the end."""
    shared = set(found[0].checks).intersection(*(each.checks for each in found[1:]))
    if len(found) == 1:
        shared = set()
    for each in found:
        version = each.version or ("version unknown" if each.installed else "not installed")
        sys.stdout.write(f"{each.runtime}  {version}\n")
        _show_checks([check for check in each.checks if check not in shared])
    if shared:
        sys.stdout.write("this machine\n")
        _show_checks([check for check in found[0].checks if check in shared])


def _show_checks(checks: "Sequence[Finding]") -> None:
    style = Style(sys.stdout)
    words = {"ok": "ok  ", "warn": "warn", "fail": style.red("FAIL"), "skip": style.dim("skip")}
    width = max((len(check.name) for check in checks), default=0)
    for check in checks:
        line = f"  {words[check.status]}  {check.name:<{width}}  {one_line(check.detail, 400)}"
        sys.stdout.write(f"{line.rstrip()}\n")
        if check.hint and check.status != "ok":
            sys.stdout.write(f"  {'':{width + 4}}  hint: {one_line(check.hint)}\n")


def _set_default(config: Config, args: argparse.Namespace) -> int:
    from bridle.config.edit import set_value
    from bridle.config.load import new_project_file, user_file
    from bridle.runtimes.registry import get_adapter

    name = get_adapter(args.runtime, config).id
    path = new_project_file(os.curdir) if args.project else user_file(os.environ)
    set_value(path, ("runtime", "default"), name)
    in_force = load_config(ignoring="runtime.default").runtime.default
    if args.json:
        write_json({"file": path, "key": "runtime.default", "value": name, "in_force": in_force})
    else:
        sys.stdout.write(f"runtime.default is {name} in {path}\n")
    if in_force != name:
        warn(f"{in_force} stays the default here: the environment or a stronger file sets it")
    return 0


def _table(rows: list[list[str]]) -> None:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
