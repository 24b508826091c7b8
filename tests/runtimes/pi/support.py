"""What the tests of the runtime pi share: feeding captures, and running the real CLI."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.drives.recorder import Recorder
from bridle.drives.spec import ProcessExit
from bridle.runtimes.base import AdapterSettings
from bridle.runtimes.pi import PiRuntime
from bridle.runtimes.pi.normalizer import PiNormalizer
from bridle.testing import ScriptedModel
from tests.support import driving
from tests.support.driving import Outcome, kind, kinds
from tests.support.real_cli import real_cli

__all__ = ["Outcome", "Place", "capture_lines", "kind", "kinds", "place", "play", "run_real"]

TESTDATA = Path(__file__).parents[3] / "src" / "bridle" / "runtimes" / "pi" / "testdata"


def capture_lines(name: str) -> list[bytes]:
    """The lines that Pi printed in a capture; of a dialogue, its side of it."""
    lines = []
    for line in (TESTDATA / name).read_bytes().split(b"\n"):
        if not line:
            continue
        data = json.loads(line)
        if "dir" not in data:
            lines.append(line)
        elif data["dir"] == "out" and data["msg"].get("type") != "response":
            lines.append(json.dumps(data["msg"]).encode())
    return lines


def play(
    lines: list[bytes],
    *,
    settles: bool = True,
    code: int | None = 0,
    stderr: str = "",
    resumed: str | None = None,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    """The events and the result of a process that printed `lines` and ended."""
    recorder = Recorder(
        runtime="pi", session_id="s", options=RunOptions(prompt="p", **options), clock=lambda: "now"
    )
    normalizer = PiNormalizer(
        recorder, settles=settles, resumed=resumed, requested_model="anthropic/m"
    )
    for line in lines:
        normalizer.feed(line)
    normalizer.finish(ProcessExit(code=code, stderr_tail=stderr))
    return recorder.drain(), recorder.result()


class Place(driving.Place, frozen=True, kw_only=True):
    """A home and a repository of a test's own, with Pi's folder in the home."""

    @property
    def agent_dir(self) -> Path:
        return self.home / ".pi" / "agent"

    def login(self, model: ScriptedModel, **files: Any) -> None:
        """Give the user a provider `lab` that the scripted model serves, and other files."""
        self.agent_dir.mkdir(parents=True, exist_ok=True)
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
            (self.agent_dir / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture
def place() -> Iterator[Place]:
    with driving.own_place("pi") as made:
        yield Place(home=made.home, repo=made.repo)


def run_real(
    version: str,
    place: Place,
    model: ScriptedModel | None = None,
    *,
    env: dict[str, str] | None = None,
    section: dict[str, Any] | None = None,
    **options: Any,
) -> Outcome:
    """Run a prompt through the real CLI and check what must hold after every run.

    With a `model`, Pi is pointed at it; else at what the place's own files say.
    """
    runtime = PiRuntime(AdapterSettings(binary=str(real_cli("pi", version)), options=section or {}))
    return driving.drive(runtime, place, model, env=env, **options)
