"""`bridle run` on a terminal of its own with a real agent: what it asks, and what a person answers.

The model asks for two writes by its shell, one after the other; the person allows the first and
refuses the second.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bridle.testing import ScriptedModel
from tests.sandbox.bench import Bench
from tests.support.real_cli import real_cli
from tests.support.terminal import Terminal

QUESTION = "Allow it?"
TIME_LIMIT = 120.0
SCRIPT: list[dict[str, Any]] = [
    {"text": "I write the first file.", "shell": "echo one > first.txt"},
    {"text": "Now the second.", "shell": "echo two > second.txt"},
    {"text": "That is all."},
]

PRODUCTS = ("claude", "cline", "codex", "copilot", "gemini", "opencode", "pi")
"""The products that ask, in some drive."""
_EDIT = "{0}\n```\n<<<<<<< SEARCH\n=======\n{1}\n>>>>>>> REPLACE\n```\n"


def script_for(runtime: str) -> list[dict[str, Any]]:
    """The script of a product; one without tools answers with the edits themselves."""
    if runtime in PRODUCTS:
        return SCRIPT
    edits = [
        _EDIT.format(name, word) for name, word in (("first.txt", "one"), ("second.txt", "two"))
    ]
    return [{"text": "I write both files.\n\n" + "\n".join(edits)}]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a person saw of a run that is over."""

    screen: str
    status: int
    asked: int
    """How many questions were asked."""


def environment(place: Bench, model: ScriptedModel, runtime: str, binary: Path) -> dict[str, str]:
    """The environment of a user who has the agent's CLI at `binary` and the scripted model."""
    folder = place.home / ".config" / "bridle"
    folder.mkdir(parents=True, exist_ok=True)
    adapters = {"runtime": {"adapters": {runtime: {"binary": str(binary)}}}}
    # JSON is YAML too.
    (folder / "config.yaml").write_bytes(msgspec.json.encode(adapters))
    return {
        **place.env,
        "NO_COLOR": "1",
        "BRIDLE_MODEL_SERVER": model.url,
        "BRIDLE_MODEL_SERVER_KEY": model.api_key,
    }


def command(runtime: str, *words: str) -> list[str]:
    """`bridle run` in permission mode `ask`, which is the default."""
    return [sys.executable, "-m", "bridle", "run", "Write two files.", "--runtime", runtime, *words]


def at_terminal(
    place: Bench,
    runtime: str,
    version: str,
    *words: str,
    answers: Sequence[str] = ("y", "n"),
    script: Sequence[dict[str, Any]] = SCRIPT,
) -> Seen:
    """Run the agent at a terminal and type one of `answers` at each question."""
    binary = real_cli(runtime, version)
    with ScriptedModel(list(script)) as model:
        env = environment(place, model, runtime, binary)
        argv = command(runtime, "--timeout", f"{TIME_LIMIT:g}", *words)
        with Terminal(argv, env, place.worktree, echo=True, limit=TIME_LIMIT) as screen:
            asked = 0
            while screen.wait_for_count(QUESTION, asked + 1):
                screen.type(f"{answers[min(asked, len(answers) - 1)]}\n")
                asked += 1
            status = screen.finish()
    return Seen(screen=screen.screen, status=status, asked=asked)
