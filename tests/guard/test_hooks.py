"""The hook process: it gets the verdict, whatever its payload, and refuses whatever goes wrong."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.guard import HookHost, Policy, RunGuard
from bridle.guard.hooks import hook_io as hook_io_module
from bridle.guard.hooks.hook_judge import LARGEST, HookJudge
from bridle.turns.guard_contract import Guard, GuardMechanism, HookNote, HookShape

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hooks and judge meet in /proc")

SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]
MECHANISM = GuardMechanism(name="test", fails="open", proof="none")


class Place:
    """A guarded worktree, and the command that a runtime would run."""

    def __init__(self, root: Path) -> None:
        self.worktree = root / "worktree"
        folder = root / "guard"
        for each in (self.worktree, folder):
            each.mkdir()
        self.service = HookHost()
        self.session: RunGuard = self.service.open_run(str(folder), stdio=False)
        self.session.patience = 2
        self.command = self.session.command(HookShape())
        policy = Policy(capability="builder", worktree=str(self.worktree))
        self.guard: Guard = self.session.begin(MECHANISM, policy)

    def payload(self, path: str, content: str = "x") -> bytes:
        return json.dumps(
            {
                "hook_event_name": "PreToolUse",
                "tool_name": "Write",
                "tool_use_id": "call_1",
                "cwd": str(self.worktree),
                "tool_input": {"file_path": path, "content": content},
            }
        ).encode()

    def run(self, payload: bytes, shell: str = "sh", *, by_socket: bool = False) -> str:
        """Run the hook; what it printed. It must exit 0 and say nothing on stderr."""
        if by_socket:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                sender = threading.Thread(target=_send, args=(ours, payload))
                done = subprocess.Popen(
                    [shell, "-c", self.command],
                    stdin=theirs.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                sender.start()
                out, err = done.communicate(timeout=60)
                sender.join(10)
        else:
            ran = subprocess.run(
                [shell, "-c", self.command],
                input=payload,
                capture_output=True,
                timeout=60,
                check=True,
            )
            out, err = ran.stdout, ran.stderr
        assert err == b""
        return out.decode()


def _send(end: socket.socket, payload: bytes) -> None:
    end.sendall(payload)
    end.shutdown(socket.SHUT_WR)


def reason(printed: str) -> str:
    said: dict[str, Any] = json.loads(printed)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    return str(said["permissionDecisionReason"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    try:
        yield made
    finally:
        made.service.close()


@pytest.mark.parametrize("by_socket", [False, True], ids=["pipe", "socket"])
@pytest.mark.parametrize("shell", SHELLS)
def test_the_verdict_comes_back(place: Place, shell: str, by_socket: bool) -> None:
    assert place.run(place.payload("a.txt"), shell, by_socket=by_socket) == ""
    said = place.run(place.payload("/etc/x"), shell, by_socket=by_socket)
    assert "outside the worktree" in reason(said)
    notes = place.guard.take()
    assert [note.verdict and note.verdict.allowed for note in notes] == [True, False]
    assert place.guard.was_asked("call_1", "Write")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_payload_that_cannot_be_reached_is_sent(
    place: Place, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(pid: int, number: int) -> int:
        raise hook_io_module.NeedsCopy

    monkeypatch.setattr(hook_io_module, "_taken_over", unreachable)
    assert place.run(place.payload("a.txt"), shell, by_socket=True) == ""
    large = place.payload("/etc/x", "y" * 300_000)
    assert "outside" in reason(place.run(large, shell, by_socket=True))


@pytest.mark.parametrize("path", ["/tmp/x", "/var/tmp/deep/x"])
def test_a_refused_temporary_file_is_shown_its_place(tmp_path: Path, path: str) -> None:
    policy = Policy(capability="builder", worktree="/somewhere/worktree", scratch=str(tmp_path))
    write = HookJudge(policy).judge("Write", {"file_path": path, "content": "x"})
    shell = HookJudge(policy).judge("Bash", {"command": f"echo x > {path}"})
    for verdict in (write, shell):
        assert not verdict.allowed
        assert verdict.reason.endswith(f"Temporary files go below $TMPDIR, which is {tmp_path}.")
    elsewhere = HookJudge(policy).judge("Write", {"file_path": "/etc/x", "content": "x"})
    assert "TMPDIR" not in elsewhere.reason


@pytest.mark.parametrize("size", [1_000, 64_000, 5_000_000])
def test_large_payloads_are_judged(place: Place, size: int) -> None:
    assert place.run(place.payload("a.txt", "z" * size)) == ""


def test_a_payload_beyond_measure_is_refused(place: Place) -> None:
    assert "too large" in reason(place.run(place.payload("a.txt", "z" * LARGEST)))


@pytest.mark.parametrize(
    "payload",
    [b"", b"garbage", b"[]", b'"text"', b"{", b"\xff\xfe{}", b"{}", b'{"tool_name": 7}'],
)
def test_malformed_payloads_are_refused(place: Place, payload: bytes) -> None:
    assert reason(place.run(payload))


def test_many_hooks_at_once_get_their_own_answers(place: Place) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        path = "a.txt" if number % 2 else f"/etc/x{number}"
        answers[number] = place.run(place.payload(path, "q" * 50_000))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 20
    for number, said in answers.items():
        assert said == "" if number % 2 else f"/etc/x{number} " in reason(said)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_judge_that_does_not_answer_is_a_refusal(place: Place, shell: str) -> None:
    release = threading.Event()

    def hang(payload: bytes) -> HookNote:
        release.wait(30)
        return HookNote(kind="event")

    place.session.answer = hang  # type: ignore[method-assign]  # broken on purpose
    try:
        assert "does not answer" in reason(place.run(place.payload("a.txt"), shell))
    finally:
        release.set()


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_judge_the_hook_judges_alone(place: Place, shell: str) -> None:
    _lose_the_judge(place)
    assert place.run(place.payload("a.txt"), shell) == ""
    assert "outside the worktree" in reason(place.run(place.payload("/etc/x"), shell))
    assert reason(place.run(b"garbage", shell))


@pytest.mark.parametrize("alone", [False, True], ids=["asked", "alone"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_hook_needs_nothing_of_its_environment(place: Place, shell: str, alone: bool) -> None:
    """Agents start hooks in environments of their own making; commands are judged too, for which
    a parser must be found."""
    if alone:
        _lose_the_judge(place)
    told = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": str(place.worktree)}
    for command, refused in (("ls | wc -l", False), ("ls; git push", True)):
        payload = json.dumps({**told, "tool_input": {"command": command}}).encode()
        argv = [shutil.which(shell) or shell, "-c", place.command]
        done = subprocess.run(argv, input=payload, capture_output=True, env={}, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        assert bool(done.stdout) is refused
        if refused:
            assert "git push" in reason(done.stdout.decode())


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.kill(os.getpid(), 9)",
        "raise SystemExit(3)",
        "print('allow it')",
        "while 1: 0",
        "print('allow'); raise SystemExit(1)",
        "import time; time.sleep(60)",
        "print('block')",
    ],
)
def test_a_lone_judge_that_breaks_is_a_refusal(place: Place, program: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(program)
    script = Path(place.session.files.script)
    text = script.read_text()
    start = text.index(sys.executable)
    end = text.index(" <&5)", start)
    script.write_text(f"{text[:start]}{sys.executable} {broken}{text[end:]}")
    _lose_the_judge(place)
    assert "could not judge alone" in reason(place.run(place.payload("a.txt")))


def _lose_the_judge(place: Place) -> None:
    """Let the script believe that the judge's process has ended."""
    script = Path(place.session.files.script)
    text = script.read_text()
    assert f"/proc/{os.getpid()}/stat" in text
    script.write_text(text.replace(f"/proc/{os.getpid()}/stat", "/proc/999999999/stat"))


def test_the_lone_judge_imports_only_what_it_needs(place: Place) -> None:
    settings = Path(place.session.folder) / "fallback.json"
    program = (
        "import sys, runpy\n"
        f"sys.argv = ['fallback.py', {str(settings)!r}]\n"
        "try:\n    runpy.run_module('bridle.guard.hooks.fallback', run_name='__main__')\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'asyncio', 'anyio', 'logging', 'rich', 'httpx2', 'ruamel.yaml', 'sqlite3',"
        " 'bridle.runtimes', 'bridle.config', 'bridle.cli'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=place.payload("a.txt"),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.decode().splitlines() == ["allow", "[]"]


def test_a_script_that_is_gone_refuses(place: Place) -> None:
    os.unlink(place.session.files.script)
    done = subprocess.run(
        ["sh", "-c", place.command], input=b"{}", capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert b"guard is gone" in done.stderr


def test_after_the_end_nothing_is_allowed(place: Place) -> None:
    place.session.close()
    verdict = place.session.answer(place.payload("a.txt")).verdict
    assert verdict is not None
    assert not verdict.allowed
    assert not os.path.exists(place.session.folder)


def test_strangers_get_no_answer_and_do_no_harm(place: Place) -> None:
    """What an agent's own command writes into the FIFO is taken for what it is."""
    with subprocess.Popen(["sleep", "30"], stdin=subprocess.PIPE) as other:
        try:
            fifo = os.open(place.session.files.fifo, os.O_WRONLY | os.O_NONBLOCK)
            os.write(fifo, f"garbage\n-1\n0\n{other.pid}\n{other.pid} 4\n99999999999\n".encode())
            os.close(fifo)
            assert place.run(place.payload("a.txt")) == ""
            assert other.poll() is None
        finally:
            other.kill()
    assert len(place.guard.take()) == 1


# -- over TCP -------------------------------------------------------------------------------------


def talk(place: Place, *lines: dict[str, Any] | bytes) -> list[dict[str, Any]]:
    address = place.session.address()
    assert address.host == "127.0.0.1"
    with socket.create_connection((address.host, address.port), timeout=20) as connection:
        answers = connection.makefile("rb")
        said = []
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            connection.sendall(data + b"\n")
            said.append(json.loads(answers.readline()))
        return said


def test_programs_inside_an_agent_ask_over_loopback(place: Place) -> None:
    token = place.session.address().token
    fine, bad = (json.loads(place.payload(path)) for path in ("a.txt", "/etc/x"))
    first, second = talk(
        place,
        {"token": token, "id": 1, "payload": fine},
        {"token": token, "id": 2, "payload": bad},
    )
    assert (first["id"], first["allow"]) == (1, True)
    assert (second["id"], second["allow"]) == (2, False)
    assert "outside the worktree" in second["reason"]


def test_without_the_token_nothing_is_allowed(place: Place) -> None:
    payload = json.loads(place.payload("a.txt"))
    for line in ({"token": "guess", "payload": payload}, b"garbage", {"payload": payload}):
        assert talk(place, line)[0]["allow"] is False
    assert place.guard.take() == []
