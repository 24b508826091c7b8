"""Makes runs ready: what to run, through which agent, planned, guarded and confined.

How a run that is ready is then played: `streaming` for the library, `PrintRun` for everybody else,
a terminal for a person (`run_interactive`).
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.core.errors import BridleError, UnsupportedOption, WrongUse
from bridle.core.events import AnyEvent, Drive
from bridle.core.git import find_project
from bridle.core.ids import new_session_id
from bridle.core.options import PROJECT, RunOptions, guarded_as, without_outer_agent
from bridle.core.redaction import Redactor, secrets_in
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, PrintRun, refuse_all
from bridle.process.owned_folders import claim_folders, remove_folders
from bridle.process.spec import Normalizer, ProcessSpec
from bridle.runtimes.contract import Adapter, HasAdapter, adapter_of, as_guarded
from bridle.runtimes.routing import routed
from bridle.runtimes.supporting import as_interactive, as_live
from bridle.turns.recorder import Recorder

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.drives.connection import RpcProcess, RuntimeConnection
    from bridle.runtimes.guarded import Guarding
    from bridle.runtimes.permission import Way
    from bridle.runtimes.plan import RunPlan
    from bridle.streaming import AsyncPermissionPolicy

_T = TypeVar("_T")


class Prepared(msgspec.Struct, frozen=True):
    """A run that was checked and can be started."""

    run: PrintRun
    plan: "RunPlan"
    redactor: Redactor


def prepare(
    runtime: Adapter,
    options: RunOptions,
    *,
    env: Mapping[str, str] | None = None,
    permission: PermissionPolicy = refuse_all,
    config: "Config | None" = None,
) -> Prepared:
    """Check `options` against `runtime` and make the run ready; starts nothing.

    `permission` answers the agent's requests; with one, a run in permission mode `ask` takes the
    drive in which the runtime asks (`bridle.runtimes.permission`). `config` holds the rules of a
    guarded run; that of its folder when None. Raises what `Adapter.plan_run` raises, and
    `GuardRefused`, before anything happened.
    """
    _check_values(options)
    environment = without_outer_agent(os.environ if env is None else env)
    project = find_project(options.cwd or os.getcwd())
    if project is not None:
        environment.setdefault(PROJECT, project)
    try:
        if options.output_schema is None:
            return _prepare(runtime, options, environment, permission, config)
        return _structured(runtime, options, environment, permission, config)
    except BridleError as problem:
        problem.runtime = problem.runtime or runtime.id
        raise


def _structured(
    runtime: Adapter,
    options: RunOptions,
    environment: dict[str, str],
    permission: PermissionPolicy,
    config: "Config | None",
) -> Prepared:
    """A run whose answer must fit a schema; see `bridle.structured`."""
    from bridle.structured import Asking, StructuredRun

    asking = Asking(runtime, options, environment)

    def again(result: RunResult) -> PrintRun | None:
        wanted = asking.again(result)
        if wanted is None:
            return None
        make = partial(StructuredRun, asking=asking, again=None)
        return _prepare(runtime, wanted, environment, permission, config, make).run

    try:
        make = partial(StructuredRun, asking=asking, again=again)
        return _prepare(runtime, asking.first, environment, permission, config, make)
    except BaseException:
        remove_folders(asking.folders)
        raise


def _prepare(
    runtime: Adapter,
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
        options, warnings = _held_as(runtime, options, capability)
    way = way_of(runtime, options, answered=permission is not refuse_all)
    if capability is None:
        plan = _named(_planned(way, options, environment, None), options, config)
        return _discarding(plan, _prepared, way, options, plan, permission, make)
    from bridle.runtimes.guarded import Guarding

    guarding = Guarding(way.runtime, capability, environment, stdio=True)
    try:
        plan = _named(_planned(way, options, environment, guarding), options, config)
        plan = msgspec.structs.replace(plan, warnings=(*warnings, *plan.warnings))
        return _discarding(plan, _prepared, way, options, plan, permission, make, guarding, config)
    except BaseException:
        guarding.close()
        raise


def _held_as(
    runtime: Adapter, options: RunOptions, capability: str
) -> tuple[RunOptions, tuple[str, ...]]:
    from bridle.runtimes.confined import held_as
    from bridle.runtimes.guarded import check_capability

    check_capability(capability)
    return held_as(runtime, options, capability)


def _named(plan: "RunPlan", options: RunOptions, config: "Config | None") -> "RunPlan":
    """`plan` with the agent's variables under the names of the configured profiles, too."""
    if config is None or not config.profiles:
        return plan
    from bridle.config.profiles import agent_variables

    own = agent_variables(plan.spec.env, config.profiles, options.env)
    return msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, env=own))


def _planned(
    way: "Way",
    options: RunOptions,
    env: dict[str, str],
    guarding: "Guarding | None",
) -> "RunPlan":
    """The plan of a run, its guard inside its sandbox."""
    runtime = way.runtime
    if options.sandbox is None:
        options, around, warnings = routed(runtime, options, env)
        plan_it = as_live(runtime).plan_live if way.live else runtime.plan_run
        plan = plan_it(options, around, new_session_id())
        plan = msgspec.structs.replace(plan, warnings=(*plan.warnings, *warnings))
        if guarding is not None:
            plan = _discarding(plan, guarding.adapt, plan)
    else:
        from bridle.runtimes.confined import planned, planned_live

        adapt = None if guarding is None else guarding.adapt
        confined = planned_live if way.live else planned
        plan = confined(runtime, options, env, new_session_id(), adapt)
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, *way.warnings))


def _discarding(plan: "RunPlan", step: Callable[..., _T], *arguments: Any) -> _T:
    """`step` on a plan, whose folders are removed when nothing comes of it."""
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
    guarding: "Guarding | None" = None,
    config: "Config | None" = None,
) -> Prepared:
    runtime = way.runtime
    if options.images and "images" not in plan.ignored_options:
        from bridle.runtimes.user_files import check_images

        check_images(options.images, runtime.id)
    recorder = recorder_for(runtime, options, plan, "rpc" if way.live else "print", live=False)
    if guarding is not None:
        recorder.guard = guarding.begin(plan, config)
    elif options.unguarded:
        recorder.unguarded = guarded_as(options, plan.spec.env) or "none"
    normalizer = _normalizer(way, options, plan, recorder)
    if options.sandbox is not None:
        from bridle.runtimes.confined import watched

        normalizer = watched(runtime, options, normalizer, recorder)
    run = make(
        plan.spec,
        normalizer,
        recorder,
        private_dirs=plan.private_dirs,
        permission=permission,
        at_end=None if guarding is None else guarding.close,
    )
    return Prepared(run, plan, recorder.redactor)


def _normalizer(way: "Way", options: RunOptions, plan: "RunPlan", recorder: Recorder) -> Normalizer:
    if not way.live:
        return way.runtime.normalizer(plan, recorder)
    from bridle.turns.one_prompt import OnePrompt
    from bridle.turns.wire import Outgoing

    assert plan.live is not None
    images = tuple(os.path.abspath(os.path.expanduser(path)) for path in options.images)
    prompt = Outgoing(id=new_session_id(), text=options.prompt, images=images)
    return OnePrompt(as_live(way.runtime).live_wire(plan.live, recorder), recorder, prompt)


def recorder_for(
    runtime: Adapter,
    options: RunOptions,
    plan: "RunPlan",
    drive: Drive = "print",
    *,
    live: bool | None = None,
) -> Recorder:
    """The recorder of a planned run, which knows every secret that the run is given. `live` is
    that of `Recorder`."""
    recorder = Recorder(
        runtime=runtime.id,
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

        return file_instructions(runtime, options, plan.spec.cwd)

    # A file that the caller names may be gone when the agent speaks; the project's are read then.
    known = in_files() if options.append_system_prompt_file else None
    recorder.words.file_instructions = in_files if known is None else lambda: known
    return recorder


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


def refuse_schema(runtime: Adapter, options: RunOptions, where: str) -> None:
    """Refuse `output_schema` where no single answer ends the work."""
    if options.output_schema is not None:
        raise UnsupportedOption(
            runtime.id, "output_schema", [], reason=f"not in {where}; use `bridle run`"
        )


def connection(
    runtime: Adapter,
    process: "RpcProcess",
    plan: "RunPlan | None",
    options: RunOptions | None,
    permission: "PermissionPolicy | AsyncPermissionPolicy | None",
    permission_timeout: float | None,
    on_event: Callable[[AnyEvent], object] | None,
) -> "RuntimeConnection":
    """A conversation with a process of `runtime`; see `AgentRuntime.connect`."""
    from bridle.drives.connection import ANSWERING, RuntimeConnection

    options = options or RunOptions(prompt="")
    refuse_schema(runtime, options, "a conversation")
    if plan is None:
        options, env, _ = routed(runtime, options, os.environ)
        plan = as_live(runtime).plan_live(options, env, new_session_id())
        # They were for a process of the plan's own; this one is there already.
        remove_folders(plan.private_dirs)
    if plan.live is None:
        raise WrongUse("the plan is not one of a conversation", hint="make it with plan_live")
    recorder = recorder_for(runtime, options, plan, drive="rpc")
    return RuntimeConnection(
        process,
        as_live(runtime).live_wire(plan.live, recorder),
        recorder,
        can_steer=runtime.features_of(plan.dialect).steer,
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

    The agent owns the terminal: Ctrl-C goes to it, not to us. See `run_at_terminal`. `on_warning`
    gets, before the start, what the sandbox leaves open, and after the end, that the guard was
    never asked.
    """
    from bridle.process.terminal import run_at_terminal

    runtime = adapter_of(runtime)
    refuse_schema(runtime, options, "a run at the terminal")
    environment = dict(os.environ if env is None else env)
    guarding = _guarding_at_terminal(runtime, options, environment)
    cautions: tuple[str, ...] = ()
    private_dirs: tuple[str, ...] = ()
    try:
        if guarding is not None:
            options, cautions = _held_as(runtime, options, guarding.capability)
        spec, private_dirs, warnings = _planned_interactive(
            runtime, options, environment, guarding, config
        )
        if on_warning is not None:
            for warning in (*cautions, *warnings):
                on_warning(warning)
        claim_folders(private_dirs)
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
    runtime: Adapter, options: RunOptions, env: dict[str, str]
) -> "Guarding | None":
    capability = guarded_as(options, env)
    if capability is None or options.unguarded:
        return None
    from bridle.runtimes.guarded import Guarding

    return Guarding(runtime, capability, env, stdio=False)


def _planned_interactive(
    runtime: Adapter,
    options: RunOptions,
    env: dict[str, str],
    guarding: "Guarding | None",
    config: "Config | None",
) -> tuple[ProcessSpec, tuple[str, ...], tuple[str, ...]]:
    """The process of a run that a person drives, folders to remove after it, and warnings."""
    if options.sandbox is None and guarding is None:
        options, env, warnings = routed(runtime, options, env)
        return as_interactive(runtime).plan_interactive(options, env), (), warnings
    from bridle.runtimes.confined import planned_interactive

    adapt = None if guarding is None else guarding.adapt
    plan = planned_interactive(runtime, options, env, adapt)
    if guarding is not None:
        guarding.begin(plan, config)
        try:
            as_guarded(runtime).prove_guard(plan)
        except BaseException:
            remove_folders(plan.private_dirs)
            raise
    return plan.spec, plan.private_dirs, plan.warnings


def resolve(
    prompt: str, runtime: str | Adapter | HasAdapter | None, config: "Config | None", options: Any
) -> "tuple[Adapter, RunOptions]":
    """The runtime and the options that keywords ask for, with what the configuration adds."""
    from bridle.runtimes.registry import get_adapter

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
