"""A session for programs without an event loop."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack, cast

from bridle.core.events import AnyEvent, Drive
from bridle.core.options import ResumeOptionsDict, SessionOptionsDict
from bridle.drives.print_run import PermissionPolicy
from bridle.runtimes.contract import Adapter, HasAdapter
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks
from bridle.sessions.images import Image
from bridle.sessions.ledger import MessageKind
from bridle.sessions.link import (
    STOP_TIMEOUT,
    SessionFacts,
    Wanted,
    forked,
    new_message_id,
    opened,
    resumed,
    started,
)
from bridle.sessions.manager import SEND_TIMEOUT, START_TIMEOUT
from bridle.sessions.start import Identity
from bridle.sessions.store import SessionRecord
from bridle.sessions.verbs import Receipt, TurnReport, Verb

if TYPE_CHECKING:
    from bridle.config import Config


R = TypeVar("R")


class SyncSession(SessionFacts):
    """A conversation with an agent that continues: `Session` without an event loop.

        with bridle.SyncSession.start("claude", "Fix the failing test") as session:
            print(session.wait_idle().text)

    Contract: as `Session`; its methods wait, and may be called from any thread. Leaving the block
    disposes of it.
    """

    @classmethod
    def start(
        cls,
        runtime: str | Adapter | HasAdapter | None = None,
        prompt: str | None = None,
        *,
        drive: Drive | None = None,
        name: str | None = None,
        config: "Config | None" = None,
        permission: PermissionPolicy | None = None,
        clocks: Clocks | None = None,
        identity: Identity | None = None,
        timeout: float | None = START_TIMEOUT,
        **options: Unpack[SessionOptionsDict],
    ) -> "SyncSession":
        """Start a session and wait until it is ready; then send `prompt`. See `Session.start`."""
        wanted = Wanted(
            runtime=runtime,
            prompt=prompt,
            drive=drive,
            name=name,
            config=config,
            clocks=clocks,
            identity=identity,
            options=options,
        )
        session = cls(started(wanted))
        with contextlib.ExitStack() as undo:
            undo.callback(session.dispose)
            session._take_up(permission, timeout)
            if prompt is not None:
                session.prompt(prompt, images=options.get("images", ()))
            undo.pop_all()
        return session

    @classmethod
    def open(
        cls,
        name: str,
        *,
        runtime: Adapter | HasAdapter | None = None,
        cwd: str | None = None,
        config: "Config | None" = None,
        permission: PermissionPolicy | None = None,
    ) -> "SyncSession":
        """Drive a session that exists. See `Session.open`."""
        session = cls(opened(name, runtime, cwd, config))
        session._link.take_up(permission)
        return session

    @classmethod
    def resume(
        cls,
        name: str,
        *,
        runtime: Adapter | HasAdapter | None = None,
        cwd: str | None = None,
        config: "Config | None" = None,
        permission: PermissionPolicy | None = None,
        clocks: Clocks | None = None,
        timeout: float | None = START_TIMEOUT,
        **changes: Unpack[ResumeOptionsDict],
    ) -> "SyncSession":
        """Continue a session that is over. See `Session.resume`."""
        session = cls(resumed(name, runtime, cwd, config, clocks, changes))
        with contextlib.ExitStack() as undo:
            undo.callback(session.dispose)
            session._take_up(permission, timeout)
            undo.pop_all()
        return session

    def fork(
        self,
        *,
        name: str | None = None,
        permission: PermissionPolicy | None = None,
        timeout: float | None = START_TIMEOUT,
        **changes: Unpack[ResumeOptionsDict],
    ) -> "SyncSession":
        """A new session that continues in a copy of this conversation. See `Session.fork`."""
        session = type(self)(forked(self._link, name, changes))
        with contextlib.ExitStack() as undo:
            undo.callback(session.dispose)
            session._take_up(permission, timeout)
            undo.pop_all()
        return session

    def _take_up(self, permission: PermissionPolicy | None, timeout: float | None) -> None:
        self._link.take_up(permission)
        verb = verbs.WaitReady(session=self.session_id, timeout=timeout)
        self._link.ready(self._call(verb), timeout)

    def _call(self, verb: Verb[R]) -> R:
        return self._link.call(verb).result()

    # -- verbs ----------------------------------------------------------------------------------

    def prompt(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        timeout: float | None = SEND_TIMEOUT,
        message_id: str | None = None,
    ) -> Receipt:
        """Give the agent a message. See `Session.prompt`."""
        return self._send("prompt", text, images, timeout, message_id)

    def steer(
        self, text: str, *, timeout: float | None = SEND_TIMEOUT, message_id: str | None = None
    ) -> Receipt:
        """Reach the running turn. See `Session.steer`."""
        return self._send("steer", text, (), timeout, message_id)

    def follow_up(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        timeout: float | None = SEND_TIMEOUT,
        message_id: str | None = None,
    ) -> Receipt:
        """Give the agent a message for when its turn ends."""
        return self._send("follow_up", text, images, timeout, message_id)

    def _send(
        self,
        kind: MessageKind,
        text: str,
        images: Sequence[Image],
        timeout: float | None,
        message_id: str | None,
    ) -> Receipt:
        name = new_message_id(message_id)
        verb = verbs.Send(
            session=self.session_id,
            kind=kind,
            text=text,
            message_id=name,
            images=self._link.keep_images(name, images),
            timeout=timeout,
        )
        return self._call(verb) or verb.on_its_way()

    def abort(self, reason: str = "aborted by the caller", *, clear: bool = False) -> bool:
        """End the open turn. See `Session.abort`."""
        verb = verbs.Abort(session=self.session_id, reason=reason, clear=clear)
        return bool(self._call(verb)["aborted"])

    def compact(self) -> None:
        """Ask the agent to compact its context. See `Session.compact`."""
        self._call(verbs.Compact(session=self.session_id))

    def abort_compaction(self) -> bool:
        """Abort the running compaction; False when none runs."""
        return bool(self._call(verbs.AbortCompaction(session=self.session_id))["aborted"])

    def set_model(self, model: str) -> None:
        """Use another model from the next turn on."""
        self._call(verbs.SetModel(session=self.session_id, model=model))

    def rename(self, name: str) -> SessionRecord:
        """Give the session another name; `WrongUse` when a living session has it."""
        return self._call(verbs.Rename(session=self.session_id, name=name))

    def answer(self, request_id: str, allowed: bool, *, reason: str = "", by: str = "user") -> None:
        """Answer a permission request; `WrongUse` when no request of that id is open."""
        verb = verbs.Permit(
            session=self.session_id, request_id=request_id, allowed=allowed, by=by, reason=reason
        )
        self._call(verb)

    def wait_idle(self, timeout: float | None = None) -> TurnReport:
        """Wait until the agent is idle, or has ended. See `Session.wait_idle`."""
        verb = verbs.WaitIdle(session=self.session_id, timeout=timeout)
        return self._link.idle(self._call(verb), timeout)

    # -- events ---------------------------------------------------------------------------------

    def events(self, after: int = 0) -> Iterator[AnyEvent]:
        """Every event with a number above `after`, past ones first, until the agent has ended or
        the session was released. Iterate it in one thread."""
        return cast("Iterator[AnyEvent]", iter(self._link.feed(after)))

    def subscribe(self, handler: Callable[[AnyEvent], object]) -> Callable[[], None]:
        """Call `handler` with every event from now on, in a separate thread; returns a function
        that unsubscribes. What it raises is logged."""
        feed = self._link.feed()

        def tell() -> None:
            for event in feed:
                try:
                    handler(cast("AnyEvent", event))
                except Exception as problem:
                    self._link.subscriber_failed(problem)

        threading.Thread(target=tell, name="bridle-subscriber", daemon=True).start()
        return feed.close

    # -- ending ---------------------------------------------------------------------------------

    def stop(
        self, reason: str = "stopped", *, timeout: float | None = STOP_TIMEOUT
    ) -> SessionRecord:
        """End the agent. See `Session.stop`."""
        verb = verbs.Stop(session=self.session_id, reason=reason, timeout=timeout)
        return self._link.ended(self._call(verb))

    def detach(self) -> None:
        """Release the session, which runs on. A repeated call has no effect."""
        self._link.release().result()

    def dispose(self) -> None:
        """End the agent, and release the session. A repeated call has no effect."""
        if self._link.is_gone:
            return
        try:
            self.stop("disposed")
        finally:
            self.detach()

    def __enter__(self) -> "SyncSession":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.dispose()
