"""What a badly behaved agent does to a run: nothing is lost, nothing is left, nothing raises."""

import os
import signal
import threading
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import NotInstalled, WrongUse
from bridle.process.process_tree import marked_processes
from bridle.runs import prepare
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.scripted import ScriptedRuntime
from tests.runtimes.scripted.runs import ScriptedBench
from tests.support.driving import check_order

SCRIPT = [{"text": "One.", "shell": "echo ok > out.txt"}, {"text": "Two."}]


def _behave(*names: str) -> dict[str, Any]:
    return {"provider_options": {"behave": list(names)}}


def test_garbage_becomes_unknown_events(bench: ScriptedBench) -> None:
    played = bench.play(SCRIPT, **_behave("garbage"))
    assert (played.result.status, played.result.text) == ("completed", "Two.")
    unknown = played.of(ev.Unknown)
    assert {"type": "a_kind_nobody_knows", "payload": [1, 2, 3]} in [each.raw for each in unknown]
    assert any(isinstance(each.raw, str) and "not text" in each.raw for each in unknown)
    assert (bench.work / "out.txt").exists()


def test_half_lines_are_put_together(bench: ScriptedBench) -> None:
    played = bench.play([{"text": "grüße 🐎", "chunks": 3}], **_behave("half-lines"))
    assert (played.result.status, played.result.text) == ("completed", "grüße 🐎")
    assert played.of(ev.Unknown) == []


def test_a_line_of_ten_megabytes(bench: ScriptedBench) -> None:
    played = bench.play(SCRIPT, **_behave("long-line"))
    assert played.result.status == "completed"
    first = played.of(ev.MessageEnd)[0].text
    assert first == "x" * (10 << 20) + "\nOne."


def test_a_line_beyond_all_bounds(bench: ScriptedBench) -> None:
    played = bench.play(SCRIPT, **_behave(f"long-line:{70 << 20}"))
    assert played.result.error is not None
    assert played.result.error.kind == "protocol_drift"


def test_death_in_the_middle_of_a_line(bench: ScriptedBench) -> None:
    played = bench.play(SCRIPT, **_behave("die-mid-line"))
    assert played.result.error is not None
    assert played.result.error.kind == "crashed"
    assert played.result.exit_code == -signal.SIGKILL
    assert "SIGKILL" in played.result.error.message
    assert played.result.text == "One."
    assert [each.raw[:15] for each in played.of(ev.Unknown)] == ['{"type":"messag']


def test_an_agent_that_never_answers(bench: ScriptedBench) -> None:
    played = bench.play(SCRIPT, timeout=0.5, **_behave("never-answer"))
    assert played.result.status == "timed_out"


def test_an_agent_that_ignores_sigterm(bench: ScriptedBench) -> None:
    # Its tools do end on SIGTERM: with one call alone it could finish its work before it is killed.
    script = [{"shell": "sleep 300"} for _ in range(50)]
    played = bench.play(script, timeout=4, **_behave("ignore-sigterm"))
    assert played.result.status == "timed_out"
    assert played.result.exit_code == -signal.SIGKILL


def test_a_flood_on_stderr_does_not_block(bench: ScriptedBench) -> None:
    played = bench.play(SCRIPT, **_behave("flood-stderr", "exit:3"))
    assert played.result.status == "completed"
    assert played.result.exit_code == 3


def test_no_result_is_no_success(bench: ScriptedBench) -> None:
    played = bench.play([{"text": "Looks fine."}], **_behave("no-result"))
    assert played.result.exit_code == 0
    assert played.result.error is not None
    assert played.result.error.kind == "crashed"


def test_timeout_during_a_tool_leaves_no_process(bench: ScriptedBench) -> None:
    played = bench.play([{"shell": "sleep 300 & sleep 300"}], timeout=1.0)
    assert played.result.status == "timed_out"
    assert played.result.exit_code == -signal.SIGTERM
    assert [end.is_error for end in played.of(ev.ToolExecutionEnd)] == [True]


def test_a_killed_agent_leaves_no_tool(bench: ScriptedBench) -> None:
    prepared = prepare(
        ScriptedRuntime(), bench.scripted([{"shell": "echo $PPID > pid; sleep 300"}]), env=bench.env
    )
    events = []
    for event in prepared.run.events():
        events.append(event)
        if isinstance(event, ev.ToolExecutionStart):
            killer = threading.Thread(target=_kill_when_named, args=(bench,))
            killer.start()
    killer.join()
    check_order(events)
    error = prepared.run.result.error
    assert error is not None
    assert error.kind == "crashed"
    assert marked_processes(prepared.plan.session_id) == []


def _kill_when_named(bench: ScriptedBench) -> None:
    pid = bench.work / "pid"
    pause = threading.Event()
    for _ in range(500):
        if pid.exists() and (text := pid.read_text().strip()):
            os.kill(int(text), signal.SIGKILL)
            return
        pause.wait(0.02)


def test_abort_ends_in_order(bench: ScriptedBench) -> None:
    prepared = prepare(ScriptedRuntime(), bench.scripted([{"shell": "sleep 300"}]), env=bench.env)
    events = []
    for event in prepared.run.events():
        events.append(event)
        if isinstance(event, ev.ToolExecutionStart):
            prepared.run.abort("enough")
    check_order(events)
    assert prepared.run.result.status == "aborted"
    assert marked_processes(prepared.plan.session_id) == []


def test_unknown_raw_argument(bench: ScriptedBench) -> None:
    played = bench.play(SCRIPT, raw_args=("--nonsense",))
    assert played.result.error is not None
    assert played.result.error.kind == "protocol_drift"
    assert "--nonsense" in played.result.error.message


def test_a_wrong_script_names_its_line(bench: ScriptedBench) -> None:
    file = bench.work / "script.yaml"
    file.write_text("- text: fine\n- text: fine\n  shel: ls\n")
    with pytest.raises(WrongUse, match=r"script\.yaml:3: .*'shel'"):
        prepare(ScriptedRuntime(), bench.scripted(str(file)), env=bench.env)


def test_a_state_folder_that_cannot_be_used(bench: ScriptedBench) -> None:
    (bench.home / "file").write_text("")
    played = bench.play(SCRIPT, account_dir=str(bench.home / "file"))
    assert played.result.error is not None
    assert played.result.error.kind == "crashed"
    assert "file" in played.result.error.message
    assert "Traceback" not in played.result.error.stderr_tail


def test_a_system_prompt_that_is_not_quite_text(bench: ScriptedBench) -> None:
    played = bench.play(append_system_prompt="bytes \udcff here")
    assert played.result.status == "completed"


def test_another_binary_is_started_instead(bench: ScriptedBench) -> None:
    other = bench.home / "other"
    other.write_text("#!/bin/sh\nexit 127\n")
    other.chmod(0o755)
    runtime = ScriptedRuntime(AdapterSettings(binary=str(other)))
    prepared = prepare(runtime, bench.scripted(SCRIPT), env=bench.env)
    assert "version unknown" in prepared.plan.warnings[0]
    list(prepared.run.events())
    error = prepared.run.result.error
    assert error is not None
    assert error.kind == "not_installed"
    missing = ScriptedRuntime(AdapterSettings(binary=str(bench.home / "none")))
    with pytest.raises(NotInstalled):
        prepare(missing, bench.scripted(SCRIPT), env=bench.env)
