"""Runs the examples of a documentation page as a reader would: top to bottom, in one shell.

What a page may use:

- `sh` and `python` blocks run. A Python block is a program of its own; a shell block runs in bash,
  and its working directory and exported variables hold for the blocks after it.
- A block whose first line is a comment that names a file (`# play.yaml`) is saved under that name.
  Python saved so is run as that file.
- A `text` block right after a block that runs is what the reader sees: of a shell block its
  terminal, of a Python block its stdout. `…` stands for text that differs from run to run.

A block that fails, or prints something else, fails the page. Blocks of any other language are not
examples: `text` alone, `json`, and `console` for what a page only shows.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LIMIT = 60.0
"""Seconds that one block may take."""
COLUMNS = 100
"""How wide the reader's terminal is."""

_FENCE = re.compile(r"^(`{3,})(\w*)[^\n]*\n(.*?)^\1[ \t]*$\n?", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.[\w-]+)$")
_RUNS = ("sh", "python")
_PROGRAM_OF_SHELL = """
set -eo pipefail
{code}
pwd > "$PAGE_STATE/cwd"
env -0 > "$PAGE_STATE/env"
"""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One fenced block of a page."""

    line: int
    language: str
    text: str
    shown: str | None = None
    """What it must print; None when the page does not show that."""

    @property
    def file(self) -> str | None:
        """The name that it is saved under."""
        named = _FILE.match(self.text.split("\n", 1)[0])
        return named.group(1) if named else None

    @property
    def runs(self) -> bool:
        """Whether it is an example that runs."""
        return self.language in _RUNS


def pages() -> list[Path]:
    """Every page that a reader sees."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, each with the output that is shown right after it."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    blocks = []
    for number, match in enumerate(found):
        after = found[number + 1] if number + 1 < len(found) else None
        shown = None
        follows = after is not None and not text[match.end() : after.start()].strip()
        if after is not None and follows and after.group(2) == "text":
            shown = after.group(3)
        line = text.count("\n", 0, match.start()) + 1
        blocks.append(Block(line=line, language=match.group(2), text=match.group(3), shown=shown))
    return blocks


def examples() -> Iterator[Path]:
    """The pages that have something to run."""
    for page in pages():
        if any(block.runs for block in blocks_of(page)):
            yield page


def run_page(page: Path, *, folder: Path, env: Mapping[str, str]) -> None:
    """Run the page's examples in `folder`; fails at the first that does otherwise than it says."""
    state = folder.parent / "page-state"
    state.mkdir()
    shell = _Shell(cwd=folder, env=dict(env), state=state)
    for block in blocks_of(page):
        where = f"{page.name}:{block.line}"
        if block.file is not None:
            target = shell.cwd / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        if block.runs:
            shell.run(block, where)


class _Shell:
    """The shell of one reader: a working directory and variables that blocks change."""

    def __init__(self, *, cwd: Path, env: dict[str, str], state: Path) -> None:
        self.cwd = cwd
        self._env = env
        self._state = state

    def run(self, block: Block, where: str) -> None:
        if block.language == "python":
            status, printed, beside = self._program(block)
        else:
            status, printed = self._at_terminal(_PROGRAM_OF_SHELL.format(code=block.text))
            beside = ""
        details = f"\n{block.text}--- printed\n{printed}--- stderr\n{beside}"
        assert status == 0, f"{where}: exit status {status}{details}"
        if block.shown is not None:
            assert fits(printed, block.shown), f"{where}: it must print\n{block.shown}{details}"
        if block.language == "sh":
            self.cwd = Path((self._state / "cwd").read_text().rstrip("\n"))
            pairs = (self._state / "env").read_text().split("\0")
            self._env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)

    def _program(self, block: Block) -> tuple[int, str, str]:
        """Run a Python block: its exit status, stdout and stderr."""
        done = subprocess.run(
            [sys.executable, *([block.file] if block.file else ["-c", block.text])],
            cwd=self.cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def _at_terminal(self, program: str) -> tuple[int, str]:
        """Run a shell program whose output is a terminal: its exit status and what is then seen."""
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, COLUMNS))
        process = subprocess.Popen(
            ["bash", "-c", program],
            cwd=self.cwd,
            env=self._env | {"PAGE_STATE": str(self._state), "TERM": "xterm", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        until, read = time.monotonic() + LIMIT, b""
        try:
            while select.select([master], [], [], max(0.0, until - time.monotonic()))[0]:
                try:
                    more = os.read(master, 65536)
                except OSError:  # Linux's way to say that nobody writes any more
                    break
                if not more:
                    break
                read += more
            else:
                os.killpg(process.pid, signal.SIGKILL)
            return process.wait(timeout=LIMIT), _seen(read.decode())
        finally:
            os.close(master)


def _seen(text: str) -> str:
    """What a terminal shows in the end: a line that was drawn again is seen once,
    colours are not part of it."""
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", text)
    lines = [line.rsplit("\r", 1)[-1] for line in plain.split("\r\n")]
    return "\n".join(lines)


def fits(printed: str, shown: str) -> bool:
    """Whether what was printed is what a page shows, `…` standing for any text on its line."""
    pattern = "[^\n]*".join(re.escape(part) for part in shown.split("…"))
    return re.fullmatch(pattern, printed) is not None
