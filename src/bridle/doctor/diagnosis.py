"""The diagnosis of each runtime: where it is, its version, and whether it behaves as expected."""

import os
import re
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

from bridle.core.errors import BridleError
from bridle.doctor.flags import check_flags
from bridle.doctor.hooks import look_at_hooks, probe_hooks
from bridle.doctor.machine import ask, check_machine
from bridle.doctor.report import Diagnosis, Finding, FindingStatus
from bridle.runtimes.contract import Adapter
from bridle.runtimes.dialects import Dialect, version_numbers
from bridle.runtimes.install import Installation
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.runtimes.unproven import fitted

if TYPE_CHECKING:
    from bridle.config import Config

Progress = Callable[[str], None]

PROBES = (
    "text",
    "tool_call",
    "usage",
    "error_401",
    "error_500",
    "resume",
    "instruction_file",
)
"""Checks of the conformance kit that `--probe` runs."""


def examine_all(
    config: "Config", *, probe: bool = False, progress: Progress | None = None
) -> list[Diagnosis]:
    """Examine all runtimes, by name. An adapter that does not load is a finding, not an error."""
    found = []
    with tempfile.TemporaryDirectory(prefix="bridle-doctor-") as home:
        machine = check_machine(home)
    for name in available_runtimes(config):
        try:
            runtime = get_adapter(name, config)
        except BridleError as problem:
            broken = Finding(
                name="adapter", status="fail", detail=problem.message, hint=problem.hint
            )
            found.append(Diagnosis(runtime=name, installed=False, checks=(broken,)))
            continue
        found.append(examine(runtime, probe=probe, progress=progress, machine=machine))
    return found


def examine(
    runtime: Adapter,
    *,
    probe: bool = False,
    wanted: bool = False,
    progress: Progress | None = None,
    machine: tuple[Finding, ...] | None = None,
) -> Diagnosis:
    """Examine one runtime. With `wanted`, a missing CLI is a failure.

    Contract: offline; reads no secret; starts the CLI only in an empty home; ends in bounded time.
    """
    report_progress = progress or (lambda line: None)
    with tempfile.TemporaryDirectory(prefix="bridle-doctor-") as home:
        if machine is None:
            machine = check_machine(home)
        found = runtime.find()
        if found is None:
            return Diagnosis(
                runtime=runtime.id, installed=False, checks=(_absent(runtime, wanted), *machine)
            )
        report_progress(f"{runtime.id}: looking at {found.binary}")
        if (refused := runtime.refusal(found.version)) is not None:
            return _too_old(runtime, found, refused, machine)
        dialect, seen, warning = runtime.dialect(found.version)
        warning = "; ".join([warning, *dialect.lost]) if warning else ""
        if dialect.words and not seen:
            fit = fitted(runtime.id, dialect, found, os.environ)
            lost = (*fit.warnings, *([fit.unguarded] if fit.unguarded else []))
            warning = "; ".join([warning, *lost])
        starts = _starts(runtime, found, home)
        checks = [
            Finding(name="installed", status="ok", detail=found.binary),
            starts,
            _version(found, dialect, seen, warning),
        ]
        if starts.status == "fail":
            why = "it does not start"
            checks.append(Finding(name="flags", status="skip", detail=why))
        else:
            checks.append(check_flags(runtime, found, dialect, home))
        can_probe = probe and starts.status != "fail"
        if can_probe:
            report_progress(f"{runtime.id}: checking whether its hooks fire")
        hooks = probe_hooks(runtime) if can_probe else look_at_hooks(runtime)
        checks += [_login(runtime), hooks, *machine]
    if probe:
        checks += _probed(runtime, starts, report_progress)
    return Diagnosis(
        runtime=runtime.id,
        installed=True,
        version=found.version,
        dialect=dialect.name,
        supported=_covered(found.version, dialect),
        checks=tuple(checks),
    )


def _absent(runtime: Adapter, wanted: bool) -> Finding:
    return Finding(
        name="installed",
        status="fail" if wanted else "skip",
        detail=f"`{runtime.settings.binary or runtime.binary}` was not found",
        hint=f"install it with `{runtime.install_hint}`" if runtime.install_hint else "",
    )


def _too_old(
    runtime: Adapter, found: Installation, refused: BridleError, machine: tuple[Finding, ...]
) -> Diagnosis:
    """Bridle does not start this version, so nothing else about it is worth a check."""
    checks = (
        Finding(name="installed", status="ok", detail=found.binary),
        Finding(name="version", status="fail", detail=refused.message, hint=refused.hint),
        *machine,
    )
    return Diagnosis(runtime=runtime.id, installed=True, version=found.version, checks=checks)


def _starts(runtime: Adapter, found: Installation, home: str) -> Finding:
    """Whether the CLI starts at all: a launcher whose native binary is missing does not."""
    if found.launcher and not os.access(found.binary, os.R_OK):
        return Finding(name="starts", status="fail", detail=f"cannot read {found.binary}")
    if not runtime.tells_version:
        return Finding(name="starts", status="skip", detail="it is not known to report a version")
    answer = ask((*found.command, "--version"), home)
    if answer.status == 0 and answer.first_line:
        return Finding(name="starts", status="ok", detail=answer.first_line[:200])
    if not answer.first_line:
        detail = f"`--version` printed nothing (exit {answer.status})"
    else:
        detail = f"`--version` failed: {_reason(answer.text)}"
    again = f"install it again with `{runtime.install_hint}`" if runtime.install_hint else ""
    return Finding(name="starts", status="fail", detail=detail, hint=again)


_ERROR_LINE = re.compile(r"^(\w*Error|error|fatal)\b.*:", re.IGNORECASE)


def _reason(text: str) -> str:
    """The line that says why a start failed: the first error line, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR_LINE.match(line)), lines[0])[:300]


def _version(found: Installation, dialect: Dialect, seen: bool, warning: str) -> Finding:
    if seen:
        detail = "; ".join([f"{found.version}, tested", f"dialect {dialect.name}", *dialect.lost])
        return Finding(name="version", status="warn" if dialect.lost else "ok", detail=detail)
    tested = ", ".join(dialect.seen)
    return Finding(
        name="version",
        status="warn",
        detail=warning or f"{found.version or 'unknown'}, dialect {dialect.name}",
        hint=f"tested versions: {tested}; --probe shows whether this one works" if tested else "",
    )


def _covered(version: str | None, dialect: Dialect) -> bool:
    numbers = version_numbers(version) if version else ()
    return bool(numbers) and dialect.since <= numbers


def _login(runtime: Adapter) -> Finding:
    """Judged by which files and variables exist; none is read."""
    state = runtime.credentials(os.environ)
    if state == "present":
        return Finding(name="login", status="ok", detail="a login or key was found")
    if state == "missing":
        return Finding(
            name="login",
            status="warn",
            detail="no login or key was found",
            hint=runtime.login_hint(),
        )
    return Finding(name="login", status="skip", detail="unknown without reading secrets")


def _probed(runtime: Adapter, starts: Finding, report_progress: Progress) -> list[Finding]:
    """Play scripted scenarios end to end through the installed CLI, offline."""
    if starts.status == "fail":
        return [Finding(name="probe", status="skip", detail="it does not start")]
    from bridle.testing.conformance import check

    words: dict[str, FindingStatus] = {"pass": "ok", "fail": "fail", "unsupported": "skip"}
    hint = f"`bridle conformance {runtime.id}` runs all checks"
    try:
        report = check(
            runtime, PROBES, progress=lambda line: report_progress(f"{runtime.id}: played {line}")
        )
    except BridleError as problem:
        return [Finding(name="probe", status="fail", detail=problem.message, hint=problem.hint)]
    return [
        Finding(
            name=f"probe_{each.name}",
            status=words[each.status],
            detail=each.detail,
            hint=hint if each.status == "fail" else "",
        )
        for each in report.checks
    ]
