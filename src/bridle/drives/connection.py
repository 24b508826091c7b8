"""A conversation over the stdin and stdout of a process that the caller holds.

It is for orchestrators that start agents themselves and want to talk to them without a terminal:
connect, send a prompt, follow up, ask for the state, abort, close. Sessions do more (they outlive
the program, keep a record, resume); they use the same wires and the same player.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from bridle.core.errors import Aborted, Crashed, ProtocolDrift, TimedOut, WrongUse
from bridle.core.events import AgentEnd, AnyEvent
from bridle.core.handles import ConnectionState
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.spec import MAX_LINE, ProcessExit
from bridle.turns.player import Conversation, Message
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveWire, PermissionAnswer, Question, decision_of

if TYPE_CHECKING:
    from anyio import CancelScope, Lock
    from anyio import Event as Flag
    from anyio.abc import TaskGroup

    AsyncPolicy = Callable[[Question], Awaitable[PermissionAnswer]]

_CHUNK = 1 << 16
_CLOSING = 5.0
"""Seconds for a process to take its last bytes."""
ANSWERING = 300.0
"""Seconds for an answer to a permission request, unless the caller says otherwise."""


class ByteSink(Protocol):
    """Where an agent's input goes."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes; an awaitable result is awaited, and so is `drain` if there is one."""


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
    `close`, ends the conversation and stops reading; the caller ends the process. Every call
    returns when its bytes are written; `get_state` and the events show the effect.
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
        self._player: Conversation[Message] = Conversation(wire, recorder)
        self._recorder = recorder
        self._can_steer = can_steer
        self._permission = permission
        self._permission_timeout = permission_timeout
        self._on_event = on_event
        self._count = 0
        self._failed = False
        self._closed = False
        self._stopped = False
        self._group: TaskGroup | None = None
        self._changed: Flag | None = None
        self._writing: Lock | None = None
        self._scopes: set[CancelScope] = set()
        self._asked: set[str] = set()
        """Permission requests whose answer a task awaits."""

    async def __aenter__(self) -> "RuntimeConnection":
        import anyio

        if self._group is not None or self._closed:
            raise WrongUse("this connection was already used", hint="connect again")
        self._changed = anyio.Event()
        self._writing = anyio.Lock()
        self._group = await anyio.create_task_group().__aenter__()
        self._player.begin()
        await self._carry_out()
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
        # Only waits for tasks that end now. The block's exception is not passed on, because the
        # task group would wrap it in an exception group.
        self._group.cancel_scope.shield = True
        await self._group.__aexit__(None, None, None)

    # -- the caller -----------------------------------------------------------------------------

    async def send_prompt(self, text: str) -> None:
        """Begin a turn, as soon as the agent can take one."""
        await self._queue(text, "prompt")

    async def follow_up(self, text: str) -> None:
        """Queue a message for the end of the turn."""
        await self._queue(text, "follow_up")

    async def steer(self, text: str) -> None:
        """Reach the running turn at its next tool boundary. If the runtime cannot do that, and
        between turns, the message is queued."""
        await self._queue(text, "steer")

    async def abort(self, reason: str = "aborted by the caller") -> None:
        """End the open turn and drop the queued messages."""
        self._check()
        for message in self._player.queue:
            self._player.drop(message.id)
        self._player.abort(Aborted(reason))
        await self._carry_out()

    async def get_state(self) -> ConnectionState:
        """What the agent does now."""
        recorder = self._recorder
        tools = recorder.tools.names
        failed = self._failed and not recorder.turn_open
        if self._player.finished or failed or recorder.stop_requested is not None:
            return ConnectionState(status="error")
        return ConnectionState(
            status="idle" if self._player.is_idle else "working",
            current_tool=tools[-1] if tools else None,
        )

    async def wait_idle(self, timeout: float | None = None) -> ConnectionState:
        """Wait until the agent no longer works; raises `TimedOut`."""
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
        """Let the agent exit (most do when their stdin is closed) and stop reading. A repeated call
        has no effect."""
        if self._closed:
            return
        self._closed = True
        player = self._player
        if not player.finished:
            self._recorder.leaving = "the connection was closed"
            player.abort(Aborted("the connection was closed"))
            player.do(player.wire.leave)
            await self._write()
            player.finish(ProcessExit(code=None))
        for scope in self._scopes:
            scope.cancel()
        self._publish()

    def _start(self, act: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run a task until it ends or the connection is closed."""
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
        if self._player.finished:
            raise Crashed("the agent is gone", runtime=self._recorder.runtime)

    # -- messages -------------------------------------------------------------------------------

    async def _queue(self, text: str, kind: Literal["prompt", "steer", "follow_up"]) -> None:
        self._check()
        if not text.strip():
            raise WrongUse("the message is empty", hint="say what the agent should do")
        self._count += 1
        # Wires need a UUID; only its number differs.
        message_id = f"{self._recorder.session_id[:-12]}{self._count:012x}"
        steers = kind == "steer" and self._can_steer and self._recorder.turn_open
        self._player.add(Message(id=message_id, text=text, kind=kind if steers else "prompt"))
        if steers:
            self._player.send(message_id, steer=True)
        await self._carry_out()

    def _send_next(self) -> None:
        message = self._player.next_message(can_steer=False)
        if message is not None:
            self._failed = False
            self._player.send(message.id)

    def _forget_closed_messages(self) -> None:
        messages = self._player.messages
        for state in [each for each in messages.values() if not each.is_open]:
            del messages[state.message.id]
            if state.status == "refused":
                self._failed = True

    # -- the process ----------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read the agent's output until the agent has ended."""
        rest = bytearray()
        try:
            async for data in _chunks(self._process.stdout):
                rest += data
                if b"\n" in data:
                    *lines, last = rest.split(b"\n")
                    rest = bytearray(last)
                    for line in lines:
                        self._player.feed(self._recorder.redactor.line(bytes(line)))
                        await self._carry_out()
                if len(rest) > MAX_LINE:
                    self._recorder.fail(ProtocolDrift("the agent printed a line without end"))
                    break
        except OSError as problem:
            self._recorder.fail(Crashed(f"the agent cannot be read: {problem}"))
        self._player.finish(ProcessExit(code=None))
        self._publish()

    async def _carry_out(self) -> None:
        """Carry out what the wire asked for."""
        recorder, player = self._recorder, self._player
        if recorder.stop_requested is not None and recorder.turn_open and not self._stopped:
            # The caller owns the process; the connection can only end the turn.
            self._stopped = True
            player.do(player.wire.abort)
        while True:
            self._forget_closed_messages()
            self._send_next()
            while self._group is not None and (question := self._next_question()) is not None:
                # An answer may take long: the agent's output is read in the meantime.
                self._start(self._answer, question)
            if not player.has_bytes:
                break
            await self._write()
        self._publish()

    def _next_question(self) -> Question | None:
        for question in self._player.questions.values():
            if question.request_id not in self._asked:
                self._asked.add(question.request_id)
                return question
        return None

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
        self._asked.discard(question.request_id)
        self._player.answer(question.request_id, allowed, by, reason)
        await self._carry_out()

    async def _write(self) -> None:
        assert self._writing is not None
        async with self._writing:
            await self._write_out()

    async def _write_out(self) -> None:
        stdin = self._process.stdin
        try:
            while (data := self._player.take_bytes()) and stdin is not None:
                await _maybe(stdin.write(data))
                if hasattr(stdin, "drain"):
                    await _maybe(stdin.drain())
            if self._recorder.input_done and stdin is not None:
                close = getattr(stdin, "close", None) or getattr(stdin, "aclose", None)
                if close is not None:
                    await _maybe(close())
        except OSError:
            # The end of the process is seen on its stdout.
            self._player.take_bytes()

    def _publish(self) -> None:
        """Pass the events on, and wake the tasks that wait for a change."""
        import anyio

        for event in self._player.take_events():
            if isinstance(event, AgentEnd):
                self._failed = event.status not in ("completed", "aborted")
            if self._on_event is not None:
                self._on_event(cast("AnyEvent", event))
        if self._changed is not None:
            self._changed.set()
            self._changed = anyio.Event()


async def _maybe(value: Any) -> None:
    if hasattr(value, "__await__"):
        await value


async def _chunks(stream: Any) -> AsyncIterator[bytes]:
    """The bytes of a stream of any supported kind, as they arrive."""
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
