"""The relay between standard streams and an app-server's socket, with a stand-in for the latter."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core.ids import new_session_id
from bridle.process.process_tree import look, marked_processes
from bridle.process.spec import SESSION_MARK
from bridle.runtimes.codex.command import RELAY
from tests.conftest import wait_until

ECHO = Path(__file__).with_name("echo_server.py")
DEADLINE = 60


class Relayed:
    """A relay in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "private"
        self.socket = self.folder / "app.sock"
        self.mark = new_session_id()
        self.process: subprocess.Popen[bytes]

    def start(self, *words: str, stdout: Any = subprocess.PIPE) -> "Relayed":
        command = [sys.executable, str(ECHO), str(self.socket), *words]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", RELAY, str(self.socket), "--", *command],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], SESSION_MARK: self.mark},
        )
        return self

    def say(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ended(self) -> int:
        """Its status, once nothing is left of it."""
        status = self.process.wait(DEADLINE)
        wait_until(lambda: marked_processes(self.mark) == [])
        assert not self.folder.exists()
        return status

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def close(self) -> None:
        for pid in marked_processes(self.mark):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(DEADLINE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def relayed() -> Iterator[Relayed]:
    # The folders that pytest makes have paths too long for a socket.
    folder = tempfile.mkdtemp(prefix="bridle-relay-")
    made = Relayed(Path(folder))
    yield made
    made.close()
    shutil.rmtree(folder)


def test_messages_of_many_megabytes_go_both_ways(relayed: Relayed) -> None:
    relayed.start()
    relayed.say({"small": "é\n"})
    assert relayed.hear() == {"small": "é\n"}
    assert relayed.folder.stat().st_mode & 0o777 == 0o700
    big = {"big": "x" * 12_000_000}
    relayed.say(big)
    assert relayed.hear() == big
    assert relayed.process.stdin is not None
    relayed.process.stdin.close()
    # The stand-in does not catch SIGTERM, so that is its end, and the relay's.
    assert relayed.ended() == -signal.SIGTERM
    assert "not a message" in relayed.errors()


def test_a_slow_reader_gets_everything(relayed: Relayed) -> None:
    relayed.start()
    relayed.say({"ready": True})
    assert relayed.hear() == {"ready": True}
    [server] = [pid for pid in marked_processes(relayed.mark) if pid != relayed.process.pid]
    relayed.say({"do": "say", "count": 3000, "size": 2000})
    relayed.say({"do": "exit", "status": 0})
    # Every message was taken from it before one is read here.
    wait_until(lambda: look(server) is None)
    assert [relayed.hear()["n"] for _ in range(3000)] == list(range(3000))
    assert relayed.ended() == 0


def test_stdout_may_be_a_file(relayed: Relayed, tmp_path: Path) -> None:
    with (tmp_path / "journal").open("wb") as file:
        relayed.start(stdout=file)
    relayed.say({"do": "say", "count": 5, "size": 1})
    relayed.say({"do": "exit", "status": 0})
    assert relayed.ended() == 0
    lines = (tmp_path / "journal").read_bytes().splitlines()
    assert [json.loads(line)["n"] for line in lines] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("order", "status"), [({"do": "exit", "status": 3}, 3), ({"do": "die"}, -signal.SIGKILL)]
)
def test_it_ends_as_the_server_does(relayed: Relayed, order: Any, status: int) -> None:
    relayed.start()
    relayed.say(order)
    assert relayed.ended() == status


def test_a_server_that_hangs_up_is_ended(relayed: Relayed) -> None:
    relayed.start()
    relayed.say({"do": "hang up"})
    assert relayed.ended() != 0
    assert "disconnected" in relayed.errors()


@pytest.mark.parametrize("how", ["signal", "input"])
@pytest.mark.parametrize("words", [(), ("stubborn",)])
def test_it_ends_the_server(relayed: Relayed, how: str, words: tuple[str, ...]) -> None:
    relayed.start(*words)
    relayed.say({"ready": True})
    assert relayed.hear() == {"ready": True}
    if how == "signal":
        relayed.process.terminate()
    else:
        assert relayed.process.stdin is not None
        relayed.process.stdin.close()
    assert relayed.ended() == (-signal.SIGKILL if words else -signal.SIGTERM)


def test_nobody_reads(relayed: Relayed) -> None:
    relayed.start()
    assert relayed.process.stdout is not None
    relayed.process.stdout.close()
    relayed.say({"any": "thing"})
    assert relayed.ended() != 0


def test_a_server_that_never_listens(relayed: Relayed) -> None:
    relayed.start()
    relayed.close()
    false = [sys.executable, "-P", "-m", RELAY, str(relayed.socket), "--", "sh", "-c", "exit 7"]
    done = subprocess.run(false, stdin=subprocess.DEVNULL, timeout=DEADLINE, check=False)
    assert done.returncode == 7
    assert not relayed.folder.exists()


def test_without_the_library(tmp_path: Path) -> None:
    # A name that is None here cannot be imported.
    code = (
        "import sys; sys.modules['websockets'] = None; from bridle.runtimes.codex import relay;"
        "sys.exit(relay.main([sys.argv[1], '--', 'true']))"
    )
    words = [sys.executable, "-P", "-c", code, str(tmp_path / "app.sock")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 3
    assert "bridle[codex-attach]" in done.stderr
