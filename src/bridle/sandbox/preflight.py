"""What this machine can enforce: tested, not guessed from version numbers."""

import os
import sys

import msgspec

from bridle._version import __version__
from bridle.core import structs
from bridle.core.files import cached_text, forget_cached_text

LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")

SIGNAL_SCOPE = 6
"""The first Landlock version that restricts signals, so that the processes of a run can be ended by
it."""

_SETTINGS = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
"""Settings with which an administrator allows or forbids the mechanisms of a kernel."""


class Enforcement(msgspec.Struct, frozen=True, kw_only=True):
    """Which mechanisms work, and what stays open without the others."""

    mounts: bool
    landlock: bool
    landlock_version: int
    seccomp: bool
    gaps: tuple[str, ...]

    @property
    def holds_writes(self) -> bool:
        """Whether writing outside is refused at all; without it there is no sandbox."""
        return self.mounts or (self.landlock and self.landlock_version >= 3)


def preflight() -> Enforcement:
    """Which mechanisms work here, each tested in a child process.

    Remembered in the user's cache, for this kernel, user and circumstances; a machine that cannot
    refuse writes is tested again each time.
    """
    if sys.platform != "linux":
        return Enforcement(
            mounts=False,
            landlock=False,
            landlock_version=0,
            seccomp=False,
            gaps=(f"no sandbox on {sys.platform}: the guard is the only protection",),
        )
    found: Enforcement | None = None

    def ask() -> str | None:
        nonlocal found
        found = _try_all()
        return msgspec.json.encode(found).decode() if found.holds_writes else None

    text = cached_text(circumstances(), ask)
    if found is None:
        try:
            found = structs.decode(text or "", Enforcement)
        except msgspec.MsgspecError:
            found = _try_all()
    return found


def not_as_remembered() -> None:
    """Test the machine again next time: a mechanism that worked before was refused."""
    forget_cached_text(circumstances())


def circumstances() -> str:
    """Everything on which the answer depends, as a key."""
    machine = os.uname()
    facts = ["sandbox", __version__, machine.release, machine.machine, str(os.getuid())]
    facts += [_text(path) for path in _SETTINGS]
    # A container of the same kernel may forbid what its host allows.
    names = ("NoNewPrivs:", "Seccomp:", "Seccomp_filters:", "CapBnd:")
    facts += [line for line in _text("/proc/self/status").splitlines() if line.startswith(names)]
    if os.path.islink("/proc/self/ns/user"):
        facts.append(os.readlink("/proc/self/ns/user"))
    return ":".join("".join(fact.split()) for fact in facts)


def enforcement_of(*, mounts: bool, landlock_version: int, seccomp: bool) -> Enforcement:
    """The mechanisms that work, and the gaps where others are missing."""
    gaps = []
    if not mounts:
        gaps.append("no user namespaces: mode, owner and times outside can be changed")
        gaps.append("no user namespaces: shared memory and terminals are not private")
    if not mounts and landlock_version < SIGNAL_SCOPE:
        gaps.append("no user namespaces: a process without environment may outlive the run")
    if not mounts and landlock_version < 3:
        gaps.append("no Landlock of ABI 3: writing outside is not refused")
    if not seccomp:
        gaps.append("no seccomp filter: Unix sockets (tmux, docker, ssh-agent) can be reached")
    return Enforcement(
        mounts=mounts,
        landlock=landlock_version > 0,
        landlock_version=landlock_version,
        seccomp=seccomp,
        gaps=tuple(gaps),
    )


def _try_all() -> Enforcement:
    from bridle.sandbox import launcher

    version = launcher.landlock_version()
    mounts = _works({"mounts": True})
    landlock = version > 0 and _works({"landlock": True})
    seccomp = _works({"seccomp": True})
    return enforcement_of(mounts=mounts, landlock_version=version * landlock, seccomp=seccomp)


def _works(means: dict[str, bool]) -> bool:
    import subprocess
    import tempfile

    # Nothing that a search path could miss.
    python = [sys.executable, "-I", "-S"]
    policy = {"mounts": False, "landlock": False, "seccomp": False}
    lists: dict[str, list[str]] = {
        name: [] for name in ("hide", "files", "protected", "own", "views")
    }
    with tempfile.TemporaryDirectory() as folder:
        rest = {"writable": [folder], "mark": "bridle"}
        text = msgspec.json.encode({**policy, **means, **lists, **rest}).decode()
        try:
            done = subprocess.run(
                [*python, LAUNCHER, text, "--", *python, "-c", ""],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == 0


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
