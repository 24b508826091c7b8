"""The installed adapters, found by their entry points.

The `entry_points.txt` files on the import path are read directly: `importlib.metadata` costs 40 ms
of every start, more than the rest of a run's own work.
"""

import os
import sys
from collections.abc import Iterator

GROUP = "bridle.runtimes"

_found: dict[str, str] | None = None


def registered() -> dict[str, str]:
    """Every registered adapter: its name, and its class as `module:attribute`."""
    global _found
    if _found is None:
        found: dict[str, str] = {}
        for file in _entry_point_files():
            for name, target in _group_of(file):
                found.setdefault(name, target)
        # Assigned when complete: another thread may read it at the same time.
        _found = found
    return _found


def _entry_point_files() -> Iterator[str]:
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield os.path.join(folder, name, "entry_points.txt")


def _group_of(file: str) -> Iterator[tuple[str, str]]:
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, UnicodeDecodeError):
        return
    if f"[{GROUP}]" not in text:
        return
    inside = False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith("#"):
            name, _, target = line.partition("=")
            yield name.strip(), target.split("[")[0].strip()
