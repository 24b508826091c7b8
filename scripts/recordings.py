"""Records commands at a terminal and draws the recordings as animated SVG.

`python scripts/recordings.py record [NAME]…` runs the commands and keeps what a person sees, with
its time, as `docs/assets/NAME.cast` (asciicast v2). `python scripts/recordings.py draw` makes
`NAME.svg` of every cast, the same bytes each time; a test fails when one is out of date. The real
agent runs in its pinned version on the scripted model, offline.
"""

import argparse
import html
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
COLUMNS, ROWS = 100, 26
LIMIT = 120.0
"""Seconds that a recording may take."""
LEAST, MOST = 0.12, 1.5
"""Seconds between two lines of the picture: long enough to read, without long pauses."""
REST = 4.0
"""Seconds that the last screen stays before the picture starts again."""

Chunk = tuple[float, str]


# Recording


class Command(NamedTuple):
    """What is recorded: the line a person types, what really runs, where, and with what answers."""

    shown: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    replaced: dict[str, str]
    """Folders of this machine, and what stands in their place."""
    question: str = ""
    answers: Sequence[str] = ()


@contextmanager
def demo() -> Iterator[Command]:
    """`bridle demo`."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": folder,
            "TMPDIR": folder,
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        replaced = {rf"{re.escape(folder)}/bridle-demo-\w+": "/tmp/demo"}
        yield Command("bridle demo", ["bridle", "demo"], folder, env, replaced)


@contextmanager
def claude() -> Iterator[Command]:
    """A run of Claude Code that asks before it changes a file."""
    sys.path.insert(0, str(ROOT))
    from tests.sandbox.bench import bench
    from tests.support.permission_run import environment
    from tests.support.real_cli import real_cli, versions

    from bridle.testing import ScriptedModel

    script = [
        {"text": "I run the test first.", "shell": "sh test.sh"},
        {"text": "`add` subtracts. I fix that.", "shell": "sed -i 's/-/+/' add.sh"},
        {"text": "And again.", "shell": "sh test.sh"},
        {"text": "The test passes now: `add.sh` used a minus sign."},
    ]
    binary = real_cli("claude", versions("claude")[-1])
    prompt = "Fix the failing test"
    with bench() as place, ScriptedModel(script) as model:
        (place.worktree / "add.sh").write_text('echo "$(($1 - $2))"\n')
        (place.worktree / "test.sh").write_text('test "$(sh add.sh 1 2)" = 3 && echo ok\n')
        env = environment(place, model, "claude", binary)
        del env["NO_COLOR"]
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        argv = ["bridle", "run", prompt, "--runtime", "claude"]
        yield Command(
            f'bridle run "{prompt}" --runtime claude',
            argv,
            str(place.worktree),
            env,
            {re.escape(str(place.worktree)): "/repo"},
            question="Allow it?",
            answers=("y", "a"),
        )


RECORDINGS: dict[str, Callable[[], AbstractContextManager[Command]]] = {
    "demo": demo,
    "claude": claude,
}


def record(name: str) -> None:
    """Run a command at a terminal, and write its cast."""
    with RECORDINGS[name]() as command:
        chunks, status = _played(command)
    if status != 0:
        raise SystemExit(f"{name}: exit status {status}\n" + "".join(text for _, text in chunks))
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": command.shown}
    lines = [json.dumps(header)]
    for at, text in [(0.0, f"$ {command.shown}\r\n"), *_without_folders(chunks, command.replaced)]:
        lines.append(json.dumps([round(at, 2), "o", text], ensure_ascii=False))
    ASSETS.mkdir(exist_ok=True)
    (ASSETS / f"{name}.cast").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _played(command: Command) -> tuple[list[Chunk], int]:
    """What the command printed, with the seconds since its start, and its exit status."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (ROWS, COLUMNS))
    process = subprocess.Popen(
        command.argv,
        cwd=command.cwd,
        env=command.env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    start, answers, seen = time.monotonic(), list(command.answers), ""
    chunks: list[Chunk] = []
    while time.monotonic() - start < LIMIT:
        ready, _, _ = select.select([master], [], [], 1.0)
        if not ready:
            continue
        try:
            text = os.read(master, 65536).decode(errors="replace")
        except OSError:
            break
        chunks.append((time.monotonic() - start + 0.5, text))
        seen += text
        if answers and command.question in seen:
            time.sleep(0.8)  # as a person would
            os.write(master, f"{answers.pop(0)}\n".encode())
            seen = ""
    else:
        process.kill()
    os.close(master)
    return chunks, process.wait()


def _without_folders(chunks: list[Chunk], replaced: dict[str, str]) -> list[Chunk]:
    """The chunks, line by line, with the folders of this machine replaced."""
    lines: list[Chunk] = []
    rest = ""
    for at, text in chunks:
        *whole, rest = (rest + text).split("\n")
        lines += [(at, f"{line}\n") for line in whole]
    if rest:
        lines.append((chunks[-1][0], rest))
    cleaned = []
    for at, text in lines:
        for folder, name in replaced.items():
            text = re.sub(folder, name, text)
        cleaned.append((at, text))
    return cleaned


# Drawing

_ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
_COLOURS = ("#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3")
CELL, LINE, PAD, BAR = 8.45, 19, 16, 34
FONTS = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"


def draw(cast: str) -> str:
    """The animated picture of a cast: its lines appear at their time, the screen scrolls."""
    header, *events = [json.loads(line) for line in cast.splitlines()]
    lines = _lines([(at, text) for at, _, text in events], header["width"])
    moments = _moments([at for at, _ in lines])
    total = moments[-1] + REST
    rows = min(header["height"], len(lines))
    width, height = header["width"] * CELL + 2 * PAD, rows * LINE + BAR + 2 * PAD
    shift = max(0, len(lines) - rows)
    styles = [_appearing(number, at / total) for number, at in enumerate(moments)]
    if shift:
        steps = [(moments[rows + step], step + 1) for step in range(shift)]
        styles.append(_scrolling(steps, total))
    texts = "\n".join(
        f'<text class="l" id="l{number}" xml:space="preserve" y="{(number + 1) * LINE - 5}">'
        f"{_spans(text)}</text>"
        for number, (_, text) in enumerate(lines)
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>{html.escape(header["title"])}</title>
<style>
text {{ fill: #e6edf3; white-space: pre; }}
@media (prefers-reduced-motion: no-preference) {{
  .l, #screen {{ animation-duration: {total:.2f}s; animation-iteration-count: infinite; }}
  .l {{ animation-timing-function: step-end; }}
  #screen {{ animation-timing-function: step-end; }}
{chr(10).join(styles)}
}}
</style>
<rect width="{width:g}" height="{height:g}" rx="10" fill="#0d1117"/>
<circle cx="22" cy="18" r="6" fill="#ff5f57"/>
<circle cx="42" cy="18" r="6" fill="#febc2e"/>
<circle cx="62" cy="18" r="6" fill="#28c840"/>
<svg x="{PAD}" y="{BAR}" width="{width - 2 * PAD:g}" height="{rows * LINE + PAD / 2:g}">
<g id="screen" transform="translate(0 {-shift * LINE})" font-size="14" font-family="{FONTS}">
{texts}
</g>
</svg>
</svg>
"""


def _lines(events: list[Chunk], width: int) -> list[Chunk]:
    """What a terminal shows in the end, line by line, with the moment each line was complete."""
    lines: list[Chunk] = []
    line, last = "", 0.0
    for at, text in events:
        last = at
        *whole, line = (line + text).split("\n")
        for each in whole:
            lines += [(at, part) for part in _wrapped(_shown(each), width)]
    if _shown(line).strip():
        lines += [(last, part) for part in _wrapped(_shown(line), width)]
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    """A line in pieces of at most `width` characters; each begins in the style that holds there."""
    pieces, piece, used, style, position = [], "", 0, "", 0
    while position < len(line):
        escape = _ESCAPE.match(line, position)
        if escape:
            piece += escape[0]
            style = "" if escape[1] in ("", "0", "22", "39") else style + escape[0]
            position = escape.end()
            continue
        if used == width:
            pieces.append(piece)
            piece, used = style, 0
        piece += line[position]
        used += 1
        position += 1
    return [*pieces, piece]


def _shown(line: str) -> str:
    """A line without what was drawn over, its colours kept."""
    line = line.rstrip("\r").rsplit("\r", 1)[-1]
    return _ESCAPE.sub(lambda found: found[0] if found[2] == "m" else "", line)


def _moments(times: list[float]) -> list[float]:
    """When each line appears in the picture."""
    moments, before, now = [], 0.0, 0.3
    for at in times:
        now += min(MOST, max(LEAST, at - before))
        before = at
        moments.append(now)
    return moments


def _appearing(number: int, share: float) -> str:
    return (
        f"  #l{number} {{ animation-name: k{number}; }} "
        f"@keyframes k{number} {{ 0% {{ opacity: 0 }} {share:.3%} {{ opacity: 1 }} }}"
    )


def _scrolling(steps: list[tuple[float, int]], total: float) -> str:
    frames = " ".join(
        f"{at / total:.3%} {{ transform: translate(0, {-rows * LINE}px) }}" for at, rows in steps
    )
    start = "0% { transform: translate(0, 0) }"
    return f"  #screen {{ animation-name: up; }} @keyframes up {{ {start} {frames} }}"


def _spans(line: str) -> str:
    """A line as SVG text, with a span for each stretch of one style."""
    parts, style, position = [], "", 0
    for found in [*_ESCAPE.finditer(line), None]:
        text = line[position : found.start() if found else len(line)]
        if text:
            escaped = html.escape(text, quote=False)
            parts.append(f'<tspan style="{style}">{escaped}</tspan>' if style else escaped)
        if found:
            style, position = _style(style, found[1]), found.end()
    return "".join(parts)


def _style(style: str, codes: str) -> str:
    """The style after a colour sequence."""
    for code in (int(each or 0) for each in codes.split(";")):
        if code in (0, 22, 39):
            style = ""
        elif code == 1:
            style += "font-weight:bold;"
        elif code == 2:
            style += "fill:#8b949e;"
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style += f"fill:{_COLOURS[code % 10]};"
    return style


def pictures() -> dict[Path, str]:
    """Each picture with what it should hold."""
    return {
        cast.with_suffix(".svg"): draw(cast.read_text(encoding="utf-8"))
        for cast in sorted(ASSETS.glob("*.cast"))
    }


def main() -> None:
    """Record what was named, then draw every recording."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("record", "draw"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.verb == "record":
        for name in args.names or list(RECORDINGS):
            record(name)
            print(f"recorded {name}")
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
