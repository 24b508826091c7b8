"""Runs of the real Pi on a bench, and a login of its user."""

import json
from pathlib import Path
from typing import Any

from bridle.runs import Prepared
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun
from tests.support.real_cli import pinned


def agent_dir(bench: AgentBench) -> Path:
    """The folder of Pi's own files in the home."""
    return bench.home / ".pi" / "agent"


def login(bench: AgentBench, model: ScriptedModel, **files: Any) -> None:
    """Give the user a provider `lab` that the scripted model serves, and other files."""
    folder = agent_dir(bench)
    folder.mkdir(parents=True, exist_ok=True)
    entry = {
        "baseUrl": model.url,
        "api": "anthropic-messages",
        "apiKey": "lab-key-of-the-user",
        "models": [
            {
                "id": "scripted",
                "input": ["text", "image"],
                "contextWindow": 200000,
                "maxTokens": 8000,
                "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
            }
        ],
    }
    written = {"models": {"providers": {"lab": entry}}, **files}
    for name, content in written.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def run_real(
    version: str, bench: AgentBench, model: ScriptedModel | None = None, /, **options: Any
) -> AgentRun:
    """Run a prompt through one version; without a `model`, on what the user's files say."""
    return bench.run(pinned("pi", version), model, **{"timeout": 240.0, **options})


def prepare_real(
    version: str, bench: AgentBench, model: ScriptedModel | None = None, /, **options: Any
) -> Prepared:
    """A run of one version that is ready to start."""
    return bench.prepare(pinned("pi", version), model, **{"timeout": 240.0, **options})
