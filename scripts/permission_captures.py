"""Runs real agents at a terminal in permission mode `ask`, and keeps what a person sees as docs.

`python scripts/permission_captures.py [RUNTIME]…`; without arguments every product. All of them run
offline on the scripted model, in their newest pinned version. The blocks of the products that ran
replace those in `docs/permissions.md`. Exit status 1 when one that can ask did not ask twice, or
did otherwise than it was answered.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.sandbox.bench import Bench, bench  # noqa: E402 - path first
from tests.support.permission_run import PRODUCTS, Seen, at_terminal, script_for  # noqa: E402
from tests.support.real_cli import versions  # noqa: E402 - path first

PAGE = ROOT / "docs" / "permissions.md"
START, END = "<!-- captures: generated -->\n", "<!-- end of captures -->"
FENCE = "````"
"""Longer than any fence in an agent's answer."""
BLOCK = re.compile(rf"^### (\S+) .*?\n{FENCE}text\n.*?{FENCE}\n", re.MULTILINE | re.DOTALL)


def shown(seen: Seen, place: Bench) -> str:
    """What is left on the screen, without what differs from one run to the next."""
    text = seen.screen.replace(str(place.worktree), "/repo")
    # What was written before a return to the start of its line, as the spinner, is gone.
    text = re.sub(r"[^\n]*\r", "", text)
    text = re.sub(r" in \d+\.\d s( ·|$)", r" in … s\1", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip() + "\n"


def played(runtime: str) -> tuple[str, bool]:
    """The block of one product, and whether it did what it was answered."""
    version = versions(runtime)[-1]
    with bench() as place:
        seen = at_terminal(place, runtime, version, script=script_for(runtime))
        written = [(place.worktree / name).exists() for name in ("first.txt", "second.txt")]
        right = seen.asked == 2 and written == [True, False]
        if runtime not in PRODUCTS:
            right = seen.asked == 0 and written == [False, False]
        block = f"### {runtime} {version}\n\n{FENCE}text\n{shown(seen, place)}{FENCE}\n"
        return block, right


def main() -> int:
    """Play the products that were named, and write their blocks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runtimes", nargs="*", default=[*PRODUCTS, "aider"])
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    old, _, after = rest.partition(END)
    blocks = {found.group(1): found.group(0) for found in BLOCK.finditer(old)}
    wrong = []
    for runtime in parser.parse_args().runtimes:
        blocks[runtime], right = played(runtime)
        print(f"{runtime}: {'as answered' if right else 'WRONG'}", flush=True)
        wrong += [] if right else [runtime]
    text = "\n".join(blocks[name] for name in sorted(blocks))
    PAGE.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
