"""A subscriber to the events of many sessions, which notes when each piece of them arrived."""

import os
import selectors
import socket
import subprocess
import sys
import time

import msgspec

from bridle.core.events import AnyEvent, MessageUpdate
from bridle.sessions.home import StateHome, socket_path, token_path
from bridle.sessions.store import SessionRecord

_CHUNK = 1 << 18
_FLOOR = """
import os, time
while True:
    time.sleep(0.02)
    os.write(1, b"%d\\n" % time.monotonic_ns())
"""


class _Told(msgspec.Struct):
    events: list[AnyEvent] = []
    result: msgspec.Raw = msgspec.Raw(b"")


class _Ear:
    """One subscription, over a connection of its own."""

    def __init__(self, home: StateHome, token: str, record: SessionRecord) -> None:
        self.session_id = record.session_id
        self.chunks: list[tuple[int, bytes]] = []
        self.ends = 0
        """How many turns were heard to end."""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(socket_path(home))
        ask = {"id": 1, "op": "events", "session": record.session_id, "token": token}
        self.socket.sendall(msgspec.json.encode(ask) + b"\n")
        self.socket.setblocking(False)

    def hear(self) -> None:
        data = self.socket.recv(_CHUNK)
        now = time.monotonic_ns()
        if not data:
            raise RuntimeError("the daemon let a subscriber go")
        self.chunks.append((now, data))
        self.ends += data.count(b'"type":"agent_end"')

    def events(self) -> list[tuple[int, AnyEvent]]:
        """Every event so far, with the moment its last byte was here."""
        found: list[tuple[int, AnyEvent]] = []
        rest = b""
        for moment, data in self.chunks:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                told = msgspec.json.decode(line, type=_Told)
                found += [(moment, event) for event in told.events]
        return found


class Subscriber:
    """Hears all events of `records`. Nothing is decoded before `events` is asked, so that what is
    measured is not the measuring. A bare pipe from another process is heard in the same loop: the
    floor under every latency on this machine at this moment."""

    def __init__(self, home: StateHome, records: list[SessionRecord]) -> None:
        with open(token_path(home), encoding="ascii") as file:
            token = file.read()
        self._selector = selectors.DefaultSelector()
        self._ears = [_Ear(home, token, record) for record in records]
        for ear in self._ears:
            self._selector.register(ear.socket, selectors.EVENT_READ, ear.hear)
        self._floor: list[tuple[int, int]] = []
        self._pulse = subprocess.Popen(
            [sys.executable, "-S", "-c", _FLOOR], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert self._pulse.stdout is not None
        self._selector.register(self._pulse.stdout, selectors.EVENT_READ, self._beat)

    def _beat(self) -> None:
        assert self._pulse.stdout is not None
        data = os.read(self._pulse.stdout.fileno(), _CHUNK)
        now = time.monotonic_ns()
        self._floor += [(now, int(line)) for line in data.split()]

    def listen(self, seconds: float) -> None:
        """Hear for that long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                key.data()

    def listen_until_ends(self, count: int, seconds: float) -> None:
        """Hear until every session has ended `count` turns; raises when that takes too long."""
        until = time.monotonic() + seconds
        while any(ear.ends < count for ear in self._ears):
            if time.monotonic() > until:
                late = sum(ear.ends < count for ear in self._ears)
                raise RuntimeError(f"{late} sessions did not end turn {count} in {seconds:g} s")
            for key, _ in self._selector.select(1.0):
                key.data()

    def events(self) -> dict[str, list[tuple[int, AnyEvent]]]:
        """Every event by session, with the moment it was here (monotonic nanoseconds)."""
        return {ear.session_id: ear.events() for ear in self._ears}

    def floor(self) -> list[tuple[int, int]]:
        """When each beat of the bare pipe was here, and when it was written."""
        return self._floor

    def close(self) -> None:
        """End it."""
        self._pulse.kill()
        self._pulse.communicate()
        for ear in self._ears:
            ear.socket.close()
        self._selector.close()


def stamps(events: list[tuple[int, AnyEvent]], turn: int) -> list[tuple[int, int]]:
    """When each stamped piece of text of a turn was here, and when the agent wrote it."""
    found = []
    now = 0
    for moment, event in events:
        if event.__struct_config__.tag == "agent_start":
            now += 1
        if now == turn and isinstance(event, MessageUpdate) and event.kind == "text_delta":
            found.append((moment, int(event.text)))
    return found
