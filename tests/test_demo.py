"""The demo, as a person and as a program sees it, and that it fails when it should."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from bridle.core.errors import NotInstalled
from bridle.demo import show as demo
from bridle.demo.jobs import JOBS, Job

RUN = "import sys; from bridle.demo.show import main; sys.exit(main(json={0}, keep={1}))"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    for name in ("home", "temp"):
        (tmp_path / name).mkdir()
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temp"),
    }


def _run(
    env: dict[str, str], *, json: bool = False, keep: bool = False
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN.format(json, keep)],
        env=env,
        cwd=env["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_a_person_sees(env: dict[str, str]) -> None:
    done = _run(env)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "the agents are scripted" in lines[0]
    for job in JOBS:
        mine = [line.split(maxsplit=1)[1] for line in lines if line.startswith(f"{job.name} ")]
        assert mine[0].startswith("starts (scripted agent ")
        assert "completed" in mine
    assert sum("REFUSED: ../outside.txt is outside" in line for line in lines) == 1
    assert any("retry 1: " in line for line in lines)
    assert any("the file is not there" in line for line in lines)
    assert any(line.split()[:1] == ["all"] for line in lines)
    assert "bridle run" in lines[-1]
    assert "\x1b" not in done.stdout
    # All four had begun before the first had ended.
    starts = [i for i, line in enumerate(lines) if " starts (scripted agent" in line]
    assert max(starts) < lines.index(next(x for x in lines if x.endswith(" completed")))


def test_it_leaves_nothing_behind(env: dict[str, str]) -> None:
    assert _run(env).returncode == 0
    assert os.listdir(env["TMPDIR"]) == []
    assert os.listdir(env["HOME"]) == []


def test_summary_as_json(env: dict[str, str]) -> None:
    done = _run(env, json=True)
    assert (done.returncode, done.stderr) == (0, "")
    summary = msgspec.json.decode(done.stdout)
    assert summary["ok"] is True
    assert summary["scripted"] is True
    assert [each["name"] for each in summary["agents"]] == [job.name for job in JOBS]
    assert {each["status"] for each in summary["agents"]} == {"completed"}
    assert all(each["commit"] for each in summary["agents"])
    assert summary["refused"]["agent"] == "scout"
    assert summary["refused"]["written"] is False
    for kind in ("input_tokens", "output_tokens", "cache_read_tokens"):
        told = sum(turn["usage"][kind] for job in JOBS for turn in job.script)
        assert summary["usage"][kind] == told


def test_keep_leaves_the_repository(env: dict[str, str]) -> None:
    summary = msgspec.json.decode(_run(env, json=True, keep=True).stdout)
    trees = Path(summary["folder"]) / "trees"
    assert sorted(each.name for each in trees.iterdir()) == sorted(job.name for job in JOBS)
    said = subprocess.run(
        ["sh", "hello.sh", "you"], cwd=trees / "builder", capture_output=True, check=True
    )
    assert said.stdout == b"Hello, you!\n"


def test_the_command_keeps_it_too(env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bridle", "demo", "--keep", "--json"],
        env=env,
        cwd=env["HOME"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert Path(msgspec.json.decode(done.stdout)["folder"]).is_dir()


def _only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, job: Job) -> None:
    monkeypatch.setattr(demo, "JOBS", (job,))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def _summary(capsys: pytest.CaptureFixture[str]) -> Any:
    return msgspec.json.decode(capsys.readouterr().out)


COMMIT = {"shell": "touch new && git add new && git commit -q -m New"}
OUTSIDE = {"write_file": {"path": "../outside.txt", "content": "x"}}


def test_it_fails_when_the_write_got_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script: list[dict[str, Any]] = [{"shell": "touch ../outside.txt"}, OUTSIDE, COMMIT]
    _only(monkeypatch, tmp_path, Job("bad", "x", script))
    assert demo.main(json=True) == 1
    assert _summary(capsys)["refused"]["written"] is True
    assert demo.main() == 1
    assert "was written anyway" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_it_fails_when_nothing_was_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _only(monkeypatch, tmp_path, Job("meek", "x", [COMMIT]))
    assert demo.main(json=True) == 1
    assert _summary(capsys)["refused"] is None


@pytest.mark.parametrize(
    "last", [{"text": "I did nothing."}, {"shell": "touch lost"}, {"fault": {"status": 401}}]
)
def test_it_fails_when_an_agent_did_not_do_its_work(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    last: dict[str, Any],
) -> None:
    script: list[dict[str, Any]] = [OUTSIDE, last] if "text" in last else [OUTSIDE, COMMIT, last]
    _only(monkeypatch, tmp_path, Job("lazy", "x", script))
    assert demo.main(json=True) == 1
    assert _summary(capsys)["refused"]["written"] is False


def test_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="git") as caught:
        demo.main()
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_everything(env: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN.format(False, False)],
        env=env,
        cwd=env["HOME"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if " starts (scripted agent" in line:
            process.send_signal(signal.SIGINT)
            break
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "interrupted\n"
    assert os.listdir(env["TMPDIR"]) == []
    assert _living(env["TMPDIR"]) == []


def test_a_reader_that_leaves_is_no_error(env: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN.format(False, False)],
        env=env,
        cwd=env["HOME"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), said) == (0, b"")
    assert os.listdir(env["TMPDIR"]) == []


def _living(folder: str) -> list[int]:
    """Processes that were started by a demo in `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME", "").startswith(folder):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
