"""Plans of Codex on an installation that is made up."""

import os
import tomllib
from pathlib import Path
from typing import Any

from bridle.core.options import RunOptions
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.plan import RunPlan
from tests.runtimes.products import codex

VERSIONS = ("0.120.0", "0.166.0")
KEY = "sk-very-secret-key"


class FakeInstall:
    """A runtime on a made-up installation, with a home and a folder to work in."""

    def __init__(self, root: Path, version: str) -> None:
        self.runtime = CodexRuntime(AdapterSettings(binary=codex(root / "npm", version)))
        self.home, self.work = root / "home", root / "work"
        (self.home / ".codex").mkdir(parents=True)
        self.work.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def use(self, program: str) -> None:
        """Find this program from now on."""
        self.runtime.use_binary(program)

    def plan(self, **options: Any) -> RunPlan:
        """The plan of a run."""
        given = {"prompt": "do it", "cwd": str(self.work), **options}
        return self.runtime.plan_run(RunOptions(**given), self.env, "session-1")


def configured(plan: RunPlan) -> dict[str, Any]:
    """What all `-c` flags say together, read by a real TOML parser."""
    argv = plan.spec.argv
    lines = [argv[i + 1] for i, word in enumerate(argv) if word == "-c"]
    merged: dict[str, Any] = {}
    for line in lines:
        merge(merged, tomllib.loads(line))
    return merged


def merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    """Take what one flag says into what those before it said."""
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value
