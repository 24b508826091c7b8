"""The hook host: answers the hooks of every agent of this process, of runs and of sessions alike.

`bridle run` has one for its run, a daemon one for all its sessions. Each agent has a `HostedGuard`,
which answers its hooks and passes on what they asked: to the run's `Guard`, or to the notes of the
session. An agent that asks on its own wire needs no more than that; the thread, the FIFO and the
TCP listener are made when an adapter asks for them.
"""

import contextlib
import os
import selectors
import shutil
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused
from bridle.guard.hooks.guard_folder import GuardFolder, append_note
from bridle.guard.hooks.hook_io import NeedsCopy, Reached, lines_of, reach
from bridle.guard.hooks.hook_judge import HookJudge, answer_line, failed, refusal
from bridle.guard.hooks.hook_script import SECONDS, SILENT
from bridle.guard.policy import Policy
from bridle.guard.verdict import Verdict
from bridle.turns.guard_contract import (
    Guard,
    GuardAddress,
    GuardMechanism,
    HookNote,
    HookShape,
    WireCall,
)

_MOST = 64
"""Calls that are answered at the same time; further ones wait."""
_LONGEST_LINE = 9 << 20
_KEPT = 256
"""Answers that are kept for hooks to read; more than ever wait at once."""


class HostedGuard(ABC):
    """The guard of one agent, answered by this process.

    Contract: any thread may call `answer`. Before a judge is set and after `close` every call is
    refused.
    """

    def __init__(self, host: "HookHost", folder: str) -> None:
        self.folder = folder
        self.files = GuardFolder(folder)
        self.token = ""
        self.patience = SECONDS
        """Seconds that a hook waits for an answer before it refuses."""
        self.shape = HookShape()
        self._host = host
        self._judge: HookJudge | None = None
        self._answers: deque[str] = deque()

    def judged(self, payload: bytes) -> HookNote:
        """What a hook's payload results in."""
        if self._judge is None:
            return refusal("policy-error", "the guard has not begun, or has ended")
        return self._judge.answer(payload, self.shape)

    def answer(self, payload: bytes) -> HookNote:
        """As `judged`; the driver gets the note before the hook gets its answer."""
        note = self.judged(payload)
        if note.kind != "event":
            self.report(note)
        return note

    @abstractmethod
    def report(self, note: HookNote) -> None:
        """Give the driver a note. Raises `OSError` on failure."""

    def answer_file(self, pid: int, key: str) -> str:
        """Where the answer to a question goes. The oldest answers are removed: they were read."""
        path = self.files.answer(pid, key)
        self._answers.append(path)
        if len(self._answers) > _KEPT:
            with contextlib.suppress(OSError):
                os.unlink(self._answers.popleft())
        return path

    def close(self) -> None:
        """Stop answering."""
        self._judge = None
        self._host.forget(self)


class RunGuard(HostedGuard):
    """The guard of a run: what its adapter uses (`GuardHook`), answered until the run ends.

    Contract: made by `HookHost.open_run`. An adapter calls `command` and `address`; then the host
    of the run calls `begin`, before the agent is started. `close` may be called at any time, and
    twice; it removes the guard's files.
    """

    lasting = False

    def __init__(self, host: "HookHost", folder: str, *, stdio: bool) -> None:
        super().__init__(host, folder)
        self.stdio = stdio
        self.guard: Guard | None = None

    @property
    def writable(self) -> tuple[str, ...]:
        """What a confined agent must be able to write so that its hooks can ask."""
        return (self.files.fifo,) if os.path.exists(self.files.fifo) else ()

    def command(self, shape: HookShape) -> str:
        """The command of a hook process; see `hook_script`."""
        if not os.path.exists(self.files.fifo):
            os.mkfifo(self.files.fifo, 0o600)
        self.files.write_script(shape, patience=self.patience, hosted=True)
        self._host.listen(self)
        return self.files.command(shape)

    def address(self) -> GuardAddress:
        """Where a program inside the agent asks over loopback."""
        self.token = self.token or os.urandom(24).hex()
        host, port = self._host.listen_tcp(self)
        return GuardAddress(host=host, port=port, token=self.token)

    def begin(self, mechanism: GuardMechanism, policy: Policy) -> Guard:
        """Judge by `policy` from now on; returns the guard for the driver."""
        judge = HookJudge(policy)
        self.shape = mechanism.shape
        self.guard = Guard(judge.judge, mechanism, capability=policy.capability or "")
        self._judge = judge
        if os.path.exists(self.files.fifo):
            self.files.write_settings(policy, mechanism.shape)
        return self.guard

    def report(self, note: HookNote) -> None:
        """Give the driver a note."""
        if self.guard is not None:
            self.guard.note(note)

    def close(self) -> None:
        """Stop answering, and remove the guard's files."""
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


class SessionGuard(HostedGuard):
    """The guard of a session that this process drives.

    Contract: made by `HookHost.take_session`. `close` leaves the hooks to the fallback judge and
    keeps the files.
    """

    def __init__(self, host: "HookHost", folder: str) -> None:
        super().__init__(host, folder)
        try:
            settings = self.files.read_settings()
        except (OSError, msgspec.MsgspecError) as problem:
            raise GuardRefused(f"the guard's policy cannot be read: {problem}") from None
        self.shape = settings.shape
        self.patience = settings.patience
        self._judge = HookJudge(settings.policy)
        self._with_args = settings.with_args

    def open(self) -> None:
        """Answer the session's hooks from now on."""
        self._host.listen(self)
        self.files.write_script(self.shape, patience=self.patience, hosted=True)

    def report(self, note: HookNote) -> None:
        """Append a note for the driver."""
        append_note(self.files.notes, note, with_args=self._with_args)

    def close(self) -> None:
        """Stop answering."""
        if os.path.isdir(self.folder):
            self.files.write_script(self.shape, patience=self.patience, hosted=False)
        self._host.forget(self)


class WireJudgement:
    """The verdict on a call that waits on the agent's wire, given in a thread.

    The driver must not wait for a slow judge, and the agent must not wait for one that is gone. So
    the verdict is a note, where the driver finds it, from the judge or from the timer, whichever
    comes first.

    Contract: after `start` exactly one verdict is reported, unless the notes cannot be written;
    then the agent keeps waiting, and nothing runs.
    """

    def __init__(self, guard: HostedGuard, call: WireCall) -> None:
        self._guard = guard
        self._call = call
        self._lock = threading.Lock()
        self._reported = False
        self._timer = threading.Timer(guard.patience, self._late)
        self._timer.daemon = True

    def start(self) -> None:
        """Begin to judge."""
        self._timer.start()
        threading.Thread(target=self._work, name="bridle-verdict", daemon=True).start()

    def _work(self) -> None:
        try:
            note = self._guard.judged(self._payload())
            if not isinstance(note, HookNote) or note.verdict is None:
                raise TypeError("not a verdict")
            verdict = note.verdict
        except Exception as problem:
            verdict = failed(problem)
        self._report(verdict)

    def _late(self) -> None:
        self._report(Verdict(decision="block", rule="internal-error", reason=SILENT))

    def _payload(self) -> bytes:
        shape, call = self._guard.shape, self._call
        return msgspec.json.encode(
            {
                shape.event: shape.asks[0],
                shape.tool: call.tool_name,
                shape.input: call.args,
                shape.call_id: call.tool_call_id,
                shape.cwd: call.cwd,
            }
        )

    def _report(self, verdict: Verdict) -> None:
        with self._lock:
            if self._reported:
                return
            self._reported = True
        self._timer.cancel()
        call = self._call
        note = HookNote(
            kind="verdict",
            event=self._guard.shape.asks[0],
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            args=call.args,
            verdict=verdict,
        )
        with contextlib.suppress(OSError):
            self._guard.report(note)


class HookHost:
    """Answers the hooks of every agent of this process; costs nothing until one is guarded.

    Contract: `open_run` and `close` may be called from any thread; the methods for sessions by the
    engine's thread. `close` ends all guards. A process that forks must not use it in the child.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, SessionGuard] = {}
        self._lock = threading.RLock()
        self._selector: selectors.BaseSelector | None = None
        self._thread: threading.Thread | None = None
        self._wake = (-1, -1)
        self._fifos: dict[HostedGuard, int] = {}
        self._tokens: dict[str, HostedGuard] = {}
        self._listener: socket.socket | None = None
        self._places = threading.BoundedSemaphore(_MOST)
        self._closed = False

    def open_run(self, folder: str, *, stdio: bool) -> RunGuard:
        """The guard of a run. `folder` is private, new and outside of any worktree; the guard
        removes it."""
        return RunGuard(self, folder, stdio=stdio)

    def take_session(self, session_id: str, folder: str) -> None:
        """Answer the hooks of a session whose guard's files are in `folder`, from now on. If that
        fails, the fallback judge keeps answering them."""
        if session_id in self.sessions:
            return
        with contextlib.suppress(GuardRefused, OSError):
            session = SessionGuard(self, folder)
            session.open()
            self.sessions[session_id] = session

    def judge_wire_call(self, session_id: str, call: WireCall) -> None:
        """Judge a call that waits on a session's wire. A call of a session that is not answered
        here keeps waiting."""
        session = self.sessions.get(session_id)
        if session is not None:
            WireJudgement(session, call).start()

    def release_session(self, session_id: str) -> None:
        """Leave a session's hooks to the fallback judge."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        """End every guard and the thread."""
        for session_id in list(self.sessions):
            self.release_session(session_id)
        with self._lock:
            self._closed = True
            guards = {*self._fifos, *self._tokens.values()}
        for guard in guards:
            guard.close()
        with self._lock:
            thread, self._thread = self._thread, None
            if self._wake[1] >= 0:
                os.write(self._wake[1], b"x")
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)

    # -- what guards ask for ------------------------------------------------------------------

    def listen(self, guard: HostedGuard) -> None:
        """Answer what is written into the guard's FIFO."""
        with self._lock:
            if guard in self._fifos:
                return
            # Open for writing too, so that the FIFO never reaches its end and hooks can always open
            # it.
            fifo = os.open(guard.files.fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._fifos[guard] = fifo
            self._running().register(fifo, selectors.EVENT_READ, guard)
            self._poke()

    def listen_tcp(self, guard: HostedGuard) -> tuple[str, int]:
        """Answer programs that ask on loopback with the guard's token."""
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
                self._running().register(self._listener, selectors.EVENT_READ, None)
                self._poke()
            self._tokens[guard.token] = guard
            host, port = self._listener.getsockname()[:2]
            return str(host), int(port)

    def forget(self, guard: HostedGuard) -> None:
        """Stop answering for this guard."""
        with self._lock:
            self._tokens.pop(guard.token, None)
            fifo = self._fifos.pop(guard, None)
            if fifo is not None and self._selector is not None:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(fifo)
                os.close(fifo)

    # -- the thread -----------------------------------------------------------------------------

    def _running(self) -> selectors.BaseSelector:
        if self._selector is None:
            self._selector = selectors.DefaultSelector()
            self._wake = os.pipe()
            os.set_blocking(self._wake[0], False)
            self._selector.register(self._wake[0], selectors.EVENT_READ, "wake")
            self._thread = threading.Thread(target=self._loop, name="bridle-judge", daemon=True)
            self._thread.start()
        return self._selector

    def _poke(self) -> None:
        os.write(self._wake[1], b"x")

    def _loop(self) -> None:
        selector = self._selector
        assert selector is not None
        while not self._closed:
            for key, _ in selector.select():
                if key.data == "wake":
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake[0], 4096)
                elif key.data is None:
                    self._accept()
                else:
                    self._requests(key.data)
        self._tidy(selector)

    def _tidy(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            selector.close()
            if self._listener is not None:
                self._listener.close()
            for end in self._wake:
                os.close(end)
            self._wake = (-1, -1)

    def _requests(self, guard: HostedGuard) -> None:
        """Read the process ids of hooks that wait. Each is answered in its own thread, since a hook
        may be slow to pass its payload on."""
        with self._lock:
            fifo = self._fifos.get(guard)
            if fifo is None:
                return
            try:
                text = os.read(fifo, 1 << 16)
            except BlockingIOError:
                return
        for pid, key, number in lines_of(text):
            self._apart(_answer_hook, guard, pid, key, number)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        self._apart(self._converse, connection)

    def _apart(self, work: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            with self._places:
                work(*arguments)

        threading.Thread(target=run, name="bridle-verdict", daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        """Answer one program inside an agent, line by line, until it hangs up."""
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as lines:
            while line := lines.readline(_LONGEST_LINE):
                connection.sendall(self._reply(line) + b"\n")
                if not line.endswith(b"\n"):
                    return

    def _reply(self, line: bytes) -> bytes:
        try:
            asked = structs.decode(line, _Asked)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _reply_of(0, refusal("bad-input", "not a question"))
        guard = self._tokens.get(asked.token)
        if guard is None:
            return _reply_of(asked.id, refusal("bad-input", "not a guard's token"))
        return _reply_of(asked.id, _answered(guard, bytes(asked.payload)))


class _Asked(msgspec.Struct, frozen=True):
    """One question over TCP."""

    token: str
    payload: msgspec.Raw
    id: int = 0


def _reply_of(number: int, note: HookNote) -> bytes:
    verdict = note.verdict
    allowed = verdict is None or verdict.allowed
    reason = "" if verdict is None else verdict.reason
    return msgspec.json.encode({"id": number, "allow": allowed, "reason": reason})


def _answer_hook(guard: HostedGuard, pid: int, key: str, number: int) -> None:
    """Answer the question `key` of the hook process `pid`, whose payload is at its descriptor
    `number`."""
    with contextlib.suppress(OSError), Reached(pid, guard.files.script) as hook:
        path = guard.answer_file(pid, key)
        # From here on the hook stops waiting if this process ends.
        hook.say(b"here")
        try:
            payload = reach(hook, number)
        except NeedsCopy:
            hook.answer(path, b"send")
            return
        if payload is None:
            return
        hook.answer(path, answer_line(_answered(guard, payload), guard.shape))


def _answered(guard: HostedGuard, payload: bytes) -> HookNote:
    """The guard's answer; a refusal if it gives none."""
    try:
        note = guard.answer(payload)
        if not isinstance(note, HookNote) or (note.kind == "verdict" and note.verdict is None):
            raise TypeError("not an answer")
    except Exception as problem:
        return HookNote(kind="verdict", verdict=failed(problem))
    return note
