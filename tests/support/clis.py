"""Installs the pinned real CLIs that tests run, each once, into a cache folder.

The pins are data (`PINS`); the cache is `BRIDLE_CLI_CACHE`, else `~/.cache/bridle/clis`, with one
folder `<name>-<version>` each, complete when it holds a file `.complete`. Standard library, `npm`
and `uv` only. `python -m tests.support.clis` installs everything that is missing; it exits 3 when
the registry refused a package and nothing else went wrong.
"""

import argparse
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ATTEMPTS = 3
INSTALL_SECONDS = 600.0
"""Longest time one call of npm or uv may take."""
LOCK_SECONDS = 3 * INSTALL_SECONDS
"""Longest time to wait for another process that installs the same CLI."""
REFUSED, FAILED = 3, 4
"""Exit statuses: the registry refused a package; an installation failed for another reason."""


class Pin(NamedTuple):
    """One version of one CLI and how it is installed."""

    name: str
    version: str
    packages: tuple[str, ...]
    """npm packages with exact versions, installed the ordinary way."""
    command: str
    """Pattern of the command to start, below the CLI's folder; the first match counts."""
    unpacked: str = ""
    """A package that npm cannot install (a dependency of it is not published): its tarball is
    unpacked below `node_modules` instead."""
    node: str = ""
    """Version of Node that must start it; empty where the command starts by itself."""
    python: str = ""
    """A CLI written in Python: the versions of Python it runs on. Its packages come from the
    Python registry then, into a virtual environment of its own."""

    @property
    def names(self) -> tuple[str, str]:
        """What names this pin: the CLI's name, and the name with the version."""
        return self.name, f"{self.name}-{self.version}"


_CLAUDE = "node_modules/@anthropic-ai/claude-code-*/claude"
_CODEX = "node_modules/@openai/codex-*/vendor/*/*/codex"
_PI = "@earendil-works/pi-coding-agent"

PINS: tuple[Pin, ...] = (
    Pin("aider", "0.86.2", ("aider-chat==0.86.2",), "bin/aider", python=">=3.10,<3.13"),
    Pin("claude", "2.1.197", ("@anthropic-ai/claude-code@2.1.197",), _CLAUDE),
    Pin("claude", "2.1.325", ("@anthropic-ai/claude-code@2.1.325",), _CLAUDE),
    Pin(
        "claude-agent-acp",
        "0.49.0",
        ("@agentclientprotocol/claude-agent-acp@0.49.0",),
        "node_modules/.bin/claude-agent-acp",
    ),
    Pin("cline", "3.0.65", ("cline@3.0.65",), "node_modules/@cline/cli-*/bin/cline"),
    Pin("codex", "0.120.0", ("@openai/codex@0.120.0",), _CODEX),
    Pin("codex", "0.166.0", ("@openai/codex@0.166.0",), _CODEX),
    Pin(
        "codex-acp", "0.16.0", ("@zed-industries/codex-acp@0.16.0",), "node_modules/.bin/codex-acp"
    ),
    Pin(
        "copilot",
        "1.0.102",
        ("@github/copilot@1.0.102",),
        "node_modules/@github/copilot-*/copilot",
    ),
    Pin("gemini", "0.61.0", ("@google/gemini-cli@0.61.0",), "node_modules/.bin/gemini"),
    Pin("node", "22.23.3", ("node@22.23.3",), "node_modules/node/bin/node"),
    Pin("opencode", "1.18.33", ("opencode-ai@1.18.33",), "node_modules/.bin/opencode"),
    Pin("pi", "0.74.2", (f"{_PI}@0.74.2",), "node_modules/.bin/pi"),
    Pin(
        "pi",
        "1.5.0",
        ("jiti@2.7.0", "@silvia-odwyer/photon-node@0.3.4"),
        f"node_modules/{_PI}/dist/bundle/cli.js",
        unpacked=f"{_PI}@1.5.0",
        node="22.23.3",
    ),
)


class RegistryRefused(Exception):
    """The package registry did not give a package, also after retries."""


class InstallFailed(Exception):
    """A CLI could not be installed for a reason that is not the registry's."""


def cli_path(name: str, version: str, say: Callable[[str], None] | None = None) -> Path:
    """The command that starts `name` in `version`, installed first when it is missing.

    Native binaries for claude and codex, the bin script for pi 0.74.2 (it needs Node on PATH), a
    small shell script for a CLI that needs a Node of its own.
    """
    folder = ensure(name, version, say)
    pin = _pin(name, version)
    found = _command_in(folder, pin)
    return _wrapper(found, pin) if pin.node else found


def ensure(name: str, version: str, say: Callable[[str], None] | None = None) -> Path:
    """The folder of an installed CLI; installs it when it is missing.

    Contract: safe to call from many processes at once (one installs, the others wait), leaves
    nothing half-installed, ends in bounded time. Raises `RegistryRefused` or `InstallFailed`.
    """
    pin = _pin(name, version)
    folder = cli_cache() / f"{name}-{version}"
    if _is_whole(folder, pin):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f".{folder.name}.lock"):
        if not _is_whole(folder, pin):
            _install(pin, folder, say or (lambda line: None))
    return folder


def _is_whole(folder: Path, pin: Pin) -> bool:
    """Whether a CLI is installed, and the Python that runs it is still there."""
    runs = not pin.python or (folder / "bin" / "python").exists()
    return runs and (folder / ".complete").exists()


def _pin(name: str, version: str) -> Pin:
    for pin in PINS:
        if (pin.name, pin.version) == (name, version):
            return pin
    raise InstallFailed(f"no pin for {name} {version}")


_START_CACHE = Path(
    os.environ.get("BRIDLE_CLI_CACHE") or Path.home() / ".cache" / "bridle" / "clis"
)
"""Looked up on import: tests run in homes of their own, and must not each install a CLI there."""


def cli_cache() -> Path:
    """The folder of the installed CLIs, which is the user's own even in a test's home."""
    configured = os.environ.get("BRIDLE_CLI_CACHE")
    return Path(configured) if configured else _START_CACHE


def _command_in(folder: Path, pin: Pin) -> Path:
    # Both a launcher's own folder and folders beside the binary may match; the binary is a file.
    found = sorted(path for path in folder.glob(pin.command) if path.is_file())
    if not found:
        raise InstallFailed(f"{pin.name} {pin.version}: no {pin.command} below {folder}")
    return found[0]


def _wrapper(script: Path, pin: Pin) -> Path:
    """A command beside the script that starts it on its own Node.

    It stands inside the package's folder, as the real command does, so that what looks for the
    package's manifest from the command finds it.
    """
    node = cli_path("node", pin.node)
    package = next(parent for parent in script.parents if (parent / "package.json").exists())
    wrapper = package / "bin" / pin.name
    text = f'#!/bin/sh\nexec "{node}" "{script}" "$@"\n'
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=wrapper.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(partial, 0o755)
        os.replace(partial, wrapper)
    return wrapper


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`; waits for another holder, but not for ever."""
    until = time.monotonic() + LOCK_SECONDS
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise InstallFailed(f"another process holds {path} for too long") from None
                time.sleep(0.2)
        yield


def _install(pin: Pin, folder: Path, say: Callable[[str], None]) -> None:
    """Install into a temporary sibling and rename, so that a folder is whole or not there."""
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        if pin.python:
            _install_python(pin, partial, say)
        else:
            (partial / "package.json").write_text('{"private":true}\n')
        if pin.packages and not pin.python:
            _npm_with_retries(["install", *_QUIET, *pin.packages], partial, pin, say)
        if pin.unpacked:
            _unpack(pin, partial, say)
        _command_in(partial, pin)
        (partial / ".complete").touch()
        partial.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _install_python(pin: Pin, folder: Path, say: Callable[[str], None]) -> None:
    """A virtual environment that may be moved, for it is made beside its place."""
    command = uv()
    find = [command, "python", "find", pin.python]
    found = subprocess.run(find, cwd=folder, capture_output=True, text=True, check=False)
    # Not by a link on PATH, which may be gone when the cache is used again.
    base = os.path.realpath(found.stdout.strip()) if found.returncode == 0 else pin.python
    venv = [command, "venv", "--quiet", "--relocatable", "--clear"]
    _with_retries([*venv, "--python", base, str(folder)], folder, pin, say)
    python = str(folder / "bin" / "python")
    _with_retries(
        [command, "pip", "install", "--quiet", "--python", python, *pin.packages], folder, pin, say
    )


def _unpack(pin: Pin, folder: Path, say: Callable[[str], None]) -> None:
    """Put a package's published tarball where npm would have put the package."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        _npm_with_retries(["pack", "--pack-destination", scratch, pin.unpacked], folder, pin, say)
        (tarball,) = Path(scratch).glob("*.tgz")
        with tarfile.open(tarball) as archive:
            archive.extractall(scratch, filter="data")
        target = folder / "node_modules" / pin.unpacked.rpartition("@")[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        (Path(scratch) / "package").rename(target)


_QUIET = ("--no-audit", "--no-fund", "--no-progress", "--save-exact", "--loglevel=error")
_REGISTRY_CODE = re.compile(
    r"npm (?:error|ERR!) code (E4\d\d|E5\d\d|ETARGET|ENOVERSIONS|ENOTFOUND|ECONN\w+|ETIMEDOUT"
    r"|EAI_AGAIN|ERR_SOCKET_TIMEOUT|EINTEGRITY|ENETUNREACH|EHOSTUNREACH|FETCH_ERROR|UND_\w+)"
)
_UV_REFUSAL = re.compile(
    r"(Failed to (?:fetch|download)|error sending request|not found in the package registry"
    r"|No interpreter found|no version of \S+ )"
)


def uv() -> str:
    """The `uv` of the environment that runs the tests, a development dependency like pytest:
    neither PATH nor the caller's home decides whether it is found."""
    return os.path.join(os.path.dirname(sys.executable), "uv")


def _npm_with_retries(args: list[str], cwd: Path, pin: Pin, say: Callable[[str], None]) -> None:
    _with_retries([_tool("npm"), *args], cwd, pin, say)


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise InstallFailed(f"{name} was not found on PATH; the tests' CLIs come from its registry")
    return found


def _with_retries(command: list[str], cwd: Path, pin: Pin, say: Callable[[str], None]) -> None:
    what = f"{os.path.basename(command[0])} {command[1]}"
    for attempt in range(1, ATTEMPTS + 1):
        say(f"{pin.name} {pin.version}: {what}, attempt {attempt} of {ATTEMPTS}")
        refusal = _run(command, cwd)
        if refusal is None:
            return
        if attempt < ATTEMPTS:
            time.sleep(2.0**attempt)
    raise RegistryRefused(f"{pin.name} {pin.version}: the registry refused: {refusal}")


def _run(command: list[str], cwd: Path) -> str | None:
    """Run npm or uv; None when it did its work, else how the registry refused. Other failures
    raise."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {INSTALL_SECONDS:g} s"
    if done.returncode == 0:
        return None
    code = _REGISTRY_CODE.search(done.stderr) or _UV_REFUSAL.search(done.stderr)
    if code is None:
        what = f"{os.path.basename(command[0])} {command[1]}"
        raise InstallFailed(f"{what} exited {done.returncode}: {done.stderr[-800:]}")
    return code[1]


def main(argv: list[str] | None = None) -> int:
    """Install the named CLIs (`claude`, or `claude-2.1.325`), all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.clis", description=__doc__)
    parser.add_argument("names", nargs="*", help="claude, codex, pi, or NAME-VERSION")
    names = set(parser.parse_args(argv).names)
    known = {name for pin in PINS for name in pin.names}
    if unknown := sorted(names - known):
        parser.error(f"no pinned CLI: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    wanted = [pin for pin in PINS if not names or names.intersection(pin.names)]
    # Most of an installation is waiting for the registry.
    with ThreadPoolExecutor(max_workers=4) as pool:
        return max(pool.map(_installed, wanted))


def _installed(pin: Pin) -> int:
    """Install one CLI and say so; the exit status it asks for."""
    label = pin.names[1]
    try:
        _say(f"{label}: {cli_path(pin.name, pin.version, _say)}")
    except RegistryRefused as problem:
        _say(f"{label}: REFUSED: {problem}")
        return REFUSED
    except InstallFailed as problem:
        _say(f"{label}: FAILED: {problem}")
        return FAILED
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
