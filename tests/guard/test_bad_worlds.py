"""Bad input that is not a call's own: names that are no text, a link swapped after the verdict, a
judge that stands still. The answer is a refusal, from the judge, the hook or the kernel."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.guard import Call, HookHost, Judge, Policy
from bridle.turns.guard_contract import HookShape
from tests.guard.test_hooks import MECHANISM, SHELLS, Place, reason
from tests.guard.test_killed_hooks import JUDGE
from tests.sandbox.test_confinement import MEANS
from tests.sandbox.test_confinement import Place as Confined

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hooks and judge meet in /proc")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    try:
        yield made
    finally:
        made.service.close()


@pytest.mark.parametrize(
    "path",
    [b"caf\xe9.txt", b"../caf\xe9.txt", b"/etc/\xff\xfe", b"a\\u0000b", b"\\ud800/../../x"],
)
def test_a_hook_is_told_of_a_path_that_is_no_text(place: Place, path: bytes) -> None:
    payload = place.payload("PATH").replace(b"PATH", path)
    assert reason(place.run(payload))


@pytest.mark.parametrize("judged", ["by a judge", "alone"])
def test_a_worktree_whose_name_is_no_text(tmp_path: Path, judged: str) -> None:
    """Its agent is held like any other."""
    worktree = os.fsdecode(os.fsencode(str(tmp_path)) + b"/caf\xe9")
    os.mkdir(worktree)
    folder = tmp_path / "guard"
    folder.mkdir()
    service = HookHost()
    session = service.open_run(str(folder), stdio=False)
    try:
        command = session.command(HookShape())
        session.begin(MECHANISM, Policy(capability="builder", worktree=worktree))
        if judged == "alone":
            script = Path(session.files.script)
            text = script.read_text()
            script.write_text(text.replace(f"/proc/{os.getpid()}/stat", "/proc/999999999/stat"))
        call = {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_use_id": "c"}
        payload = {**call, "tool_input": {"file_path": "/etc/x", "content": ""}}
        done = subprocess.run(
            ["sh", "-c", command],
            input=json.dumps(payload).encode(),
            cwd=worktree,
            capture_output=True,
            timeout=60,
            check=True,
        )
    finally:
        service.close()
    assert "outside the worktree" in reason(done.stdout.decode())


def test_a_hundred_components_in_a_command(place: Place) -> None:
    deep = "/".join(["d"] * 100)
    up = deep + "/.." * 101
    for path, allowed in ((f"{deep}/f", True), (f"{up}/f", False), (f"./{up}/../f", False)):
        call = Call(tool="Bash", input={"command": f"echo x > {path}"})
        policy = Policy(capability="builder", worktree=str(place.worktree))
        assert Judge(policy).judge(call).allowed == allowed, path


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("by", ["shell", "python"])
def test_a_link_swapped_after_the_verdict_leads_nowhere(
    tmp_path: Path, means: str, by: str
) -> None:
    """The judge saw a link that stays inside; what it leads to when the command runs is the
    kernel's to refuse."""
    place = Confined(tmp_path)
    (place.worktree / "src").mkdir()
    link = place.worktree / "link"
    link.symlink_to("src")
    write = {
        "shell": "echo bad > link/f.txt",
        "python": "python3 -c \"open('link/f.txt', 'w').write('bad')\"",
    }[by]
    policy = Policy(
        capability="builder", agent="ann", worktree=str(place.worktree), scratch=str(place.scratch)
    )
    judge = Judge(policy)
    assert judge.judge(Call(tool="Bash", input={"command": write})).allowed
    link.unlink()
    link.symlink_to(place.outside)
    assert place.run(write, means=means) != 0
    assert (place.outside / "f.txt").read_text() == "safe\n"
    # The next call is judged anew; what a program opens only the kernel sees.
    if by == "shell":
        assert judge.judge(Call(tool="Bash", input={"command": write})).rule == "path-outside"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_judge_that_stands_still_is_a_refusal(tmp_path: Path, shell: str) -> None:
    guard, worktree = tmp_path / "guard", tmp_path / "worktree"
    for each in (guard, worktree):
        each.mkdir()
    argv = [sys.executable, "-c", JUDGE, str(guard), str(worktree), "plain", "2"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as judge:
        try:
            assert judge.stdout is not None
            command = judge.stdout.readline().strip()
            os.kill(judge.pid, signal.SIGSTOP)
            done = subprocess.run(
                [shell, "-c", command], input=b"{}", capture_output=True, timeout=60, check=True
            )
        finally:
            judge.kill()
    assert "does not answer" in reason(done.stdout.decode())
