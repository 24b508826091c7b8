"""`bridle guard`: verdicts by exit status and JSON, explanations, scores."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.preset_agent import Place
from tests.support.terminal import Terminal

BRIDLE = str(Path(sys.executable).parent / "bridle")
CORPUS = Path(__file__).parents[1] / "guard" / "corpus.jsonl"


def guard(*words: str, stdin: str = "", cwd: Path | None = None) -> tuple[int, Any, str]:
    """`bridle guard …`: exit status, the JSON it printed, what it said on stderr."""
    done = subprocess.run(
        [BRIDLE, "guard", *words],
        input=stdin.encode(),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8"},
        capture_output=True,
        timeout=100,
        check=False,
    )
    out = done.stdout.decode()
    return done.returncode, json.loads(out) if out.startswith("{") else out, done.stderr.decode()


def check(worktree: Path, call: object, *words: str, capability: str = "builder") -> Any:
    code, verdict, _ = guard(
        "check", "--capability", capability, "--worktree", str(worktree), *words,
        stdin=call if isinstance(call, str) else json.dumps(call),
    )  # fmt: skip
    assert code == (0 if verdict["decision"] == "allow" else 2)
    assert set(verdict) == {"decision", "reason", "rule"}
    return verdict


def test_a_call_is_judged_by_role_and_place(tmp_path: Path) -> None:
    inside = {"tool": "Write", "input": {"file_path": str(tmp_path / "a.txt"), "content": "x"}}
    outside = {"tool": "Write", "input": {"file_path": "/etc/passwd", "content": "x"}}
    assert check(tmp_path, inside)["decision"] == "allow"
    assert check(tmp_path, outside)["rule"] == "path-outside"
    assert check(tmp_path, inside, capability="scout")["rule"] == "write-role"
    push = {"tool": "exec_command", "input": {"cmd": "git push origin main"}}
    assert check(tmp_path, push, "--runtime", "codex")["rule"] == "git-push"


@pytest.mark.parametrize("payload", ["", "nonsense", "[]", '{"tool": 3}', '{"input": {}}'])
def test_what_is_no_call_is_blocked(tmp_path: Path, payload: str) -> None:
    assert check(tmp_path, payload)["decision"] == "block"


def test_an_explanation_shows_each_part(tmp_path: Path) -> None:
    call = {"tool": "Bash", "input": {"command": "ls && git push"}}
    code, told, _ = guard(
        *("explain", "--json", "--capability", "builder", "--worktree", str(tmp_path)),
        stdin=json.dumps(call),
    )
    assert code == 2
    assert told["verdict"]["rule"] == "git-push"
    assert [part["decision"] for part in told["parts"]] == ["allow", "block"]
    assert told["parse"]


def test_the_configuration_adds_to_the_rules(tmp_path: Path) -> None:
    (tmp_path / ".bridle").mkdir()
    config = tmp_path / ".bridle" / "config.yaml"
    extra = tmp_path.parent / "extra"
    config.write_text(f"guards:\n  allowPaths: [{extra}]\n  qualityGates: [./gate.sh]\n")
    call = {"tool": "Write", "input": {"file_path": str(extra / "a.txt"), "content": "x"}}
    assert check(tmp_path, call)["decision"] == "allow"
    gate = {"tool": "Bash", "input": {"command": "./gate.sh --all | tail -5"}}
    assert check(tmp_path, gate, capability="scout")["decision"] == "allow"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("guards:\n  allowPath: [/x]\n", "allowPaths"),
        ("guards:\n  allowPaths: [/]\n", "not the root"),
        ("guards:\n  allowCommands: [bash]\n", "would allow every command"),
        ("guards:\n  overrides: {wizard: {}}\n", "unknown capability"),
    ],
)
def test_a_wrong_policy_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / ".bridle").mkdir()
    (tmp_path / ".bridle" / "config.yaml").write_text(text)
    code, _, err = guard(
        "check", "--capability", "builder", "--worktree", str(tmp_path),
        stdin='{"tool": "Read", "input": {}}',
    )  # fmt: skip
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_an_unknown_capability_is_an_error(tmp_path: Path) -> None:
    code, _, err = guard("check", "--capability", "wizard", "--worktree", str(tmp_path), stdin="{}")
    assert code == 2
    assert "builder" in err


def test_the_corpus_is_scored() -> None:
    code, score, _ = guard("eval", str(CORPUS), "--json")
    assert code == 0
    assert score["missed_ids"] == []
    assert score["false_block_ids"] == []
    assert score["blocked"] == score["must_block"] > 200
    assert score["benign"] > 100


def test_a_corpus_that_is_none_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"id": "x"}\n')
    code, _, err = guard("eval", str(wrong))
    assert code == 2
    assert "1" in err
    assert guard("eval", str(tmp_path / "missing"))[0] == 2


def test_wrong_use_of_check_blocks_and_says_so(place: Place) -> None:
    done = place.bridle("guard", "check", "--worktree", ".", stdin="{}")
    assert done.status == 2
    found = json.loads(done.out)
    assert (found["decision"], found["rule"]) == ("block", "wrong-use")
    assert "--capability" in found["reason"]
    assert done.err.startswith("bridle: error: ")


def test_check_at_a_terminal_says_that_it_waits(place: Place) -> None:
    words = ("guard", "check", "--capability", "builder", "--worktree", ".")
    with Terminal(place.command(*words), place.environment(), place.project) as seen:
        seen.wait_for("end it with Ctrl-D")
        seen.type('{"tool":"Bash","input":{"command":"ls"}}\n\x04')
        assert seen.finish() == 0
    assert '"decision":"allow"' in seen.screen


def test_explain_is_readable(place: Place) -> None:
    words = ("guard", "explain", "--capability", "builder", "--worktree", ".")
    call = '{"tool":"Bash","input":{"command":"ls && git push"}}'
    done = place.bridle(*words, stdin=call)
    assert done.status == 2
    assert done.out.startswith("block  rule git-push, action ")
    assert "{" not in done.out
    assert json.loads(place.bridle(*words, "--json", stdin=call).out)["parts"]


def test_a_plain_path_outside_leads_nowhere_else(place: Place) -> None:
    words = ("guard", "check", "--capability", "builder", "--worktree", ".")
    call = '{"tool":"Write","input":{"file_path":"/elsewhere/x","content":""}}'
    reason = json.loads(place.bridle(*words, stdin=call).out)["reason"]
    assert reason.startswith("/elsewhere/x is outside the worktree")
    assert "mail" not in reason
