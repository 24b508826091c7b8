"""Plans the processes of a print session, one for each turn, and makes the normalizer of each.

A plan is made from the ledger and from the environment of the keeper process. So every driver plans
the same process, independent of its own environment.
"""

import copy
import os
from collections.abc import Callable, Mapping

import msgspec

from bridle.config.environment import MODEL_SERVER_KEY, model_server
from bridle.core import structs
from bridle.core.errors import UnsupportedOption
from bridle.core.options import RunOptions
from bridle.core.redaction import secrets_in
from bridle.drives.print_session.records import Order, Planned
from bridle.drives.print_session.turn_process import Planner, TurnPlan
from bridle.drives.print_session.turn_recorder import TurnRecorder
from bridle.drives.print_session.turn_wire import TurnWire
from bridle.process.private_folders import remove_folders
from bridle.process.spec import SESSION_MARK, ProcessSpec
from bridle.runtimes.alternatives import print_runtimes, refuse_fork
from bridle.runtimes.contract import Adapter
from bridle.runtimes.install import Installation, find_executable
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.sandbox_plan import planned, session_scratch, watched, with_scratch
from bridle.sessions.ledger import Begin
from bridle.turns.wire import LiveFacts, Normalizer

Adapt = Callable[[RunPlan], RunPlan]
_ANY_PROMPT = "prompt"
"""A placeholder for later prompts, to check a session before it starts."""
_SECRET = "BRIDLE_KEPT_SECRET_"


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The runtime's own part of the facts (`LiveFacts.own`) in a print session."""

    binary: str | None
    """The CLI that was found on PATH when the session was started."""
    resumes: bool = True
    """Whether the agent can resume its conversation in another process."""
    scratch: str | None = None
    """The scratch folder of every process that Bridle confines."""


def plan_session(
    runtime: Adapter,
    options: RunOptions,
    env: Mapping[str, str],
    session_id: str,
    adapt: Adapt | None = None,
) -> RunPlan:
    """Plan a print session: check everything that can be checked without a prompt. Its process is
    the keeper, which holds the environment of the later processes.

    Raises what `plan_run` raises, and `GuardRefused`.
    """
    if not runtime.session_by_print:
        raise UnsupportedOption(
            runtime.id,
            "drive print",
            print_runtimes(runtime.id),
            reason="its sessions use the drive rpc",
        )
    # Every turn resumes the previous one, so the original would be continued, not a copy.
    fork = structs.convert(options.provider_options.get("fork", False), bool, strict=False)
    refuse_fork(runtime.id, options, fork, "not in a print session")
    first = msgspec.structs.replace(options, prompt=_ANY_PROMPT, images=())
    scratch = session_scratch(runtime, options, env)
    try:
        plan = planned(runtime, first, env, session_id, adapt, scratch=scratch)
    except BaseException:
        remove_folders((scratch,) if scratch else ())
        raise
    remove_folders(plan.private_dirs)
    own = TurnFacts(
        binary=_program(runtime, plan.installation),
        resumes=runtime.features_of(plan.dialect).resume,
        scratch=scratch,
    )
    kept = _kept_environment(options, env, session_id, plan.secrets)
    spec = ProcessSpec(
        argv=plan.spec.argv,
        # The guard reads the temporary folder from here.
        env=kept if scratch is None else with_scratch(kept, scratch),
        cwd=plan.spec.cwd,
        stop=plan.spec.stop,
    )
    folders = () if scratch is None else (scratch,)
    kept_plan = msgspec.structs.replace(plan, spec=spec, private_dirs=folders)
    return kept_plan.conversing(runtime.id, resume=options.resume, own=msgspec.to_builtins(own))


def _program(runtime: Adapter, installation: Installation) -> str | None:
    """The path that finds this installation from anywhere; None where no path is needed."""
    path = find_executable(runtime.settings.binary or runtime.binary)
    if path is None:
        return None
    other = copy.copy(runtime)
    other.use_binary(path)
    return path if other.find() == installation else None


def _kept_environment(
    options: RunOptions, env: Mapping[str, str], session_id: str, secrets: tuple[str, ...]
) -> dict[str, str]:
    """The keeper's environment: what later plans need and must not be on disk, and the secrets, so
    that every driver knows what to redact."""
    server = options.model_server
    key = {} if server is None else {MODEL_SERVER_KEY: server.api_key}
    hidden = {f"{_SECRET}{number}": secret for number, secret in enumerate(secrets)}
    return {**env, **options.env, **key, **hidden, SESSION_MARK: session_id}


def planner(runtime: Adapter, begin: Begin) -> Planner:
    """The planner of a session's turns."""
    own = structs.convert(begin.facts.own, TurnFacts)
    # The daemon's PATH may find another CLI.
    if own.binary is not None:
        runtime = copy.copy(runtime)
        runtime.use_binary(own.binary)

    def plan(order: Order, resume: str | None, env: Mapping[str, str]) -> TurnPlan:
        session_id = env.get(SESSION_MARK, "")
        env = {name: value for name, value in env.items() if not name.startswith(_SECRET)}
        options = _options(begin, order, resume, env)
        adapt = _guarding(runtime, begin)
        found = planned(runtime, options, env, session_id, adapt, scratch=own.scratch)
        found = _with_aliases(found, options)
        if resume is not None:
            noted = runtime.noted_before(found, resume)
            found = msgspec.structs.replace(found, noted=noted)
        return TurnPlan(spec=found.spec, planned=_kept(found, options))

    return plan


def _options(begin: Begin, order: Order, resume: str | None, env: Mapping[str, str]) -> RunOptions:
    turn = {"prompt": order.text, "images": order.images, "resume": resume, "cwd": begin.facts.cwd}
    fields = {**begin.options, **turn}
    if order.model is not None:
        fields["model"] = order.model
    server = fields.get("model_server")
    if server is not None:
        fields["model_server"] = model_server(server["url"], env)
    provider = fields.get("provider_options", {})
    if resume is not None and "fork" in provider:
        # Forked once is enough: later turns continue in the copy.
        fields["provider_options"] = {name: provider[name] for name in provider if name != "fork"}
    return structs.convert(msgspec.to_builtins(fields), RunOptions)


def _guarding(runtime: Adapter, begin: Begin) -> Adapt | None:
    if begin.guard is None:
        return None
    from bridle.guard.hooks.guard_folder import SessionHook
    from bridle.runtimes.guards import adapted

    capability = begin.guard.capability
    hook = SessionHook(begin.guard.folder, begun=True)
    return lambda plan: adapted(runtime, capability, plan, hook)


def _with_aliases(plan: RunPlan, options: RunOptions) -> RunPlan:
    from bridle.config import load_config
    from bridle.config.environment import agent_variables

    own = agent_variables(plan.spec.env, load_config(plan.spec.cwd).profiles, options.env)
    return msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, env=own))


def _kept(plan: RunPlan, options: RunOptions) -> Planned:
    secret = {*secrets_in(plan.spec.env), *plan.secrets}
    places = {
        name: value
        for name, value in plan.spec.env.items()
        if os.path.isabs(value) and value not in secret and ":" not in value
    }
    return Planned(
        version=plan.installation.version,
        binary=plan.installation.binary,
        launcher=plan.installation.launcher,
        cwd=plan.spec.cwd,
        places=places,
        private_dirs=plan.private_dirs,
        native_session_id=plan.native_session_id,
        resume=options.resume,
        model=options.model,
        noted=plan.noted,
        watch_stderr=plan.spec.watch_stderr,
    )


def turn_wire(runtime: Adapter, facts: LiveFacts, recorder: TurnRecorder) -> TurnWire:
    """The wire of a print session."""
    own = structs.convert(facts.own, TurnFacts)

    def make(kept: Planned, recorder: TurnRecorder) -> Normalizer:
        installation = Installation(
            binary=kept.binary, version=kept.version, launcher=kept.launcher
        )
        plan = RunPlan(
            spec=ProcessSpec(argv=(), env=kept.places, cwd=kept.cwd),
            session_id=recorder.session_id,
            installation=installation,
            dialect=runtime.dialect(kept.version)[0],
            private_dirs=kept.private_dirs,
            native_session_id=kept.native_session_id,
            noted=kept.noted,
        )
        inner = runtime.normalizer(plan, recorder)
        return watched(runtime, recorder.options, inner, recorder)

    return TurnWire(recorder, make, resume=facts.resume, resumes=own.resumes)
