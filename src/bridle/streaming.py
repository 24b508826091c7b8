"""The library's face for runs: one prompt through any agent, awaited or streamed, sync or async."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Unpack, cast

from bridle.core.errors import WrongUse
from bridle.core.events import AnyEvent, Event
from bridle.core.options import RunOptions, RunOptionsDict
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.spec import PermissionAnswer, Question
from bridle.runs import prepare, resolve

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from bridle.config import Config
    from bridle.runtimes.contract import Adapter, HasAdapter

_NO_RESULT = "read it after the last event, or after the block"

EventHandler = Callable[[AnyEvent], Awaitable[None] | None]
AsyncPermissionPolicy = Callable[[Question], Awaitable[PermissionAnswer]]
"""A permission callback for the async face; it may wait for a person."""


class EventStream:
    """The events of one run as they happen.

    Contract: use it in `async with`, once, and iterate inside; leaving the block ends the agent and
    waits until it is gone, also under cancellation. `result` is there after the last event, and
    after the block in any case. What the block raises comes out as it is. What the permission
    callback raises ends the agent and comes out of the iteration.
    """

    def __init__(
        self,
        runtime: "Adapter",
        options: RunOptions,
        *,
        permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
        config: "Config | None" = None,
    ) -> None:
        self._result: RunResult | None = None
        self._permission = permission
        self._prepared = prepare(
            runtime,
            options,
            permission=refuse_all if permission is None else self._decide,
            config=config,
        )
        self._group: TaskGroup | None = None
        self._receive: MemoryObjectReceiveStream[list[Event]] | None = None
        self._ready: deque[Event] = deque()
        self._problem: BaseException | None = None
        self._asking: CancelScope | None = None
        self._left = False

    @property
    def result(self) -> RunResult:
        """The run's result; `WrongUse` before the last event."""
        if self._result is None:
            raise WrongUse("the run has no result yet", hint=_NO_RESULT)
        return self._result

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the caller should know before trusting the run, such as an untested version."""
        return self._prepared.plan.warnings

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Stop the agent; the remaining events still come, ending with status `aborted`."""
        self._prepared.run.abort(reason)

    async def __aenter__(self) -> "EventStream":
        import anyio

        if self._group is not None:
            raise WrongUse("this run was already started", hint="make a new stream for each run")
        send, self._receive = anyio.create_memory_object_stream[list[Event]](0)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._work, send)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._group is not None
        assert self._receive is not None
        self._left = True
        self._receive.close()
        if self._result is None:
            self._prepared.run.abort("the caller left the run")
        if self._asking is not None:
            self._asking.cancel()
        # The group only waits for the worker, which ends by itself now. It is not told of the
        # block's exception, or it would wrap that in a group.
        self._group.cancel_scope.shield = True
        await self._group.__aexit__(None, None, None)
        if problem is None:
            self._raise_problem()

    def __aiter__(self) -> "EventStream":
        if self._receive is None:
            raise WrongUse("the stream is not open", hint="use `async with stream as events` first")
        return self

    async def __anext__(self) -> AnyEvent:
        import anyio

        assert self._receive is not None
        while not self._ready:
            try:
                self._ready.extend(await self._receive.receive())
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._raise_problem()
                raise StopAsyncIteration from None
        return cast("AnyEvent", self._ready.popleft())

    def _raise_problem(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    async def _work(self, send: "MemoryObjectSendStream[list[Event]]") -> None:
        """Own the worker thread. It cannot be cancelled from outside: it ends when the agent has,
        and leaving the block ends the agent."""
        import anyio
        from anyio import to_thread

        try:
            with anyio.CancelScope(shield=True):
                # A limiter of its own: a hundred runs at once must not wait for one another.
                await to_thread.run_sync(self._follow, send, limiter=anyio.CapacityLimiter(1))
        finally:
            send.close()

    def _follow(self, send: "MemoryObjectSendStream[list[Event]]") -> None:
        """In the worker thread: play the run; hand events over, waiting while nobody takes them."""
        import anyio
        from anyio import from_thread

        run = self._prepared.run
        try:
            for batch in run.batches():
                if self._left:
                    continue
                try:
                    from_thread.run(send.send, batch)
                except anyio.BrokenResourceError:
                    run.abort("the caller left the run")
        except BaseException as problem:
            self._problem = problem
        finally:
            self._result = run.result

    def _decide(self, question: Question) -> PermissionAnswer:
        """In the worker thread: ask the caller, who may answer now or later."""
        from anyio import from_thread

        assert self._permission is not None
        answer = self._permission(question)
        if not isinstance(answer, Awaitable):
            return answer
        return from_thread.run(self._wait_for, answer)

    async def _wait_for(self, answer: Awaitable[PermissionAnswer]) -> PermissionAnswer:
        import anyio

        with anyio.CancelScope() as self._asking:
            if self._left:
                self._asking.cancel()
            return await answer
        return False, "bridle", "the caller left the run"


async def run_options(
    runtime: "Adapter",
    options: RunOptions,
    *,
    on_event: EventHandler | None = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    config: "Config | None" = None,
) -> RunResult:
    """Run `options` to its end; `on_event` sees each event and may be async."""
    async with EventStream(runtime, options, permission=permission, config=config) as stream:
        async for event in stream:
            if on_event is not None:
                waiting = on_event(event)
                if waiting is not None:
                    await waiting
    return stream.result


async def run(
    prompt: str,
    *,
    runtime: "str | Adapter | HasAdapter | None" = None,
    config: "Config | None" = None,
    on_event: EventHandler | None = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> RunResult:
    """Run one prompt through an agent and return the result.

    `options` are the fields of `RunOptions`. `permission` answers the agent's permission requests
    (all are refused without it): it returns True, False, `Allow()` or `Deny(reason)`, and may be
    async. A failed run is a result with `error`, not an
    exception; `result.failure()` gives the exception. Raises `UnknownRuntime`, `NotInstalled`,
    `UnsupportedOption`, `ConfigError` or `WrongUse` before anything is started.
    """
    chosen, wanted = resolve(prompt, runtime, config, options)
    return await run_options(
        chosen, wanted, on_event=on_event, permission=permission, config=config
    )


def stream(
    prompt: str,
    *,
    runtime: "str | Adapter | HasAdapter | None" = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> EventStream:
    """The events of one run: `async with bridle.stream(…) as events: async for event in events`.

    Takes and raises what `run` does.
    """
    chosen, wanted = resolve(prompt, runtime, config, options)
    return EventStream(chosen, wanted, permission=permission, config=config)


def run_sync(
    prompt: str,
    *,
    runtime: "str | Adapter | HasAdapter | None" = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> RunResult:
    """`run` for programs without an event loop; it starts none."""
    events = stream_sync(prompt, runtime=runtime, config=config, permission=permission, **options)
    for _ in events:
        pass
    return events.result


class SyncEventStream:
    """The events of one run, iterated without an event loop. `result` is there at the end.

    Contract: iterate it once. Breaking out of the loop, or leaving a `with` block around it, ends
    the agent and waits until it is gone.
    """

    def __init__(
        self,
        runtime: "Adapter",
        options: RunOptions,
        *,
        permission: PermissionPolicy | None = None,
        config: "Config | None" = None,
    ) -> None:
        self._prepared = prepare(
            runtime, options, permission=permission or refuse_all, config=config
        )

    def __enter__(self) -> "SyncEventStream":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._prepared.run.close()

    def __iter__(self) -> Iterator[AnyEvent]:
        return cast("Iterator[AnyEvent]", self._prepared.run.events())

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Stop the agent; the remaining events still come."""
        self._prepared.run.abort(reason)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the caller should know before trusting the run."""
        return self._prepared.plan.warnings

    @property
    def result(self) -> RunResult:
        """The run's result; `WrongUse` before the last event."""
        if not self._prepared.run.is_over:
            raise WrongUse("the run has no result yet", hint=_NO_RESULT)
        return self._prepared.run.result


def stream_sync(
    prompt: str,
    *,
    runtime: "str | Adapter | HasAdapter | None" = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> SyncEventStream:
    """`stream` for programs without an event loop: iterate it, then read `result`."""
    chosen, wanted = resolve(prompt, runtime, config, options)
    return SyncEventStream(chosen, wanted, permission=permission, config=config)
