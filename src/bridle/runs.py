"""Runs of one prompt: prepare, run and stream, sync and async.

`prepare` checks the options, plans the process, puts the guard and the sandbox around it, and
starts nothing. `run`, `stream` and their sync twins play what it prepared. `run_interactive` gives
the terminal to a person, and `connection` talks to a process that the caller started.
"""

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

import msgspec

from bridle.core import structs
from bridle.core.errors import BridleError, UnsupportedOption, WrongUse
from bridle.core.events import AnyEvent, Drive, Event
from bridle.core.git import find_project
from bridle.core.ids import new_session_id
from bridle.core.options import (
    PROJECT,
    RunOptions,
    RunOptionsDict,
    guarded_as,
    without_outer_agent,
)
from bridle.core.redaction import Redactor, secrets_in
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, PrintRun, refuse_all
from bridle.process.private_folders import claim_folders, remove_folders
from bridle.process.spec import ProcessSpec
from bridle.runtimes.alternatives import as_interactive, as_live
from bridle.runtimes.contract import Adapter, HasAdapter, adapter_of, as_guarded
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.routing import routed
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer, PermissionAnswer, Question

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from bridle.config import Config
    from bridle.drives.connection import RpcProcess, RuntimeConnection
    from bridle.runtimes.guards import RunGuarding
    from bridle.runtimes.permission import Way
    from bridle.runtimes.plan import RunPlan

EventHandler = Callable[[AnyEvent], Awaitable[None] | None]
AsyncPermissionPolicy = Callable[[Question], Awaitable[PermissionAnswer]]
"""A permission callback for async callers; it may wait for a person."""

_NO_RESULT = "read it after the last event, or after the block"

_T = TypeVar("_T")


# -- run and stream -----------------------------------------------------------------------------


async def run(
    prompt: str,
    *,
    runtime: str | Adapter | HasAdapter | None = None,
    config: "Config | None" = None,
    on_event: EventHandler | None = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> RunResult:
    """Run one prompt through an agent and return the result.

    `runtime` is a name, an `AgentRuntime` or an adapter. `options` are the fields of `RunOptions`.
    `permission` answers the agent's permission requests (without it all are refused): it returns
    True, False, `Allow()` or `Deny(reason)`, and may be async. A failed run is a result with
    `error`, not an exception; `result.failure()` gives the exception. Raises `UnknownRuntime`,
    `NotInstalled`, `UnsupportedOption`, `ConfigError` or `WrongUse` before anything is started.
    """
    adapter, wanted = resolve(prompt, runtime, config, options)
    return await run_options(
        adapter, wanted, on_event=on_event, permission=permission, config=config
    )


async def run_options(
    adapter: Adapter,
    options: RunOptions,
    *,
    on_event: EventHandler | None = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    config: "Config | None" = None,
) -> RunResult:
    """Run `options` to the end; `on_event` gets each event and may be async."""
    async with EventStream(adapter, options, permission=permission, config=config) as stream:
        async for event in stream:
            if on_event is not None:
                waiting = on_event(event)
                if waiting is not None:
                    await waiting
    return stream.result


def stream(
    prompt: str,
    *,
    runtime: str | Adapter | HasAdapter | None = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> "EventStream":
    """The events of one run: `async with bridle.stream(…) as events: async for event in events`.

    Takes and raises what `run` does.
    """
    adapter, wanted = resolve(prompt, runtime, config, options)
    return EventStream(adapter, wanted, permission=permission, config=config)


def run_sync(
    prompt: str,
    *,
    runtime: str | Adapter | HasAdapter | None = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> RunResult:
    """`run` for programs without an event loop; it starts none."""
    events = stream_sync(prompt, runtime=runtime, config=config, permission=permission, **options)
    for _ in events:
        pass
    return events.result


def stream_sync(
    prompt: str,
    *,
    runtime: str | Adapter | HasAdapter | None = None,
    config: "Config | None" = None,
    permission: PermissionPolicy | None = None,
    **options: Unpack[RunOptionsDict],
) -> "SyncEventStream":
    """`stream` for programs without an event loop: iterate it, then read `result`."""
    adapter, wanted = resolve(prompt, runtime, config, options)
    return SyncEventStream(adapter, wanted, permission=permission, config=config)


class EventStream:
    """The events of one run as they happen.

    Contract: use it in `async with`, once, and iterate inside. Leaving the block ends the agent and
    waits until it is gone, also under cancellation. `result` can be read after the last event, and
    after the block in any case. An exception raised in the block propagates unchanged. An exception
    raised by the permission callback ends the agent and propagates from the iteration.
    """

    def __init__(
        self,
        runtime: Adapter | HasAdapter,
        options: RunOptions,
        *,
        permission: PermissionPolicy | AsyncPermissionPolicy | None = None,
        config: "Config | None" = None,
    ) -> None:
        self._result: RunResult | None = None
        self._permission = permission
        self._prepared = prepare(
            adapter_of(runtime),
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
        # The group only waits for the worker, which ends by itself now. It does not get the block's
        # exception, or it would wrap that in a group.
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
        """Run the worker thread. It cannot be cancelled from outside: it ends when the agent has
        ended, and leaving the block ends the agent."""
        import anyio
        from anyio import to_thread

        try:
            with anyio.CancelScope(shield=True):
                # A separate limiter: a hundred runs at once must not wait for one another.
                await to_thread.run_sync(self._follow, send, limiter=anyio.CapacityLimiter(1))
        finally:
            send.close()

    def _follow(self, send: "MemoryObjectSendStream[list[Event]]") -> None:
        """In the worker thread: play the run and hand its events over, waiting until the caller
        takes them."""
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


class SyncEventStream:
    """The events of one run, iterated without an event loop. `result` can be read at the end.

    Contract: iterate it once. Breaking out of the loop, or leaving a `with` block around it, ends
    the agent and waits until it is gone.
    """

    def __init__(
        self,
        runtime: Adapter | HasAdapter,
        options: RunOptions,
        *,
        permission: PermissionPolicy | None = None,
        config: "Config | None" = None,
    ) -> None:
        self._prepared = prepare(
            adapter_of(runtime), options, permission=permission or refuse_all, config=config
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


# -- keywords to options ------------------------------------------------------------------------


def resolve(
    prompt: str,
    runtime: str | Adapter | HasAdapter | None,
    config: "Config | None",
    options: Any,
) -> tuple[Adapter, RunOptions]:
    """The adapter and the options that a caller's keywords mean, completed by the configuration."""
    if runtime is None or isinstance(runtime, str):
        if config is None:
            from bridle.config import load_config

            config = load_config(options.get("cwd"))
        adapter = get_adapter(runtime, config)
    else:
        adapter = adapter_of(runtime)
    wanted = options_from(prompt, options)
    if config is not None:
        from bridle.config import apply_config

        wanted = apply_config(wanted, config, adapter.id)
    return adapter, wanted


def options_from(prompt: str, options: Mapping[str, Any]) -> RunOptions:
    """`RunOptions` from keywords. `WrongUse` names an unknown keyword, or one whose value has the
    wrong type. Path objects count as their text."""
    for name in options:
        if name not in RunOptions.__struct_fields__:
            raise WrongUse(f"unknown option: {name}", hint=_nearest(name))
    plain = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in options.items()
    }
    try:
        return structs.convert({"prompt": prompt, **plain}, RunOptions)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$.")
        raise WrongUse(f"option {where.rstrip('`') or 'unknown'}: {what}") from None


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, RunOptions.__struct_fields__, n=1)
    return f"did you mean {close[0]}?" if close else "see the fields of RunOptions"


def _check_values(options: RunOptions) -> None:
    """Refuse values that no runtime can make sense of."""
    if not options.prompt.strip():
        raise WrongUse("the prompt is empty", hint="say what the agent should do")
    try:
        options.prompt.encode()
    except UnicodeEncodeError:
        raise WrongUse("the prompt holds characters that are not Unicode text") from None
    for name, least in (("timeout", 0), ("budget_usd", 0), ("max_turns", 0)):
        value = getattr(options, name)
        # Negated, so that a value which is not a number at all is refused too.
        if value is not None and not value > least:
            raise WrongUse(f"{name} must be more than {least}, not {value}")


def refuse_schema(adapter: Adapter, options: RunOptions, where: str) -> None:
    """Refuse `output_schema` where no single answer ends the work."""
    if options.output_schema is not None:
        raise UnsupportedOption(
            adapter.id, "output_schema", [], reason=f"not in {where}; use `bridle run`"
        )


# -- preparing ----------------------------------------------------------------------------------


class Prepared(msgspec.Struct, frozen=True):
    """A run that was checked and can be started."""

    run: PrintRun
    plan: "RunPlan"
    redactor: Redactor


def prepare(
    adapter: Adapter,
    options: RunOptions,
    *,
    env: Mapping[str, str] | None = None,
    permission: PermissionPolicy = refuse_all,
    config: "Config | None" = None,
) -> Prepared:
    """Check `options` against the adapter and prepare the run; starts nothing.

    `permission` answers the agent's requests. With one, a run in permission mode `ask` uses the
    drive in which the agent asks (`bridle.runtimes.permission`). `config` holds the rules of a
    guarded run; None means the configuration of its folder. Raises what `Adapter.plan_run` raises,
    and `GuardRefused`, before anything starts.
    """
    _check_values(options)
    environment = without_outer_agent(os.environ if env is None else env)
    project = find_project(options.cwd or os.getcwd())
    if project is not None:
        environment.setdefault(PROJECT, project)
    try:
        if options.output_schema is None:
            return _prepare(adapter, options, environment, permission, config)
        return _structured(adapter, options, environment, permission, config)
    except BridleError as problem:
        problem.runtime = problem.runtime or adapter.id
        raise


def _structured(
    adapter: Adapter,
    options: RunOptions,
    environment: dict[str, str],
    permission: PermissionPolicy,
    config: "Config | None",
) -> Prepared:
    """A run whose answer must fit a schema; see `bridle.structured`."""
    from bridle.structured import Asking, StructuredRun

    asking = Asking(adapter, options, environment)

    def again(result: RunResult) -> PrintRun | None:
        wanted = asking.again(result)
        if wanted is None:
            return None
        make = partial(StructuredRun, asking=asking, again=None)
        return _prepare(adapter, wanted, environment, permission, config, make).run

    try:
        make = partial(StructuredRun, asking=asking, again=again)
        return _prepare(adapter, asking.first, environment, permission, config, make)
    except BaseException:
        remove_folders(asking.folders)
        raise


def _prepare(
    adapter: Adapter,
    options: RunOptions,
    environment: dict[str, str],
    permission: PermissionPolicy,
    config: "Config | None",
    make: Callable[..., PrintRun] = PrintRun,
) -> Prepared:
    from bridle.runtimes.permission import way_of

    capability = None if options.unguarded else guarded_as(options, environment)
    warnings: tuple[str, ...] = ()
    if capability is not None:
        options, warnings = _confined_by_role(adapter, options, capability)
    way = way_of(adapter, options, answered=permission is not refuse_all)
    if capability is None:
        plan = _with_profiles(_planned(way, options, environment, None), options, config)
        return _or_discard(plan, _prepared, way, options, plan, permission, make)
    from bridle.runtimes.guards import RunGuarding

    guarding = RunGuarding(way.runtime, capability, environment, stdio=True)
    try:
        plan = _with_profiles(_planned(way, options, environment, guarding), options, config)
        plan = msgspec.structs.replace(plan, warnings=(*warnings, *plan.warnings))
        return _or_discard(plan, _prepared, way, options, plan, permission, make, guarding, config)
    except BaseException:
        guarding.close()
        raise


def _confined_by_role(
    adapter: Adapter, options: RunOptions, capability: str
) -> tuple[RunOptions, tuple[str, ...]]:
    """The options with the sandbox that the capability brings, and warnings."""
    from bridle.guard.agent_policy import check_capability
    from bridle.runtimes.sandbox_plan import held_as

    check_capability(capability)
    return held_as(adapter, options, capability)


def _with_profiles(plan: "RunPlan", options: RunOptions, config: "Config | None") -> "RunPlan":
    """The plan with the agent's variables under the names of the configured profiles, too."""
    if config is None or not config.profiles:
        return plan
    from bridle.config.environment import agent_variables

    own = agent_variables(plan.spec.env, config.profiles, options.env)
    return msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, env=own))


def _planned(
    way: "Way",
    options: RunOptions,
    env: dict[str, str],
    guarding: "RunGuarding | None",
) -> "RunPlan":
    """The plan of a run: the guard is inside the sandbox."""
    adapter = way.runtime
    if options.sandbox is None:
        options, around, warnings = routed(adapter, options, env)
        plan_it = as_live(adapter).plan_live if way.live else adapter.plan_run
        plan = plan_it(options, around, new_session_id())
        plan = msgspec.structs.replace(plan, warnings=(*plan.warnings, *warnings))
        if guarding is not None:
            plan = _or_discard(plan, guarding.adapt, plan)
    else:
        from bridle.runtimes.sandbox_plan import planned, planned_live

        adapt = None if guarding is None else guarding.adapt
        confined = planned_live if way.live else planned
        plan = confined(adapter, options, env, new_session_id(), adapt)
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, *way.warnings))


def _or_discard(plan: "RunPlan", step: Callable[..., _T], *arguments: Any) -> _T:
    """The result of `step`; the folders of `plan` are removed if it raises."""
    try:
        return step(*arguments)
    except BaseException:
        remove_folders(plan.private_dirs)
        raise


def _prepared(
    way: "Way",
    options: RunOptions,
    plan: "RunPlan",
    permission: PermissionPolicy,
    make: Callable[..., PrintRun],
    guarding: "RunGuarding | None" = None,
    config: "Config | None" = None,
) -> Prepared:
    adapter = way.runtime
    if options.images and "images" not in plan.ignored_options:
        from bridle.runtimes.options import check_images

        check_images(options.images, adapter.id)
    recorder = recorder_for(adapter, options, plan, "rpc" if way.live else "print", live=False)
    if guarding is not None:
        recorder.guard = guarding.begin(plan, config)
    elif options.unguarded:
        recorder.unguarded = guarded_as(options, plan.spec.env) or "none"
    normalizer: Callable[[], Normalizer] = partial(_normalizer, way, options, plan, recorder)
    if options.resume is not None:
        # It looks at what the conversation used before; the agent must not have added to that.
        normalizer = partial(_same, normalizer())
    run = make(
        plan.spec,
        normalizer,
        recorder,
        private_dirs=plan.private_dirs,
        permission=permission,
        at_end=None if guarding is None else guarding.close,
    )
    return Prepared(run, plan, recorder.redactor)


def _same(normalizer: Normalizer) -> Normalizer:
    return normalizer


def _normalizer(way: "Way", options: RunOptions, plan: "RunPlan", recorder: Recorder) -> Normalizer:
    if way.live:
        normalizer = _one_prompt(way.runtime, options, plan, recorder)
    else:
        normalizer = way.runtime.normalizer(plan, recorder)
    if options.sandbox is None:
        return normalizer
    from bridle.runtimes.sandbox_plan import watched

    return watched(way.runtime, options, normalizer, recorder)


def _one_prompt(
    adapter: Adapter, options: RunOptions, plan: "RunPlan", recorder: Recorder
) -> Normalizer:
    """The wire of a conversation that ends after the prompt's turn."""
    from bridle.turns.player import OnePrompt
    from bridle.turns.wire import Outgoing

    assert plan.live is not None
    images = tuple(os.path.abspath(os.path.expanduser(path)) for path in options.images)
    prompt = Outgoing(id=new_session_id(), text=options.prompt, images=images)
    return OnePrompt(as_live(adapter).live_wire(plan.live, recorder), recorder, prompt)


def recorder_for(
    adapter: Adapter,
    options: RunOptions,
    plan: "RunPlan",
    drive: Drive = "print",
    *,
    live: bool | None = None,
) -> Recorder:
    """The recorder of a planned run. It knows every secret of the run. `live` is the argument of
    `Recorder`."""
    recorder = Recorder(
        runtime=adapter.id,
        session_id=plan.session_id,
        options=options,
        cwd=plan.spec.cwd,
        runtime_version=plan.installation.version or "",
        redactor=Redactor([*secrets_in(plan.spec.env), *plan.secrets]),
        ignored_options=plan.ignored_options,
        drive=drive,
        live=live,
    )

    def in_files() -> str:
        from bridle.runtimes.options import file_instructions

        return file_instructions(adapter, options, plan.spec.cwd)

    # A file that the caller names may be gone when the agent speaks; the project's are read then.
    known = in_files() if options.append_system_prompt_file else None
    recorder.words.file_instructions = in_files if known is None else lambda: known
    return recorder


# -- a connection, a terminal -------------------------------------------------------------------


def connection(
    adapter: Adapter,
    process: "RpcProcess",
    plan: "RunPlan | None",
    options: RunOptions | None,
    permission: PermissionPolicy | AsyncPermissionPolicy | None,
    permission_timeout: float | None,
    on_event: Callable[[AnyEvent], object] | None,
) -> "RuntimeConnection":
    """A conversation with a process that the caller started; see `AgentRuntime.connect`."""
    from bridle.drives.connection import ANSWERING, RuntimeConnection

    options = options or RunOptions(prompt="")
    refuse_schema(adapter, options, "a conversation")
    live = as_live(adapter)
    if plan is None:
        options, env, _ = routed(adapter, options, os.environ)
        plan = live.plan_live(options, env, new_session_id())
        # They were for a process of this plan; the caller's process is running already.
        remove_folders(plan.private_dirs)
    if plan.live is None:
        raise WrongUse("the plan is not for a conversation", hint="make it with plan_live")
    recorder = recorder_for(adapter, options, plan, drive="rpc")
    return RuntimeConnection(
        process,
        live.live_wire(plan.live, recorder),
        recorder,
        can_steer=adapter.features_of(plan.dialect).steer,
        permission=permission or refuse_all,
        permission_timeout=ANSWERING if permission_timeout is None else permission_timeout,
        on_event=on_event,
    )


def run_interactive(
    runtime: Adapter | HasAdapter,
    options: RunOptions,
    env: Mapping[str, str] | None = None,
    *,
    on_warning: Callable[[str], None] | None = None,
    config: "Config | None" = None,
) -> int:
    """Let a person drive the agent at this terminal; returns its exit status.

    The agent owns the terminal: Ctrl-C goes to it, not to Bridle. See `run_at_terminal`.
    `on_warning` gets what the sandbox leaves open before the start, and after the end whether the
    guard was never asked.
    """
    from bridle.process.terminal import run_at_terminal

    adapter = adapter_of(runtime)
    refuse_schema(adapter, options, "a run at the terminal")
    environment = dict(os.environ if env is None else env)
    guarding = _guarding_at_terminal(adapter, options, environment)
    cautions: tuple[str, ...] = ()
    private_dirs: tuple[str, ...] = ()
    try:
        if guarding is not None:
            options, cautions = _confined_by_role(adapter, options, guarding.capability)
        spec, private_dirs, warnings = _planned_interactive(
            adapter, options, environment, guarding, config
        )
        if on_warning is not None:
            for warning in (*cautions, *warnings):
                on_warning(warning)
        claim_folders(private_dirs)
        status = run_at_terminal(spec)
        guard = None if guarding is None else guarding.hook.guard
        if guard is not None and not guard.take() and on_warning is not None:
            on_warning(f"the guard was not seen to fire ({guard.mechanism.name})")
        return status
    finally:
        remove_folders(private_dirs)
        if guarding is not None:
            guarding.close()


def _guarding_at_terminal(
    adapter: Adapter, options: RunOptions, env: dict[str, str]
) -> "RunGuarding | None":
    capability = guarded_as(options, env)
    if capability is None or options.unguarded:
        return None
    from bridle.runtimes.guards import RunGuarding

    return RunGuarding(adapter, capability, env, stdio=False)


def _planned_interactive(
    adapter: Adapter,
    options: RunOptions,
    env: dict[str, str],
    guarding: "RunGuarding | None",
    config: "Config | None",
) -> tuple[ProcessSpec, tuple[str, ...], tuple[str, ...]]:
    """The process of a run that a person drives, the folders to remove after it, and warnings."""
    if options.sandbox is None and guarding is None:
        options, env, warnings = routed(adapter, options, env)
        plan = as_interactive(adapter).plan_interactive(options, env)
        return plan.spec, plan.private_dirs, (*warnings, *plan.warnings)
    from bridle.runtimes.sandbox_plan import planned_interactive

    adapt = None if guarding is None else guarding.adapt
    plan = planned_interactive(adapter, options, env, adapt)
    if guarding is not None:
        guarding.begin(plan, config)
        try:
            as_guarded(adapter).prove_guard(plan)
        except BaseException:
            remove_folders(plan.private_dirs)
            raise
    return plan.spec, plan.private_dirs, plan.warnings
