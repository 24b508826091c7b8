"""Checks of the machine: git, tmux and the sandbox, which every runtime needs; and `ask`, which
starts a program in an empty home with a time limit."""

import os
import shutil
import subprocess

import msgspec

from bridle.doctor.report import Finding
from bridle.drives.tmux.server import NEWEST_SEEN_TMUX, OLDEST_TMUX
from bridle.runtimes.dialects import version_numbers

SECONDS = 30.0


class Output(msgspec.Struct, frozen=True):
    """A program's output and exit status; `status` is None when it did not start or did not end."""

    status: int | None
    text: str

    @property
    def first_line(self) -> str:
        """The first line that is not blank."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


def ask(command: tuple[str, ...], home: str, *, seconds: float = SECONDS) -> Output:
    """Run `command` in the empty home `home`, so that it does not touch the user's files."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home}
    env |= {"TERM": "dumb", "LANG": "C.UTF-8", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except OSError as problem:
        return Output(None, f"cannot be started: {problem.strerror}")
    except subprocess.TimeoutExpired:
        return Output(None, f"did not answer within {seconds:g} s")
    return Output(done.returncode, (done.stdout + b"\n" + done.stderr).decode(errors="replace"))


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
    # Only terminal sessions need tmux.
    worst = "fail" if name == "git" else "warn"
    if path is None:
        return Finding(
            name=name,
            status="fail" if worst == "fail" else "warn",
            detail=f"{name} was not found on PATH: {why}",
            hint=f"install {name} {wanted} or newer",
        )
    line = ask((path, *words), home).first_line
    numbers = next((found for word in line.split() if (found := version_numbers(word))), ())
    if not numbers:
        return Finding(name=name, status="warn", detail=f"version unknown: {line[:100]}")
    if numbers < least:
        return Finding(
            name=name,
            status="fail" if worst == "fail" else "warn",
            detail=f"{line} is too old: {why}",
            hint=f"install {name} {wanted} or newer",
        )
    newest = _NEWEST_SEEN.get(name, numbers)
    if numbers[: len(newest)] > newest:
        seen = ".".join(map(str, newest))
        detail = f"{line} is newer than {seen}, the newest that Bridle was tested with"
        return Finding(name=name, status="warn", detail=detail)
    return Finding(name=name, status="ok", detail=line)


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
