"""What both faces of a session share: its driver in this program, its readers, its policy.

Nothing here waits: what takes time is a future.
"""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from bridle.core.errors import BridleError, WrongUse
from bridle.core.events import Event, PermissionRequest, SessionEnd
from bridle.core.features import Features
from bridle.core.options import RunOptions
from bridle.drives.print_run import PermissionPolicy
from bridle.runtimes.contract import Adapter
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine
from bridle.sessions.event_log import EventLog
from bridle.sessions.feed import Feed
from bridle.sessions.history import AgentStep, Notice, conversation
from bridle.sessions.hosting import SessionHost
from bridle.sessions.service import SessionService, done
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import UserMessage
from bridle.turns.wire import Question, decision_of

T = TypeVar("T")


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
        """What it was started with, secrets and all, where that was here."""
        self.is_gone = False
        """Whether this program let it go."""
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
        self._told: tuple[int, list[UserMessage | AgentStep]] | None = None

    def take_up(self, permission: PermissionPolicy | None) -> None:
        """Drive the session from now on; `permission` answers what its agent asks, also what it
        asked before. Raises `SessionHeld`."""
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

    # -- how it is ------------------------------------------------------------------------------

    @property
    def record(self) -> SessionRecord:
        """The session's record, true up to the last event."""
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
        """What was said so far, in order. Reads the session's files, if anything happened since."""
        seq = self._seq
        if self._told is None or self._told[0] != seq or self.is_streaming:
            parts = conversation(self.host.home, self.record)
            self._told = (seq, [part for part in parts if not isinstance(part, Notice)])
        return list(self._told[1])

    # -- asking ---------------------------------------------------------------------------------

    def do(self, act: Callable[[SessionService, str], T]) -> "Future[T]":
        """Have something done with the session; `WrongUse` when it was let go."""
        return self.ask(lambda service, name: done(act(service, name)))

    def ask(self, act: Callable[[SessionService, str], "Future[T]"]) -> "Future[T]":
        """The same for what is answered later."""
        if self.is_gone:
            raise WrongUse(
                f"session {self.session_id} was let go",
                hint=f"`open({self.session_id!r})` takes it up again",
            )
        return self.host.ask(lambda service: act(service, self.session_id))

    def let_go(self) -> "Future[None]":
        """Stop driving it; its agent goes on. Again has no effect."""
        if self.is_gone or self._driver is None:
            self.is_gone = True
            return done(None)
        self.is_gone = True
        with self._lock:
            for feed in self._feeds:
                # Everything up to now is still theirs.
                feed.end_at(self._seq)
        return self.host.let_go(self._driver)

    # -- hearing --------------------------------------------------------------------------------

    def feed(self, after: int | None = None) -> Feed:
        """The events with a number above `after`, those of the past first; None: from now on."""
        with self._lock:
            up_to_date = after is None or after >= self._seq
            feed = Feed(self._log, self._seq if after is None else after, up_to_date=up_to_date)
            if self._ended or self.is_gone:
                feed.end_at(self._seq)
            self._feeds.add(feed)
            return feed

    def _heard(self, events: list[Event]) -> None:
        """In the engine's thread: something happened, and is on disk."""
        if self.is_gone:
            self._stop_listening()
            return
        with self._lock:
            self._seq = events[-1].seq
            self._ended = self._ended or isinstance(events[-1], SessionEnd)
            for feed in self._feeds:
                feed.put(events)
        if self._ended:
            # Its next process is for whoever resumes it.
            self._stop_listening()
        elif self._permission is not None and self._driver is not None:
            for event in events:
                if isinstance(event, PermissionRequest):
                    question = self._driver.player.questions.get(event.request_id)
                    if question is not None:
                        self._ask_policy(question)

    def subscriber_failed(self, problem: Exception) -> None:
        """A subscriber raised something: that is logged, and costs it nothing else."""
        _log_failure("a subscriber of session %s failed", self.session_id, problem)

    # -- the policy -----------------------------------------------------------------------------

    def _ask_policy(self, question: Question) -> None:
        policy = self._permission
        if policy is None or question.request_id in self._asked:
            return
        self._asked.add(question.request_id)
        # A thread for each: an answer may take as long as a person does.
        threading.Thread(target=self._decide, args=(policy, question), daemon=True).start()

    def _decide(self, policy: PermissionPolicy, question: Question) -> None:
        try:
            allowed, by, reason = decision_of(policy(question))
        except BaseException as problem:
            allowed, by = False, "bridle"
            reason = f"the permission policy failed: {type(problem).__name__}"
            _log_failure("the permission policy of session %s failed", self.session_id, problem)

        def answer(service: SessionService, name: str) -> Any:
            return service.answer(name, question.request_id, allowed, by, reason)

        try:
            self.do(answer).result()
        except BridleError:
            # Taken back by the agent, answered by somebody else, or the session is over.
            return


def _log_failure(what: str, session_id: str, problem: BaseException) -> None:
    import logging

    logging.getLogger(__name__).error(what, session_id, exc_info=problem)
