"""How a run failed is told by the command's exit status and by the error's kind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridle.process.process_tree import marked_processes

BRIDLE = str(Path(sys.executable).parent / "bridle")

FAULTS = [
    ("kind: authentication", 5, "failed", "not_authenticated"),
    ("status: 403", 5, "failed", "not_authenticated"),
    ("kind: rate_limit", 6, "failed", "rate_limited"),
    ("kind: usage_limit", 6, "failed", "rate_limited"),
    ("kind: overloaded", 6, "failed", "overloaded"),
    ("kind: server_error", 1, "failed", "unavailable"),
    ("kind: context_overflow", 1, "failed", "context_overflow"),
    ("kind: quota", 1, "failed", "billing"),
    ("cut: true", 1, "failed", "unavailable"),
]
LIMITS = [
    (["--timeout", "0.5"], "- fault: {stall: 60}", 7, "timed_out", "timeout"),
    (
        ["--max-turns", "1"],
        "- shell: 'true'\n- text: more",
        8,
        "budget_exceeded",
        "budget_exceeded",
    ),
    (
        ["--budget", "0.01", "--provider-option", "cost_per_turn=0.5"],
        "- shell: 'true'\n- text: more",
        8,
        "budget_exceeded",
        "budget_exceeded",
    ),
]


def run_scripted(folder: Path, script: str, *words: str) -> tuple[int, dict[str, Any]]:
    """`bridle run` of a script; returns the exit status and the one object it printed."""
    file = folder / "script.yaml"
    file.write_text(script)
    command = [BRIDLE, "run", "go", "--runtime", "scripted", "--permission", "bypass", "--json"]
    command += ["--provider-option", f"script={file}", *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(("fault", "status", "ended", "kind"), FAULTS)
def test_each_fault_has_its_status(
    tmp_path: Path, fault: str, status: int, ended: str, kind: str
) -> None:
    code, end = run_scripted(tmp_path, f"- fault: {{{fault}}}")
    assert (code, end["status"], end["error"]["kind"]) == (status, ended, kind)
    assert end["error"]["message"]
    assert end["error"]["hint"]
    assert marked_processes(end["session_id"]) == []


@pytest.mark.parametrize(("words", "script", "status", "ended", "kind"), LIMITS)
def test_each_limit_has_its_status(
    tmp_path: Path, words: list[str], script: str, status: int, ended: str, kind: str
) -> None:
    code, end = run_scripted(tmp_path, script, *words)
    assert (code, end["status"], end["error"]["kind"]) == (status, ended, kind)
    assert marked_processes(end["session_id"]) == []
