"""What this machine can enforce, tried for real and not guessed from version numbers."""

import subprocess
import sys
import tempfile
from functools import cache

import msgspec

from bridle.sandbox import launcher


class Enforcement(msgspec.Struct, frozen=True, kw_only=True):
    """Which means are in force, and what stays open without the others."""

    mounts: bool
    landlock: bool
    landlock_version: int
    seccomp: bool
    gaps: tuple[str, ...]

    @property
    def holds_writes(self) -> bool:
        """Whether writing outside is refused at all; without it there is no sandbox."""
        return self.mounts or (self.landlock and self.landlock_version >= 3)


@cache
def preflight() -> Enforcement:
    """Try each means in a child process and tell which worked. Remembered for this process."""
    if sys.platform != "linux":
        return Enforcement(
            mounts=False,
            landlock=False,
            landlock_version=0,
            seccomp=False,
            gaps=(f"no sandbox on {sys.platform}: only the guard holds",),
        )
    version = launcher.landlock_version()
    mounts = _works({"mounts": True})
    landlock = version > 0 and _works({"landlock": True})
    seccomp = _works({"seccomp": True})
    return enforcement_of(mounts=mounts, landlock_version=version * landlock, seccomp=seccomp)


def enforcement_of(*, mounts: bool, landlock_version: int, seccomp: bool) -> Enforcement:
    """The means that work, with the gaps that the missing ones leave."""
    gaps = []
    if not mounts:
        gaps.append("no user namespaces: mode, owner and times outside can be changed")
    if not mounts and landlock_version < 3:
        gaps.append("no Landlock of ABI 3: writing outside is not held")
    if not seccomp:
        gaps.append("no seccomp filter: Unix sockets (tmux, docker, ssh-agent) can be reached")
    return Enforcement(
        mounts=mounts,
        landlock=landlock_version > 0,
        landlock_version=landlock_version,
        seccomp=seccomp,
        gaps=tuple(gaps),
    )


def _works(means: dict[str, bool]) -> bool:
    policy = {"mounts": False, "landlock": False, "seccomp": False, "hide": [], "files": []}
    with tempfile.TemporaryDirectory() as folder:
        text = msgspec.json.encode({**policy, **means, "writable": [folder]}).decode()
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", launcher.__file__, text, "--", "true"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == 0
