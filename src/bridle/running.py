"""The library's face for runs: one prompt through any agent, awaited or streamed, sync or async."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.core.redact import Redactor, secrets_in
from bridle.core.results import RunResult
from bridle.drives.print_drive import PermissionPolicy, PrintRun, refuse_all
from bridle.drives.recorder import Recorder

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from bridle.config import Config
    from bridle.runtimes.base import AgentRuntime, RunPlan

EventHandler = Callable[[Event], Awaitable[None] | None]


def new_session_id() -> str:
    """A fresh random UUID (version 4)."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Prepared(msgspec.Struct, frozen=True):
    """A run that was checked and can be started."""

    run: PrintRun
    plan: "RunPlan"
    redactor: Redactor


def prepare(
    runtime: "AgentRuntime",
    options: RunOptions,
    *,
    env: Mapping[str, str] | None = None,
    permission: PermissionPolicy = refuse_all,
) -> Prepared:
    """Check `options` against `runtime` and make the run ready; starts nothing.

    Raises what `AgentRuntime.plan_run` raises, before anything happened.
    """
    if not options.prompt.strip():
        raise WrongUse("the prompt is empty", hint="say what the agent is to do")
    environment = dict(os.environ if env is None else env)
    plan = runtime.plan_run(options, environment, new_session_id())
    redactor = Redactor([*secrets_in(plan.spec.env), *plan.secrets])
    recorder = Recorder(
        runtime=runtime.id,
        session_id=plan.session_id,
        options=options,
        cwd=plan.spec.cwd,
        runtime_version=plan.installation.version or "",
        redactor=redactor,
        ignored_options=plan.ignored_options,
    )
    run = PrintRun(
        plan.spec,
        runtime.normalizer(plan, recorder),
        recorder,
        private_dirs=plan.private_dirs,
        permission=permission,
    )
    return Prepared(run, plan, redactor)


class EventStream:
    """The events of one run as they happen.

    Contract: use it in `async with` and iterate inside; leaving the block ends the agent and waits
    until it is gone, also under cancellation. `result` is there after the last event.
    """

    def __init__(self, runtime: "AgentRuntime", options: RunOptions) -> None:
        self._prepared = prepare(runtime, options)
        self._group: TaskGroup | None = None
        self._receive: MemoryObjectReceiveStream[Event] | None = None
        self.result: RunResult | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the caller should know before trusting the run, such as an untested version."""
        return self._prepared.plan.warnings

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Stop the agent; the remaining events still come, ending with status `aborted`."""
        self._prepared.run.abort(reason)

    async def __aenter__(self) -> "EventStream":
        import anyio

        send, self._receive = anyio.create_memory_object_stream[Event](0)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._work, send)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._group is not None
        assert self._receive is not None
        self._receive.close()
        if self.result is None:
            self._prepared.run.abort("the caller left the run")
        return await self._group.__aexit__(kind, problem, trace)

    def __aiter__(self) -> AsyncIterator[Event]:
        assert self._receive is not None, "use `async with` before iterating"
        return self._receive.__aiter__()

    async def _work(self, send: "MemoryObjectSendStream[Event]") -> None:
        """Own the worker thread: it ends by itself, or is aborted and then waited for."""
        import anyio
        from anyio import from_thread, to_thread

        def follow() -> None:
            for event in self._prepared.run.events():
                try:
                    from_thread.run(send.send, event)
                except (anyio.BrokenResourceError, anyio.get_cancelled_exc_class()):
                    self._prepared.run.abort("the caller left the run")

        try:
            with anyio.CancelScope() as scope:
                await self._shielded(to_thread.run_sync, follow, scope)
        finally:
            self.result = self._prepared.run.result
            send.close()

    async def _shielded(self, run_sync: Any, follow: Callable[[], None], scope: Any) -> None:
        import anyio

        done = anyio.Event()

        async def thread() -> None:
            with anyio.CancelScope(shield=True):
                await run_sync(follow, limiter=anyio.CapacityLimiter(1))
            done.set()

        async with anyio.create_task_group() as group:
            group.start_soon(thread)
            try:
                await done.wait()
            except anyio.get_cancelled_exc_class():
                self._prepared.run.abort("cancelled")
                raise


async def run_options(
    runtime: "AgentRuntime", options: RunOptions, *, on_event: EventHandler | None = None
) -> RunResult:
    """Run `options` to its end; `on_event` sees each event and may be async."""
    async with EventStream(runtime, options) as stream:
        async for event in stream:
            if on_event is not None:
                waiting = on_event(event)
                if waiting is not None:
                    await waiting
    assert stream.result is not None
    return stream.result


def run_interactive(
    runtime: "AgentRuntime", options: RunOptions, env: Mapping[str, str] | None = None
) -> int:
    """Let a person drive the agent at this terminal; returns its exit status.

    The agent owns the terminal: Ctrl-C goes to it, not to us.
    """
    import signal
    import subprocess

    spec = runtime.plan_interactive(options, dict(os.environ if env is None else env))
    old = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        done = subprocess.Popen(spec.argv, cwd=spec.cwd, env=spec.env)
        return done.wait()
    finally:
        signal.signal(signal.SIGINT, old)


def _resolve(
    prompt: str, runtime: "str | AgentRuntime | None", config: "Config | None", options: Any
) -> "tuple[AgentRuntime, RunOptions]":
    from bridle.runtimes.base import AgentRuntime
    from bridle.runtimes.registry import get_runtime

    if not isinstance(runtime, AgentRuntime):
        if config is None:
            from bridle.config import load_config

            config = load_config(options.get("cwd"))
        runtime = get_runtime(runtime, config)
    wanted = RunOptions(prompt=prompt, **options)
    if config is not None:
        from bridle.config import apply_config

        wanted = apply_config(wanted, config, runtime.id)
    return runtime, wanted


async def run(
    prompt: str,
    *,
    runtime: "str | AgentRuntime | None" = None,
    config: "Config | None" = None,
    on_event: EventHandler | None = None,
    **options: Any,
) -> RunResult:
    """Run one prompt through an agent and return the result.

    `options` are the fields of `RunOptions`. A failed run is a result with `error`, not an
    exception; `result.failure()` gives the exception. Raises `UnknownRuntime`, `NotInstalled`,
    `UnsupportedOption`, `ConfigError` or `WrongUse` before anything is started.
    """
    chosen, wanted = _resolve(prompt, runtime, config, options)
    return await run_options(chosen, wanted, on_event=on_event)


def stream(
    prompt: str,
    *,
    runtime: "str | AgentRuntime | None" = None,
    config: "Config | None" = None,
    **options: Any,
) -> EventStream:
    """The events of one run: `async with bridle.stream(…) as events: async for event in events`."""
    chosen, wanted = _resolve(prompt, runtime, config, options)
    return EventStream(chosen, wanted)


def run_sync(
    prompt: str,
    *,
    runtime: "str | AgentRuntime | None" = None,
    config: "Config | None" = None,
    **options: Any,
) -> RunResult:
    """`run` for programs without an event loop; it starts none."""
    events = stream_sync(prompt, runtime=runtime, config=config, **options)
    for _ in events:
        pass
    return events.result


class SyncEventStream:
    """The events of one run, iterated without an event loop. `result` is there at the end."""

    def __init__(self, runtime: "AgentRuntime", options: RunOptions) -> None:
        self._prepared = prepare(runtime, options)

    def __iter__(self) -> Iterator[Event]:
        return self._prepared.run.events()

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Stop the agent; the remaining events still come."""
        self._prepared.run.abort(reason)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the caller should know before trusting the run."""
        return self._prepared.plan.warnings

    @property
    def result(self) -> RunResult:
        """The run's result; complete after the last event."""
        return self._prepared.run.result


def stream_sync(
    prompt: str,
    *,
    runtime: "str | AgentRuntime | None" = None,
    config: "Config | None" = None,
    **options: Any,
) -> SyncEventStream:
    """`stream` for programs without an event loop: iterate it, then read `result`."""
    chosen, wanted = _resolve(prompt, runtime, config, options)
    return SyncEventStream(chosen, wanted)
