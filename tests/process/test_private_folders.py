"""Private folders of runs: removed at their end, and by the next run when there was no end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridle.process.private_folders import claim_folders, remove_folders, sweep
from bridle.process.process_tree import look
from tests.conftest import wait_until
from tests.doctor.fakes import fake_cli

HOLDS = """
import sys, time
from bridle.process.private_folders import claim_folders
claim_folders((sys.argv[1],))
print("claimed", flush=True)
time.sleep(300)
"""


def made(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir(mode=0o700)
    (folder / "secret").write_text("x")
    return folder


def test_a_folder_of_a_killed_owner_is_swept_and_no_other(tmp_path: Path) -> None:
    left, mine, session = (made(tmp_path, name) for name in ("left", "mine", "session"))
    (tmp_path / "theirs.owner").write_text("somebody 1 2\n")
    theirs = made(tmp_path, "theirs")
    claim_folders((str(mine),))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(left)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "claimed\n"
        assert (tmp_path / "left.owner").stat().st_mode & 0o777 == 0o600
        sweep(str(tmp_path))
        assert left.is_dir(), "its owner lives"
        owner.kill()
    claim_folders((str(made(tmp_path, "next")),))
    assert not left.exists()
    assert not (tmp_path / "left.owner").exists()
    assert mine.is_dir()
    assert session.is_dir(), "nobody claimed it: it is a session's"
    assert theirs.is_dir(), "that is no file of ours"
    remove_folders((str(mine),))
    assert not (tmp_path / "mine.owner").exists()


def test_another_process_with_the_number_of_the_owner_is_not_the_owner(tmp_path: Path) -> None:
    folder = made(tmp_path, "left")
    (tmp_path / "left.owner").write_text(f"bridle {os.getpid()} 1\n")
    sweep(str(tmp_path))
    assert not folder.exists()


def test_a_run_that_was_killed_is_swept_by_the_next(
    tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    fake_cli(tmp_path / "bin", "aider", version="0.86.1", then=f"echo $$ > {pid}; exec sleep 300")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    words = [sys.executable, "-m", "bridle", "run", "go", "--runtime", "aider"]
    folders = private_home / ".local/state/bridle/run"
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL) as run:
        wait_until(lambda: pid.exists() and bool(pid.read_text().strip()), seconds=60)
        run.kill()
    agent = int(pid.read_text())
    assert list(folders.glob("aider-*")), "nobody was there to remove it"
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: look(agent) is None)
    fake_cli(tmp_path / "bin", "aider", version="0.86.1", then="exit 1")
    subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert list(folders.iterdir()) == []
