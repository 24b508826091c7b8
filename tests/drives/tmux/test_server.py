"""A private tmux server, the real one."""

import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bridle.core.errors import NotInstalled, TimedOut, WrongUse
from bridle.drives.tmux.control import Block
from bridle.drives.tmux.errors import ConnectionLost, PaneGone, ServerGone
from bridle.drives.tmux.server import TmuxServer, make_private, server_folder, version_of
from tests.conftest import wait_until

TELL = """
import json, os, sys
with open(sys.argv[1] + ".part", "w") as file:
    json.dump({"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}, file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
sys.stdin.read()
"""
"""Writes down how it was started, then waits."""

TAKE = r"""
import os, sys, tty
tty.setraw(0)
os.write(1, b"\x1b[?2004hwaiting")
taken = b""
while not taken.endswith(b"\x1b[201~"):
    taken += os.read(0, 1 << 16)
open(sys.argv[1], "wb").write(taken)
os.write(1, b"\r\ndone")
os.read(0, 1)
"""
"""Takes one bracketed paste as it comes."""

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-I", "-c", code, *words]


def test_command_folder_and_environment_arrive_as_they_are(
    server: TmuxServer, tmp_path: Path
) -> None:
    words = [
        "",
        "a b",
        "it's",
        '"$HOME"',
        "`id`",
        "#{pid}",
        "x;y",
        "two\nlines",
        "\\n",
        "é~%1",
        "-x",
    ]
    cwd = tmp_path / "a#(touch no) ü'b"
    cwd.mkdir()
    env = {**ENV, "ODD": "a\n'b' \"$c\" #{d} \\; ~", "BRIDLE_SESSION_ID": "s-1"}
    told = tmp_path / "told"
    state = server.new_session("one", python(TELL, str(told), *words), cwd=str(cwd), env=env)
    wait_until(told.exists)
    found = json.loads(told.read_text())
    assert found["argv"] == words
    assert found["cwd"] == str(cwd)
    added = {"PWD", "SHELL", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE"}
    assert {key: value for key, value in found["env"].items() if key not in added} == env
    assert not state.dead
    assert server.sessions() == {"one": state}
    assert not list(cwd.iterdir())


def test_a_command_of_one_word_is_no_shell_text(server: TmuxServer, tmp_path: Path) -> None:
    program = tmp_path / "it's $HOME"
    program.write_text("#!/bin/sh\necho started; read x\n")
    program.chmod(0o700)
    server.new_session("one", [str(program)], cwd=str(tmp_path), env=ENV)
    wait_until(lambda: "started" in server.capture("one"))


def test_a_text_of_a_megabyte_is_pasted_whole(server: TmuxServer, tmp_path: Path) -> None:
    text = "".join(
        f"line {number} 'quoted' \"twice\" $HOME `x` äöü 漢字 🙂\n" for number in range(19_000)
    )
    assert len(text.encode()) > 1 << 20
    got = tmp_path / "got"
    server.new_session("one", python(TAKE, str(got)), cwd=str(tmp_path), env=ENV)
    wait_until(lambda: "waiting" in server.capture("one"))
    server.paste("one", text)
    wait_until(lambda: "done" in server.capture("one"))
    body = got.read_bytes().removeprefix(b"\x1b[200~").removesuffix(b"\x1b[201~")
    assert body.decode() == text.replace("\n", "\r")
    assert os.listdir(server.folder) == ["tmux"]


@pytest.mark.parametrize("text", ["\x1b[201~rm -rf /\r", "a\x03", "\x9b201~", "\x7f"])
def test_what_a_terminal_would_obey_is_refused(
    server: TmuxServer, tmp_path: Path, text: str
) -> None:
    server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    with pytest.raises(WrongUse, match="control character"):
        server.paste("one", text)


def test_a_program_cannot_mix_up_the_answers(server: TmuxServer, tmp_path: Path) -> None:
    # It shows every guard line that the coming answers could have.
    code = (
        "import time\n"
        "for number in range(200, 700):\n"
        "    for word in ('begin', 'end'): print(f'%{word} {int(time.time())} {number} 1')\n"
        "print('%exit')\n"
        "input()"
    )
    server.new_session("bad", python(code), cwd=str(tmp_path), env=ENV)
    server.new_session("good", ["/bin/sh", "-c", "echo fine; read x"], cwd=str(tmp_path), env=ENV)
    wait_until(lambda: server.capture("bad").rstrip().endswith("%exit"))
    for _ in range(20):
        server.capture("bad", history=True)
        assert server.capture("good").strip() == "fine"
        assert set(server.sessions()) == {"bad", "good"}


def test_how_a_process_ended_is_told(server: TmuxServer, tmp_path: Path) -> None:
    server.new_session("seven", ["/bin/sh", "-c", "exit 7"], cwd=str(tmp_path), env=ENV)
    shot = server.new_session("shot", ["/bin/sleep", "60"], cwd=str(tmp_path), env=ENV)
    assert shot.exit_code is None
    os.kill(shot.pid, signal.SIGKILL)
    wait_until(lambda: server.pane("seven").dead)
    wait_until(lambda: server.pane("shot").dead)
    assert server.pane("seven").exit_code == 7
    assert server.pane("shot").exit_code == -signal.SIGKILL
    server.kill_session("seven")
    server.kill_session("seven")
    assert set(server.sessions()) == {"shot"}


def test_a_status_that_tmux_learns_after_its_answer_is_read_again(
    server: TmuxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.new_session("seven", ["/bin/sh", "-c", "exit 7"], cwd=str(tmp_path), env=ENV)
    wait_until(lambda: server.pane("seven").dead)
    pid = server.pane("seven").pid
    run, early = server._run_command, [Block(lines=(b"%d 1  " % pid,), failed=False)]

    def late(command: str, *, repeatable: bool = False) -> Block:
        return early.pop() if early else run(command, repeatable=repeatable)

    monkeypatch.setattr(server, "_run_command", late)
    assert server.pane("seven").exit_code == 7
    assert early == []


def test_a_session_that_is_not_there_is_told(server: TmuxServer, tmp_path: Path) -> None:
    for ask in (server.pane, server.capture, server.send_keys):
        with pytest.raises(PaneGone):
            ask("nobody")
    with pytest.raises(PaneGone):
        server.paste("nobody", "text")
    with pytest.raises(WrongUse, match="not a name"):
        server.capture("a:b.c")
    with pytest.raises(WrongUse, match="no such folder"):
        server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path / "no"), env=ENV)
    server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    with pytest.raises(WrongUse, match="duplicate"):
        server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)


def test_a_tmux_that_is_too_old_is_told(tmp_path: Path) -> None:
    old = tmp_path / "old-tmux"
    old.write_text("#!/bin/sh\necho tmux 2.9a\n")
    old.chmod(0o700)
    folder = tempfile.mkdtemp(prefix="bridle-tmux-")
    try:
        with pytest.raises(NotInstalled, match=r"tmux 2\.9a is too old") as told:
            TmuxServer(os.path.join(folder, "s"), tmux=str(old)).start()
    finally:
        shutil.rmtree(folder)
    assert told.value.hint == "install tmux 3.2 or newer"


@pytest.mark.parametrize(
    ("told", "version"),
    [("tmux 3.3a", (3, 3)), ("tmux next-3.6", (3, 6)), ("tmux master", ())],
)
def test_the_version_of_tmux_is_read(told: str, version: tuple[int, ...]) -> None:
    assert version_of(told) == version


def test_a_lost_connection_is_made_again(server: TmuxServer, tmp_path: Path) -> None:
    server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    for _ in range(3):
        connection = server._connection
        assert connection is not None
        os.kill(connection.pid, signal.SIGKILL)
        os.waitid(os.P_PID, connection.pid, os.WEXITED | os.WNOWAIT)
        assert set(server.sessions()) == {"one"}
    server.send_keys("one", "h", "i", "Enter")
    wait_until(lambda: server.capture("one").split() == ["hi", "hi"])


def test_another_program_finds_the_same_server(server: TmuxServer, tmp_path: Path) -> None:
    state = server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    server.close()
    other = TmuxServer(server.folder)
    other.start()
    assert other.sessions() == {"one": state}
    other.close()


def test_a_killed_server_is_told_and_can_be_started_anew(
    server: TmuxServer, tmp_path: Path
) -> None:
    agent = server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    os.kill(_server_pid(server), signal.SIGKILL)
    wait_until(lambda: not server.runs())
    for ask in (lambda: server.capture("one"), lambda: server.send_keys("one", "x")):
        with pytest.raises(ServerGone):
            ask()
    wait_until(lambda: not os.path.exists(f"/proc/{agent.pid}"))
    server.start()
    assert server.sessions() == {}


def test_an_empty_server_ends_by_itself(server: TmuxServer, tmp_path: Path) -> None:
    server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    server.close()
    assert set(server.sessions()) == {"one"}
    server.kill_session("one")
    assert server.runs()
    server.close()
    wait_until(lambda: not server.runs())


def test_a_starter_that_is_killed_leaves_no_server(server: TmuxServer) -> None:
    server.kill()
    starter = subprocess.Popen(
        [sys.executable, "-I", "-c", STARTS, server.folder, *sys.path], stdout=subprocess.PIPE
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"started\n"
    assert server.runs()
    starter.kill()
    starter.communicate()
    wait_until(lambda: not server.runs())


STARTS = """
import sys, time
sys.path[:0] = sys.argv[2:]
from bridle.drives.tmux.server import TmuxServer
server = TmuxServer(sys.argv[1])
server.start()
print("started", flush=True)
time.sleep(60)
"""

DROPS = """#!{python}
import os, subprocess, sys
if "-C" not in sys.argv:
    os.execvp("tmux", ["tmux", *sys.argv[1:]])
with subprocess.Popen(["tmux", *sys.argv[1:]], stdin=subprocess.PIPE) as tmux:
    for line in iter(sys.stdin.buffer.readline, b""):
        if line.startswith(b"send-keys"):
            tmux.kill()
            break
        tmux.stdin.write(line)
        tmux.stdin.flush()
"""
"""A tmux whose connection breaks when it is told to press a key."""


def test_an_order_under_way_is_not_repeated(server: TmuxServer, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text(DROPS.format(python=sys.executable))
    broken.chmod(0o700)
    server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    breaking = TmuxServer(server.folder, tmux=str(broken))
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            breaking.send_keys("one", "x")
    assert set(breaking.sessions()) == {"one"}
    breaking.close()
    assert server.capture("one").strip() == ""


def test_a_server_that_hangs_ends_in_a_timeout(server: TmuxServer, tmp_path: Path) -> None:
    server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    pid = _server_pid(server)
    slow = TmuxServer(server.folder, seconds=0.3)
    slow.sessions()
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimedOut):
            slow.sessions()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert set(slow.sessions()) == {"one"}
    slow.close()


def test_the_size_stays_when_a_person_looks(server: TmuxServer, tmp_path: Path) -> None:
    server.new_session("one", ["/bin/cat", "-"], cwd=str(tmp_path), env=ENV)
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp("tmux", server.attach_argv("one"))
    try:
        wait_until(lambda: _tell(server, "list-clients", "-t", "=one") != "")
        shown = _tell(
            server, "display-message", "-p", "-t", "=one:", "#{pane_width} #{pane_height}"
        )
        assert shown == "220 50"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def test_nobody_else_can_enter(server: TmuxServer, tmp_path: Path) -> None:
    assert stat.S_IMODE(os.stat(server.folder).st_mode) == 0o700
    open_folder = tmp_path / "open"
    open_folder.mkdir(mode=0o777)
    open_folder.chmod(0o777)
    make_private(str(open_folder))
    assert stat.S_IMODE(os.stat(open_folder).st_mode) == 0o700
    link = tmp_path / "link"
    link.symlink_to(open_folder)
    with pytest.raises(WrongUse, match="not a folder of this user"):
        make_private(str(link))


def test_the_folder_of_a_server_is_short_and_always_the_same(tmp_path: Path) -> None:
    deep = str(tmp_path / ("x" * 150))
    one, same = server_folder({}, deep), server_folder({}, deep)
    assert one == same != server_folder({}, deep + "y")
    assert len(one) < 90
    short = server_folder({"XDG_RUNTIME_DIR": "/"}, deep)
    assert short.startswith("/bridle/")
    with pytest.raises(WrongUse, match="too long"):
        TmuxServer(deep)


def test_no_tmux_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled):
        TmuxServer("/nowhere/s", tmux="no-such-tmux")._once(["start-server"])


def _server_pid(server: TmuxServer) -> int:
    return int(_tell(server, "display-message", "-p", "#{pid}"))


def _tell(server: TmuxServer, *words: str) -> str:
    asked = ["tmux", "-S", server.socket, *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()
