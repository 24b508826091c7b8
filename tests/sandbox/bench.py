"""A user's home, a repository with a linked worktree, and the five calls that a sandbox decides."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.process.process_tree import marked_processes
from bridle.runs import Prepared, prepare
from bridle.runtimes.contract import Adapter
from bridle.testing import ScriptedModel

# Not below a temp folder: some sandboxes leave those writable.
SCRATCH = Path(__file__).parents[2] / ".tmp" / "sandbox"


class Bench:
    """One place for one run; nothing in it is the real user's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.repo = root / "home", root / "repo"
        self.worktree, self.outside = root / "worktree", root / "outside"
        for folder in (self.home, self.outside):
            folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", str(self.repo), cwd=root)
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@example.invalid")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        self.git("worktree", "add", "-q", str(self.worktree), "-b", "task")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        self.env |= {"TERM": "xterm-256color", "IS_SANDBOX": "1"}

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.repo, check=True, capture_output=True, text=True
        )
        return done.stdout

    def script(self, plant: str) -> list[dict[str, Any]]:
        """One call a turn: a inside, b to d outside, e a commit, f a file the user's own sessions
        obey."""
        out = self.outside
        hidden = f"open('{out}/hidden.txt', 'w').write('bad')"
        calls: list[dict[str, Any]] = [
            {"shell": "echo hi > inside.txt"},
            {"write_file": {"path": f"{out}/tool.txt", "content": "bad"}},
            {"shell": f"echo bad > {out}/shell.txt"},
            {"shell": f'python3 -c "{hidden}"'},
            {"shell": "git add -A && git commit -q -m done --allow-empty"},
            {"shell": f"echo bad > {plant}"},
        ]
        return [*calls, {"text": "Finished."}]

    def run(self, runtime: Adapter, **options: Any) -> "Outcome":
        """Run to the end; nothing of the session may live on, nor any folder of its own."""
        given = {"prompt": "Do it.", "cwd": str(self.worktree), "permission_mode": "bypass"}
        wanted = RunOptions(**({"timeout": 120.0} | given | options))
        prepared = prepare(runtime, wanted, env=self.env)
        events = list(prepared.run.events())
        assert marked_processes(prepared.plan.session_id) == []
        assert not [each for each in prepared.plan.private_dirs if os.path.exists(each)]
        return Outcome(events=events, result=prepared.run.result, prepared=prepared)

    def check_held(self, outcome: "Outcome", mode: str) -> None:
        """What must hold in a sandbox after the script was played, whoever played it."""
        assert outcome.result.status == "completed", outcome.result.error
        assert outcome.result.text.endswith("Finished.")
        assert self.written_outside() == [], outcome.said
        inside = mode == "worktree"
        assert (self.worktree / "inside.txt").exists() is inside, outcome.said
        assert self.commits() == (["done", "first"] if inside else ["first"]), outcome.said
        assert self.git("log", "--format=%s", "main").split() == ["first"]

    def written_outside(self) -> list[str]:
        return sorted(path.name for path in self.outside.iterdir())

    def commits(self) -> list[str]:
        return self.git("log", "--format=%s", "task").split()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is over."""

    events: list[ev.Event]
    result: RunResult
    prepared: Prepared

    @property
    def errors(self) -> list[bool]:
        """Whether each tool call came back as an error, in order."""
        return [each.is_error for each in self.events if isinstance(each, ev.ToolExecutionEnd)]

    @property
    def said(self) -> list[str]:
        """What each tool call came back with, in order."""
        ended = [each for each in self.events if isinstance(each, ev.ToolExecutionEnd)]
        return [str(each.result) for each in ended]


@contextmanager
def bench() -> Iterator[Bench]:
    """A fresh place, removed afterwards."""
    root = SCRATCH / uuid.uuid4().hex[:12]
    root.mkdir(parents=True)
    try:
        yield Bench(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def claude_user(place: Bench, model: ScriptedModel) -> dict[Path, bytes]:
    """A user of Claude with a login by key; returns files that must stay as they are."""
    (place.home / ".claude").mkdir()
    state = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [model.api_key[-20:]], "rejected": []},
        "projects": {str(place.worktree): {"hasTrustDialogAccepted": True}},
    }
    files = {".claude.json": state, ".claude/settings.json": {"model": "sonnet"}}
    place.env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": model.api_key}
    place.env |= {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}
    place.env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return _written(place, files)


def pi_user(place: Bench, model: ScriptedModel) -> dict[Path, bytes]:
    """A user of Pi with a saved key, and a provider of their own in models.json."""
    (place.home / ".pi/agent").mkdir(parents=True)
    entry = {"baseUrl": model.url, "api": "anthropic-messages", "models": [{"id": "scripted"}]}
    entry["apiKey"] = "not-this-one"
    saved = {"lab": {"type": "api_key", "key": model.api_key}}
    files = {
        ".pi/agent/models.json": {"providers": {"lab": entry}},
        ".pi/agent/auth.json": saved,
    }
    place.env |= {"PI_OFFLINE": "1"}
    return _written(place, files)


def _written(place: Bench, files: dict[str, Any]) -> dict[Path, bytes]:
    made = {place.home / name: json.dumps(content).encode() for name, content in files.items()}
    for path, data in made.items():
        path.write_bytes(data)
    return made
