"""Many scripted sessions in one daemon, for the benchmarks: started, looked at, and ended."""

import contextlib
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bridle.core.errors import BridleError
from bridle.core.options import RunOptions
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient
from bridle.sessions.daemon import raise_file_limit
from bridle.sessions.home import StateHome
from bridle.sessions.start import start_session
from bridle.sessions.store import SessionRecord, SessionStore

START = 600.0
"""Seconds for all sessions of a fleet to be ready."""
LIGHT_AGENT = """#!/bin/sh
# Says what the scripted agent says until it waits for a prompt, and then waits, in a tenth of the
# memory. It takes no prompt.
read -r request
echo '{"type":"session","id":"light-'$$'","model":"none","version":"0"}'
echo '{"type":"ready"}'
while read -r line; do case $line in *'"leave"'*) exit 0;; esac; done
"""
REAL_AGENT_KB = 8 << 10
"""What a real scripted agent with its holder may weigh."""


class Fleet:
    """Sessions in a home of their own. Contract: `close` leaves nothing running and no file."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sessions-"))
        self.home = StateHome(str(self.folder / "state"))
        self.records: list[SessionRecord] = []
        (self.folder / "work").mkdir()
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
        }
        raise_file_limit()

    def start(self, count: int, script: Any, *, light: bool = False) -> list[SessionRecord]:
        """Start sessions; they are not ready yet."""
        runtime = ScriptedRuntime()
        if light:
            runtime.use_binary(str(self._light_agent()))
        options = RunOptions(
            prompt="",
            cwd=str(self.folder / "work"),
            permission_mode="bypass",
            provider_options={} if light else {"script": script, "behave": "stamp"},
            account_dir=str(self.folder / "account"),
        )

        def some(number: int) -> list[SessionRecord]:
            store = SessionStore(self.home)
            try:
                return [
                    start_session(self.home, store, runtime, options, env=self._env)
                    for _ in range(number)
                ]
            finally:
                store.close()

        with ThreadPoolExecutor(4) as pool:
            started = [r for rs in pool.map(some, _parts(count, 20)) for r in rs]
        self.records += started
        return started

    def wait_ready(self, records: list[SessionRecord]) -> None:
        """Wait until the daemon has seen each of them ready."""
        until = time.monotonic() + START
        with DaemonClient(self.home) as client:
            for record in records:
                client.call(verbs.Adopt(session=record.session_id))
            for record in records:
                left = until - time.monotonic()
                told = client.call(verbs.WaitReady(session=record.session_id, timeout=left))
                if told is None or told.state != "ready":
                    raise RuntimeError(f"session {record.session_id} is not ready: {told}")

    def daemon_pid(self) -> int:
        """The daemon's process, started when there is none."""
        with DaemonClient(self.home) as client:
            return int(client.call(verbs.Status())["pid"])

    def run_file(self, record: SessionRecord, name: str) -> Path:
        """A file of a session's process."""
        return Path(self.home.run_folder(record.session_id, 1)) / name

    def close(self) -> None:
        """End the daemon, every agent by its group, and remove the files."""
        with contextlib.suppress(BridleError), DaemonClient(self.home, start=False) as client:
            client.call(verbs.Shutdown())
            client.wait_gone()
        for folder in (Path(self.home.root) / "sessions").glob("*/runs/0001"):
            with contextlib.suppress(OSError, ValueError):
                # The holder leads a group of its own, in which the agent and the pump are.
                os.killpg(int((folder / "holder").read_text()), signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _light_agent(self) -> Path:
        path = self.folder / "light-agent"
        path.write_text(LIGHT_AGENT)
        path.chmod(stat.S_IRWXU)
        return path


def _parts(count: int, size: int) -> list[int]:
    return [min(size, count - at) for at in range(0, count, size)]


def available_kb() -> int:
    """Memory of this machine that is free for use."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    return 0


def memory_kb(pid: int) -> tuple[int, int]:
    """A process's resident and proportional memory."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, number, *_ = line.split()
        found[name] = int(number)
    return found["Rss:"], found["Pss:"]


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads of a process that live."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def load() -> str:
    """How busy the machine is, by its own count."""
    return f"{os.getloadavg()[0]:.1f}"


def say(words: str) -> None:
    """Tell the person who waits how far it is."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()
