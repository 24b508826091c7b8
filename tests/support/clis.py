"""Installs the pinned real CLIs that tests run, each once, into a cache folder.

The pins are data (`PINS`), and `release` makes one for any other release. The cache is
`BRIDLE_CLI_CACHE`, else `~/.cache/bridle/clis`, with one folder `<name>-<version>` each, complete
when it holds a file `.complete`. Standard library, `npm` and `uv` only. `python -m
tests.support.clis` installs every pin that is missing; it exits 3 when the registry refused a
package and nothing else went wrong.
"""

import argparse
import contextlib
import fcntl
import json
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


class Recipe(NamedTuple):
    """How the releases of one CLI are installed, whatever their version."""

    packages: tuple[str, ...]
    """The packages it was published as, the present one first."""
    commands: tuple[str, ...]
    """Patterns of the command to start, below the CLI's folder, the best first: native programs
    before the launcher in front of them, which older releases do not need."""
    python: str = ""
    """A CLI written in Python: the versions of Python it runs on. Its packages come from the
    Python registry then, into a virtual environment of its own."""
    bundle: str = ""
    """The command inside the published package where a release brings its dependencies in one
    file; such a release is unpacked, since not all that it declares is published."""
    beside: tuple[str, ...] = ()
    """The packages that such a bundle loads all the same."""


_PI = "@earendil-works/pi-coding-agent"

RECIPES: dict[str, Recipe] = {
    "aider": Recipe(("aider-chat",), ("bin/aider",), python=">=3.10,<3.13"),
    "claude": Recipe(
        ("@anthropic-ai/claude-code",),
        ("node_modules/@anthropic-ai/claude-code-*/claude", "node_modules/.bin/claude"),
    ),
    "claude-agent-acp": Recipe(
        (
            "@agentclientprotocol/claude-agent-acp",
            "@zed-industries/claude-agent-acp",
            "@zed-industries/claude-code-acp",
        ),
        ("node_modules/.bin/claude-agent-acp", "node_modules/.bin/claude-code-acp"),
    ),
    "cline": Recipe(("cline",), ("node_modules/@cline/cli-*/bin/cline", "node_modules/.bin/cline")),
    "codex": Recipe(
        ("@openai/codex",),
        ("node_modules/@openai/codex-*/vendor/*/*/codex", "node_modules/.bin/codex"),
    ),
    "codex-acp": Recipe(
        ("@agentclientprotocol/codex-acp", "@zed-industries/codex-acp"),
        ("node_modules/.bin/codex-acp",),
    ),
    "copilot": Recipe(
        ("@github/copilot",),
        ("node_modules/@github/copilot-*/copilot", "node_modules/.bin/copilot"),
    ),
    "gemini": Recipe(("@google/gemini-cli",), ("node_modules/.bin/gemini",)),
    "node": Recipe(("node",), ("node_modules/node/bin/node",)),
    "opencode": Recipe(
        ("opencode-ai",),
        # Older releases link to where they were unpacked, which is another folder then.
        ("node_modules/.bin/opencode", "node_modules/opencode-*/bin/opencode"),
    ),
    "pi": Recipe(
        (_PI, "@mariozechner/pi-coding-agent"),
        ("node_modules/.bin/pi",),
        bundle="dist/bundle/cli.js",
        beside=("jiti@2.7.0", "@silvia-odwyer/photon-node@0.3.4"),
    ),
}


class Pin(NamedTuple):
    """One version of one CLI and how it is installed."""

    name: str
    version: str
    packages: tuple[str, ...]
    """Packages with exact versions, installed the ordinary way."""
    commands: tuple[str, ...]
    """Patterns of the command to start, below the CLI's folder; the first match counts."""
    unpacked: str = ""
    """A package that npm cannot install (a dependency of it is not published): its tarball is
    unpacked below `node_modules` instead."""
    node: str = ""
    """Version of Node that must start it where it is a script; empty for the one on PATH."""
    python: str = ""
    """The versions of Python that a CLI written in Python runs on."""

    @property
    def names(self) -> tuple[str, str]:
        """What names this pin: the CLI's name, and the name with the version."""
        return self.name, f"{self.name}-{self.version}"


def release(
    name: str,
    version: str,
    package: str = "",
    *,
    node: str = "",
    bundled: bool = False,
    beside: tuple[str, ...] = (),
) -> Pin:
    """The pin of any release of a CLI, published as `package` (as the present one by default).

    `bundled` says that the release is one file with its dependencies inside, `beside` names
    packages of exact versions that are installed with it.
    """
    recipe = RECIPES[name]
    package = package or recipe.packages[0]
    if recipe.python:
        pinned = (f"{package}=={version}",)
        return Pin(name, version, pinned, recipe.commands, python=recipe.python)
    exact = f"{package}@{version}"
    if bundled and recipe.bundle:
        command = f"node_modules/{package}/{recipe.bundle}"
        return Pin(name, version, recipe.beside, (command,), unpacked=exact, node=node)
    return Pin(name, version, (exact, *beside), recipe.commands, node=node)


NODE = "22.23.3"
"""The Node for CLIs that need a newer one than the machine's."""

PINS: tuple[Pin, ...] = (
    release("aider", "0.86.2"),
    release("claude", "2.1.197"),
    release("claude", "2.1.325"),
    release("claude-agent-acp", "0.49.0"),
    release("cline", "3.0.65"),
    release("codex", "0.120.0"),
    release("codex", "0.166.0"),
    release("codex-acp", "0.16.0", "@zed-industries/codex-acp"),
    release("copilot", "1.0.102"),
    release("gemini", "0.61.0"),
    release("node", NODE),
    release("opencode", "1.18.33"),
    release("pi", "0.74.2"),
    release("pi", "1.5.0", node=NODE, bundled=True),
)


class RegistryRefused(Exception):
    """The package registry did not give a package, also after retries."""


class InstallFailed(Exception):
    """A CLI could not be installed for a reason that is not the registry's."""


def cli_path(name: str, version: str, say: Callable[[str], None] | None = None) -> Path:
    """The command that starts the pinned `name` in `version`, installed first when it is missing.

    Native binaries for claude and codex, the bin script for pi 0.74.2 (it needs Node on PATH), a
    small shell script for a CLI that needs a Node of its own.
    """
    return installed(_pin(name, version), say)


def installed(pin: Pin, say: Callable[[str], None] | None = None) -> Path:
    """`cli_path` for any pin, which need not be one of `PINS`."""
    found = _command_in(_ensured(pin, say), pin)
    return _wrapper(found, pin) if pin.node and _is_script(found) else found


def ensure(name: str, version: str, say: Callable[[str], None] | None = None) -> Path:
    """The folder of an installed CLI; installs it when it is missing.

    Contract: safe to call from many processes at once (one installs, the others wait), leaves
    nothing half-installed, ends in bounded time. Raises `RegistryRefused` or `InstallFailed`.
    """
    return _ensured(_pin(name, version), say)


def _ensured(pin: Pin, say: Callable[[str], None] | None) -> Path:
    folder = cli_cache() / f"{pin.name}-{pin.version}"
    if _is_whole(folder, pin):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{folder.name}.lock"):
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
    for pattern in pin.commands:
        # Both a launcher's own folder and folders beside the binary may match; the binary is a
        # file.
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if found:
            return found[0]
    wanted = " or ".join(pin.commands)
    raise InstallFailed(f"{pin.name} {pin.version}: no {wanted} below {folder}")


def _is_script(command: Path) -> bool:
    """Whether Node runs the command: it is text, not a native program."""
    with command.open("rb") as file:
        first = file.readline(200)
    return command.suffix in (".js", ".mjs", ".cjs") or (first[:2] == b"#!" and b"node" in first)


def _wrapper(script: Path, pin: Pin) -> Path:
    """A command beside the script that starts it on its own Node.

    It stands inside the package's folder, as the real command does, so that what looks for the
    package's manifest from the command finds it.
    """
    node = installed(release("node", pin.node))
    script = script.resolve()
    package = next(parent for parent in script.parents if (parent / "package.json").exists())
    wrapper = package / "bin" / pin.name
    if wrapper == script:
        wrapper = wrapper.with_name(f"{pin.name}-on-node")
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
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`; waits for another holder, but not for ever, then raises
    `InstallFailed`."""
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
        _check_native(pin, partial)
        _command_in(partial, pin)
        (partial / ".complete").touch()
        partial.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_native(pin: Pin, folder: Path) -> None:
    """Refuse a release whose native program for this machine is not there: npm leaves out optional
    packages that the registry does not have, and the launcher then has nothing to start."""
    machine = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x64"
    platform = f"{sys.platform}-{machine}"
    for exact in () if pin.python else pin.packages:
        path = folder / "node_modules" / exact.rpartition("@")[0] / "package.json"
        manifest = json.loads(path.read_text()) if path.exists() else {}
        for name, wanted in manifest.get("optionalDependencies", {}).items():
            native = name.endswith(platform) and pin.version in wanted
            if native and not (folder / "node_modules" / name).exists():
                raise RegistryRefused(f"{pin.name} {pin.version}: the registry has no {name}")


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
_FINAL = ("E404", "ETARGET", "ENOVERSIONS")
"""What a registry answers that does not have the package, today or in a minute."""
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
        if refusal in _FINAL:
            break
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
