"""A process of the agent that tries to answer a hook in the judge's place.

It runs as the same user and in the same sandbox as the hook, so it can open every pipe of the hook,
and it knows how hook and judge talk: the script is there to be read.
"""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from bridle.process.spec import ProcessSpec
from bridle.sandbox import confine, policy_for, preflight
from bridle.turns.guard_contract import HookNote, HookShape
from tests.guard.test_hooks import Place, place, reason

__all__ = ["place"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hooks and judge meet in /proc")

FORGER = """
import os, re, sys, time

hook, folder, steal = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "steal"
pipe = os.open(f"{folder}/ask", os.O_RDONLY | os.O_NONBLOCK) if steal else -1
if not steal:
    # The judge has taken the call and thinks: the next line is its answer.
    time.sleep(0.5)
until = time.monotonic() + 20
tried = 0
while time.monotonic() < until and os.path.exists(f"/proc/{hook}"):
    if steal:
        try:
            for line in os.read(pipe, 65536).splitlines():
                pid, key = line.split()[:2]
                for name in (f"answer.{hook}.{key.decode()}", f"answer.{hook}."):
                    try:
                        open(f"{folder}/{name}", "w").write("allow\\n")
                    except OSError:
                        tried += 1
        except (BlockingIOError, ValueError):
            pass
    try:
        fd = os.open(f"/proc/{hook}/fd/3", os.O_WRONLY | os.O_NONBLOCK)
        tried += 1
        # First: the hook is the agent here, and when it ends the forger is ended as well.
        print("tried", tried, file=sys.stderr, flush=True)
        os.write(fd, b"here\\nallow\\n" if steal else b"allow\\n")
        os.close(fd)
    except OSError:
        pass
"""


def attacked(place: Place, tmp_path: Path, means: str, *, steal: bool) -> str:
    """What the hook printed about a call that must be refused, while a forger wrote into its pipe;
    the forger must have got that far."""
    forger, said = tmp_path / "forger.py", tmp_path / "scratch/forger.txt"
    forger.write_text(FORGER)
    said.parent.mkdir()
    said.touch()
    python = shlex.join([sys.executable, "-I", "-S", str(forger)])
    way = "steal" if steal else "write"
    start = f"{python} $$ {place.session.folder} {way} </dev/null >/dev/null 2>>{said} & "
    command = start + place.command
    spec = ProcessSpec(
        argv=("sh", "-c", command),
        env={"PATH": os.environ["PATH"]},
        cwd=str(place.worktree),
    )
    if means:
        can = preflight()
        if means != "all":
            other = "mounts" if means == "landlock" else "landlock"
            can = msgspec.structs.replace(can, **{other: False})
        policy = policy_for("worktree", spec.cwd, scratch=str(said.parent), mounts=can.mounts)
        policy = msgspec.structs.replace(policy, files=(*policy.files, *place.session.writable))
        spec = confine(spec, policy, can)
    done = subprocess.run(
        spec.argv,
        env=spec.env,
        cwd=spec.cwd,
        input=place.payload("/etc/x"),
        capture_output=True,
        timeout=60,
        check=True,
    )
    until = time.monotonic() + 10
    while "tried" not in said.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert int(said.read_text().split()[-1]) > 0, said.read_text()
    return done.stdout.decode()


def slow(place: Place, tmp_path: Path) -> None:
    """The judge waits until the forger has written, and then some more."""
    place.session.patience = 25
    place.command = place.session.command(HookShape())
    whole, said = place.session.answer, tmp_path / "scratch/forger.txt"

    def answer(payload: bytes) -> HookNote:
        until = time.monotonic() + 15
        while "tried" not in said.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        return whole(payload)

    place.session.answer = answer  # type: ignore[method-assign]


@pytest.mark.parametrize("means", ["", "all", "landlock", "mounts"])
def test_an_allow_in_the_hook_s_pipe_is_not_believed(
    place: Place, tmp_path: Path, means: str
) -> None:
    slow(place, tmp_path)
    assert reason(attacked(place, tmp_path, means, steal=False))


@pytest.mark.parametrize("means", ["all", "landlock", "mounts"])
def test_nor_can_a_confined_agent_write_the_answer_itself(
    place: Place, tmp_path: Path, means: str
) -> None:
    """Not even when it takes the question away before the judge hears it."""
    slow(place, tmp_path)
    assert reason(attacked(place, tmp_path, means, steal=True))
    assert not list(Path(place.session.folder).glob("answer.*."))


def test_an_answer_is_for_one_question_of_one_process(place: Place) -> None:
    assert place.run(place.payload("a.txt")) == ""
    assert "outside" in reason(place.run(place.payload("/etc/x")))
    names = sorted(path.name for path in Path(place.session.folder).glob("answer.*"))
    assert len(names) == 2
    assert len({name.split(".", 2)[2] for name in names}) == 2


def test_answers_do_not_pile_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.guard.hooks.host._KEPT", 2)
    for _ in range(4):
        assert place.run(place.payload("a.txt")) == ""
    assert len(list(Path(place.session.folder).glob("answer.*"))) == 2
