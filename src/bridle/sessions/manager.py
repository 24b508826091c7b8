"""The sessions that can be reached from a folder, driven by the daemon; for the command line.

The manager starts agents itself, in the caller's environment, and has the daemon of their home
drive them. It starts the daemon when none runs.
"""

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.core.capabilities import SANDBOXES
from bridle.core.errors import (
    AgentError,
    BridleError,
    Crashed,
    GuardRefused,
    TimedOut,
    WrongUse,
)
from bridle.core.events import AnyEvent, Drive
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions, SandboxMode
from bridle.core.times import seconds_of
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient
from bridle.sessions.home import StateHome, homes, known_homes
from bridle.sessions.images import kept_images, refuse_images
from bridle.sessions.ledger import MessageKind
from bridle.sessions.protocol import error_from
from bridle.sessions.start import (
    Identity,
    fork_session,
    resume_session,
    start_session,
    still_alive,
    stored_options,
)
from bridle.sessions.store import (
    FINAL,
    SessionRecord,
    SessionStore,
    UnknownSession,
    find_record,
)
from bridle.sessions.verbs import Receipt, SessionVerb, TurnReport

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.runtimes.contract import Adapter

R = TypeVar("R")
START_TIMEOUT = 240.0
"""Seconds to wait for a new session to be ready; its start-up clock ends it earlier."""
SEND_TIMEOUT = 30.0
"""Seconds to wait until an agent has a message, by default."""
_CLEANING = 20.0
"""Seconds to end what a process left behind."""


class SessionManager:
    """Start sessions and talk to them, by id, by name, or by the beginning of an id.

    Contract: a daemon that was killed meanwhile changes no result. Raises `UnknownSession` and the
    errors of `SessionService`. One thread uses it; `close` it at the end.
    """

    def __init__(self, folder: str | None = None, env: Mapping[str, str] | None = None) -> None:
        self._env = dict(os.environ if env is None else env)
        self._homes = homes(folder or os.getcwd(), self._env)
        self._clients: dict[str, DaemonClient] = {}
        self.started: SessionRecord | None = None
        """The session whose process was started last, ready or not."""

    def __enter__(self) -> "SessionManager":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections; sessions run on."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    @property
    def home(self) -> StateHome:
        """Where new sessions are kept."""
        return self._homes[0]

    # -- starting -------------------------------------------------------------------------------

    def start(
        self,
        runtime: "Adapter",
        options: RunOptions,
        *,
        drive: Drive | None = None,
        name: str | None = None,
        identity: Identity | None = None,
        timeout: float = START_TIMEOUT,
    ) -> SessionRecord:
        """Start a session, wait until it is ready, and send it `options.prompt` if there is one.

        Raises why it did not become ready.
        """
        with SessionStore(self.home) as store:
            record = start_session(
                self.home,
                store,
                runtime,
                options,
                env=self._env,
                drive=drive or default_drive(runtime),
                name=name,
                identity=identity,
            )
        record = self._ready(self.home, record, timeout)
        if options.prompt.strip():
            self.send(record.session_id, options.prompt, images=options.images)
            record = self.show(record.session_id)
        return record

    def resume(
        self,
        name: str,
        *,
        config: "Config | None" = None,
        changes: dict[str, Any] | None = None,
        timeout: float = START_TIMEOUT,
    ) -> SessionRecord:
        """Start the next process of a session that is over, and wait until it is ready.

        Raises `ResumeRefused` when its agent does not resume the conversation.
        """
        home, record = self.find(name)
        # The daemon may hold it and still be ending what its last process left behind.
        idle = verbs.WaitIdle(session=record.session_id, timeout=_CLEANING)
        report = self._client(home).call(idle)
        if report is None or report.state not in FINAL:
            raise still_alive(record)
        record = self.show(record.session_id)
        runtime = self._runtime(record, config)
        with SessionStore(home) as store:
            self._client(home).call(verbs.Release(session=record.session_id))
            record = resume_session(home, store, runtime, record, env=self._env, changes=changes)
        return self._ready(home, record, timeout)

    def fork(
        self,
        name: str,
        *,
        new_name: str | None = None,
        changes: dict[str, Any] | None = None,
        timeout: float = START_TIMEOUT,
    ) -> SessionRecord:
        """Start a session whose agent continues in a copy of a session's conversation, and wait
        until it is ready. The old session stays as it is."""
        home, _ = self.find(name)
        record = self.show(name)
        runtime = self._runtime(record, None)
        with SessionStore(home) as store:
            new, _ = fork_session(
                home, store, runtime, record, env=self._env, name=new_name, changes=changes or {}
            )
        return self._ready(home, new, timeout)

    def hand_over(
        self,
        name: str,
        runtime: "Adapter",
        options: RunOptions,
        *,
        drive: Drive | None = None,
        new_name: str | None = None,
        timeout: float = START_TIMEOUT,
    ) -> SessionRecord:
        """Start a session of another runtime that continues a session's conversation.

        By that runtime's own import where it has one, else by a written brief that is its first
        prompt; `handover` of the record says which. The old session stays as it is. A prompt in
        `options` comes after that.
        """
        from bridle.sessions.handover import brief, native_import

        home, _ = self.find(name)
        record = self.show(name)
        kept = stored_options(home, record, {}, self._env)
        wanted = msgspec.structs.replace(
            options,
            prompt="",
            cwd=options.cwd or record.workdir,
            # What the user chose for the conversation goes with it.
            sandbox=options.sandbox or _chosen_sandbox(record),
            unguarded=options.unguarded or record.guard == "unguarded",
            env={**kept.env, **options.env},
            # A conversation with a scripted model must not reach another service.
            model_server=options.model_server or kept.model_server,
        )
        native = native_import(home, record, runtime, wanted, env=self._env)
        with SessionStore(home) as store:
            new = start_session(
                home,
                store,
                runtime,
                msgspec.structs.replace(wanted, resume=native),
                env=self._env,
                drive=drive or self._configured_drive(record, runtime) or default_drive(runtime),
                name=new_name,
                identity=Identity(
                    agent=record.agent,
                    capability=record.capability,
                    project=record.project,
                    task=record.task,
                    actor=record.actor,
                ),
                parent=record.session_id,
                handover="native" if native else "brief",
            )
        new = self._ready(home, new, timeout)
        if native is None:
            self.send(new.session_id, brief(home, record))
        if options.prompt.strip():
            self.send(new.session_id, options.prompt, kind="follow_up")
        return self.show(new.session_id)

    def _configured_drive(self, record: SessionRecord, runtime: "Adapter") -> Drive | None:
        from bridle.config import load_config

        return load_config(record.workdir).drive(runtime.id)

    def _runtime(self, record: SessionRecord, config: "Config | None") -> "Adapter":
        from bridle.config import load_config
        from bridle.runtimes.registry import get_adapter

        return get_adapter(record.runtime, config or load_config(record.workdir))

    def _ready(self, home: StateHome, record: SessionRecord, timeout: float) -> SessionRecord:
        self.started = record
        verb = verbs.WaitReady(session=record.session_id, timeout=timeout)
        ready = self._client(home).call(verb)
        name = record.name or record.session_id
        if ready is None:
            raise TimedOut(
                f"session {name} is not ready after {timeout:g} s",
                hint=f"look at it with `bridle session show {name}`",
            )
        if ready.is_over:
            raise why_over(ready)
        return ready

    # -- verbs ----------------------------------------------------------------------------------

    def call(self, verb: SessionVerb[R]) -> R:
        """Have the daemon carry out a verb on the session that it names."""
        home, record = self.find(verb.session)
        return self._client(home).call(msgspec.structs.replace(verb, session=record.session_id))

    def send(
        self,
        name: str,
        text: str,
        *,
        kind: MessageKind = "prompt",
        images: tuple[str, ...] = (),
        timeout: float | None = SEND_TIMEOUT,
        message_id: str | None = None,
        delivery: str | None = None,
    ) -> Receipt:
        """Give a session a message. A prompt or follow-up for an agent that works waits until its
        turn ends; a steer reaches the turn where the agent can take one. `delivery` names the
        required way; `WrongUse` when the session uses another."""
        home, record = self.find(name)
        if delivery is not None and delivery not in _WAYS.get(record.drive, ()):
            raise WrongUse(
                f"session {record.session_id} is driven by {record.drive}, not by {delivery}",
                hint="leave out the way of delivery",
            )
        if images:
            refuse_images(self._runtime(record, None), record.drive, images)
        session_id = record.session_id
        message_id = message_id or new_session_id()
        verb = verbs.Send(
            session=session_id,
            kind=kind,
            text=text,
            images=kept_images(home, session_id, message_id, images),
            message_id=message_id,
            timeout=timeout,
        )
        return self._client(home).call(verb) or verb.on_its_way()

    def wait(
        self,
        name: str,
        timeout: float | None = None,
        *,
        known_questions: Collection[str] | None = None,
    ) -> TurnReport:
        """Wait until a session is idle or over; raises `TimedOut` when it is not in time. With
        `known_questions` (ids of permission requests) it also returns as soon as the agent asks
        anything else; `questions` of the report then says what."""
        known = None if known_questions is None else tuple(sorted(known_questions))
        report = self.call(verbs.WaitIdle(session=name, timeout=timeout, known_questions=known))
        if report is None:
            raise TimedOut(
                f"session {name} still works after {timeout:g} s",
                hint="wait longer, or `bridle session abort` it",
            )
        return report

    def stop(
        self, name: str, reason: str = "stopped", timeout: float | None = 60.0
    ) -> SessionRecord:
        """End a session and wait until its process has ended."""
        record = self.call(verbs.Stop(session=name, reason=reason, timeout=timeout))
        if record is None:
            raise TimedOut(f"session {name} did not end in time", hint="try again")
        return record

    def remove(self, name: str, *, force: bool = False, timeout: float | None = 60.0) -> str:
        """Delete a session that is over, with everything that Bridle keeps of it; returns its id.
        The agent's own transcripts stay. `force` stops a living session first."""
        session_id = self.find(name)[1].session_id
        try:
            removed = self.call(verbs.Remove(session=session_id, force=force, timeout=timeout))
        except UnknownSession:
            # Removed just before the daemon was lost, and the request was made again.
            return session_id
        if removed is None:
            raise TimedOut(f"session {name} did not end in time", hint="try again")
        return session_id

    def prune(
        self, *, older_than: float = 0.0, machine: bool = False, dry_run: bool = False
    ) -> "list[SessionRecord]":
        """Remove every session that ended more than `older_than` seconds ago; returns them.
        `dry_run` removes nothing."""
        limit = time.time() - older_than
        ended = [
            record
            for record in self.list(machine=machine)
            if record.is_over and seconds_of(record.ended_at or record.started_at) <= limit
        ]
        for record in () if dry_run else ended:
            self.remove(record.session_id)
        return ended

    def stop_all(
        self, reason: str = "stopped", *, machine: bool = False, timeout: float | None = 60.0
    ) -> "list[SessionRecord]":
        """End every living session, all at once; returns them as they then are."""
        living = [record for record in self.list(machine=machine) if not record.is_over]
        for record in living:
            # The first request only begins it, so that they end in parallel.
            self.call(verbs.Stop(session=record.session_id, reason=reason, timeout=0.0))
        return [self.stop(record.session_id, reason, timeout) for record in living]

    # -- looking --------------------------------------------------------------------------------

    def find(self, name: str) -> tuple[StateHome, SessionRecord]:
        """A session's home and its record as last stored. Sessions of other projects are found by
        id only: a name belongs to its project."""
        try:
            return find_record(self._homes, name)
        except UnknownSession:
            for home in self._others():
                with contextlib.suppress(UnknownSession):
                    found = find_record([home], name)
                    if found[1].session_id.startswith(name):
                        return found
            raise

    def _others(self) -> "list[StateHome]":
        """The homes of this machine's other projects."""
        near = {home.root for home in self._homes}
        return [home for home in known_homes(self._env) if home.root not in near]

    def show(self, name: str) -> SessionRecord:
        """A session's record, brought up to date."""
        return self.call(verbs.Show(session=name))

    def list(self, *, everywhere: bool = False, machine: bool = False) -> list[SessionRecord]:
        """The sessions of the nearest home, up to date; with `everywhere` those of the user's home
        too, with `machine` those of all projects."""
        found: list[SessionRecord] = []
        for home in self._homes if everywhere or machine else self._homes[:1]:
            if os.path.exists(home.database):
                found += self._client(home).call(verbs.List())["sessions"]
        for home in self._others() if machine else ():
            with SessionStore(home) as store:
                if not store.all(living=True):
                    # Nothing there can change, so no daemon is needed.
                    found += store.all()
                    continue
            found += self._client(home).call(verbs.List())["sessions"]
        return found

    def events(self, name: str, *, after: int = 0, follow: bool = False) -> Iterator[AnyEvent]:
        """A session's events from number `after` + 1; with `follow` until its process has ended."""
        home, record = self.find(name)
        # A separate connection: it is in use for as long as the caller reads.
        with DaemonClient(home) as client:
            yield from client.events(record.session_id, after, follow=follow)

    def _client(self, home: StateHome) -> DaemonClient:
        if home.root not in self._clients:
            self._clients[home.root] = DaemonClient(home)
        return self._clients[home.root]


_WAYS = {"rpc": ("rpc", "stdin"), "tmux": ("tmux",), "print": ("stdin",)}
"""The ways of delivery that each drive has."""


def _chosen_sandbox(record: SessionRecord) -> SandboxMode | None:
    """The sandbox that the user chose for a session; None when it came with the capability, because
    that differs by runtime."""
    guarded = record.guard not in (None, "unguarded")
    brought = SANDBOXES.get(record.capability or "") if guarded else None
    return None if record.sandbox == brought else record.sandbox


def default_drive(runtime: "Adapter") -> Drive:
    """The drive of a session of `runtime` when none is named: rpc where the runtime has it, else
    print, which every runtime has. A terminal must be requested."""
    return "rpc" if "rpc" in runtime.features.drives else "print"


def why_over(record: SessionRecord) -> BridleError:
    """Why a session did not become ready."""
    error = record.error or {}
    kinds: dict[str, type[AgentError]] = {cls.kind: cls for cls in AgentError.__subclasses__()}
    cls = kinds.get(error.get("kind", ""), Crashed)
    if cls is GuardRefused and record.sandbox is not None:
        from bridle.sandbox.preflight import not_as_remembered

        # It may have been the sandbox: check again what this machine can enforce.
        not_as_remembered()
    return error_from(
        {
            "type": cls.__name__,
            "message": error.get("message") or f"the agent ended: {record.evidence}",
            "hint": f"`bridle session logs {record.name or record.session_id}` shows what happened",
        }
    )
