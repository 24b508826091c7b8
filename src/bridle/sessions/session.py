"""The library's face of live sessions: a conversation with an agent that goes on."""

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack, cast

import anyio
from anyio import from_thread
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from bridle.core.events import AnyEvent, Drive, Event
from bridle.core.options import ResumeOptionsDict, SessionOptionsDict
from bridle.drives.print_run import PermissionPolicy
from bridle.runs import AsyncPermissionPolicy, EventHandler
from bridle.runtimes.contract import Adapter, HasAdapter
from bridle.sessions import operations as op
from bridle.sessions.clocks import Clocks
from bridle.sessions.images import Image
from bridle.sessions.ledger import MessageKind
from bridle.sessions.link import SessionLink
from bridle.sessions.manager import SEND_TIMEOUT, START_TIMEOUT
from bridle.sessions.opening import Wanted, forked, opened, resumed, started
from bridle.sessions.service import Receipt, SessionService, TurnReport
from bridle.sessions.start import Identity
from bridle.sessions.store import SessionRecord
from bridle.sessions.waiting import Opening, SessionEvents, in_thread, outcome
from bridle.turns.wire import PermissionAnswer, Question

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.lowlevel import EventLoopToken

    from bridle.config import Config

T = TypeVar("T")
Policy = PermissionPolicy | AsyncPermissionPolicy
_CLOSING = 90.0
"""Seconds that leaving a block may take at most, whatever its cancellation says."""


class Session(op.SessionFacts):
    """A conversation with an agent that goes on, whatever the runtime.

        async with bridle.Session.start("claude", "Fix the failing test") as session:
            print((await session.wait_idle()).text)

    Contract: made by `start`, `open` or `resume`; used in the event loop it was made in, by any
    number of tasks. Leaving the block disposes of it; without a block it goes on, also when the
    program ends, until `dispose` or `stop`. A call that is cancelled was made or was not, never by
    half: a message whose `message_id` is given can be sent again without being told twice. After
    `detach` and `dispose` everything that needs the agent raises `WrongUse`; what was said can
    still be read.
    """

    def __init__(self, link: SessionLink, token: "EventLoopToken") -> None:
        super().__init__(link)
        self._token = token
        self._asking: set[CancelScope] = set()

    # -- coming to one --------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        runtime: str | Adapter | HasAdapter | None = None,
        prompt: str | None = None,
        *,
        drive: Drive | None = None,
        name: str | None = None,
        config: "Config | None" = None,
        permission: Policy | None = None,
        clocks: Clocks | None = None,
        identity: Identity | None = None,
        timeout: float | None = START_TIMEOUT,
        **options: Unpack[SessionOptionsDict],
    ) -> "Opening[Session]":
        """Start a session and wait until it is ready; then send `prompt`, and wait until the agent
        has it.

        `options` are the fields of `RunOptions` (`cwd`, `model`, `permission_mode`, …), `drive` is
        `rpc`, `tmux` or `print` (by default what the runtime does best), `name` a name for people.
        `permission` answers the agent's requests, now or later; without it they wait for `answer`,
        and are refused when nobody gives one in time. `clocks` stay with the session, also when
        another program drives it. Raises what `bridle.run` raises before anything is started,
        `WrongUse` for a name that is taken, and why the agent did not become ready; nothing is
        left of a start that failed or was cancelled.
        """
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

        async def make() -> Session:
            async def first(session: Session) -> None:
                await session._ready(timeout)
                if prompt is not None:
                    await session.prompt(prompt, images=options.get("images", ()))

            return await cls._made(lambda: started(wanted), permission, first)

        return Opening(make)

    @classmethod
    def open(
        cls,
        name: str,
        *,
        runtime: Adapter | HasAdapter | None = None,
        cwd: str | None = None,
        config: "Config | None" = None,
        permission: Policy | None = None,
    ) -> "Opening[Session]":
        """Take up a session by its id, its name, or the beginning of its id: one that another
        program started, or the daemon drives. One that is over can be looked at.

        It is looked for in the project around `cwd`, then in the user's own place. `runtime` is for
        one that only this program knows, or a CLI that is not where the configuration says. Raises
        `UnknownSession`, and `SessionHeld` when another program (not the daemon) drives it.
        """

        async def make() -> Session:
            token = current_token()
            link = await in_thread(lambda: opened(name, runtime, cwd, config))
            session = cls(link, token)
            await session._take_up(permission)
            return session

        return Opening(make)

    @classmethod
    def resume(
        cls,
        name: str,
        *,
        runtime: Adapter | HasAdapter | None = None,
        cwd: str | None = None,
        config: "Config | None" = None,
        permission: Policy | None = None,
        clocks: Clocks | None = None,
        timeout: float | None = START_TIMEOUT,
        **changes: Unpack[ResumeOptionsDict],
    ) -> "Opening[Session]":
        """Go on with a session that is over: its agent takes the conversation up in a new process,
        with the options that it had, but for `changes`. Messages that it never got are sent.

        Raises `ResumeRefused` when the agent does not take the conversation up, `WrongUse` while
        the session lives, `UnknownSession`.
        """

        async def make() -> Session:
            return await cls._made(
                lambda: resumed(name, runtime, cwd, config, clocks, changes),
                permission,
                lambda session: session._ready(timeout),
            )

        return Opening(make)

    def fork(
        self,
        *,
        name: str | None = None,
        permission: Policy | None = None,
        timeout: float | None = START_TIMEOUT,
        **changes: Unpack[ResumeOptionsDict],
    ) -> "Opening[Session]":
        """A new session that goes on in a copy of this conversation; its `record.parent` is this
        one, which is not changed. Options are those of this session, but for `changes`.

        Raises `UnsupportedOption` where `features.fork` is false, `WrongUse` while the agent works
        and before its first turn.
        """

        async def make() -> Session:
            return await type(self)._made(
                lambda: forked(self._link, name, changes),
                permission,
                lambda session: session._ready(timeout),
            )

        return Opening(make)

    @classmethod
    async def _made(
        cls,
        begin: Callable[[], SessionLink],
        permission: Policy | None,
        then: "Callable[[Session], Awaitable[None]]",
    ) -> "Session":
        """A session whose process was started; it is ended when `then` fails or is cancelled."""
        await checkpoint_if_cancelled()
        token = current_token()
        with anyio.CancelScope(shield=True):
            # Half a start would leave an agent that nobody knows of.
            session = cls(await in_thread(begin), token)
        try:
            await session._take_up(permission)
            await then(session)
        except BaseException:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
                await session.dispose()
            raise
        return session

    async def _take_up(self, permission: Policy | None) -> None:
        policy = None if permission is None else self._policy(permission)
        with anyio.CancelScope(shield=True):
            await in_thread(lambda: self._link.take_up(policy))

    async def _ready(self, timeout: float | None) -> None:
        record = await self._ask(lambda service, name: service.wait_ready(name, timeout))
        op.became_ready(self._link, record, timeout)

    async def _ask(self, act: "Callable[[SessionService, str], Future[T]]") -> T:
        await checkpoint_if_cancelled()
        return await outcome(self._link.ask(act))

    async def _do(self, act: Callable[[SessionService, str], T]) -> T:
        await checkpoint_if_cancelled()
        return await outcome(self._link.do(act))

    # -- talking --------------------------------------------------------------------------------

    async def prompt(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        timeout: float | None = SEND_TIMEOUT,
        message_id: str | None = None,
    ) -> Receipt:
        """Give the agent a message, and wait until it has it, at most `timeout` seconds; it stays
        on its way after that. While a turn is open it waits for the turn's end, and the receipt
        says so at once.

        `images` are files, or `{"type", "media_type", "data"}`. Raises `SessionOver`,
        `UnsupportedOption` for images that the runtime cannot take, `Unavailable` when nothing can
        be written down.
        """
        return await self._send("prompt", text, images, timeout, message_id)

    async def steer(
        self, text: str, *, timeout: float | None = SEND_TIMEOUT, message_id: str | None = None
    ) -> Receipt:
        """Reach the model at the next tool boundary of the turn that runs. Where `features.steer`
        is false, and when the turn is just over, it becomes the next prompt."""
        return await self._send("steer", text, (), timeout, message_id)

    async def follow_up(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        timeout: float | None = SEND_TIMEOUT,
        message_id: str | None = None,
    ) -> Receipt:
        """Give the agent a message for when its turn ends; at once when none is open."""
        return await self._send("follow_up", text, images, timeout, message_id)

    async def _send(
        self,
        kind: MessageKind,
        text: str,
        images: Sequence[Image],
        timeout: float | None,
        message_id: str | None,
    ) -> Receipt:
        await checkpoint_if_cancelled()
        link = self._link
        op.check_images(link, images)
        name = op.new_message_id(message_id)
        kept = await in_thread(lambda: op.kept(link, name, images)) if images else ()
        told = await outcome(op.send(link, kind, text, name, kept, timeout))
        return op.receipt(link, name, told)

    async def abort(self, reason: str = "aborted by the caller", *, clear: bool = False) -> bool:
        """Bring the open turn to its end, with status `aborted`; False when none is open. The
        conversation goes on, with the messages that wait unless `clear` forgets them."""
        told = await self._do(lambda service, name: service.abort(name, reason, clear=clear))
        return bool(told["aborted"])

    async def compact(self) -> None:
        """Have the agent shorten its context, which events tell of. Raises `UnsupportedOption`
        where it cannot be asked to, `WrongUse` while it works."""
        await self._do(lambda service, name: service.compact(name))

    async def abort_compaction(self) -> bool:
        """Give up the compaction that runs; False when there is none. One in the midst of a turn
        may take the turn with it."""
        told = await self._do(lambda service, name: service.abort_compaction(name))
        return bool(told["aborted"])

    async def set_model(self, model: str) -> None:
        """Use another model from the next turn on; `WrongUse` while the agent works, and where it
        cannot change it."""
        await self._do(lambda service, name: service.set_model(name, model))

    async def rename(self, name: str) -> SessionRecord:
        """Give the session another name for people; `WrongUse` when a living session has it."""
        return await self._do(lambda service, known: service.rename(known, name))

    async def answer(
        self, request_id: str, allowed: bool, *, reason: str = "", by: str = "user"
    ) -> None:
        """Answer a permission request; `WrongUse` when none of that id waits."""
        await self._do(lambda service, name: service.answer(name, request_id, allowed, by, reason))

    async def wait_idle(self, timeout: float | None = None) -> TurnReport:
        """Wait until the agent waits for a prompt and none is on its way, or it is gone; tells how
        the last turn ended. Raises `TimedOut` after `timeout` seconds; the turn goes on then."""
        report = await self._ask(lambda service, name: service.wait_idle(name, timeout))
        return op.came_to_rest(self._link, report, timeout)

    # -- hearing --------------------------------------------------------------------------------

    def events(self, after: int = 0) -> SessionEvents:
        """Every event with a number above `after`, those of the past first, until the agent is
        gone or the session was let go. Each reader gets all of them, at its own pace."""
        return SessionEvents(self._link.feed(after))

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Have `handler` called in this event loop with every event from now on, in order; it may
        be async. Returns how to stop that. What it raises is logged and stops nothing."""
        import threading

        feed = self._link.feed()
        stopped = False

        async def tell(events: list[Event]) -> None:
            for event in events:
                if stopped:
                    return
                try:
                    waiting = handler(cast("AnyEvent", event))
                    if waiting is not None:
                        await waiting
                except Exception as problem:
                    self._link.subscriber_failed(problem)

        def follow() -> None:
            try:
                while (events := feed.take()) is not None:
                    if events:
                        from_thread.run(tell, events, token=self._token)
                    else:
                        feed.wait()
            except BaseException:
                # The loop has ended, or is ending: nobody is left to be told.
                return

        def unsubscribe() -> None:
            nonlocal stopped
            stopped = True
            feed.close()

        threading.Thread(target=follow, name="bridle-subscriber", daemon=True).start()
        return unsubscribe

    def _policy(self, permission: Policy) -> PermissionPolicy:
        """The caller's policy for a thread: what it awaits it awaits in the caller's loop."""

        def decide(question: Question) -> PermissionAnswer:
            answer = permission(question)
            if not isinstance(answer, Awaitable):
                return answer
            return from_thread.run(self._wait_for, answer, token=self._token)

        return decide

    async def _wait_for(self, answer: Awaitable[PermissionAnswer]) -> PermissionAnswer:
        with anyio.CancelScope() as scope:
            self._asking.add(scope)
            try:
                return await answer
            finally:
                self._asking.discard(scope)
        return False, "bridle", "the program let the session go"

    # -- ending ---------------------------------------------------------------------------------

    async def stop(
        self, reason: str = "stopped", *, timeout: float | None = op.STOPPING
    ) -> SessionRecord:
        """End the agent, politely when it is idle, and wait until its process is gone with all it
        started. It can be resumed. Raises `TimedOut` when that takes longer than `timeout`."""
        record = await self._ask(lambda service, name: service.stop(name, reason, timeout))
        return op.ended(self._link, record)

    async def detach(self) -> None:
        """Let the session live on without this program: the daemon, or another program, can take
        it up. Again has no effect."""
        self._give_up_asking()
        await outcome(self._link.let_go())

    async def dispose(self) -> None:
        """End the agent, and let the session go. Again has no effect."""
        if self._link.is_gone:
            return
        self._give_up_asking()
        try:
            await self.stop("disposed")
        finally:
            with anyio.CancelScope(shield=True):
                await self.detach()

    def _give_up_asking(self) -> None:
        for scope in list(self._asking):
            scope.cancel()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.dispose()
