"""Runs `bridle session` and `bridle daemon` as programs call them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BRIDLE = str(Path(sys.executable).parent / "bridle")


class Shell:
    """Runs `bridle` in a home and a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "BRIDLE_DAEMON_IDLE": "30",
        }
        self.sessions: list[str] = []

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            [BRIDLE, *words],
            cwd=self.work,
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def json(self, *words: str, stdin: str = "") -> Any:
        """Run a command that must succeed; returns what it printed."""
        done = self.run(*words, "--json", stdin=stdin)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, script: str, *words: str) -> dict[str, Any]:
        """Start a scripted session."""
        file = self.work / f"script-{len(self.sessions)}.yaml"
        file.write_text(script)
        told: dict[str, Any] = self.json(
            *("session", "start", "--runtime", "scripted", "--permission", "bypass"),
            *("--provider-option", f"script={file}", *words),
        )
        self.sessions.append(told["session_id"])
        return told
