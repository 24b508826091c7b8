"""Starts a session's process, the first or the next one. Everything after that is the driver's.

The caller starts the process, in the caller's environment, so no key travels to a daemon. From then
on it runs by itself, and any driver can drive it.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.config.environment import model_server
from bridle.core import structs
from bridle.core.errors import BridleError, ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.events import Drive
from bridle.core.files import make_private_dir
from bridle.core.ids import new_session_id
from bridle.core.options import CAPABILITY, RunOptions, guarded_as, without_outer_agent
from bridle.core.redaction import secrets_in
from bridle.process.detached import DetachedProcess
from bridle.process.private_folders import remove_folders
from bridle.process.spec import SESSION_MARK, ProcessSpec
from bridle.runs import refuse_schema
from bridle.runtimes.alternatives import as_live, forking_runtimes
from bridle.runtimes.contract import Adapter, Live, as_guarded
from bridle.runtimes.options import file_instructions
from bridle.sessions.clocks import Clocks
from bridle.sessions.driver import SessionDriver
from bridle.sessions.home import StateHome, explained, remember_home, state_error
from bridle.sessions.images import refuse_images
from bridle.sessions.ledger import Accept, Begin, Ledger, ledger_entries
from bridle.sessions.lock import SessionLock
from bridle.sessions.replay import SessionPlayer, process_of
from bridle.sessions.store import SessionRecord, SessionStore, check_name
from bridle.turns.event_writer import utc_now
from bridle.turns.guard_contract import GuardFacts
from bridle.turns.usage_totals import Before

if TYPE_CHECKING:
    from bridle.drives.tmux.server import PanePlace
    from bridle.runtimes.plan import RunPlan


_PATHS = {"settings", "mcp_config", "append_system_prompt_file"}
"""Options that may name a file."""
_CLEANING = 15.0
"""Seconds for everything that the last process left behind to end."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who the agent of a session is; its environment says so."""

    agent: str | None = None
    capability: str | None = None
    project: str | None = None
    task: str | None = None
    actor: str | None = None

    def variables(self) -> dict[str, str]:
        """The canonical variables of the known fields."""
        named = {
            "BRIDLE_AGENT_NAME": self.agent,
            CAPABILITY: self.capability,
            "BRIDLE_PROJECT": self.project,
            "BRIDLE_TASK": self.task,
            "BRIDLE_ACTOR": self.actor,
        }
        return {name: value for name, value in named.items() if value}

    def with_actor(self) -> "Identity":
        """This identity with an actor: by default project, role and agent
        (`greenplace/builder/ivy`), when the agent has a name."""
        from bridle.config.environment import project_name

        if self.actor or not self.agent:
            return self
        parts = (project_name(self.project or ""), self.capability, self.agent)
        return msgspec.structs.replace(self, actor="/".join(part for part in parts if part))

    def completed(self, env: Mapping[str, str]) -> "Identity":
        """This identity, completed by the canonical variables of `env`."""
        return Identity(
            agent=self.agent or env.get("BRIDLE_AGENT_NAME") or None,
            capability=self.capability or env.get(CAPABILITY) or None,
            project=self.project or env.get("BRIDLE_PROJECT") or None,
            task=self.task or env.get("BRIDLE_TASK") or None,
            actor=self.actor or env.get("BRIDLE_ACTOR") or None,
        )


def start_session(
    home: StateHome,
    store: SessionStore,
    runtime: Adapter,
    options: RunOptions,
    *,
    env: Mapping[str, str],
    drive: Drive = "rpc",
    name: str | None = None,
    identity: Identity | None = None,
    parent: str | None = None,
    handover: str | None = None,
    clocks: Clocks | None = None,
) -> SessionRecord:
    """Start the agent of a new session; returns its record, still `starting`.

    `options.prompt` is not sent: that is the driver's first message. The environment completes
    `identity`, and `home` gives the project. `clocks` apply under every driver; None leaves them to
    the driver. Raises, before anything is started, what `plan_live` raises, `WrongUse` for a name
    that is taken, and `GuardRefused` for an agent with a capability that cannot be guarded.
    """
    if name is not None:
        check_name(name)
    refuse_schema(runtime, options, "a session")
    if not options.ignore_unsupported:
        refuse_images(runtime, drive, options.images)
    env = without_outer_agent(env)
    identity = (identity or Identity()).completed({**env, **options.env})
    if identity.project is None:
        identity = msgspec.structs.replace(identity, project=home.project)
    identity = identity.with_actor()
    session_id = new_session_id()
    folder = home.folder(session_id)
    with explained(home.root):
        home.make()
        remember_home(home, env)
    options = _with_account(runtime, options, folder)
    record = SessionRecord(
        session_id=session_id,
        name=name,
        runtime=runtime.id,
        drive=drive,
        workdir=os.path.abspath(options.cwd or os.getcwd()),
        started_at=utc_now(),
        run=1,
        parent=parent,
        handover=handover,
        sandbox=options.sandbox,
        project=identity.project,
        agent=identity.agent,
        capability=identity.capability,
        task=identity.task,
        actor=identity.actor,
    )
    try:
        planned = _planned(runtime, options, {**env, **identity.variables()}, record)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    record = planned.record
    try:
        lock = SessionLock(folder, session_id)
        try:
            store.add(record)
            return _begin(home, store, runtime, planned, record, Before(), (), clocks)
        finally:
            lock.release()
    except OSError as problem:
        planned.discard()
        raise state_error(problem, home.root) from problem
    except BaseException:
        planned.discard()
        raise


def resume_session(
    home: StateHome,
    store: SessionStore,
    runtime: Adapter,
    record: SessionRecord,
    *,
    env: Mapping[str, str],
    changes: dict[str, Any] | None = None,
    clocks: Clocks | None = None,
) -> SessionRecord:
    """Start the next process of a session that is over, to continue its conversation.

    Messages that the last process did not take, or lost when it died, are carried over. Raises
    `WrongUse` while the session lives, `ResumeRefused` when there is no conversation; whether the
    agent really resumes the conversation is proved by its wire.
    """
    folder = home.folder(record.session_id)
    lock = SessionLock(folder, record.session_id)
    driver = SessionDriver(home, record, runtime, store, lock)
    try:
        driver.open()
        if not driver.wait_over(_CLEANING):
            raise still_alive(record)
        record = driver.record
        if record.native_session_id is None and record.drive != "print":
            # With a process for each turn, the conversation begins with the first that succeeds.
            raise ResumeRefused(
                f"session {record.session_id} never had a conversation",
                hint="start a new session",
            )
        options = stored_options(home, record, changes or {}, env)
        record = msgspec.structs.replace(
            record,
            run=record.run + 1,
            state="starting",
            evidence="resume",
            ended_at=None,
            pid=None,
            error=None,
        )
        env = without_outer_agent(env)
        who = Identity(
            agent=record.agent,
            capability=record.capability,
            project=record.project,
            task=record.task,
            actor=record.actor,
        )
        planned = _planned(runtime, options, {**env, **who.variables()}, record)
        record = planned.record
        before = driver.player.recorder.total()
        try:
            pending = _carried(runtime, planned.plan, record.drive, driver.player)
            store.add(record)
            clocks = clocks or driver.own_clocks
            return _begin(home, store, runtime, planned, record, before, pending, clocks)
        except BaseException:
            planned.discard()
            raise
    finally:
        driver.close()


def fork_session(
    home: StateHome,
    store: SessionStore,
    runtime: Adapter,
    record: SessionRecord,
    *,
    env: Mapping[str, str],
    name: str | None,
    changes: dict[str, Any],
    kept: dict[str, Any] | None = None,
) -> tuple[SessionRecord, RunOptions]:
    """Start a new session whose agent continues in a copy of `record`'s conversation; returns its
    record, still `starting`, and its options.

    `kept` are options that are not on disk because they may hold secrets. Raises
    `UnsupportedOption` where the runtime cannot fork, `WrongUse` while a turn is open or when there
    is no conversation yet.
    """
    features = runtime.features.in_session(record.drive)
    if not features.fork or record.drive != "rpc":
        raise UnsupportedOption(runtime.id, "fork", forking_runtimes(runtime.id, "rpc"))
    if record.state in ("starting", "working", "waiting_permission", "compacting"):
        raise WrongUse("the agent works", hint="wait until it is idle, then fork")
    if record.native_session_id is None or not record.turn:
        raise WrongUse("there is no conversation yet", hint="send a prompt first")
    options = stored_options(home, record, kept or {}, env)
    options = msgspec.structs.replace(options, **changes)
    options = msgspec.structs.replace(
        options,
        cwd=record.workdir,
        resume=record.native_session_id,
        provider_options={**options.provider_options, "fork": True},
    )
    who = Identity(
        agent=record.agent,
        capability=record.capability,
        project=record.project,
        task=record.task,
        actor=record.actor,
    )
    new = start_session(
        home,
        store,
        runtime,
        options,
        env=env,
        drive=record.drive,
        name=name,
        identity=who,
        parent=record.session_id,
    )
    return new, options


def _carried(
    runtime: Adapter, plan: "RunPlan", drive: Drive, player: SessionPlayer
) -> tuple[Accept, ...]:
    """The messages to give to the next process, oldest first."""
    waiting = tuple(each.message for each in player.messages.values() if each.is_open)
    assert plan.live is not None
    if drive != "rpc" or plan.live.resume is None or not player.cut_off:
        # In other drives the agent's own files prove that it took a message.
        return waiting
    forgotten = as_live(runtime).forgotten(plan.live, tuple(each.id for each in player.cut_off))
    return (*(each for each in player.cut_off if each.id in forgotten), *waiting)


def still_alive(record: SessionRecord) -> WrongUse:
    """The error of resuming a living session."""
    return WrongUse(
        f"session {record.name or record.session_id} is alive",
        hint="send it a message, or stop it first",
    )


def stored_options(
    home: StateHome, record: SessionRecord, changes: dict[str, Any], env: Mapping[str, str]
) -> RunOptions:
    """The options that a session was started with, without secrets, and with `changes`; the key of
    a scripted model is that of `env`."""
    entries = ledger_entries(home.folder(record.session_id))
    begins = [entry for entry in entries if isinstance(entry, Begin)]
    kept = begins[-1].options if begins else {}
    fields = {"prompt": "", **kept, "resume": record.native_session_id, **changes}
    server = msgspec.to_builtins(fields.get("model_server"))
    if server is not None and not server.get("api_key"):
        # The key is not stored. A session with a scripted model must never reach another service.
        fields["model_server"] = msgspec.to_builtins(model_server(server["url"], env))
    return structs.convert(msgspec.to_builtins(fields), RunOptions)


def _with_account(runtime: Adapter, options: RunOptions, folder: str) -> RunOptions:
    """With a scripted model the agent's home must last as long as the session, or it could not be
    resumed."""
    if options.model_server is None or options.account_dir is not None:
        return options
    if "account_dir" not in runtime.features.options:
        return options
    account = os.path.join(folder, "account")
    make_private_dir(os.path.dirname(folder))
    for path in (folder, account):
        os.mkdir(path, 0o700)
    return msgspec.structs.replace(options, account_dir=account)


class _Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A planned process, ready to be started."""

    plan: "RunPlan"
    record: SessionRecord
    options: RunOptions
    """With the sandbox that the capability requires."""
    guard: GuardFacts | None = None

    def discard(self) -> None:
        """Remove the folders that were made for it."""
        folders = () if self.guard is None else (self.guard.folder,)
        remove_folders((*self.plan.private_dirs, *folders))


def _planned(
    runtime: Adapter, options: RunOptions, env: Mapping[str, str], record: SessionRecord
) -> _Planned:
    """Plan the process, with its guard inside its sandbox."""
    capability = guarded_as(options, env)
    if capability is None or options.unguarded:
        plan = _plan(runtime, options, env, record, None)
        bare = "unguarded" if options.unguarded else None
        record = msgspec.structs.replace(record, guard=bare, warnings=_warnings(plan))
        return _Planned(plan=plan, record=record, options=options)
    from bridle.config import load_config
    from bridle.guard.agent_policy import check_capability
    from bridle.runtimes.guards import SessionGuarding
    from bridle.runtimes.sandbox_plan import held_as

    check_capability(capability)
    options, cautions = held_as(runtime, options, capability)
    guarding = SessionGuarding(runtime, capability, env)
    folders: tuple[str, ...] = ()
    try:
        plan = _plan(runtime, options, env, record, guarding.adapt)
        folders = plan.private_dirs
        facts = guarding.begin(plan, load_config(record.workdir))
        if record.drive != "print":
            # In a print session each process proves it before its first tool call, as in a run.
            facts = msgspec.structs.replace(facts, proof=as_guarded(runtime).prove_guard(plan))
    except BaseException:
        remove_folders(folders)
        guarding.close()
        raise
    record = msgspec.structs.replace(
        record,
        guard=facts.mechanism.name,
        capability=facts.capability,
        sandbox=options.sandbox,
        warnings=(*cautions, *_warnings(plan)),
    )
    return _Planned(plan=plan, record=record, options=options, guard=facts)


def _warnings(plan: "RunPlan") -> tuple[str, ...]:
    """What the user should know about a start."""
    ignored = plan.ignored_options
    unsupported = (f"not supported, ignored: {', '.join(ignored)}",) if ignored else ()
    return (*plan.warnings, *unsupported)


def _plan(
    runtime: Adapter,
    options: RunOptions,
    env: Mapping[str, str],
    record: SessionRecord,
    adapt: "Callable[[RunPlan], RunPlan] | None",
) -> "RunPlan":
    from bridle.config import load_config
    from bridle.config.environment import agent_variables
    from bridle.runtimes.permission import unasked_in
    from bridle.runtimes.sandbox_plan import planned_live, planned_tmux
    from bridle.sessions.print_plan import plan_session

    plan_it = {"rpc": planned_live, "tmux": planned_tmux, "print": plan_session}.get(record.drive)
    if plan_it is None:
        raise UnsupportedOption(runtime.id, f"drive {record.drive}", [], reason="not in a session")
    if record.drive == "tmux":
        from bridle.runtimes.report_plan import with_reports

        adapt = with_reports(runtime, env, adapt)
    plan = plan_it(runtime, options, dict(env), record.session_id, adapt)
    if plan.live is None:
        raise WrongUse(f"{runtime.id} planned no live conversation")
    profiles = load_config(record.workdir).profiles
    own = agent_variables(plan.spec.env, profiles, options.env)
    plan = msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, env=own))
    unasked = unasked_in(runtime, options, record.drive)
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, *unasked))


def _begin(
    home: StateHome,
    store: SessionStore,
    runtime: Adapter,
    planned: _Planned,
    record: SessionRecord,
    before: Before,
    carried: tuple[Accept, ...],
    clocks: Clocks | None,
) -> SessionRecord:
    plan, options = planned.plan, planned.options
    assert plan.live is not None
    assert plan.spec.env[SESSION_MARK] == record.session_id
    begin = Begin(
        run=record.run,
        drive=record.drive,
        facts=plan.live,
        before=before,
        options=_kept_options(options),
        stop=plan.spec.stop,
        can_steer=runtime.features_of(plan.dialect).in_session(record.drive).steer,
        carried=carried,
        clocks=clocks,
        guard=planned.guard,
        file_instructions=file_instructions(runtime, options, plan.spec.cwd),
        private_dirs=plan.private_dirs,
        ts=time.time(),
    )
    ledger = Ledger(os.path.join(home.folder(record.session_id), "ledger.jsonl"))
    ledger.append(begin, durable=True)
    folder = home.run_folder(record.session_id, record.run)
    # A separate call: `makedirs` gives its mode to the last folder only.
    make_private_dir(os.path.dirname(folder))
    process = process_of(begin, folder, runtime)
    try:
        if isinstance(process, DetachedProcess):
            process.start(plan.spec)
        else:
            process.start(plan.spec, _pane_place(home, plan, record))
    except (BridleError, OSError) as problem:
        if record.run == 1:
            # The session is empty: the caller gets the reason, and nothing is kept.
            store.remove(record.session_id)
            shutil.rmtree(home.folder(record.session_id), ignore_errors=True)
            raise
        message = problem.message if isinstance(problem, BridleError) else str(problem)
        failed = msgspec.structs.replace(
            record,
            state="failed",
            evidence="the process could not be started",
            ended_at=utc_now(),
            error={
                "kind": getattr(problem, "kind", "crashed"),
                "message": message,
                "hint": getattr(problem, "hint", ""),
            },
        )
        store.put(failed)
        raise
    return record


def _pane_place(home: StateHome, plan: "RunPlan", record: SessionRecord) -> "PanePlace":
    from bridle.drives.tmux.server import PanePlace, server_folder

    # The daemon must find it too, in its own environment.
    return PanePlace(
        server=server_folder(os.environ, home.root), name=f"{record.session_id}-{record.run}"
    )


def _kept_options(options: RunOptions) -> dict[str, Any]:
    """The options as they may be stored: no secrets, no prompt, only what was chosen."""
    kept: dict[str, Any] = msgspec.to_builtins(options)
    bare: dict[str, Any] = msgspec.to_builtins(RunOptions(prompt=""))
    kept = {name: value for name, value in kept.items() if value != bare[name]}
    for name in ("prompt", "images", "resume"):
        kept.pop(name, None)
    for name in _PATHS & kept.keys():
        kept[name] = _whole_path(kept[name])
    if options.model_server is not None:
        kept["model_server"] = {"url": options.model_server.url, "api_key": ""}
    own = kept.get("provider_options", {})
    if options.resume is not None and "fork" in own:
        # It was forked once. Resuming it must continue this conversation, not make another copy.
        kept["provider_options"] = {name: own[name] for name in own if name != "fork"}
    secret = set(secrets_in(options.env))
    if options.env:
        kept["env"] = {name: v for name, v in options.env.items() if v not in secret}
    return kept


def _whole_path(value: Any) -> Any:
    """A file by its absolute path: the next process may be planned in another directory."""
    if isinstance(value, str) and "\n" not in value and os.path.exists(os.path.expanduser(value)):
        return os.path.abspath(os.path.expanduser(value))
    return value


def remote_terminal(
    home: StateHome, record: SessionRecord, runtime: Adapter, env: Mapping[str, str]
) -> ProcessSpec | None:
    """The agent's own terminal interface on a session's conversation, in parallel to its driver;
    None when the session is over, has no conversation yet, or its runtime offers none.

    It belongs to the person, not to the session: it runs at their terminal until they leave it.
    """
    if record.is_over or record.drive != "rpc" or record.native_session_id is None:
        return None
    entries = ledger_entries(home.folder(record.session_id))
    begins = [entry for entry in entries if isinstance(entry, Begin)]
    if not begins or not isinstance(runtime, Live):
        return None
    return runtime.remote_terminal(begins[-1].facts, record.native_session_id, env)
