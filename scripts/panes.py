"""Classifies every captured screen of every agent and prints the table of rights and wrongs.

`python scripts/panes.py [FOLDER]…` looks at the captures beside the runtimes, and at those in more
folders with a folder for each runtime. What each capture shows is in `tests/runtimes/panes.json`,
written by hand from the capture. Exit 1 when one is taken for something else, has no entry, or has
an entry and is not there.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridle.core.results import Busy, Dialog, ReadyState
from bridle.runtimes.registry import get_adapter

ROOT = Path(__file__).parents[1]
RUNTIMES = ROOT / "src" / "bridle" / "runtimes"
EXPECTED = ROOT / "tests" / "runtimes" / "panes.json"
PATTERNS = ("panes/*.txt", "tui/*.txt", "*/tui/*.txt", "tui-*.txt")


class Row(NamedTuple):
    """One capture: what it shows, and what its runtime takes it for."""

    capture: str
    expected: str
    got: str

    @property
    def right(self) -> bool:
        """Whether it was taken for what it shows."""
        return self.expected == self.got


def label(state: ReadyState) -> str:
    """A state in words."""
    match state:
        case Dialog(name=name, action=action):
            return f"dialog {name}: {action or 'no key'}"
        case Busy(what=what):
            return f"busy: {what}"
    return type(state).__name__.lower()


def expectations() -> dict[str, dict[str, str | None]]:
    """By runtime and capture: what it shows; None for a file that is no screen."""
    return msgspec.json.decode(EXPECTED.read_bytes(), type=dict[str, dict[str, str | None]])


def captures(folder: Path) -> list[Path]:
    """The captured screens below the folder of one runtime."""
    return sorted(path for pattern in PATTERNS for path in folder.glob(pattern))


def own_rows() -> Iterator[Row]:
    """The captures that come with the runtimes, and entries whose capture is missing."""
    for runtime, expected in expectations().items():
        folder = RUNTIMES / runtime / "testdata"
        names = {str(path.relative_to(folder)) for path in captures(folder)}
        for name in sorted(names | set(expected)):
            wanted = expected.get(name, "?")
            if wanted is not None:
                got = _got(runtime, folder / name) if name in names else "not there"
                yield Row(f"{runtime}/{name}", wanted, got)
    for folder in sorted(RUNTIMES.glob("*/testdata")):
        if folder.parent.name not in expectations():
            for path in captures(folder):
                yield Row(str(path.relative_to(RUNTIMES)), "?", _got(folder.parent.name, path))


def other_rows(root: Path) -> Iterator[Row]:
    """The captures of another folder; each must be one of ours, byte for byte."""
    ours = {
        (runtime, path.read_bytes()): expected.get(str(path.relative_to(folder)), "?")
        for runtime, expected in expectations().items()
        for folder in [RUNTIMES / runtime / "testdata"]
        for path in captures(folder)
    }
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for path in captures(folder):
            wanted = ours.get((folder.name, path.read_bytes()), "?")
            if wanted is not None:
                yield Row(str(path.relative_to(root)), wanted, _got(folder.name, path))


def _got(runtime: str, path: Path) -> str:
    return label(get_adapter(runtime).detect_ready(path.read_text()))


def table(rows: list[Row]) -> str:
    """The rows with a head and the totals."""
    head = Row("capture", "expected", "got")
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(3)]
    lines = []
    for row in (head, *rows):
        cells = "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
        lines.append(f"{cells}  {'right' if row is head else 'yes' if row.right else 'NO'}")
    wrong = sum(not row.right for row in rows)
    return "\n".join([*lines, f"{len(rows)} captures: {len(rows) - wrong} right, {wrong} wrong"])


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="more captures, by runtime")
    args = parser.parse_args(argv)
    rows = [*own_rows(), *(row for folder in args.folders for row in other_rows(folder))]
    sys.stdout.write(table(rows) + "\n")
    return 0 if all(row.right for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
