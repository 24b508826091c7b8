"""Plans with the OS sandbox around the agent, for every runtime that does not confine itself."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from bridle.core.capabilities import SANDBOXES
from bridle.core.errors import AgentError, GuardRefused
from bridle.core.files import new_private_dir
from bridle.core.git import find_git, own_branches
from bridle.core.options import RunOptions
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessExit, ProcessSpec
from bridle.runtimes.alternatives import as_interactive, as_live, as_terminal
from bridle.runtimes.routing import routed
from bridle.sandbox import cannot_hold, confine, policy_for, preflight, warnings_of
from bridle.sandbox.process import REFUSAL_LINE, REFUSED, refuse_if_impossible
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer, StderrReader

if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter
    from bridle.runtimes.plan import RunPlan
    from bridle.sandbox.policy import Mode


def held_as(
    runtime: "Adapter", options: RunOptions, capability: str
) -> tuple[RunOptions, tuple[str, ...]]:
    """The options of an agent that is guarded by `capability`, with the sandbox that this implies,
    and what the user should know about it.

    A sandbox that the caller names stays, `off` too. If this machine cannot confine the agent, it
    stays unconfined and a warning says so.
    """
    if options.sandbox is not None:
        return options, ()
    mode, folder = SANDBOXES[capability], os.path.abspath(options.cwd or os.getcwd())
    assert mode != "off"
    if runtime.confines_itself:
        if mode == "commit":
            mode = "read-only"
            no_commits = (
                f"sandbox: {runtime.id} cannot open the repository alone: a {capability} cannot "
                "commit (--sandbox worktree opens it, and the worktree)",
            )
            return msgspec.structs.replace(options, sandbox=mode), no_commits
        if mode == "worktree" and options.permission_mode == "ask":
            # Its own sandbox is as narrow, and the agent can still ask for more.
            return options, ()
        place = find_git(folder) if mode == "worktree" else None
        warnings: tuple[str, ...] = ()
        if place is not None and not place.linked:
            warnings = (f"sandbox: {runtime.id} can write all of {place.git_dir}",)
        return msgspec.structs.replace(options, sandbox=mode), warnings
    can = preflight()
    problem = "; ".join(can.gaps) if not can.holds_writes else ""
    problem = problem or cannot_hold(mode, folder, mounts=can.mounts)
    if problem:
        return options, (f"sandbox: not confined, only the guard limits this agent: {problem}",)
    return msgspec.structs.replace(options, sandbox=mode), ()


def planned(
    runtime: "Adapter",
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    adapt: "Callable[[RunPlan], RunPlan] | None" = None,
    *,
    scratch: str | None = None,
) -> "RunPlan":
    """The plan of a run whose caller said something about the sandbox. `adapt` may change it
    before the sandbox is put around it. `scratch` is the scratch folder of the session that the
    process belongs to (`session_scratch`); by default a new one.

    Raises what `plan_run` raises, and `GuardRefused` when this machine cannot confine the agent.
    """
    return _planned(runtime.plan_run, runtime, options, env, session_id, adapt, scratch)


def session_scratch(runtime: "Adapter", options: RunOptions, env: Mapping[str, str]) -> str | None:
    """A new scratch folder for all processes of a session, which its guard knows too; None where
    Bridle does not confine them."""
    return new_private_dir(env, "scratch") if _ours(runtime, options) else None


def with_scratch(env: Mapping[str, str], scratch: str) -> dict[str, str]:
    """`env` with `scratch` as its temporary folder."""
    return {**env, **dict.fromkeys(_TEMPORARY, scratch)}


def planned_live(
    runtime: "Adapter",
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    adapt: "Callable[[RunPlan], RunPlan] | None" = None,
) -> "RunPlan":
    """The plan of a live conversation, confined by the OS if the caller asks for it. `adapt` may
    change it before that.

    Raises what `plan_live` raises, and `GuardRefused` when this machine cannot confine the agent.
    """
    return _planned(as_live(runtime).plan_live, runtime, options, env, session_id, adapt)


def planned_tmux(
    runtime: "Adapter",
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    adapt: "Callable[[RunPlan], RunPlan] | None" = None,
) -> "RunPlan":
    """The plan of a terminal session; see `planned_live`."""
    return _planned(as_terminal(runtime).plan_tmux, runtime, options, env, session_id, adapt)


def _planned(
    plan_it: "Callable[[RunOptions, Mapping[str, str], str], RunPlan]",
    runtime: "Adapter",
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    adapt: "Callable[[RunPlan], RunPlan] | None",
    scratch: str | None = None,
) -> "RunPlan":
    ours = _ours(runtime, options)
    if ours:
        refuse_if_impossible(preflight())
    options, env, cautions = routed(runtime, options, env)
    plan = plan_it(_as_seen(runtime, options), env, session_id)
    plan = msgspec.structs.replace(plan, warnings=(*plan.warnings, *cautions))
    try:
        if adapt is not None:
            plan = adapt(plan)
        if not ours:
            return plan
        spec, private_dirs, warnings = _confined(
            runtime, options, plan.spec, plan.private_dirs, plan.writable_files, scratch
        )
    except BaseException:
        remove_folders(plan.private_dirs)
        raise
    return msgspec.structs.replace(
        plan, spec=spec, private_dirs=private_dirs, warnings=(*plan.warnings, *warnings)
    )


def planned_interactive(
    runtime: "Adapter",
    options: RunOptions,
    env: Mapping[str, str],
    adapt: "Callable[[RunPlan], RunPlan] | None" = None,
) -> "RunPlan":
    """The plan of a run that a person drives; `adapt` may change it before the sandbox is put
    around it."""
    ours = _ours(runtime, options)
    if ours:
        refuse_if_impossible(preflight())
    options, env, cautions = routed(runtime, options, env)
    seen = options if options.sandbox is None else _as_seen(runtime, options)
    plan = as_interactive(runtime).plan_interactive(seen, env)
    plan = msgspec.structs.replace(plan, warnings=(*cautions, *plan.warnings))
    try:
        if adapt is not None:
            plan = adapt(plan)
        if not ours:
            return plan
        spec, private_dirs, warnings = _confined(
            runtime, options, plan.spec, plan.private_dirs, plan.writable_files
        )
    except BaseException:
        remove_folders(plan.private_dirs)
        raise
    warnings = (*plan.warnings, *warnings)
    return msgspec.structs.replace(plan, spec=spec, private_dirs=private_dirs, warnings=warnings)


def watched(
    runtime: "Adapter", options: RunOptions, inner: Normalizer, recorder: Recorder
) -> Normalizer:
    """`inner`, which also reports a start that the launcher refused."""
    return WatchedStart(inner, recorder) if _ours(runtime, options) else inner


def _ours(runtime: "Adapter", options: RunOptions) -> bool:
    """Whether Bridle must confine this run."""
    return options.sandbox not in (None, "off") and not runtime.confines_itself


def _as_seen(runtime: "Adapter", options: RunOptions) -> RunOptions:
    """`options` as the runtime sees them: it sees the sandbox option only if it has its own
    sandbox."""
    return options if runtime.confines_itself else msgspec.structs.replace(options, sandbox=None)


def _confined(
    runtime: "Adapter",
    options: RunOptions,
    spec: ProcessSpec,
    private_dirs: tuple[str, ...],
    files: tuple[str, ...] = (),
    scratch: str | None = None,
) -> tuple[ProcessSpec, tuple[str, ...], tuple[str, ...]]:
    """The process, confined by the OS; the folders of the run alone; what stays open.

    Its temporary folder is `scratch`, or a new scratch folder.
    """
    assert options.sandbox not in (None, "off")
    can = preflight()
    try:
        fresh = new_private_dir(spec.env, "scratch")
        scratch = scratch or fresh
        made: tuple[str, ...] = (fresh,)
        try:
            needs = runtime.sandbox_needs(options, spec)
            made = (*private_dirs, *needs.private, fresh)
            needs = msgspec.structs.replace(needs, private=made, files=(*needs.files, *files))
            policy = policy_for(
                cast("Mode", options.sandbox),
                spec.cwd,
                scratch=scratch,
                own_in=fresh,
                needs=needs,
                branch_prefix=own_branches(spec.cwd, spec.env.get("BRIDLE_AGENT_NAME")),
                mounts=can.mounts,
            )
            made = (*made, *((policy.hold,) if policy.hold else ()))
            places = dict.fromkeys(needs.scratch_variables, scratch)
            env = {**with_scratch(spec.env, scratch), **places}
            held = confine(msgspec.structs.replace(spec, env=env), policy, can)
        except BaseException:
            remove_folders(made)
            raise
    except OSError as problem:
        raise GuardRefused(f"sandbox: {problem}") from None
    return held, made, warnings_of(policy, can)


_TEMPORARY = ("TMPDIR", "TMP", "TEMP")


class WatchedStart:
    """A normalizer that also recognizes a launcher that could not confine itself."""

    def __init__(self, inner: Normalizer, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def feed(self, line: bytes) -> None:
        """Pass the line on."""
        self._inner.feed(line)

    def feed_stderr(self, line: bytes) -> None:
        """Pass the line on to a runtime that reads it."""
        if isinstance(self._inner, StderrReader):
            self._inner.feed_stderr(line)

    def finish(self, exit: ProcessExit) -> None:
        """Report that nothing was started, if so; otherwise let the runtime judge."""
        refusal = start_refusal(exit)
        if refusal is not None:
            from bridle.sandbox.preflight import not_as_remembered

            not_as_remembered()
            self._recorder.fail(refusal)
        self._inner.finish(exit)


def start_refusal(exit: ProcessExit) -> AgentError | None:
    """The error for a process that ended as the launcher does when it cannot confine itself; None
    for any other end. The caller has the machine probed again (`not_as_remembered`)."""
    # A terminal prints below it how the process ended.
    lines = [each for each in exit.stderr_tail.splitlines() if each.startswith(REFUSAL_LINE)]
    if exit.code != REFUSED or not lines:
        return None
    return GuardRefused(
        f"the sandbox could not be enforced: {lines[-1][len(REFUSAL_LINE) :].strip()}",
        hint="try again: what this machine can enforce is then probed again",
    )
