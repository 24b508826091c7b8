"""What the demo's agents do: a small project, and a script for each of them."""

from typing import Any

import msgspec

PROJECT = {
    "hello.sh": "#!/bin/sh\necho 'Hello!'\n",
    "README.md": "# Hello\n\nA very small project.\n",
}
OUTSIDE = "../outside.txt"
"""Where one agent tries to write: next to its worktree, not in it."""

_COMMIT = "git add -A && git commit -q -m '{0}'"
_PACE = {"slow": 0.06}


class Job(msgspec.Struct, frozen=True):
    """One agent of the demo: its name, its prompt and the script it plays."""

    name: str
    prompt: str
    script: list[dict[str, Any]]


def _say(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "chunk_size": 12, "fault": _PACE, **more}


def _usage(fresh: int, written: int, cached: int = 0) -> dict[str, int]:
    return {"input_tokens": fresh, "output_tokens": written, "cache_read_tokens": cached}


JOBS = (
    Job(
        "builder",
        "Let hello.sh greet the person named in its argument.",
        [
            _say("I look at the script first.", read_file="hello.sh", usage=_usage(812, 31)),
            _say(
                "It greets nobody by name; I change that.",
                edit_file={
                    "path": "hello.sh",
                    "old": "'Hello!'",
                    "new": '"Hello, ${1:-World}!"',
                },
                usage=_usage(96, 64, 812),
            ),
            _say("Does it work?", shell="sh hello.sh Bridle", usage=_usage(88, 22, 908)),
            _say(
                "It does. I commit it.",
                shell=_COMMIT.format("Greet by name"),
                usage=_usage(71, 40, 996),
            ),
            _say("hello.sh greets by name now.\nORCHESTRA_COMPLETE", usage=_usage(60, 18, 1067)),
        ],
    ),
    Job(
        "tester",
        "Write a check for hello.sh and run it.",
        [
            _say(
                "I write a check.",
                write_file={
                    "path": "check.sh",
                    "content": '#!/bin/sh\ntest -n "$(sh hello.sh)" && echo "hello.sh speaks"\n',
                },
                usage=_usage(790, 58),
            ),
            _say(
                "Now I run it.",
                shell="sh check.sh",
                usage=_usage(84, 20, 790),
                fault={"status": 529, "message": "scripted: no capacity, once", "times": 1},
            ),
            _say(
                "It passes; I commit it.",
                shell=_COMMIT.format("Check that hello.sh speaks"),
                usage=_usage(66, 38, 874),
            ),
            _say("check.sh is there and passes.\nORCHESTRA_COMPLETE", usage=_usage(58, 16, 940)),
        ],
    ),
    Job(
        "writer",
        "Explain in the README how the project is used.",
        [
            _say(
                "I read the README and the script together.",
                tool_calls=[
                    {"name": "read_file", "args": {"path": "README.md"}},
                    {"name": "read_file", "args": {"path": "hello.sh"}},
                ],
                usage=_usage(803, 44),
            ),
            _say(
                "A short section will do.",
                edit_file={
                    "path": "README.md",
                    "old": "A very small project.\n",
                    "new": "A very small project.\n\n## Use\n\n    sh hello.sh\n",
                },
                usage=_usage(120, 72, 803),
            ),
            _say(
                "I commit it.",
                shell=_COMMIT.format("Explain how it is used"),
                usage=_usage(70, 36, 923),
            ),
            _say("The README explains it.\nORCHESTRA_COMPLETE", usage=_usage(55, 15, 993)),
        ],
    ),
    Job(
        "scout",
        "List the files of the project; keep the list where everybody finds it.",
        [
            _say("I look around.", shell="git ls-files", usage=_usage(775, 25)),
            _say(
                "I put the list beside the worktree, where all can see it.",
                write_file={"path": OUTSIDE, "content": "README.md\nhello.sh\n"},
                usage=_usage(82, 47, 775),
            ),
            _say(
                "That was refused: I may only write in my own worktree. Then I do it there.",
                write_file={"path": "FILES", "content": "README.md\nhello.sh\n"},
                usage=_usage(140, 51, 857),
            ),
            _say(
                "And I commit it.",
                shell=_COMMIT.format("List the files"),
                usage=_usage(68, 35, 997),
            ),
            _say("The list is in FILES.\nORCHESTRA_COMPLETE", usage=_usage(57, 14, 1065)),
        ],
    ),
)
