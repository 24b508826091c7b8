"""What every runtime needs of the machine: git, tmux, a sandbox. Looked at once."""

import shutil

from bridle.doctor.commands import ask
from bridle.doctor.report import Finding
from bridle.drives.tmux.server import NEWEST_SEEN_TMUX, OLDEST_TMUX
from bridle.runtimes.dialects import version_numbers

_NEWEST_SEEN = {"tmux": NEWEST_SEEN_TMUX}
_NEEDED = (
    ("git", ("--version",), (2, 38), "worktrees and merging need it"),
    ("tmux", ("-V",), OLDEST_TMUX, "sessions in a terminal need it"),
)


def check_machine(home: str) -> tuple[Finding, ...]:
    """Findings that are the same for every runtime."""
    tools = [_tool(name, words, least, why, home) for name, words, least, why in _NEEDED]
    return (*tools, _sandbox())


def _tool(
    name: str, words: tuple[str, ...], least: tuple[int, ...], why: str, home: str
) -> Finding:
    path = shutil.which(name)
    wanted = ".".join(map(str, least))
    # Without tmux everything but terminal sessions works.
    worst = "fail" if name == "git" else "warn"
    if path is None:
        return Finding(
            name=name,
            status="fail" if worst == "fail" else "warn",
            detail=f"{name} was not found on PATH: {why}",
            hint=f"install {name} {wanted} or newer",
        )
    told = ask((path, *words), home).first_line
    numbers = next((found for word in told.split() if (found := version_numbers(word))), ())
    if not numbers:
        return Finding(name=name, status="warn", detail=f"version unknown: {told[:100]}")
    if numbers < least:
        return Finding(
            name=name,
            status="fail" if worst == "fail" else "warn",
            detail=f"{told} is too old: {why}",
            hint=f"install {name} {wanted} or newer",
        )
    newest = _NEWEST_SEEN.get(name, numbers)
    if numbers[: len(newest)] > newest:
        seen = ".".join(map(str, newest))
        detail = f"{told} is newer than {seen}, the newest that Bridle was tested with"
        return Finding(name=name, status="warn", detail=detail)
    return Finding(name=name, status="ok", detail=told)


def _sandbox() -> Finding:
    from bridle.sandbox import preflight

    can = preflight()
    if not can.holds_writes:
        return Finding(name="sandbox", status="warn", detail="; ".join(can.gaps))
    means = [name for name in ("mounts", "landlock", "seccomp") if getattr(can, name)]
    return Finding(
        name="sandbox",
        status="warn" if can.gaps else "ok",
        detail="; ".join((", ".join(means), *can.gaps)),
    )
