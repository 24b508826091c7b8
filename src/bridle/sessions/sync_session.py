"""A session for programs without an event loop."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Unpack, cast

from bridle.core.events import AnyEvent, Drive
from bridle.core.options import ResumeOptionsDict, SessionOptionsDict
from bridle.drives.print_run import PermissionPolicy
from bridle.runtimes.contract import Adapter, HasAdapter
from bridle.sessions import operations as op
from bridle.sessions.clocks import Clocks
from bridle.sessions.images import Image
from bridle.sessions.ledger import MessageKind
from bridle.sessions.manager import SEND_TIMEOUT, START_TIMEOUT
from bridle.sessions.opening import Wanted, forked, opened, resumed, started
from bridle.sessions.service import Receipt, TurnReport
from bridle.sessions.start import Identity
from bridle.sessions.store import SessionRecord

if TYPE_CHECKING:
    from bridle.config import Config


class SyncSession(op.SessionFacts):
    """A conversation with an agent that goes on: `Session` without an event loop.

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
        """Take up a session that there is. See `Session.open`."""
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
        """Go on with a session that is over. See `Session.resume`."""
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
        """A new session that goes on in a copy of this conversation. See `Session.fork`."""
        session = type(self)(forked(self._link, name, changes))
        with contextlib.ExitStack() as undo:
            undo.callback(session.dispose)
            session._take_up(permission, timeout)
            undo.pop_all()
        return session

    def _take_up(self, permission: PermissionPolicy | None, timeout: float | None) -> None:
        self._link.take_up(permission)
        waiting = self._link.ask(lambda service, name: service.wait_ready(name, timeout))
        op.became_ready(self._link, waiting.result(), timeout)

    # -- talking --------------------------------------------------------------------------------

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
        """Reach the turn that runs. See `Session.steer`."""
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
        op.check_images(self._link, images)
        message_id = op.new_message_id(message_id)
        kept = op.kept(self._link, message_id, images)
        told = op.send(self._link, kind, text, message_id, kept, timeout).result()
        return op.receipt(self._link, message_id, told)

    def abort(self, reason: str = "aborted by the caller", *, clear: bool = False) -> bool:
        """End the open turn. See `Session.abort`."""
        told = self._link.do(lambda service, name: service.abort(name, reason, clear=clear))
        return bool(told.result()["aborted"])

    def compact(self) -> None:
        """Have the agent shorten its context. See `Session.compact`."""
        self._link.do(lambda service, name: service.compact(name)).result()

    def abort_compaction(self) -> bool:
        """Give up the compaction that runs; False when there is none."""
        told = self._link.do(lambda service, name: service.abort_compaction(name))
        return bool(told.result()["aborted"])

    def set_model(self, model: str) -> None:
        """Use another model from the next turn on."""
        self._link.do(lambda service, name: service.set_model(name, model)).result()

    def rename(self, name: str) -> SessionRecord:
        """Give the session another name for people; `WrongUse` when a living session has it."""
        return self._link.do(lambda service, known: service.rename(known, name)).result()

    def answer(self, request_id: str, allowed: bool, *, reason: str = "", by: str = "user") -> None:
        """Answer a permission request; `WrongUse` when none of that id waits."""
        self._link.do(
            lambda service, name: service.answer(name, request_id, allowed, by, reason)
        ).result()

    def wait_idle(self, timeout: float | None = None) -> TurnReport:
        """Wait until the agent is idle, or gone. See `Session.wait_idle`."""
        waiting = self._link.ask(lambda service, name: service.wait_idle(name, timeout))
        return op.came_to_rest(self._link, waiting.result(), timeout)

    # -- hearing --------------------------------------------------------------------------------

    def events(self, after: int = 0) -> Iterator[AnyEvent]:
        """Every event with a number above `after`, those of the past first, until the agent is
        gone or the session was let go. Iterate it in one thread."""
        return cast("Iterator[AnyEvent]", iter(self._link.feed(after)))

    def subscribe(self, handler: Callable[[AnyEvent], object]) -> Callable[[], None]:
        """Have `handler` called with every event from now on, in a thread of its own; returns how
        to stop that. What it raises is logged."""
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
        self, reason: str = "stopped", *, timeout: float | None = op.STOPPING
    ) -> SessionRecord:
        """End the agent. See `Session.stop`."""
        waiting = self._link.ask(lambda service, name: service.stop(name, reason, timeout))
        return op.ended(self._link, waiting.result())

    def detach(self) -> None:
        """Let the session live on without this program. Again has no effect."""
        self._link.let_go().result()

    def dispose(self) -> None:
        """End the agent, and let the session go. Again has no effect."""
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
