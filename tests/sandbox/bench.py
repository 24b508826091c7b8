"""A user's home, a repository with a linked worktree, and the five calls that a sandbox decides."""

import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridle.core import events as ev
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun

# Not below a temp folder: some sandboxes leave those writable.
SCRATCH = Path(__file__).parents[2] / ".tmp" / "sandbox"


class Bench(AgentBench):
    """A bench whose working directory is a linked worktree, with a folder outside of it.

    Not used in `with`: tests of sessions start programs that outlive it.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.work.rmdir()
        self.repo, self.outside = root / "repo", root / "outside"
        self.outside.mkdir()
        self.work = self.repo
        self.repo.mkdir()
        self.make_repository()
        self.worktree = self.work = root / "worktree"
        self.git("worktree", "add", "-q", str(self.worktree), "-b", "task", cwd=self.repo)
        self.env["IS_SANDBOX"] = "1"

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

    def check_held(self, outcome: AgentRun, mode: str) -> None:
        """What must hold in a sandbox after the script was played, whoever played it."""
        assert outcome.result.status == "completed", outcome.result.error
        assert outcome.result.text.endswith("Finished.")
        assert self.written_outside() == [], said(outcome)
        inside = mode == "worktree"
        assert (self.worktree / "inside.txt").exists() is inside, said(outcome)
        assert self.commits() == (["done", "first"] if inside else ["first"]), said(outcome)
        assert self.git("log", "--format=%s", "main").split() == ["first"]

    def written_outside(self) -> list[str]:
        return sorted(path.name for path in self.outside.iterdir())

    def commits(self) -> list[str]:
        return self.git("log", "--format=%s", "task").split()


def errors(run: AgentRun) -> list[bool]:
    """Whether each tool call came back as an error, in order."""
    return [each.is_error for each in run.of(ev.ToolExecutionEnd)]


def said(run: AgentRun) -> list[str]:
    """What each tool call came back with, in order."""
    return [str(each.result) for each in run.of(ev.ToolExecutionEnd)]


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
