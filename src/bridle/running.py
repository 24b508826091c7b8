"""The library's face for runs: one prompt through any agent, awaited or streamed, sync or async."""

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.events import Drive, Event
from bridle.core.options import RunOptions, guarded_as
from bridle.core.redact import Redactor, secrets_in
from bridle.core.results import RunResult
from bridle.drives.print_drive import PermissionPolicy, PrintRun, refuse_all, remove_folders
from bridle.drives.recorder import Recorder
from bridle.drives.spec import ProcessSpec, Question

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from bridle.config import Config
    from bridle.drives.connection import RpcProcess, RuntimeConnection
    from bridle.runtimes.base import AgentRuntime, RunPlan
    from bridle.runtimes.guarded import Guarding

_T = TypeVar("_T")

EventHandler = Callable[[Event], Awaitable[None] | None]
AsyncPermissionPolicy = Callable[[Question], Awaitable[tuple[bool, str, str]]]
"""A permission callback for the async face; it may wait for a person."""


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
    config: "Config | None" = None,
) -> Prepared:
    """Check `options` against `runtime` and make the run ready; starts nothing.

    `config` holds the rules of a guarded run; that of its folder when None. Raises what
    `AgentRuntime.plan_run` raises, and `GuardRefused`, before anything happened.
    """
    _check_values(options)
    environment = dict(os.environ if env is None else env)
    capability = guarded_as(options, environment)
    if capability is None or options.unguarded:
        plan = _planned(runtime, options, environment, None)
        return _discarding(plan, _prepared, runtime, options, plan, permission)
    from bridle.runtimes.guarded import Guarding

    guarding = Guarding(runtime, capability, environment, stdio=True)
    try:
        plan = _planned(runtime, options, environment, guarding)
        return _discarding(plan, _prepared, runtime, options, plan, permission, guarding, config)
    except BaseException:
        guarding.close()
        raise


def _planned(
    runtime: "AgentRuntime",
    options: RunOptions,
    env: dict[str, str],
    guarding: "Guarding | None",
) -> "RunPlan":
    """The plan of a run, its guard inside its sandbox."""
    if options.sandbox is None:
        plan = runtime.plan_run(options, env, new_session_id())
        return plan if guarding is None else _discarding(plan, guarding.adapt, plan)
    from bridle.runtimes.confined import planned

    adapt = None if guarding is None else guarding.adapt
    return planned(runtime, options, env, new_session_id(), adapt)


def _discarding(plan: "RunPlan", step: Callable[..., _T], *arguments: Any) -> _T:
    """`step` on a plan, whose folders are removed when nothing comes of it."""
    try:
        return step(*arguments)
    except BaseException:
        remove_folders(plan.private_dirs)
        raise


def _prepared(
    runtime: "AgentRuntime",
    options: RunOptions,
    plan: "RunPlan",
    permission: PermissionPolicy,
    guarding: "Guarding | None" = None,
    config: "Config | None" = None,
) -> Prepared:
    recorder = recorder_for(runtime, options, plan)
    if guarding is not None:
        recorder.guard = guarding.begin(plan, config)
    elif options.unguarded:
        recorder.unguarded = guarded_as(options, plan.spec.env) or "none"
    normalizer = runtime.normalizer(plan, recorder)
    if options.sandbox is not None:
        from bridle.runtimes.confined import watched

        normalizer = watched(runtime, options, normalizer, recorder)
    run = PrintRun(
        plan.spec,
        normalizer,
        recorder,
        private_dirs=plan.private_dirs,
        permission=permission,
        at_end=None if guarding is None else guarding.close,
    )
    return Prepared(run, plan, recorder.redactor)


def recorder_for(
    runtime: "AgentRuntime", options: RunOptions, plan: "RunPlan", drive: Drive = "print"
) -> Recorder:
    """The recorder of a planned run, which knows every secret that the run is given."""
    return Recorder(
        runtime=runtime.id,
        session_id=plan.session_id,
        options=options,
        cwd=plan.spec.cwd,
        runtime_version=plan.installation.version or "",
        redactor=Redactor([*secrets_in(plan.spec.env), *plan.secrets]),
        ignored_options=plan.ignored_options,
        drive=drive,
    )


def _check_values(options: RunOptions) -> None:
    """Refuse values that no runtime can make sense of."""
    if not options.prompt.strip():
        raise WrongUse("the prompt is empty", hint="say what the agent is to do")
    try:
        options.prompt.encode()
    except UnicodeEncodeError:
        raise WrongUse("the prompt holds characters that are not Unicode text") from None
    for name, least in (("timeout", 0), ("budget_usd", 0), ("max_turns", 0)):
        value = getattr(options, name)
        # Written so that a value which is not a number at all is refused too.
        if value is not None and not value > least:
            raise WrongUse(f"{name} must be more than {least}, not {value}")


def connection(
    runtime: "AgentRuntime",
    process: "RpcProcess",
    plan: "RunPlan | None",
    options: RunOptions | None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None,
    on_event: Callable[[Event], object] | None,
) -> "RuntimeConnection":
    """A conversation with a process of `runtime`; see `AgentRuntime.connect`."""
    from bridle.drives.connection import RuntimeConnection

    options = options or RunOptions(prompt="")
    if plan is None:
        plan = runtime.plan_live(options, os.environ, new_session_id())
        # They were for a process of the plan's own; this one is there already.
        remove_folders(plan.private_dirs)
    if plan.live is None:
        raise WrongUse("the plan is not one of a conversation", hint="make it with plan_live")
    recorder = recorder_for(runtime, options, plan, drive="rpc")
    return RuntimeConnection(
        process,
        runtime.live_wire(plan.live, recorder),
        recorder,
        can_steer=runtime.features_of(plan.dialect).steer,
        permission=permission or refuse_all,
        on_event=on_event,
    )


class EventStream:
    """The events of one run as they happen.

    Contract: use it in `async with`, once, and iterate inside; leaving the block ends the agent and
    waits until it is gone, also under cancellation. `result` is there after the last event, and
    after the block in any case. What the block raises comes out as it is. What the permission
    callback raises ends the agent and comes out of the iteration.
    """

    def __init__(
        self,
        runtime: "AgentRuntime",
        options: RunOptions,
        *,
        permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
        config: "Config | None" = None,
    ) -> None:
        self.result: RunResult | None = None
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
        if self.result is None:
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

    async def __anext__(self) -> Event:
        import anyio

        assert self._receive is not None
        while not self._ready:
            try:
                self._ready.extend(await self._receive.receive())
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._raise_problem()
                raise StopAsyncIteration from None
        return self._ready.popleft()

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
            self.result = run.result

    def _decide(self, question: Question) -> tuple[bool, str, str]:
        """In the worker thread: ask the caller, who may answer now or later."""
        from anyio import from_thread

        assert self._permission is not None
        answer = self._permission(question)
        if isinstance(answer, tuple):
            return answer
        return from_thread.run(self._wait_for, answer)

    async def _wait_for(self, answer: Awaitable[tuple[bool, str, str]]) -> tuple[bool, str, str]:
        import anyio

        with anyio.CancelScope() as self._asking:
            if self._left:
                self._asking.cancel()
            return await answer
        return False, "bridle", "the caller left the run"


async def run_options(
    runtime: "AgentRuntime",
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
    assert stream.result is not None
    return stream.result


def run_interactive(
    runtime: "AgentRuntime",
    options: RunOptions,
    env: Mapping[str, str] | None = None,
    *,
    on_warning: Callable[[str], None] | None = None,
    config: "Config | None" = None,
) -> int:
    """Let a person drive the agent at this terminal; returns its exit status.

    The agent owns the terminal: Ctrl-C goes to it, not to us. See `run_at_terminal`. `on_warning`
    is told, before the start, what the sandbox leaves open, and after the end of a guard that was
    never asked.
    """
    from bridle.drives.interactive import run_at_terminal

    environment = dict(os.environ if env is None else env)
    guarding = _guarding_at_terminal(runtime, options, environment)
    private_dirs: tuple[str, ...] = ()
    try:
        spec, private_dirs, warnings = _planned_interactive(
            runtime, options, environment, guarding, config
        )
        if on_warning is not None:
            for warning in warnings:
                on_warning(warning)
        status = run_at_terminal(spec)
        guard = None if guarding is None else guarding.session.guard
        if guard is not None and not guard.take() and on_warning is not None:
            on_warning(f"the guard was not seen to fire ({guard.mechanism.name})")
        return status
    finally:
        remove_folders(private_dirs)
        if guarding is not None:
            guarding.close()


def _guarding_at_terminal(
    runtime: "AgentRuntime", options: RunOptions, env: dict[str, str]
) -> "Guarding | None":
    capability = guarded_as(options, env)
    if capability is None or options.unguarded:
        return None
    from bridle.runtimes.guarded import Guarding

    return Guarding(runtime, capability, env, stdio=False)


def _planned_interactive(
    runtime: "AgentRuntime",
    options: RunOptions,
    env: dict[str, str],
    guarding: "Guarding | None",
    config: "Config | None",
) -> tuple[ProcessSpec, tuple[str, ...], tuple[str, ...]]:
    """The process of a run that a person drives, folders to remove after it, and warnings."""
    if options.sandbox is None and guarding is None:
        return runtime.plan_interactive(options, env), (), ()
    from bridle.runtimes.confined import planned_interactive

    adapt = None if guarding is None else guarding.adapt
    plan = planned_interactive(runtime, options, env, adapt)
    if guarding is not None:
        guarding.begin(plan, config)
        try:
            runtime.prove_guard(plan)
        except BaseException:
            remove_folders(plan.private_dirs)
            raise
    return plan.spec, plan.private_dirs, plan.warnings


def resolve(
    prompt: str, runtime: "str | AgentRuntime | None", config: "Config | None", options: Any
) -> "tuple[AgentRuntime, RunOptions]":
    """The runtime and the options that keywords ask for, with what the configuration adds."""
    from bridle.runtimes.base import AgentRuntime
    from bridle.runtimes.registry import get_runtime

    if not isinstance(runtime, AgentRuntime):
        if config is None:
            from bridle.config import load_config

            config = load_config(options.get("cwd"))
        runtime = get_runtime(runtime, config)
    wanted = options_from(prompt, options)
    if config is not None:
        from bridle.config import apply_config

        wanted = apply_config(wanted, config, runtime.id)
    return runtime, wanted


def options_from(prompt: str, options: Mapping[str, Any]) -> RunOptions:
    """`RunOptions` from keywords; `WrongUse` names a keyword that is none, or whose value has the
    wrong type. Path objects are taken as their text."""
    for name in options:
        if name not in RunOptions.__struct_fields__:
            raise WrongUse(f"unknown option: {name}", hint=_nearest(name))
    plain = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in options.items()
    }
    try:
        return msgspec.convert({"prompt": prompt, **plain}, RunOptions)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$.")
        raise WrongUse(f"option {where.rstrip('`') or 'unknown'}: {what}") from None


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, RunOptions.__struct_fields__, n=1)
    return f"did you mean {close[0]}?" if close else "see the fields of RunOptions"


async def run(
    prompt: str,
    *,
    runtime: "str | AgentRuntime | None" = None,
    config: "Config | None" = None,
    on_event: EventHandler | None = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    **options: Any,
) -> RunResult:
    """Run one prompt through an agent and return the result.

    `options` are the fields of `RunOptions`. `permission` answers the agent's permission requests
    (all are refused without it); it may be async. A failed run is a result with `error`, not an
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
    runtime: "str | AgentRuntime | None" = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    **options: Any,
) -> EventStream:
    """The events of one run: `async with bridle.stream(…) as events: async for event in events`.

    Takes and raises what `run` does.
    """
    chosen, wanted = resolve(prompt, runtime, config, options)
    return EventStream(chosen, wanted, permission=permission, config=config)


def run_sync(
    prompt: str,
    *,
    runtime: "str | AgentRuntime | None" = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | None = None,
    **options: Any,
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
        runtime: "AgentRuntime",
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
    permission: PermissionPolicy | None = None,
    **options: Any,
) -> SyncEventStream:
    """`stream` for programs without an event loop: iterate it, then read `result`."""
    chosen, wanted = resolve(prompt, runtime, config, options)
    return SyncEventStream(chosen, wanted, permission=permission, config=config)
