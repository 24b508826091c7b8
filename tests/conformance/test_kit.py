"""The kit itself: what it promises to whoever calls it."""

import _thread
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bridle.config.schema import AdapterSection
from bridle.core.errors import NotInstalled, WrongUse
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.preset import PresetRuntime
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing import conformance
from bridle.testing.conformance.lab import Lab, Outcome
from bridle.testing.conformance.runner import Kit
from tests.conformance.mutants import MUTANTS
from tests.conftest import wait_until
from tests.support.real_cli import real_cli, versions


def bridle(home: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "bridle"), "conformance", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_the_report(private_home: Path) -> None:
    status, out, err = bridle(
        private_home, "scripted", "--json", "--only", "text", "--only", "options_refused"
    )
    assert status == 0
    told: dict[str, Any] = json.loads(out)
    assert list(told) == ["runtime", "version", "dialect", "checks"]
    assert (told["runtime"], told["dialect"]) == ("scripted", "scripted-1")
    assert [list(each) for each in told["checks"]] == [["name", "status", "detail"]] * 2
    assert [(each["name"], each["status"]) for each in told["checks"]] == [
        ("text", "pass"),
        ("options_refused", "pass"),
    ]
    assert "played talk" in err


def test_people_get_a_table(private_home: Path) -> None:
    status, out, _ = bridle(private_home, "scripted", "--only", "marker")
    assert status == 0
    assert "pass  marker" in out
    assert "1 passed, 0 failed, 0 not supported by this agent" in out


def test_an_unknown_check_is_refused_with_the_nearest(private_home: Path) -> None:
    status, _, err = bridle(private_home, "scripted", "--only", "markr")
    assert status == 2
    assert "did you mean marker?" in err


def test_a_missing_cli_is_exit_3(private_home: Path) -> None:
    status, _, err = bridle(private_home, "claude", "--binary", "no-such-claude")
    assert status == 3
    assert "no-such-claude" in err


def test_a_failed_check_is_exit_1(private_home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "agent"
    broken.write_text("#!/bin/sh\ncat >/dev/null\necho nonsense\n")
    broken.chmod(0o755)
    status, out, _ = bridle(
        private_home, "scripted", "--binary", str(broken), "--only", "text", "--json"
    )
    assert status == 1
    (text,) = json.loads(out)["checks"]
    assert text["status"] == "fail"
    assert "the run ended failed" in text["detail"]


def test_the_command_leaves_nothing_when_it_is_ended(private_home: Path, tmp_path: Path) -> None:
    silent = tmp_path / "agent"
    silent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/agent.pid\nexec sleep 100\n")
    silent.chmod(0o755)
    command = [str(Path(sys.executable).parent / "bridle"), "conformance", "scripted"]
    kit = subprocess.Popen(
        [*command, "--binary", str(silent), "--only", "text"],
        env={"PATH": os.environ["PATH"], "HOME": str(private_home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    pid_file = tmp_path / "agent.pid"
    try:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().strip() != "", seconds=60)
        kit.terminate()
        assert kit.wait(60) == 143
    finally:
        kit.kill()
        kit.wait(10)
    agent = int(pid_file.read_text())
    wait_until(lambda: not Path(f"/proc/{agent}").exists())
    assert list((private_home / ".local/state/bridle/run").iterdir()) == []


def test_a_runtime_without_a_model_server_is_not_supported() -> None:
    runtime = PresetRuntime("cat", AdapterSection(binary="cat"))
    report = conformance.check(runtime)
    assert {each.status for each in report.checks} == {"unsupported"}
    assert len(report.checks) == len(conformance.NAMES)
    assert "scripted model" in report.checks[0].detail
    assert report.passed


def test_a_missing_cli_is_raised() -> None:
    runtime = ScriptedRuntime(AdapterSettings(binary="no-such-agent"))
    with pytest.raises(NotInstalled):
        conformance.check(runtime, ["text"])


def test_an_unknown_name_is_raised() -> None:
    with pytest.raises(WrongUse):
        conformance.check(ScriptedRuntime(), ["no_such_check"])


def test_nothing_is_left_of_the_kit(tmp_path: Path) -> None:
    conformance.check(ScriptedRuntime(), ["text", "transcript"], folder=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_time_for_the_whole_is_kept(tmp_path: Path) -> None:
    report = conformance.check(
        ScriptedRuntime(), ["text", "abort"], folder=str(tmp_path), whole_seconds=0.0
    )
    assert [each.status for each in report.checks] == ["fail", "fail"]
    assert "the kit's time limit was reached" in report.checks[0].detail
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_never_ends_is_ended(tmp_path: Path) -> None:
    silent = tmp_path / "agent"
    silent.write_text("#!/bin/sh\nexec sleep 100\n")
    silent.chmod(0o755)
    runtime = ScriptedRuntime(AdapterSettings(binary=str(silent)))
    report = conformance.check(runtime, ["error_500"], run_seconds=1.0, folder=str(tmp_path))
    (result,) = report.checks
    assert result.status == "fail"
    assert "did not end by itself" in result.detail


def test_an_adapter_that_raises_is_a_failed_check() -> None:
    class Raising(ScriptedRuntime):
        def features_of(self, dialect: Any) -> Any:
            return super().features_of(dialect)

        def instruction_places(self, *args: Any) -> Any:
            raise ZeroDivisionError("oops")

    report = conformance.check(Raising(), ["instruction_file"])
    assert "ZeroDivisionError" in report.failures[0].detail


def test_the_case_of_a_broken_adapter_fails() -> None:
    case = conformance.as_test(MUTANTS["marker"])
    with pytest.raises(AssertionError, match="marker: the agent wrote it"):
        case("marker")


def test_the_case_of_what_is_not_supported_is_skipped() -> None:
    case = conformance.as_test(lambda: PresetRuntime("cat", AdapterSection(binary="cat")))
    with pytest.raises(pytest.skip.Exception, match="scripted model"):
        case("text")


@pytest.mark.real_cli
def test_the_newest_claude_keeps_the_contract() -> None:
    from bridle.runtimes.claude import ClaudeRuntime

    binary = real_cli("claude", versions("claude")[-1])
    wanted = ("event_order", "text", "tool_call", "usage", "error_401", "resume", "home_untouched")
    report = conformance.check(ClaudeRuntime(AdapterSettings(binary=str(binary))), wanted)
    assert [(each.name, each.status) for each in report.checks if each.status != "pass"] == []


def test_what_was_not_played_is_not_reported_after_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = threading.Event()

    def first(lab: Lab) -> list[Outcome]:
        _thread.interrupt_main()
        assert closed.wait(60)
        return []

    scenarios = {"first": first, "second": lambda lab: []}
    monkeypatch.setattr("bridle.testing.conformance.runner.SCENARIOS", scenarios)
    reported: list[str] = []
    kit = Kit(ScriptedRuntime(), progress=reported.append)
    close = kit.lab.close

    def close_and_say_so() -> None:
        close()
        closed.set()

    monkeypatch.setattr(kit.lab, "close", close_and_say_so)
    with kit, pytest.raises(KeyboardInterrupt):
        kit._play_all(["first", "second"], at_once=1)
    assert [line.split()[0] for line in reported] == ["first"]
