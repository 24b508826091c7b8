"""Puts the OS sandbox around a run of any runtime that has none of its own."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.errors import AgentError, GuardRefused
from bridle.core.options import RunOptions
from bridle.drives.print_drive import remove_folders
from bridle.drives.recorder import Recorder
from bridle.drives.spec import Normalizer, ProcessExit, ProcessSpec
from bridle.runtimes.private import new_private_dir
from bridle.sandbox import confine, policy_for, preflight, warnings_of
from bridle.sandbox.confine import REFUSAL_LINE, REFUSED, refuse_if_impossible

if TYPE_CHECKING:
    from bridle.runtimes.base import AgentRuntime, RunPlan


def planned(
    runtime: "AgentRuntime", options: RunOptions, env: Mapping[str, str], session_id: str
) -> "RunPlan":
    """The plan of a run whose caller said something about the sandbox.

    Raises what `plan_run` raises, and `GuardRefused` when this machine cannot hold the agent.
    """
    return _planned(runtime.plan_run, runtime, options, env, session_id)


def planned_live(
    runtime: "AgentRuntime", options: RunOptions, env: Mapping[str, str], session_id: str
) -> "RunPlan":
    """The plan of a live conversation, held by the OS where the caller asks for it.

    Raises what `plan_live` raises, and `GuardRefused` when this machine cannot hold the agent.
    """
    return _planned(runtime.plan_live, runtime, options, env, session_id)


def planned_tmux(
    runtime: "AgentRuntime", options: RunOptions, env: Mapping[str, str], session_id: str
) -> "RunPlan":
    """The plan of a terminal session; see `planned_live`."""
    return _planned(runtime.plan_tmux, runtime, options, env, session_id)


def _planned(
    plan_it: "Callable[[RunOptions, Mapping[str, str], str], RunPlan]",
    runtime: "AgentRuntime",
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
) -> "RunPlan":
    if not _ours(runtime, options):
        return plan_it(_as_seen(runtime, options), env, session_id)
    refuse_if_impossible(preflight())
    plan = plan_it(_as_seen(runtime, options), env, session_id)
    try:
        spec, private_dirs, warnings = _confined(runtime, options, plan.spec, plan.private_dirs)
    except BaseException:
        remove_folders(plan.private_dirs)
        raise
    return msgspec.structs.replace(
        plan, spec=spec, private_dirs=private_dirs, warnings=(*plan.warnings, *warnings)
    )


def planned_interactive(
    runtime: "AgentRuntime", options: RunOptions, env: Mapping[str, str]
) -> tuple[ProcessSpec, tuple[str, ...], tuple[str, ...]]:
    """The process of a run that a person drives, folders to remove after it, and warnings."""
    if not _ours(runtime, options):
        return runtime.plan_interactive(_as_seen(runtime, options), env), (), ()
    refuse_if_impossible(preflight())
    spec = runtime.plan_interactive(_as_seen(runtime, options), env)
    return _confined(runtime, options, spec, ())


def watched(
    runtime: "AgentRuntime", options: RunOptions, inner: Normalizer, recorder: Recorder
) -> Normalizer:
    """`inner`, told apart from a start that the launcher refused."""
    return WatchedStart(inner, recorder) if _ours(runtime, options) else inner


def _ours(runtime: "AgentRuntime", options: RunOptions) -> bool:
    """Whether Bridle is to confine this run."""
    return options.sandbox in ("read-only", "worktree") and not runtime.confines_itself


def _as_seen(runtime: "AgentRuntime", options: RunOptions) -> RunOptions:
    """`options` as the runtime sees them: the sandbox is its business only if it has one."""
    return options if runtime.confines_itself else msgspec.structs.replace(options, sandbox=None)


def _confined(
    runtime: "AgentRuntime", options: RunOptions, spec: ProcessSpec, private_dirs: tuple[str, ...]
) -> tuple[ProcessSpec, tuple[str, ...], tuple[str, ...]]:
    """The process, held by the OS; the folders of the run alone; what stays open.

    It gets a scratch folder of its own as its temporary folder.
    """
    assert options.sandbox in ("read-only", "worktree")
    can = preflight()
    try:
        scratch = new_private_dir(spec.env, "scratch")
        try:
            needs = runtime.sandbox_needs(options, spec)
            made = (*private_dirs, *needs.private, scratch)
            needs = msgspec.structs.replace(needs, private=made)
            policy = policy_for(options.sandbox, spec.cwd, scratch=scratch, needs=needs)
            places = dict.fromkeys((*_TEMPORARY, *needs.scratch_variables), scratch)
            env = {**spec.env, **places}
            held = confine(msgspec.structs.replace(spec, env=env), policy, can)
        except BaseException:
            remove_folders((scratch,))
            raise
    except OSError as problem:
        raise GuardRefused(f"sandbox: {problem}") from None
    return held, made, warnings_of(policy, can)


_TEMPORARY = ("TMPDIR", "TMP", "TEMP")


class WatchedStart:
    """A normalizer that also knows how the launcher says that it could not confine itself."""

    def __init__(self, inner: Normalizer, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def feed(self, line: bytes) -> None:
        """Hand the line on."""
        self._inner.feed(line)

    def finish(self, exit: ProcessExit) -> None:
        """Say that nothing was started, if that is how it ended; else let the runtime judge."""
        refusal = _refusal(exit)
        if refusal is not None:
            self._recorder.fail(refusal)
        self._inner.finish(exit)


def _refusal(exit: ProcessExit) -> AgentError | None:
    lines = exit.stderr_tail.strip().splitlines()
    if exit.code != REFUSED or not lines or not lines[-1].startswith(REFUSAL_LINE):
        return None
    from bridle.sandbox.preflight import not_as_remembered

    not_as_remembered()
    return GuardRefused(
        f"the sandbox could not be put in force: {lines[-1][len(REFUSAL_LINE) :].strip()}",
        hint="try again: what this machine can hold is then tried anew",
    )
