"""A conversation over the stdin and stdout of a process that somebody else holds.

It is for orchestrators that start agents themselves and want to talk to them without a terminal:
connect, send a prompt, follow up, ask for the state, abort, close. Sessions do more (they outlive
the program, write everything down, resume); they use the same wires.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast

from bridle.core.errors import Aborted, Crashed, ProtocolDrift, TimedOut, WrongUse
from bridle.core.events import AgentEnd, AnyEvent
from bridle.core.handles import ConnectionState
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.spec import MAX_LINE, ProcessExit
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveWire, Outgoing, PermissionAnswer, Question, decision_of

if TYPE_CHECKING:
    from anyio import CancelScope, Lock
    from anyio import Event as Flag
    from anyio.abc import TaskGroup

    AsyncPolicy = Callable[[Question], Awaitable[PermissionAnswer]]

_CHUNK = 1 << 16
_CLOSING = 5.0
"""Seconds for a process to take its last words."""
_SHOWN = 2000
ANSWERING = 300.0
"""Seconds for an answer to a permission request, when nothing else is said."""


class ByteSink(Protocol):
    """Where an agent's input goes."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes; what is returned is awaited if it can be. A `drain` is awaited too."""


class RpcProcess(Protocol):
    """A running agent with piped stdin and stdout, such as one of `asyncio`'s processes.

    `stdout` is an async byte stream: one that has `receive` (anyio), `receive_some` (Trio) or
    `read` (asyncio), or an async iterable of bytes.
    """

    @property
    def stdin(self) -> ByteSink | None:
        """Its input."""

    @property
    def stdout(self) -> Any:
        """Its output."""


class RuntimeConnection:
    """A conversation with one process.

    Contract: use it in `async with`; one event loop, any number of tasks. Leaving the block, or
    `close`, ends the conversation and the reading; the process is its starter's to end. Every call
    returns when its bytes are written; what comes of it is in `get_state` and in the events.
    """

    def __init__(
        self,
        process: RpcProcess,
        wire: LiveWire,
        recorder: Recorder,
        *,
        can_steer: bool,
        permission: "PermissionPolicy | AsyncPolicy" = refuse_all,
        permission_timeout: float = ANSWERING,
        on_event: Callable[[AnyEvent], object] | None = None,
    ) -> None:
        self._process = process
        self._wire = wire
        self._recorder = recorder
        self._can_steer = can_steer
        self._permission = permission
        self._permission_timeout = permission_timeout
        self._on_event = on_event
        self._queue: list[Outgoing] = []
        self._sent: dict[str, Outgoing] = {}
        self._steers: set[str] = set()
        self._count = 0
        self._failed = False
        self._gone = False
        self._closed = False
        self._stopped = False
        self._group: TaskGroup | None = None
        self._changed: Flag | None = None
        self._writing: Lock | None = None
        self._scopes: set[CancelScope] = set()

    async def __aenter__(self) -> "RuntimeConnection":
        import anyio

        if self._group is not None or self._closed:
            raise WrongUse("this connection was already used", hint="connect again")
        self._changed = anyio.Event()
        self._writing = anyio.Lock()
        self._group = await anyio.create_task_group().__aenter__()
        self._wire.begin()
        await self._settle()
        self._start(self._read)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import anyio

        assert self._group is not None
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
            await self.close()
        # It only waits for tasks that end now. It is not told of the block's exception, or it would
        # wrap that in a group.
        self._group.cancel_scope.shield = True
        await self._group.__aexit__(None, None, None)

    # -- talking --------------------------------------------------------------------------------

    async def send_prompt(self, text: str) -> None:
        """Begin a turn, as soon as the agent can take one."""
        await self._take(text, steer=False)

    async def follow_up(self, text: str) -> None:
        """Give the agent a message for when its turn ends."""
        await self._take(text, steer=False)

    async def steer(self, text: str) -> None:
        """Reach the turn that runs, at its next tool boundary; where the runtime cannot, and
        between turns, it is the next prompt."""
        await self._take(text, steer=True)

    async def abort(self, reason: str = "aborted by the caller") -> None:
        """Bring the open turn to its end and forget what waits; no effect when there is none."""
        self._check()
        self._queue.clear()
        if self._recorder.turn_open:
            self._recorder.fail(Aborted(reason))
            self._wire.abort()
        await self._settle()

    async def get_state(self) -> ConnectionState:
        """What the agent does now."""
        recorder = self._recorder
        tools = recorder.tools.names
        failed = self._failed and not recorder.turn_open
        if self._gone or failed or recorder.stop_requested is not None:
            return ConnectionState(status="error")
        idle = recorder.is_ready and not self._queue and not self._sent
        return ConnectionState(
            status="idle" if idle else "working", current_tool=tools[-1] if tools else None
        )

    async def wait_idle(self, timeout: float | None = None) -> ConnectionState:
        """Wait until the agent does not work any more; raises `TimedOut`."""
        import anyio

        until = None if timeout is None else time.monotonic() + timeout
        while (state := await self.get_state()).status == "working":
            self._check()
            assert self._changed is not None
            left = None if until is None else until - time.monotonic()
            with anyio.move_on_after(left):
                await self._changed.wait()
            if until is not None and time.monotonic() >= until:
                raise TimedOut(f"the agent still works after {timeout:g} s")
        return state

    async def close(self) -> None:
        """Let the agent leave (its stdin is closed where that is its way) and stop reading. Again
        has no effect."""
        if self._closed:
            return
        self._closed = True
        if not self._gone:
            self._recorder.leaving = "the connection was closed"
            if self._recorder.turn_open:
                self._recorder.fail(Aborted("the connection was closed"))
                self._wire.abort()
            self._wire.leave()
            await self._write()
            self._finish(ProcessExit(code=None))
        for scope in self._scopes:
            scope.cancel()
        self._tell()

    def _start(self, act: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Have something done beside the caller until the connection is closed."""
        import anyio

        scope = anyio.CancelScope()
        self._scopes.add(scope)

        async def do() -> None:
            with scope:
                await act(*args)
            self._scopes.discard(scope)

        assert self._group is not None
        self._group.start_soon(do)

    def _check(self) -> None:
        if self._group is None:
            raise WrongUse("the connection is not open", hint="use it in `async with`")
        if self._closed:
            raise WrongUse("the connection is closed", hint="connect again")
        if self._gone:
            raise Crashed("the agent is gone", runtime=self._recorder.runtime)

    # -- messages -------------------------------------------------------------------------------

    async def _take(self, text: str, *, steer: bool) -> None:
        self._check()
        if not text.strip():
            raise WrongUse("the message is empty", hint="say what the agent is to do")
        self._count += 1
        message = Outgoing(id=_message_id(self._recorder.session_id, self._count), text=text)
        self._recorder.words.instructed(text)
        if steer and self._can_steer and self._recorder.turn_open:
            self._sent[message.id] = message
            self._steers.add(message.id)
            self._wire.steer(message)
        else:
            self._queue.append(message)
        await self._settle()

    def _pump(self) -> None:
        if self._queue and not self._sent and self._recorder.is_ready:
            message = self._queue.pop(0)
            self._sent[message.id] = message
            self._failed = False
            self._wire.prompt(message)

    def _collect(self) -> None:
        recorder = self._recorder
        for delivery in recorder.deliveries:
            message = self._sent.pop(delivery.id, None)
            if message is None or delivery.taken:
                continue
            if delivery.id in self._steers:
                # It came too late for its turn.
                self._requeue(message)
            else:
                self._failed = True
        recorder.deliveries.clear()

    def _requeue(self, message: Outgoing) -> None:
        self._count += 1
        again = Outgoing(id=_message_id(self._recorder.session_id, self._count), text=message.text)
        self._queue.insert(0, again)

    # -- the process ----------------------------------------------------------------------------

    async def _read(self) -> None:
        """Take what the agent says until it is gone."""
        rest = bytearray()
        try:
            async for data in _chunks(self._process.stdout):
                rest += data
                if b"\n" in data:
                    *lines, last = rest.split(b"\n")
                    rest = bytearray(last)
                    for line in lines:
                        self._feed(bytes(line))
                        await self._settle()
                if len(rest) > MAX_LINE:
                    self._recorder.fail(ProtocolDrift("the agent printed a line without end"))
                    break
        except OSError as problem:
            self._recorder.fail(Crashed(f"the agent cannot be read: {problem}"))
        self._finish(ProcessExit(code=None))
        self._tell()

    def _feed(self, line: bytes) -> None:
        line = self._recorder.redactor.line(line)
        try:
            self._wire.feed(line)
        except Exception as problem:
            # As in a run: one message we cannot read must not cost all the others.
            self._recorder.unknown(
                {"line": line[:_SHOWN].decode(errors="replace"), "problem": repr(problem)[:_SHOWN]}
            )

    async def _settle(self) -> None:
        """Carry out what the wire asked for."""
        recorder = self._recorder
        if recorder.stop_requested is not None and recorder.turn_open and not self._stopped:
            # The process is its starter's to end; what the agent does now can be ended here.
            self._stopped = True
            self._wire.abort()
        while True:
            self._collect()
            self._pump()
            while recorder.questions and self._group is not None:
                # A person may take long to answer: what the agent says meanwhile is read.
                self._start(self._answer, recorder.questions.pop(0))
            if not recorder.replies:
                break
            await self._write()
        self._tell()

    async def _answer(self, question: Question) -> None:
        import anyio

        allowed, by, reason = False, "bridle", "nobody answered in time; do without it"
        try:
            answer = self._permission(question)
            if not isinstance(answer, Awaitable):
                allowed, by, reason = decision_of(answer)
            else:
                with anyio.move_on_after(self._permission_timeout):
                    allowed, by, reason = decision_of(await answer)
        except Exception as problem:
            reason = f"the permission policy failed: {type(problem).__name__}"
        self._recorder.reply(question.answer(allowed, reason))
        self._recorder.permission_decided(
            question.request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision="allow" if allowed else "deny",
            by=by,
            reason=reason,
        )
        await self._settle()

    async def _write(self) -> None:
        assert self._writing is not None
        async with self._writing:
            await self._write_out()

    async def _write_out(self) -> None:
        stdin = self._process.stdin
        try:
            while self._recorder.replies and stdin is not None:
                await _maybe(stdin.write(self._recorder.replies.pop(0)))
                if hasattr(stdin, "drain"):
                    await _maybe(stdin.drain())
            if self._recorder.input_done and stdin is not None:
                close = getattr(stdin, "close", None) or getattr(stdin, "aclose", None)
                if close is not None:
                    await _maybe(close())
        except OSError:
            # Its end is seen on its stdout.
            self._recorder.replies.clear()

    def _finish(self, exit: ProcessExit) -> None:
        if self._gone:
            return
        self._gone = True
        exit = self._recorder.with_last_words(exit)
        try:
            self._wire.finish(exit)
        except Exception as problem:
            self._recorder.fail(ProtocolDrift(f"the adapter failed at the end: {problem!r}"))
        self._recorder.finish(exit)

    def _tell(self) -> None:
        """Hand over what happened, and wake who waits."""
        import anyio

        for event in self._recorder.drain():
            if isinstance(event, AgentEnd):
                self._failed = event.status not in ("completed", "aborted")
            if self._on_event is not None:
                self._on_event(cast("AnyEvent", event))
        if self._changed is not None:
            self._changed.set()
            self._changed = anyio.Event()


def _message_id(session_id: str, number: int) -> str:
    """A UUID, as wires want it, that is told apart by its number."""
    return f"{session_id[:-12]}{number:012x}"


async def _maybe(value: Any) -> None:
    if hasattr(value, "__await__"):
        await value


async def _chunks(stream: Any) -> AsyncIterator[bytes]:
    """The bytes of a stream as they come, whatever its kind."""
    if hasattr(stream, "receive"):
        from anyio import EndOfStream

        while True:
            try:
                yield await stream.receive(_CHUNK)
            except EndOfStream:
                return
    read = getattr(stream, "receive_some", None) or getattr(stream, "read", None)
    if read is None:
        async for data in stream:
            yield data
        return
    while data := await read(_CHUNK):
        yield data
