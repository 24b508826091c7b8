"""A hook whose process, or whose judge, is killed in the middle of a call refuses the call."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bridle.guard import Policy
from bridle.guard.hooks.host import HostedGuard
from bridle.runtimes.claude import hooks as claude_guarding
from bridle.turns.guard_contract import REASON, HookNote, HookShape
from tests.conftest import wait_until
from tests.guard.agents import AGENTS, DRIVES, Agent, Sabotage, play
from tests.guard.test_hooks import MECHANISM, SHELLS, Place, reason
from tests.guard.test_real_agents import forbidden
from tests.sandbox.bench import Bench, bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hooks and judge meet in /proc")

_SHELL_NAMES = (b"sh", b"bash", b"dash", b"zsh")


def hook_shells(script: str) -> dict[int, int]:
    """The shells that run the script now, each with its parent."""
    found = {}
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            argv = (each / "cmdline").read_bytes().split(b"\0")
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        is_shell = argv[0].rpartition(b"/")[2] in _SHELL_NAMES and len(argv) > 1
        if is_shell and argv[1].startswith(b"-") and any(script.encode() in a for a in argv[2:]):
            found[int(each.name)] = parent
    return found


def kill_asking(script: str, *, over: bool) -> list[int]:
    """Kill the shells that ask, those over them (if any) left alone; which they were."""
    shells = hook_shells(script)
    first = {pid for pid, parent in shells.items() if parent not in shells}
    below = [pid for pid, parent in shells.items() if parent in first]
    killed = below if over else list(first)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    return killed


def kill_all(script: str) -> list[int]:
    """Kill all shells of a hook, the first one first, so that none is left to say anything."""
    shells = hook_shells(script)
    killed = sorted(shells, key=lambda pid: shells[pid] in shells)
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return killed


FORETOLD = HookShape(
    refusal={"decision": "deny", "reason": REASON}, consent={"decision": "allow"}, foretold=True
)


def shaped(place: Place, shape: HookShape) -> str:
    """The command of a hook of that shape."""
    command = place.session.command(shape)
    policy = Policy(capability="builder", worktree=str(place.worktree))
    place.session.begin(msgspec.structs.replace(MECHANISM, shape=shape), policy)
    return command


def watched(place: Place) -> str:
    """The command of a hook that is watched."""
    return shaped(place, HookShape(watched=True))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    try:
        yield made
    finally:
        made.service.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_watched_hook_gives_the_same_answers(place: Place, shell: str) -> None:
    place.command = watched(place)
    assert place.run(place.payload("a.txt"), shell) == ""
    assert "outside the worktree" in reason(place.run(place.payload("/etc/x"), shell))
    assert "outside" in reason(place.run(place.payload("/etc/x", "y" * 300_000), shell))
    assert reason(place.run(b"garbage", shell))
    assert place.run(place.payload("a.txt"), shell, by_socket=True) == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_hook_that_is_killed_is_a_refusal(place: Place, shell: str) -> None:
    place.command = watched(place)
    killed: list[int] = []

    def kill(payload: bytes) -> HookNote:
        killed.extend(kill_asking(place.session.files.script, over=True))
        return HookNote(kind="event")

    place.session.answer = kill  # type: ignore[method-assign]  # the moment of the kill
    said = reason(place.run(place.payload("a.txt"), shell))
    # The hook may end before the thread that killed it says so.
    wait_until(lambda: len(killed) == 1)
    assert "ended before it had an answer" in said


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_that_is_gone_refuses_a_watched_hook_too(place: Place, shell: str) -> None:
    command = watched(place)
    os.unlink(place.session.files.script)
    done = subprocess.run([shell, "-c", command], input=b"{}", capture_output=True, timeout=60)
    assert done.returncode == 2
    assert b"guard is gone" in done.stderr


def answered(place: Place, shell: str, payload: bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [shell, "-c", place.command], input=payload, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_foretold_is_taken_back_on_stdout(place: Place, shell: str) -> None:
    place.command = shaped(place, FORETOLD)
    done = answered(place, shell, place.payload("a.txt"))
    assert (done.returncode, json.loads(done.stdout)) == (0, {"decision": "allow"})
    refused = json.loads(answered(place, shell, place.payload("/etc/x")).stdout)
    assert refused["decision"] == "deny"
    assert "outside the worktree" in refused["reason"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_foretold_refusal_stands_when_all_of_the_hook_is_killed(place: Place, shell: str) -> None:
    place.command = shaped(place, FORETOLD)

    def kill(payload: bytes) -> HookNote:
        assert kill_all(place.session.files.script)
        return HookNote(kind="event")

    place.session.answer = kill  # type: ignore[method-assign]  # the moment of the kill
    done = answered(place, shell, place.payload("a.txt"))
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")
    assert json.loads(done.stderr)["decision"] == "deny"


# -- the judge is killed --------------------------------------------------------------------------

JUDGE = """
import sys, threading
from bridle.turns.guard_contract import GuardMechanism, HookShape
from bridle.guard import HookHost, Policy
service = HookHost()
session = service.open_run(sys.argv[1], stdio=False)
session.patience = int(sys.argv[4])
shape = HookShape(watched=sys.argv[3] == "watched", timed=sys.argv[3] != "untimed")
command = session.command(shape)
session.begin(GuardMechanism(name="test", fails="open", proof="none"),
              Policy(capability="builder", worktree=sys.argv[2]))
def hang(payload):
    print("asked", flush=True)
    threading.Event().wait()
session.answer = hang
print(command, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("kind", ["plain", "watched", "untimed"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_call_in_flight_is_refused_when_the_judge_dies(
    tmp_path: Path, shell: str, kind: str
) -> None:
    """Long before its patience is over: that is ten minutes here."""
    guard, worktree = tmp_path / "guard", tmp_path / "worktree"
    for each in (guard, worktree):
        each.mkdir()
    argv = [sys.executable, "-c", JUDGE, str(guard), str(worktree), kind, "600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as judge:
        assert judge.stdout is not None
        try:
            command = judge.stdout.readline().strip()
            with subprocess.Popen(
                [shell, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as hook:
                try:
                    assert hook.stdin is not None
                    hook.stdin.write('{"tool_name": "Write", "tool_input": {"file_path": "a"}}')
                    hook.stdin.close()
                    assert judge.stdout.readline() == "asked\n"
                    judge.kill()
                    assert hook.stdout is not None
                    said = hook.stdout.read()
                    assert hook.wait(60) == 0
                finally:
                    hook.kill()
        finally:
            judge.kill()
    assert "does not answer" in reason(said)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_hook_that_need_not_keep_the_time_gives_the_same_answers(
    place: Place, shell: str
) -> None:
    shape = HookShape(timed=False)
    place.command = place.session.command(shape)
    assert place.run(place.payload("a.txt"), shell) == ""
    assert "outside the worktree" in reason(place.run(place.payload("/etc/x"), shell))
    assert place.run(place.payload("a.txt"), shell, by_socket=True) == ""


# -- in real agents -------------------------------------------------------------------------------


@pytest.fixture
def worked() -> Iterator[Bench]:
    with bench() as made:
        yield made


def killing(killed: list[int], kill: Callable[[HostedGuard], list[int]]) -> Sabotage:
    """Have the hook killed that asks about a tool, then allow the call."""

    def sabotage(session: HostedGuard) -> None:
        whole = session.answer

        def answer(payload: bytes) -> HookNote:
            shape = session.shape
            named = f'"{shape.event}"'.encode() in payload
            if named and not any(f'"{event}"'.encode() in payload for event in shape.asks):
                return whole(payload)
            found = kill(session)
            killed.extend(found)
            # Dead before the answer: a pipe that nobody reads would take it.
            wait_until(lambda: not set(found) & set(hook_shells(session.files.script)), seconds=10)
            return HookNote(kind="event")

        session.answer = answer  # type: ignore[method-assign]  # the moment of the kill

    return sabotage


def runs_nothing(worked: Bench, agent: Agent, kill: Callable[[HostedGuard], list[int]]) -> None:
    killed: list[int] = []
    script = [{"shell": "echo bad > inside.txt"}, forbidden(worked)[0]]
    played = play(worked, agent, DRIVES["print-hooks"], "builder", script, killing(killed, kill))
    assert killed
    assert not (worked.worktree / "inside.txt").exists()
    assert worked.written_outside() == []
    assert all(end.is_error for end in played.ended), played.ended
    assert not any(decision == "allow" for decision, _ in played.verdicts)


@pytest.mark.real_cli
@pytest.mark.parametrize(
    "agent", [a for a in AGENTS if a.name in ("claude", "codex", "copilot", "gemini")], ids=str
)
def test_an_agent_whose_hook_is_killed_runs_nothing(worked: Bench, agent: Agent) -> None:
    runs_nothing(
        worked, agent, lambda session: kill_asking(session.files.script, over=session.shape.watched)
    )


@pytest.mark.real_cli
@pytest.mark.parametrize(
    "agent",
    [a for a in AGENTS if str(a) == "claude-2.1.325" or a.name in ("copilot", "gemini")],
    ids=str,
)
def test_an_agent_all_of_whose_hook_is_killed_runs_nothing(worked: Bench, agent: Agent) -> None:
    runs_nothing(worked, agent, lambda session: kill_all(session.files.script))


@pytest.mark.real_cli
@pytest.mark.parametrize(
    "agent",
    [a for a in AGENTS if str(a) == "claude-2.1.197" or a.name == "codex"],
    ids=str,
)
def test_where_a_killed_hook_lets_a_call_pass_the_agent_is_stopped(
    worked: Bench, agent: Agent
) -> None:
    """What docs/guard.md says cannot be caught there."""
    killed: list[int] = []
    sabotage = killing(killed, lambda session: kill_all(session.files.script))
    script = [{"shell": "echo bad > inside.txt"}, {"shell": "echo bad > second.txt"}]
    played = play(worked, agent, DRIVES["print-hooks"], "builder", script, sabotage)
    assert killed
    assert (worked.worktree / "inside.txt").exists()
    assert played.result.error is not None
    assert played.result.error.kind == "guard_refused"


@pytest.mark.real_cli
@pytest.mark.parametrize("sandbox", ["worktree", "read-only"])
def test_commands_in_codexs_own_sandbox_cannot_see_a_hook(worked: Bench, sandbox: str) -> None:
    """They have process ids of their own, and hooks run outside."""
    agent = next(a for a in AGENTS if a.name == "codex")
    look = f"kill -0 {os.getpid()} && echo reached; readlink /proc/self/ns/pid"
    script = [{"shell": look}]
    played = play(worked, agent, DRIVES["print-hooks"], "builder", script, sandbox=sandbox)
    [end] = played.ended
    assert "pid:[" in str(end.result)
    assert os.readlink("/proc/self/ns/pid") not in str(end.result)
    assert "reached" not in str(end.result)


@pytest.mark.real_cli
def test_claude_stops_a_tool_whose_hook_is_late(
    worked: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the hook does not keep the time itself."""
    agent = next(a for a in AGENTS if str(a) == "claude-2.1.325")
    monkeypatch.setattr(claude_guarding, "_PATIENCE", 1)
    release = threading.Event()

    def hanging(session: HostedGuard) -> None:
        assert not session.shape.timed
        whole = session.answer

        def answer(payload: bytes) -> HookNote:
            if any(f'"{event}"'.encode() in payload for event in session.shape.asks):
                release.wait(60)
                return HookNote(kind="event")
            return whole(payload)

        session.answer = answer  # type: ignore[method-assign]  # it hangs

    script = [{"shell": "echo bad > inside.txt"}, forbidden(worked)[0]]
    try:
        played = play(worked, agent, DRIVES["print-hooks"], "builder", script, hanging)
    finally:
        release.set()
    assert not (worked.worktree / "inside.txt").exists()
    assert worked.written_outside() == []
    assert all(end.is_error for end in played.ended), played.ended
