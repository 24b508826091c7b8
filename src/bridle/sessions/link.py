"""A session that this program drives itself: what `Session` and `SyncSession` share.

`started`, `opened`, `resumed` and `forked` make a `SessionLink`; they wait, so the async face calls
them in a thread. After that nothing here waits: what takes time is a future.
"""

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.core.errors import BridleError, TimedOut, Unavailable, UnsupportedOption, WrongUse
from bridle.core.events import Drive, Event, PermissionRequest, SessionEnd
from bridle.core.features import Features
from bridle.core.handles import SessionHints
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions
from bridle.drives.print_run import PermissionPolicy
from bridle.runs import options_from, resolve
from bridle.runtimes.contract import Adapter, HasAdapter, adapter_of
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks, configured_clocks
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine
from bridle.sessions.event_log import EventLog
from bridle.sessions.feed import Feed
from bridle.sessions.history import AgentStep, Notice, conversation
from bridle.sessions.home import StateHome, homes
from bridle.sessions.host import SessionHost, host_of, release_by_daemon, return_to_daemon
from bridle.sessions.images import Image, kept_images, refuse_images
from bridle.sessions.lock import SessionHeld
from bridle.sessions.manager import default_drive, why_over
from bridle.sessions.start import (
    Identity,
    fork_session,
    resume_session,
    start_session,
    still_alive,
)
from bridle.sessions.store import SessionRecord, SessionStore, find_record
from bridle.sessions.user_messages import UserMessage
from bridle.sessions.verbs import TurnReport, Verb
from bridle.turns.wire import Question, decision_of

if TYPE_CHECKING:
    from bridle.config import Config

R = TypeVar("R")
STOP_TIMEOUT = 60.0
"""Seconds for an agent to end, far more than its stop steps take."""


class SessionLink:
    """A session that this program drives.

    Contract: `take_up` first, in a thread that may wait; then everything from any thread.
    """

    def __init__(
        self,
        host: SessionHost,
        record: SessionRecord,
        runtime: Adapter,
        options: RunOptions | None = None,
    ) -> None:
        self.host = host
        self.runtime = runtime
        self.features: Features = runtime.features.in_session(record.drive)
        self.options = options
        """The options that this program started it with, secrets included; None otherwise."""
        self.is_gone = False
        """Whether this program released the session."""
        self._record = record
        self._driver: SessionDriver | None = None
        self._log = EventLog(host.home.folder(record.session_id))
        self._lock = threading.Lock()
        self._feeds: weakref.WeakSet[Feed] = weakref.WeakSet()
        self._seq = 0
        self._ended = False
        self._stop_listening: Callable[[], None] = lambda: None
        self._permission: PermissionPolicy | None = None
        self._asked: set[str] = set()
        self._conversation: tuple[int, list[UserMessage | AgentStep]] | None = None

    def take_up(self, permission: PermissionPolicy | None) -> None:
        """Drive the session from now on; `permission` answers the agent's requests, open ones
        included. Raises `SessionHeld`."""
        self._permission = permission
        self.host.take_up(self._record, self.runtime, self._taken)

    def _taken(self, driver: SessionDriver, engine: Engine) -> None:
        self._driver = driver
        self._seq = driver.last_seq
        self._ended = driver.player.finished
        if not self._ended:
            self._stop_listening = engine.listen(self.session_id, self._heard)
            for question in list(driver.player.questions.values()):
                self._ask_policy(question)

    # -- state ----------------------------------------------------------------------------------

    @property
    def record(self) -> SessionRecord:
        """The session's record, up to date with the last event."""
        return self._record if self._driver is None else self._driver.record

    @property
    def session_id(self) -> str:
        """Its id."""
        return self._record.session_id

    @property
    def is_streaming(self) -> bool:
        """Whether a turn is open."""
        state = self.record.state
        if state == "compacting" and self._driver is not None:
            return self._driver.player.recorder.turn_open
        return state in ("working", "waiting_permission")

    def messages(self) -> list[UserMessage | AgentStep]:
        """The conversation so far. Reads the session's files when anything happened since."""
        seq = self._seq
        if self._conversation is None or self._conversation[0] != seq or self.is_streaming:
            parts = conversation(self.host.home, self.record)
            said = [part for part in parts if not isinstance(part, Notice)]
            self._conversation = (seq, said)
        return list(self._conversation[1])

    # -- verbs ----------------------------------------------------------------------------------

    def call(self, verb: Verb[R]) -> "Future[R]":
        """Carry out a verb; raises `WrongUse` when the session was released."""
        if self.is_gone:
            raise WrongUse(
                f"session {self.session_id} was released",
                hint=f"call `open({self.session_id!r})` to drive it again",
            )
        return self.host.call(verb)

    def keep_images(self, message_id: str, images: Sequence[Image]) -> tuple[str, ...]:
        """Copy a message's images to where the session keeps them; waits for the disk. Raises
        `UnsupportedOption` where the runtime takes none."""
        refuse_images(self.runtime, self.record.drive, images)
        return kept_images(self.host.home, self.session_id, message_id, images)

    def ready(self, record: SessionRecord | None, timeout: float | None) -> SessionRecord:
        """The result of `WaitReady`: the record of a session that is ready; raises why it is
        not."""
        if record is None:
            raise TimedOut(
                f"session {self.session_id} is not ready after {timeout or 0:g} s",
                hint="give it more time, or look at its events for what it waits for",
            )
        if record.is_over:
            raise why_over(record)
        return record

    def idle(self, report: TurnReport | None, timeout: float | None) -> TurnReport:
        """The result of `WaitIdle`: the report of an idle session; raises `TimedOut` when it is
        not idle."""
        if report is not None:
            return report
        if timeout is None:
            raise Unavailable(f"session {self.session_id} is no longer driven")
        raise TimedOut(
            f"session {self.session_id} still works after {timeout:g} s",
            hint="wait longer, or abort the turn",
        )

    def ended(self, record: SessionRecord | None) -> SessionRecord:
        """The result of `Stop`: the record of a session that was stopped; raises `TimedOut` when
        its agent stays."""
        if record is None:
            raise TimedOut(f"session {self.session_id} did not end in time", hint="try again")
        return record

    def release(self) -> "Future[None]":
        """Stop driving the session; its agent runs on. A repeated call has no effect."""
        already, self.is_gone = self.is_gone, True
        if already or self._driver is None:
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        with self._lock:
            for feed in self._feeds:
                # Readers still get everything up to now.
                feed.end_at(self._seq)
        return self.host.release(self._driver)

    # -- events ---------------------------------------------------------------------------------

    def feed(self, after: int | None = None) -> Feed:
        """The events with a number above `after`, past ones first; None: from now on."""
        with self._lock:
            up_to_date = after is None or after >= self._seq
            feed = Feed(self._log, self._seq if after is None else after, up_to_date=up_to_date)
            if self._ended or self.is_gone:
                feed.end_at(self._seq)
            self._feeds.add(feed)
            return feed

    def _heard(self, events: list[Event]) -> None:
        """Pass new events on; they are on disk. Called in the engine's thread."""
        if self.is_gone:
            self._stop_listening()
            return
        with self._lock:
            self._seq = events[-1].seq
            self._ended = self._ended or isinstance(events[-1], SessionEnd)
            for feed in self._feeds:
                feed.put(events)
        if self._ended:
            # The session's next process belongs to the caller that resumes it.
            self._stop_listening()
        elif self._permission is not None and self._driver is not None:
            for event in events:
                if isinstance(event, PermissionRequest):
                    question = self._driver.player.questions.get(event.request_id)
                    if question is not None:
                        self._ask_policy(question)

    def subscriber_failed(self, problem: Exception) -> None:
        """Log what a subscriber raised; it stays subscribed."""
        _log_failure("a subscriber of session %s failed", self.session_id, problem)

    # -- the permission policy ------------------------------------------------------------------

    def _ask_policy(self, question: Question) -> None:
        policy = self._permission
        if policy is None or question.request_id in self._asked:
            return
        self._asked.add(question.request_id)
        # One thread each: an answer may take as long as a person does.
        threading.Thread(target=self._decide, args=(policy, question), daemon=True).start()

    def _decide(self, policy: PermissionPolicy, question: Question) -> None:
        try:
            allowed, by, reason = decision_of(policy(question))
        except BaseException as problem:
            allowed, by = False, "bridle"
            reason = f"the permission policy failed: {type(problem).__name__}"
            _log_failure("the permission policy of session %s failed", self.session_id, problem)
        verb = verbs.Permit(
            session=self.session_id,
            request_id=question.request_id,
            allowed=allowed,
            by=by,
            reason=reason,
        )
        try:
            self.call(verb).result()
        except BridleError:
            # The agent withdrew the request, another answer came first, or the session is over.
            return


def _log_failure(what: str, session_id: str, problem: BaseException) -> None:
    import logging

    logging.getLogger(__name__).error(what, session_id, exc_info=problem)


class SessionFacts:
    """The attributes that both faces have. They cost nothing and never wait, except `messages`,
    which may read the session's files."""

    def __init__(self, link: SessionLink) -> None:
        self._link = link

    @property
    def session_id(self) -> str:
        """Bridle's id of the session."""
        return self._link.session_id

    @property
    def native_session_id(self) -> str | None:
        """The agent's own id of the conversation; None before the agent reports it."""
        return self._link.record.native_session_id

    @property
    def state(self) -> str:
        """`starting`, `ready`, `working`, `waiting_permission`, `compacting`, `stopped`, `failed`,
        `lost` or `unknown`; `record.evidence` says what showed it."""
        return self._link.record.state

    @property
    def record(self) -> SessionRecord:
        """The session's record, up to date with its last event."""
        return self._link.record

    @property
    def features(self) -> Features:
        """What its runtime can do: whether a steer reaches the running turn or waits for its end,
        whether it can fork, …"""
        return self._link.features

    @property
    def hints(self) -> SessionHints:
        """How its agent treats its conversation."""
        return self._link.runtime.hints

    @property
    def is_streaming(self) -> bool:
        """Whether a turn is open."""
        return self._link.is_streaming

    @property
    def is_compacting(self) -> bool:
        """Whether the agent compacts its context now."""
        return self._link.record.state == "compacting"

    @property
    def messages(self) -> "list[UserMessage | AgentStep]":
        """The conversation so far: the user's messages, and the agent's with the tools it used.
        Read from the session's files, again only when something happened since."""
        return self._link.messages()

    def replace_messages(self, messages: Sequence[Any]) -> None:
        """Always refused: an agent in its own process keeps its conversation itself, and no
        protocol lets another program rewrite it. Only an agent inside this process (the drive
        `embedded`) could; Pi's own library can."""
        raise UnsupportedOption(
            self._link.runtime.id,
            "replace_messages",
            [],
            reason="it keeps its own conversation; only an embedded agent, such as Pi's library, "
            "could take another",
        )

    def __repr__(self) -> str:
        record = self._link.record
        return f"<{type(self).__name__} {record.runtime} {record.session_id} {record.state}>"


def new_message_id(given: str | None) -> str:
    """The id of a message; a message that is sent twice with the same id is delivered once."""
    if given is not None and not given.strip():
        raise WrongUse("a message's id must not be empty")
    return given or new_session_id()


# -- coming to a session ------------------------------------------------------------------------


class Wanted(msgspec.Struct, kw_only=True):
    """A session to start: the arguments of `Session.start`."""

    runtime: str | Adapter | HasAdapter | None
    prompt: str | None
    drive: Drive | None
    name: str | None
    config: "Config | None"
    clocks: Clocks | None
    identity: Identity | None
    options: Mapping[str, Any]


def started(wanted: Wanted) -> SessionLink:
    """Start a new session; returns while it is still starting. Raises what `start_session` and
    `bridle.run` raise, before anything is started."""
    config = wanted.config or _config_of(wanted.options.get("cwd"))
    if wanted.prompt is not None and not wanted.prompt.strip():
        raise WrongUse("the prompt is empty", hint="leave it out to send none")
    runtime, options = resolve(wanted.prompt or "", wanted.runtime, config, wanted.options)
    # An absolute path stays right when the program changes its directory.
    options = msgspec.structs.replace(options, cwd=os.path.abspath(options.cwd or os.getcwd()))
    home = homes(options.cwd or os.getcwd(), os.environ)[0]
    with SessionStore(home) as store:
        record = start_session(
            home,
            store,
            runtime,
            options,
            env=os.environ,
            drive=wanted.drive or config.drive(runtime.id) or default_drive(runtime),
            name=wanted.name,
            identity=wanted.identity,
            clocks=wanted.clocks or configured_clocks(config),
        )
    return SessionLink(host_of(home), record, runtime, options)


def opened(
    name: str, runtime: Adapter | HasAdapter | None, cwd: str | None, config: "Config | None"
) -> SessionLink:
    """An existing session; raises `UnknownSession`."""
    home, record = find_session(name, cwd)
    return SessionLink(host_of(home), record, _runtime_of(record, runtime, config))


def resumed(
    name: str,
    runtime: Adapter | HasAdapter | None,
    cwd: str | None,
    config: "Config | None",
    clocks: Clocks | None,
    changes: Mapping[str, Any],
) -> SessionLink:
    """Start the next process of a session that is over; raises what `resume_session` does."""
    home, record = find_session(name, cwd)
    config = config or _config_of(record.workdir)
    runtime = _runtime_of(record, runtime, config)
    if config.model_server is not None:
        changes = {"model_server": config.model_server, **changes}
    checked = _checked(changes)
    with SessionStore(home) as store:
        record = _resumed(home, store, runtime, record, clocks, checked)
    return SessionLink(host_of(home), record, runtime)


def _resumed(
    home: StateHome,
    store: SessionStore,
    runtime: Adapter,
    record: SessionRecord,
    clocks: Clocks | None,
    changes: dict[str, Any],
) -> SessionRecord:
    def resume() -> SessionRecord:
        return resume_session(
            home, store, runtime, record, env=os.environ, changes=changes, clocks=clocks
        )

    if host_of(home).drives(record.session_id):
        raise still_alive(record)
    try:
        return resume()
    except SessionHeld:
        if not release_by_daemon(home, record.session_id):
            raise
    try:
        return resume()
    except BaseException:
        return_to_daemon(home, record.session_id)
        raise


def forked(parent: SessionLink, name: str | None, changes: Mapping[str, Any]) -> SessionLink:
    """Start a session whose agent continues in a copy of `parent`'s conversation.

    Raises `UnsupportedOption` where the runtime cannot, `WrongUse` while a turn is open or when
    there is no conversation yet.
    """
    home, runtime, options = parent.host.home, parent.runtime, parent.options
    # These may hold keys, which are not on disk.
    kept = {} if options is None else {"env": options.env, "model_server": options.model_server}
    with SessionStore(home) as store:
        new, options = fork_session(
            home,
            store,
            runtime,
            parent.record,
            env=os.environ,
            name=name,
            changes=_checked(changes),
            kept=kept,
        )
    return SessionLink(parent.host, new, runtime, options)


def find_session(name: str, cwd: str | None) -> tuple[StateHome, SessionRecord]:
    """A session's home and its record, by id, name, or the beginning of an id; looked for in the
    project around `cwd`, then in the user's state folder. Raises `UnknownSession`."""
    return find_record(homes(cwd or os.getcwd(), os.environ), name)


def _config_of(cwd: Any) -> "Config":
    from bridle.config import load_config

    return load_config(None if cwd is None else os.fspath(cwd))


def _runtime_of(
    record: SessionRecord, runtime: Adapter | HasAdapter | None, config: "Config | None"
) -> Adapter:
    from bridle.runtimes.registry import get_adapter

    if runtime is not None:
        runtime = adapter_of(runtime)
        if runtime.id != record.runtime:
            raise WrongUse(
                f"session {record.session_id} belongs to {record.runtime}, not to {runtime.id}",
                hint="leave the runtime out",
            )
        return runtime
    return get_adapter(record.runtime, config or _config_of(record.workdir))


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changed options, checked as the keywords of a run are."""
    complete = options_from("", changes)
    return {name: getattr(complete, name) for name in changes}
