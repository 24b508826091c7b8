"""Answers the hooks of agents: one thread for all sessions of a process, one desk for each.

Whoever runs agents hosts it: `bridle run` for its one run, a daemon for all its sessions. A session
that answers on its agent's own wire needs nothing of this but the desk; the thread, the FIFO and
the TCP listener come into being when an adapter asks for them.
"""

import contextlib
import json
import os
import selectors
import shutil
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable

import msgspec

from bridle.core.files import write_atomic
from bridle.guard.hooks.desk import Answer, Desk, failed, refused
from bridle.guard.hooks.hook_io import NeedsCopy, Reached, lines_of, reach
from bridle.guard.hooks.hook_script import SECONDS, answer_path, hook_command, hook_script
from bridle.guard.policy import Policy
from bridle.turns.guard_contract import Guard, GuardAddress, GuardMechanism, HookShape

_MOST = 64
"""Calls that are answered at once; further ones wait."""
_LONGEST_LINE = 9 << 20
_KEPT = 256
"""Answers that are kept for hooks to read; more than wait at any moment."""
ANSWERS = "answer"
"""How the names of the files begin in which hooks find their answers."""


class GuardSession:
    """The guard of one agent: what its adapter uses (`GuardHook`), and what its host ends.

    Contract: made by `JudgeService.open`. An adapter calls `command` and `address`; then the host
    calls `begin`, before the agent is started; `close` may be called at any time, and twice. Before
    `begin` and after `close` every call is refused.
    """

    lasting = False

    def __init__(self, service: "JudgeService", folder: str, *, stdio: bool) -> None:
        self.folder = folder
        self.stdio = stdio
        self.guard: Guard | None = None
        self.fifo = os.path.join(folder, "ask")
        self.script = os.path.join(folder, "hook.sh")
        self.token = ""
        self.patience = SECONDS
        """Seconds that a hook waits for an answer before it refuses; set before `command`."""
        self._service = service
        self._settings = os.path.join(folder, "alone.json")
        self._desk: Desk | None = None
        self._answers: deque[str] = deque()
        self.shape = HookShape()

    @property
    def writable(self) -> tuple[str, ...]:
        """What a confined agent must be able to write so that its hooks can ask."""
        return (self.fifo,) if os.path.exists(self.fifo) else ()

    def command(self, shape: HookShape) -> str:
        """The command of a hook process; see `hook_script`."""
        if not os.path.exists(self.fifo):
            os.mkfifo(self.fifo, 0o600)
        alone = alone_command(self._settings)
        text = hook_script(
            shape,
            fifo=self.fifo,
            answers=os.path.join(self.folder, ANSWERS),
            pid=os.getpid(),
            born=born(),
            alone=alone,
            seconds=self.patience,
        )
        write_atomic(self.script, text)
        self._service.listen(self)
        return hook_command(self.script, shape)

    def address(self) -> GuardAddress:
        """Where a program inside the agent asks over loopback."""
        self.token = self.token or os.urandom(24).hex()
        host, port = self._service.listen_tcp(self)
        return GuardAddress(host=host, port=port, token=self.token)

    def begin(self, mechanism: GuardMechanism, policy: Policy) -> Guard:
        """Judge by `policy` from now on; returns the guard that the driver holds."""
        self._desk = desk = Desk(policy)
        self.shape = mechanism.shape
        self.guard = Guard(
            desk.judge,
            mechanism,
            capability=policy.capability or "",
        )
        if os.path.exists(self.fifo):
            write_atomic(self._settings, json.dumps(alone_settings(policy, mechanism.shape)))
        return self.guard

    def answer(self, payload: bytes) -> Answer:
        """The answer to a hook's payload; the driver hears of it before the hook does."""
        desk, guard = self._desk, self.guard
        if desk is None or guard is None:
            return refused(self.shape, "policy-error", "the guard has not begun, or has ended")
        answer = desk.answer(payload, self.shape)
        if answer.note is not None:
            guard.note(answer.note)
        return answer

    def answer_file(self, pid: int, key: str) -> str:
        """Where the answer to a question goes; those that were read long ago are removed."""
        path = answer_path(os.path.join(self.folder, ANSWERS), pid, key)
        self._answers.append(path)
        if len(self._answers) > _KEPT:
            with contextlib.suppress(OSError):
                os.unlink(self._answers.popleft())
        return path

    def close(self) -> None:
        """Stop answering, and remove the guard's files."""
        self._desk = None
        self._service.forget(self)
        shutil.rmtree(self.folder, ignore_errors=True)


class JudgeService:
    """The judge of every session of this process.

    Contract: `open` and `close` may be called from any thread; `close` ends all sessions. A process
    that forks must not use it in the child.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._selector: selectors.BaseSelector | None = None
        self._thread: threading.Thread | None = None
        self._wake = (-1, -1)
        self._fifos: dict[GuardSession, int] = {}
        self._tokens: dict[str, GuardSession] = {}
        self._listener: socket.socket | None = None
        self._places = threading.BoundedSemaphore(_MOST)
        self._closed = False

    def open(self, folder: str, *, stdio: bool) -> GuardSession:
        """A session whose files live in `folder`: private, new, outside of any worktree, and the
        session's own to remove."""
        return GuardSession(self, folder, stdio=stdio)

    def close(self) -> None:
        """End every session and the thread."""
        with self._lock:
            self._closed = True
            sessions = {*self._fifos, *self._tokens.values()}
        for session in sessions:
            session.close()
        with self._lock:
            thread, self._thread = self._thread, None
            if self._wake[1] >= 0:
                os.write(self._wake[1], b"x")
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)

    # -- what sessions ask for ------------------------------------------------------------------

    def listen(self, session: GuardSession) -> None:
        """Answer what is written into the session's FIFO."""
        with self._lock:
            if session in self._fifos:
                return
            # Open for writing too, so that it never ends; a hook need not find us at the very
            # moment it opens it.
            fifo = os.open(session.fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._fifos[session] = fifo
            self._running().register(fifo, selectors.EVENT_READ, session)
            self._poke()

    def listen_tcp(self, session: GuardSession) -> tuple[str, int]:
        """Answer who asks on loopback with the session's token."""
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
                self._running().register(self._listener, selectors.EVENT_READ, None)
                self._poke()
            self._tokens[session.token] = session
            host, port = self._listener.getsockname()[:2]
            return str(host), int(port)

    def forget(self, session: GuardSession) -> None:
        """Answer this session no more."""
        with self._lock:
            self._tokens.pop(session.token, None)
            fifo = self._fifos.pop(session, None)
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

    def _requests(self, session: GuardSession) -> None:
        """Take the process ids of hooks that wait; each is answered in a thread of its own, since
        one may be slow to hand over its payload."""
        with self._lock:
            fifo = self._fifos.get(session)
            if fifo is None:
                return
            try:
                text = os.read(fifo, 1 << 16)
            except BlockingIOError:
                return
        for pid, key, number in lines_of(text):
            self._apart(_answer_hook, session, pid, key, number)

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
            asked = msgspec.json.decode(line, type=_Asked)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _reply_of(None, refused(HookShape(), "bad-input", "not a question"))
        session = self._tokens.get(asked.token)
        if session is None:
            return _reply_of(asked, refused(HookShape(), "bad-input", "not a session's token"))
        return _reply_of(asked, _answered(session, bytes(asked.payload)))


class _Asked(msgspec.Struct, frozen=True):
    """One question over TCP."""

    token: str
    payload: msgspec.Raw
    id: int = 0


def _reply_of(asked: _Asked | None, answer: Answer) -> bytes:
    verdict = answer.note.verdict if answer.note is not None else None
    return msgspec.json.encode(
        {
            "id": asked.id if asked is not None else 0,
            "allow": answer.allowed,
            "reason": verdict.reason if verdict is not None else "",
        }
    )


def _answer_hook(session: GuardSession, pid: int, key: str, number: int) -> None:
    """Answer the question `key` of the hook process `pid`, whose payload stands at its descriptor
    `number`."""
    with contextlib.suppress(OSError), Reached(pid, session.script) as hook:
        path = session.answer_file(pid, key)
        # From here on the hook knows that its waiting ends with us.
        hook.say(b"here")
        try:
            payload = reach(hook, number)
        except NeedsCopy:
            hook.answer(path, b"send")
            return
        if payload is None:
            return
        answer = _answered(session, payload)
        hook.answer(path, b"allow" if answer.allowed else b"block " + answer.printed)


def _answered(session: GuardSession, payload: bytes) -> Answer:
    """The session's answer, a refusal if it gives none."""
    try:
        answer = session.answer(payload)
        if not isinstance(answer, Answer):
            raise TypeError("not an answer")
    except Exception as problem:
        verdict = failed(problem)
        return refused(session.shape, verdict.rule, verdict.reason)
    return answer


def alone_command(settings: str) -> list[str]:
    """The program that judges one call by the settings in a file; see `alone`."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "alone.py")
    return [sys.executable, "-I", "-S", program, settings]


def alone_settings(policy: Policy, shape: HookShape) -> dict[str, object]:
    """What stands in that file."""
    here = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
    there = os.path.dirname(os.path.dirname(os.path.abspath(msgspec.__file__)))
    return {
        "paths": list(dict.fromkeys((here, there))),
        "policy": msgspec.to_builtins(policy),
        "shape": msgspec.to_builtins(shape),
    }


def born() -> str:
    """When this process was started, as the kernel counts it; empty where it does not tell."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""
