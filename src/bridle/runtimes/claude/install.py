"""Finding Claude Code on this machine and learning its version without starting it."""

import os
import sys

from bridle.runtimes.dialects import version_numbers
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    package_version,
    remembered_version,
)

PACKAGE = "@anthropic-ai/claude-code"


def find_claude(name: str) -> Installation | None:
    """The CLI that `name` means, None when there is none.

    npm puts a launcher or a copy of the native binary on PATH, the native installer a link whose
    target is named by its version; in each case the native binary is what is started.
    """
    found = find_executable(name)
    if found is None:
        return None
    binary = _native(found)
    version = package_version(binary, PACKAGE) or _version_in_name(binary)
    if version is None:
        version = remembered_version(binary, lambda: ask_version((binary,)))
    return Installation(binary=binary, version=version)


def _native(found: str) -> str:
    """The native binary behind a script launcher of the npm package; else `found` itself."""
    try:
        with open(found, "rb") as file:
            is_script = file.read(2) == b"#!"
    except OSError:
        return found
    if not is_script:
        return found
    folder = os.path.dirname(os.path.realpath(found))
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    for _ in range(4):
        folder, inner = os.path.split(folder)
        for suffix in ("", "-musl"):
            native = os.path.join(folder, f"{inner}-{sys.platform}-{machine}{suffix}", "claude")
            if inner.startswith("claude-code") and os.access(native, os.X_OK):
                return native
    return found


def _version_in_name(binary: str) -> str | None:
    name = os.path.basename(os.path.realpath(binary))
    return name if len(version_numbers(name)) >= 3 else None
