"""The doctor finds what is missing, renamed, silent or half installed, and names it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripts.conformance import targets

from bridle.doctor import Diagnosis, Finding, examine
from bridle.doctor.machine import ask, check_machine
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.contract import Adapter, AdapterSettings
from bridle.runtimes.scripted import ScriptedRuntime
from tests.conformance.mutants import MUTANTS
from tests.doctor.fakes import bare_path, fake_cli, help_of
from tests.support.real_cli import pinned, real_cli


def finding(diagnosis: Diagnosis, name: str) -> Finding:
    (found,) = [each for each in diagnosis.checks if each.name == name]
    return found


def claude_at(binary: Path) -> ClaudeRuntime:
    return ClaudeRuntime(AdapterSettings(binary=str(binary)))


def doctor(path: str, home: Path, *words: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """`bridle runtime doctor --json` with that PATH."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "bridle"), "runtime", "doctor", *words, "--json"],
        env={"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=110,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("words", [(), ("--probe",)])
def test_a_machine_with_no_agent_at_all(
    tmp_path: Path, private_home: Path, words: tuple[str, ...]
) -> None:
    path = bare_path(tmp_path / "bin")
    status, told = doctor(path, private_home, *words)
    assert status == 0
    assert list(told) == ["runtimes"]
    by_name = {each["runtime"]: each for each in told["runtimes"]}
    assert {"claude", "codex", "pi", "scripted"} <= set(by_name)
    claude = by_name["claude"]
    assert list(claude) == ["runtime", "installed", "version", "dialect", "supported", "checks"]
    assert (claude["installed"], claude["version"], claude["supported"]) == (False, None, False)
    first = claude["checks"][0]
    assert list(first) == ["name", "status", "detail", "hint"]
    assert (first["name"], first["status"]) == ("installed", "skip")
    assert "npm install" in first["hint"]
    installed = [name for name, each in by_name.items() if each["installed"]]
    assert installed == ["scripted"], "it comes with Bridle"


def test_what_all_runtimes_share_is_shown_once(tmp_path: Path, private_home: Path) -> None:
    env = {"PATH": bare_path(tmp_path / "bin"), "HOME": str(private_home), "LANG": "C.UTF-8"}
    words = [sys.executable, "-m", "bridle", "runtime", "doctor"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert "claude  not installed" in lines
    shared = lines[lines.index("this machine") + 1 :]
    assert [line.split()[1] for line in shared if "hint:" not in line] == ["git", "tmux", "sandbox"]
    assert done.stdout.count(" sandbox ") == 1


def test_an_agent_that_was_asked_for_and_is_missing_is_a_failure(
    tmp_path: Path, private_home: Path
) -> None:
    status, told = doctor(bare_path(tmp_path / "bin"), private_home, "claude")
    assert status == 1
    assert [each["runtime"] for each in told["runtimes"]] == ["claude"]


def test_a_renamed_flag_is_found_and_named(tmp_path: Path) -> None:
    binary = fake_cli(tmp_path / "bin", "claude", version="2.1.325 (Claude Code)")
    text = help_of(claude_at(binary), tmp_path / "home")
    assert "--permission-mode " in text
    renamed = text.replace("--permission-mode ", "--permission-modus ")
    fake_cli(tmp_path / "bin", "claude", version="2.1.325 (Claude Code)", help=renamed)
    diagnosis = examine(claude_at(binary))
    flags = finding(diagnosis, "flags")
    assert flags.status == "fail"
    assert flags.detail == "--permission-mode is not in its help (now --permission-modus?)"
    assert flags.hint
    assert diagnosis.broken
    assert (diagnosis.version, diagnosis.supported) == ("2.1.325", True)


def test_a_renamed_flag_is_found_among_all_runtimes(tmp_path: Path, private_home: Path) -> None:
    path = bare_path(tmp_path / "bin")
    binary = fake_cli(tmp_path / "bin", "claude", version="2.1.325 (Claude Code)")
    text = help_of(claude_at(binary), tmp_path / "home")
    renamed = text.replace("--permission-mode ", "--permission-modus ")
    refuses = "echo \"error: unknown option '--permission-mode'\" >&2; exit 1"
    fake_cli(
        tmp_path / "bin", "claude", version="2.1.325 (Claude Code)", help=renamed, then=refuses
    )
    status, told = doctor(path, private_home, "claude", "--probe")
    assert status == 1
    failed = {
        check["name"]: check["detail"]
        for each in msgspec.convert(told["runtimes"], list[Diagnosis])
        for check in msgspec.to_builtins(each.checks)
        if check["status"] == "fail"
    }
    assert failed["flags"] == "--permission-mode is not in its help (now --permission-modus?)"
    assert "unknown option" in failed["probe_text"]


PINNED = [target for target in targets() if target[2]]


@pytest.mark.real_cli
@pytest.mark.parametrize("target", PINNED, ids=lambda target: f"{target[0]}-{target[2]}")
def test_a_pinned_cli_is_whole_and_takes_every_flag(target: tuple[str, str, str]) -> None:
    name, pin, version = target
    runtime = pinned(name, version, pin)
    diagnosis = examine(runtime)
    assert [each for each in diagnosis.checks if each.status == "fail"] == []
    assert (diagnosis.installed, diagnosis.version, diagnosis.supported) == (True, version, True)
    assert finding(diagnosis, "version").status == "ok"
    flags = finding(diagnosis, "flags")
    assert flags.status == "ok" or flags.detail == "no flags are passed to it"


def test_all_flags_there_is_fine(tmp_path: Path) -> None:
    binary = fake_cli(tmp_path / "bin", "claude", version="2.1.325")
    text = help_of(claude_at(binary), tmp_path / "home")
    fake_cli(tmp_path / "bin", "claude", version="2.1.325", help=text)
    diagnosis = examine(claude_at(binary))
    assert finding(diagnosis, "flags").status == "ok"
    assert not diagnosis.broken


def test_a_flag_that_the_help_leaves_out_is_no_failure(tmp_path: Path) -> None:
    binary = fake_cli(tmp_path / "bin", "claude", version="2.1.325")
    text = help_of(claude_at(binary), tmp_path / "home")
    hidden = "".join(line for line in text.splitlines(True) if "--max-turns" not in line)
    assert hidden != text
    fake_cli(tmp_path / "bin", "claude", version="2.1.325", help=hidden)
    flags = finding(examine(claude_at(binary)), "flags")
    assert flags.status == "ok"
    assert "1 are not in its help" in flags.detail


def test_a_cli_that_prints_nothing(tmp_path: Path) -> None:
    diagnosis = examine(claude_at(fake_cli(tmp_path / "bin", "claude")))
    starts = finding(diagnosis, "starts")
    assert (starts.status, starts.detail) == ("fail", "`--version` printed nothing (exit 0)")
    assert "npm install" in starts.hint
    assert finding(diagnosis, "flags").status == "skip"


def test_a_help_that_says_nothing(tmp_path: Path) -> None:
    diagnosis = examine(claude_at(fake_cli(tmp_path / "bin", "claude", version="2.1.325")))
    flags = finding(diagnosis, "flags")
    assert flags.status == "fail"
    assert "prints nothing" in flags.detail


@pytest.mark.parametrize(
    ("version", "known", "supported"),
    [("banana", None, False), ("9.9.9", "9.9.9", True)],
)
def test_a_version_that_nobody_knows(
    tmp_path: Path, version: str, known: str | None, supported: bool
) -> None:
    diagnosis = examine(claude_at(fake_cli(tmp_path / "bin", "claude", version=version, help="-p")))
    assert (diagnosis.version, diagnosis.supported) == (known, supported)
    found = finding(diagnosis, "version")
    assert found.status == "warn"
    assert "--probe" in found.hint
    assert diagnosis.dialect is not None


def test_a_version_that_is_too_old_is_a_failure_with_the_oldest_that_works(tmp_path: Path) -> None:
    program = fake_cli(tmp_path / "bin", "claude", version="0.1.0", help="-p")
    diagnosis = examine(claude_at(program))
    assert (diagnosis.version, diagnosis.supported, diagnosis.broken) == ("0.1.0", False, True)
    found = finding(diagnosis, "version")
    assert found.status == "fail"
    assert "the oldest version that works is 2.0" in found.detail
    assert "npm install" in found.hint


@pytest.mark.real_cli
def test_a_launcher_whose_native_binary_is_missing(tmp_path: Path) -> None:
    native = real_cli("codex", "0.166.0")
    packages = next(each for each in native.parents if each.name == "@openai")
    copy = tmp_path / "node_modules" / "@openai" / "codex"
    shutil.copytree(packages / "codex", copy)
    runtime: Adapter = CodexRuntime(AdapterSettings(binary=str(copy / "bin" / "codex.js")))
    diagnosis = examine(runtime)
    starts = finding(diagnosis, "starts")
    assert starts.status == "fail"
    assert "Missing optional dependency @openai/codex-" in starts.detail
    assert "npm install -g @openai/codex" in starts.hint
    assert diagnosis.broken


def test_old_and_missing_tools_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    bare_path(folder)
    (folder / "git").unlink()
    monkeypatch.setenv("PATH", str(folder))
    git, tmux, _ = check_machine(str(tmp_path))
    assert (git.status, tmux.status) == ("fail", "warn")
    old = fake_cli(folder, "git")
    old.write_text("#!/bin/sh\necho git version 2.37.9\n")
    git, _, _ = check_machine(str(tmp_path))
    assert git.status == "fail"
    assert "2.37.9 is too old" in git.detail
    assert "2.38" in git.hint
    old.write_text("#!/bin/sh\necho git version 2.38.0\n")
    git, _, _ = check_machine(str(tmp_path))
    assert git.status == "ok"


@pytest.mark.parametrize(
    ("told", "status", "detail"),
    [
        ("tmux 3.1c", "warn", "tmux 3.1c is too old"),
        ("tmux 3.2", "ok", "tmux 3.2"),
        ("tmux 3.3a", "ok", "tmux 3.3a"),
        ("tmux 3.4", "warn", "tmux 3.4 is newer than 3.3, the newest that Bridle was tested with"),
        ("tmux next-3.6", "warn", "version unknown"),
    ],
)
def test_a_tmux_that_was_never_tested_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, status: str, detail: str
) -> None:
    folder = tmp_path / "bin"
    bare_path(folder)
    fake_cli(folder, "tmux").write_text(f"#!/bin/sh\necho {told}\n")
    monkeypatch.setenv("PATH", str(folder))
    _, tmux, _ = check_machine(str(tmp_path))
    assert tmux.status == status
    assert tmux.detail.startswith(detail)


def test_a_program_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    answer = ask(("sleep", "60"), str(tmp_path), seconds=0.2)
    assert answer.status is None
    assert "did not answer" in answer.text


def test_the_probe_plays_every_step() -> None:
    diagnosis = examine(ScriptedRuntime(), probe=True)
    steps = {each.name: each.status for each in diagnosis.checks if "probe_" in each.name}
    assert steps == {
        "probe_text": "ok",
        "probe_usage": "ok",
        "probe_tool_call": "ok",
        "probe_error_401": "ok",
        "probe_error_500": "ok",
        "probe_instruction_file": "ok",
        "probe_resume": "ok",
    }
    assert not diagnosis.broken


def test_the_probe_tells_the_step_that_fails() -> None:
    diagnosis = examine(MUTANTS["error_401"](), probe=True)
    failed = [each for each in diagnosis.checks if each.status == "fail"]
    assert [each.name for each in failed] == ["probe_error_401"]
    assert "not_authenticated" in failed[0].detail
    assert "bridle conformance scripted" in failed[0].hint
    assert diagnosis.broken
