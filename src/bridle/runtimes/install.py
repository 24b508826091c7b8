"""Finding an agent's CLI on this machine and learning its version without starting it twice."""

import os
import stat
import sys
from collections.abc import Callable

import msgspec

from bridle.core import structs
from bridle.core.files import cached_text


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """A CLI that was found."""

    binary: str
    """The program to start: the native binary, if npm installed a launcher for one."""
    version: str | None
    launcher: tuple[str, ...] = ()
    """Words to put before the binary (an interpreter), when it cannot be started by itself."""

    @property
    def command(self) -> tuple[str, ...]:
        """The words that start it."""
        return (*self.launcher, self.binary)


def find_executable(name: str, path: str | None = None) -> str | None:
    """The executable file that `name` means: itself when it is a path, else the first on PATH."""
    if os.sep in name:
        candidate = os.path.abspath(os.path.expanduser(name))
        return candidate if _is_executable(candidate) else None
    for folder in (path if path is not None else os.environ.get("PATH", "")).split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if _is_executable(candidate):
            return os.path.abspath(candidate)
    return None


def _is_executable(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and os.access(path, os.X_OK)


def package_version(binary: str, package: str) -> str | None:
    """The version that the npm package around `binary` declares, None outside such a package.

    Walks up from the real file to the first `package.json` whose name starts with `package`, so
    that nothing has to be started to learn a version.
    """
    folder = os.path.dirname(os.path.realpath(binary))
    for _ in range(8):
        try:
            with open(os.path.join(folder, "package.json"), "rb") as file:
                manifest = structs.decode(file.read(), _Manifest)
        except (OSError, msgspec.MsgspecError):
            manifest = _Manifest()
        if manifest.name.startswith(package) and manifest.version:
            return manifest.version
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return None


class _Manifest(msgspec.Struct):
    name: str = ""
    version: str = ""


def find_npm_cli(wanted: str, *packages: str) -> Installation | None:
    """The CLI that `wanted` means, a script that starts by itself; its version from the first of
    the `packages` that it is part of, otherwise from the CLI itself."""
    binary = find_executable(wanted)
    return None if binary is None else npm_installation(binary, *packages)


def npm_installation(binary: str, *packages: str) -> Installation:
    """`find_npm_cli` for a program that was found."""
    for package in packages:
        version = package_version(binary, package)
        if version is not None:
            return Installation(binary=binary, version=version)
    version = remembered_version(binary, lambda: ask_version((binary,)))
    return Installation(binary=binary, version=version)


def find_native_cli(wanted: str, native: str, *packages: str) -> Installation | None:
    """`find_npm_cli` for a CLI that is a native program: the program itself, not npm's launcher,
    because a signal kills only the launcher and leaves the program running. `native` as in
    `native_program`."""
    found = find_executable(wanted)
    if found is None:
        return None
    return npm_installation(native_program(found, native) or found, *packages)


_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def npm_platform() -> str:
    """npm's name for this kind of machine, as in the names of packages with native programs."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    return f"{system}-{_MACHINES.get(os.uname().machine, 'x64')}"


def native_program(launcher: str, inside: str) -> str | None:
    """The native program behind an npm launcher; None if there is none.

    `inside` is its path below `node_modules`, with `{platform}` for npm's name of this machine; the
    folders around the launcher are searched from the inside out.
    """
    wanted = inside.format(platform=npm_platform())
    folder = os.path.dirname(os.path.realpath(launcher))
    for _ in range(8):
        candidate = os.path.join(folder, "node_modules", wanted)
        if _is_executable(candidate):
            return candidate
        folder = os.path.dirname(folder)
    return None


def remembered_version(binary: str, ask: Callable[[], str | None]) -> str | None:
    """The version of `binary`, asked once for each change of the file and then cached.

    When the user's cache file cannot be read or written, the CLI is asked each time. `ask` starts
    the CLI and may take long; it returns None when it finds no version.
    """
    try:
        found = os.stat(binary)
    except OSError:
        return None
    return cached_text(f"{os.path.realpath(binary)}:{found.st_mtime_ns}:{found.st_size}", ask)


def ask_version(command: tuple[str, ...], *, timeout: float = 20.0) -> str | None:
    """What `command --version` says, from either stream; None when it fails or says no number."""
    import subprocess

    try:
        done = subprocess.run(
            (*command, "--version"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for word in (done.stdout + b" " + done.stderr).decode(errors="replace").split():
        bare = word.strip("(),v")
        if bare[:1].isdigit() and "." in bare:
            return bare
    return None
