"""Ctrl-C, signals, timeouts and lost readers end the agent and all it started."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from bridle.process.process_tree import marked_processes
from tests.support.preset_agent import Place


def start(place: Place, *words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        place.command("run", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.project,
        env=place.environment(),
    )


def read_until_waiting(process: "subprocess.Popen[bytes]") -> str:
    """Read events until the agent waits; returns the session's id."""
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event.get("text") == "waiting":
            return str(event["session_id"])
    raise AssertionError("the agent never waited")


def end_of(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    out, _ = process.communicate(timeout=60)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_agent_and_the_result_is_printed(
    place: Place, number: signal.Signals
) -> None:
    process = start(place, "wait", "--stream-json")
    session = read_until_waiting(process)
    process.send_signal(number)
    result = end_of(process)
    assert process.returncode == 130
    assert (result["type"], result["status"]) == ("run_end", "aborted")
    assert result["text"] == "waiting"
    assert result["error"]["kind"] == "aborted"
    assert result["error"]["message"] == f"stopped by {number.name}"
    assert marked_processes(session) == []


def test_the_second_ctrl_c_kills_at_once(place: Place) -> None:
    process = start(place, "stubborn", "--stream-json")
    session = read_until_waiting(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    result = end_of(process)
    assert (process.returncode, result["status"]) == (130, "aborted")
    assert result["exit_code"] == -signal.SIGKILL
    assert marked_processes(session) == []


def test_an_agent_that_never_answers_is_stopped(place: Place) -> None:
    done = place.bridle("run", "wait", "--timeout", "0.5", "--json")
    result = json.loads(done.out)
    assert done.status == 7
    assert (result["status"], result["error"]["kind"]) == ("timed_out", "timeout")
    assert result["text"] == "waiting"
    assert marked_processes(result["session_id"]) == []


def test_the_configured_time_holds_when_none_is_given(place: Place) -> None:
    config = place.project / ".bridle/config.yaml"
    config.write_text(config.read_text() + "budgets: {runSeconds: 0.5}\n")
    assert place.bridle("run", "wait").status == 7


def test_a_reader_that_goes_away_ends_the_agent(place: Place) -> None:
    process = start(place, "lines 1000000", "--stream-json")
    assert process.stdout is not None
    session = json.loads(process.stdout.readline())["session_id"]
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(timeout=60) == 130
    assert b"Traceback" not in said
    assert b"bug" not in said
    assert marked_processes(session) == []
    process.stderr.close()


def test_an_ignored_signal_stays_ignored(place: Place) -> None:
    command = place.command("run", "lines 2")
    process = subprocess.run(
        command,
        cwd=place.project,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None,
        check=False,
        timeout=60,
    )
    assert process.returncode == 0
    assert os.path.exists(place.project)


def test_a_background_job_of_a_script_is_stopped_by_a_terminating_signal(place: Place) -> None:
    # A shell without job control starts background jobs with SIGINT and SIGQUIT ignored.
    script = '"$@" & echo $! >&2; wait $!'
    process = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *place.command("run", "wait", "--stream-json")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.project,
        env=place.environment(),
    )
    session = read_until_waiting(process)
    assert process.stderr is not None
    job = int(process.stderr.readline())
    os.kill(job, signal.SIGINT)
    os.kill(job, signal.SIGTERM)
    result = end_of(process)
    assert process.returncode == 130
    assert (result["status"], result["error"]["message"]) == ("aborted", "stopped by SIGTERM")
    assert marked_processes(session) == []


@pytest.mark.parametrize("slow", [0, 0.3], ids=["at once", "on a slow machine"])
def test_a_ctrl_c_that_python_drops_is_raised_again(place: Place, slow: float) -> None:
    # As in the callback that ends the import of a module: what is raised there goes nowhere.
    program = f"""
import signal, threading, time
from bridle.cli.startup import keep_interrupts

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)

start = threading.Thread.start
threading.Thread.start = lambda self: (start(self), time.sleep({slow}))
keep_interrupts()
Finalised()
time.sleep(20)
print("went on")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "")
    assert "Exception ignored" not in done.stderr
