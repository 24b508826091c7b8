"""Runs a command as a user without any rights: root sees files and folders that users do not, and
some agents trust only what root owns.

    python -m tests.support.unprivileged COMMAND…

Started by root, the command gets user and group `USER`, no capabilities, a new home and a new
scratch folder of the tests (`.tmp`), both its own. The rest of the file system is what it is; only
folders that root closes around the project, its Python and the pinned CLIs (such as root's home)
are shown open, in a mount namespace of the command's own. Started by anybody else it only runs the
command.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.clis import PINS, cli_cache

USER = 65534
PROJECT = Path(__file__).parents[2]
_NEW_MOUNTS = 0x00020000
_BIND, _MOVE, _RECURSIVE, _PRIVATE = 4096, 8192, 16384, 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def as_user(*words: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command as a user without rights, in the project's folder; what it said and how it
    ended. It has `seconds`."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.unprivileged", *words],
        cwd=PROJECT,
        env={**os.environ, "BRIDLE_CLI_CACHE": str(cli_cache())},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )


def main(words: list[str]) -> int:
    """Run `words` and return how they ended."""
    if os.geteuid() != 0:
        return subprocess.run(words, check=False).returncode
    scratch = PROJECT / ".tmp"
    scratch.mkdir(exist_ok=True)
    own = scratch / f"user-{os.urandom(6).hex()}"
    own.mkdir()
    os.chown(own, USER, USER)
    try:
        return subprocess.run(words, check=False, preexec_fn=lambda: _become(own)).returncode
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _become(own: Path) -> None:
    """Turn this process into one of the user, whose scratch folder is `own`."""
    _call(_libc.unshare(_NEW_MOUNTS))
    _mount(None, "/", flags=_RECURSIVE | _PRIVATE)
    scratch = PROJECT / ".tmp"
    _mount(own, scratch, flags=_BIND)
    for closed, needed in _closed().items():
        _open(closed, needed)
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    home = scratch / "user-home"
    home.mkdir(mode=0o700)
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "USER": "nobody", "LOGNAME": "nobody"}
    os.environ["BRIDLE_CLI_CACHE"] = str(cli_cache())
    os.chdir(PROJECT)


def _closed() -> dict[Path, list[Path]]:
    """Folders that users cannot enter, each with what the tests need below it."""
    pythons = [cli_cache() / pin.names[1] / "bin" / "python" for pin in PINS if pin.python]
    prefixes = {path.resolve().parents[1] for path in pythons if path.exists()}
    found: dict[Path, list[Path]] = {}
    # The programs too: a search path of the caller's own may be in a folder of root's.
    programs = [Path(each) for each in os.get_exec_path() if os.path.isdir(each)]
    always = (PROJECT, Path(sys.base_prefix), cli_cache(), *programs)
    for needed in {path.resolve() for path in always} | prefixes:
        for folder in reversed(needed.parents):
            if not folder.stat().st_mode & 0o001:
                found.setdefault(folder, []).append(needed)
                break
    return found


def _open(closed: Path, needed: list[Path]) -> None:
    """Show `closed` as a folder that anybody can enter, with nothing in it but what is needed."""
    stage = Path("/mnt")
    _mount("none", stage, kind="tmpfs", flags=0, data="mode=755")
    for each in needed:
        target = stage / each.relative_to(closed)
        target.mkdir(parents=True, exist_ok=True)
        _mount(each, target, flags=_BIND | _RECURSIVE)
    _mount(stage, closed, flags=_MOVE)


def _mount(
    source: Path | str | None, target: Path | str, *, flags: int, kind: str = "", data: str = ""
) -> None:
    words = [os.fsencode(each) if each else None for each in (source, target, kind)]
    _call(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data) or None))


def _call(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
