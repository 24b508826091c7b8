"""Hook events: one schema for what happens in any session, for commands and subscribers.

    session_start   SessionStart   an agent named its session, first or again
    session_end     SessionStop    its process has ended
    message_end     OnMessage      it wrote a message that has text
    error           OnError        something failed

They are made from the session's events alone, so they are the same for every runtime and drive. The
engine passes each batch of events on once it is on disk. A hook event is sent at most once: when
the driver is killed between writing events and passing them on, they are not sent again.
"""

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from bridle.config.schema import HooksSection
from bridle.core import events as ev
from bridle.core.redaction import Redactor, secrets_in
from bridle.process.spec import SESSION_MARK
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from bridle.turns.event_writer import utc_now

HookName = Literal["SessionStart", "SessionStop", "OnMessage", "OnError"]

_WAITING = 1000
"""Hook events that may be pending; more are lost, and the log says so."""
_TAIL = 2000
_LOG_SIZE = 1 << 20


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What a command reads on its stdin, as one line of JSON."""

    event: HookName
    runtime: str
    session_id: str
    workdir: str
    project: str | None = None
    role: str | None = None
    task: str | None = None
    actor: str | None = None
    timestamp: str
    data: dict[str, Any] = {}


HookHandler = Callable[[HookEvent], None]


def hook_events(record: SessionRecord, events: Iterable[ev.Event]) -> list[HookEvent]:
    """The hook events of a session's events, in their order."""
    found = []
    state: str = record.state
    for event in events:
        if isinstance(event, ev.StateChange):
            state = event.new
        hook = _hook_of(record, event, state)
        if hook is not None:
            name, data = hook
            found.append(
                HookEvent(
                    event=name,
                    runtime=record.runtime,
                    session_id=record.session_id,
                    workdir=record.workdir,
                    project=record.project,
                    role=record.capability,
                    task=record.task,
                    actor=record.actor,
                    timestamp=event.ts,
                    data={"seq": event.seq, **data},
                )
            )
    return found


def _hook_of(
    record: SessionRecord, event: ev.Event, state: str
) -> tuple[HookName, dict[str, Any]] | None:
    """The hook event's name and data; None for an event without a hook."""
    match event:
        case ev.SessionStart():
            return "SessionStart", {
                "name": record.name,
                "native_session_id": event.native_session_id,
                "model": event.model,
                "runtime_version": event.runtime_version,
                "drive": event.drive,
                "resumed": record.run > 1,
            }
        case ev.SessionEnd():
            return "SessionStop", {
                "name": record.name,
                "state": state,
                "exit_code": event.exit_code,
                "signal": event.signal,
                "reason": event.reason,
            }
        case ev.MessageEnd() if event.text and event.role == "assistant":
            return "OnMessage", {
                "message": event.text,
                "message_id": event.message_id,
                "model": event.model,
                "stop_reason": event.stop_reason,
                "usage": msgspec.to_builtins(event.usage),
            }
        case ev.ErrorRaised():
            return "OnError", {
                "kind": event.kind,
                "message": event.message,
                "retryable": event.retryable,
                "hint": event.hint,
            }
        case _:
            return None


class HookRunner:
    """Calls commands and subscribers with the hook events of one state home's sessions.

    Contract: `published` never waits for hooks; they run one after another in a separate thread, in
    the order things happened. Failures, timeouts and lost events are written to the home's private
    log (`hooks.log`) and stop nothing. Safe to use from several threads.
    """

    def __init__(
        self, hooks: HooksSection, home: StateHome, *, env: Mapping[str, str] | None = None
    ) -> None:
        self.log_path = os.path.join(home.root, "hooks.log")
        self._hooks = hooks
        given = dict(os.environ if env is None else env)
        # A hook is not part of the session: with the mark it would be killed with the session.
        given.pop(SESSION_MARK, None)
        self._env = given
        self._redactor = Redactor(secrets_in(given))
        self._subscribers: list[HookHandler] = []
        self._waiting: queue.Queue[HookEvent | None] = queue.Queue(_WAITING)
        self._lost = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False

    def subscribe(self, handler: HookHandler) -> Callable[[], None]:
        """Call `handler` with each hook event, in the runner's thread; returns a function that
        unsubscribes. What it raises is logged."""
        with self._lock:
            self._subscribers = [*self._subscribers, handler]

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = [each for each in self._subscribers if each is not handler]

        return unsubscribe

    def published(self, record: SessionRecord, events: Iterable[ev.Event]) -> None:
        """Queue the hook events among a batch of a session's events, which are on disk."""
        if self._closed:
            return
        for event in hook_events(record, events):
            if not self._subscribers and not self._hooks.commands(event.event):
                continue
            try:
                self._waiting.put_nowait(event)
            except queue.Full:
                self._lost += 1
                continue
            self._start()

    def close(self, seconds: float = 5.0) -> None:
        """Wait for pending and running hooks, at most `seconds`; then kill what still runs and log
        what was not sent. No further event is taken."""
        self._closed = True
        thread = self._thread
        if thread is None:
            return
        until = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=seconds)
        thread.join(max(0.0, until - time.monotonic()))
        if not thread.is_alive():
            return
        while True:
            try:
                left = self._waiting.get_nowait()
            except queue.Empty:
                break
            if left is not None:
                self._log(left, "", "not sent: Bridle ended first")
        self._waiting.put(None)
        running = self._running
        if running is not None:
            _kill(running)
        thread.join(seconds)

    # -- the thread -----------------------------------------------------------------------------

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="bridle-hooks", daemon=True
                    )
                    self._thread.start()

    def _work(self) -> None:
        while (event := self._waiting.get()) is not None:
            if self._lost:
                lost, self._lost = self._lost, 0
                self._log(event, "", f"{lost} hook events were lost: too many waited")
            for handler in self._subscribers:
                try:
                    handler(event)
                except Exception as problem:
                    self._log(event, getattr(handler, "__qualname__", "subscriber"), repr(problem))
            for command in self._hooks.commands(event.event):
                self._run(event, command)

    def _run(self, event: HookEvent, command: str) -> None:
        """Run one command. Its stdin and stderr are files, so that a command that reads nothing or
        leaves a child behind does not block us."""
        try:
            with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
                given.write(msgspec.json.encode(event) + b"\n")
                given.seek(0)
                self._running = process = subprocess.Popen(
                    ("/bin/sh", "-c", command),
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    cwd=event.workdir if os.path.isdir(event.workdir) else "/",
                    env=self._env,
                    start_new_session=True,
                )
                try:
                    code = process.wait(self._hooks.timeout_seconds)
                    problem = f"exited {code}" if code else ""
                except subprocess.TimeoutExpired:
                    _kill(process)
                    process.wait()
                    problem = f"took longer than {self._hooks.timeout_seconds:g} s"
                if problem:
                    said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL))
                    self._log(event, command, problem, said.read().decode(errors="replace"))
        except OSError as trouble:
            self._log(event, command, f"could not be run: {trouble.strerror}")
        finally:
            self._running = None

    def _log(self, event: HookEvent, hook: str, problem: str, stderr: str = "") -> None:
        entry = {
            "ts": utc_now(),
            "level": "warning",
            "event": event.event,
            "session_id": event.session_id,
            "hook": self._redactor.text(hook),
            "problem": self._redactor.text(problem),
            "stderr": self._redactor.text(stderr),
        }
        # A log that cannot be written must not stop the hooks.
        with contextlib.suppress(OSError):
            if os.path.exists(self.log_path) and os.stat(self.log_path).st_size > _LOG_SIZE:
                os.replace(self.log_path, f"{self.log_path}.1")
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            handle = os.open(self.log_path, flags, 0o600)
            try:
                os.write(handle, msgspec.json.encode(entry) + b"\n")
            finally:
                os.close(handle)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a command and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
