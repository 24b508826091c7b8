"""The async face of sessions in the library: a conversation with an agent that continues."""

import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import EventLoopToken, checkpoint_if_cancelled, current_token

from bridle.core.events import AnyEvent, Drive, Event
from bridle.core.options import ResumeOptionsDict, SessionOptionsDict
from bridle.drives.print_run import PermissionPolicy
from bridle.runs import AsyncPermissionPolicy, EventHandler
from bridle.runtimes.contract import Adapter, HasAdapter
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks
from bridle.sessions.feed import Feed
from bridle.sessions.images import Image
from bridle.sessions.ledger import MessageKind
from bridle.sessions.link import (
    STOP_TIMEOUT,
    SessionFacts,
    SessionLink,
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
from bridle.turns.wire import PermissionAnswer, Question

if TYPE_CHECKING:
    from anyio import CancelScope

    from bridle.config import Config

T = TypeVar("T")
S = TypeVar("S", bound=AbstractAsyncContextManager[Any])
Policy = PermissionPolicy | AsyncPermissionPolicy
_CLOSING = 90.0
"""Seconds that leaving a block may take at most, also when it is cancelled."""


class Session(SessionFacts):
    """A conversation with an agent that continues, the same for every runtime.

        async with bridle.Session.start("claude", "Fix the failing test") as session:
            print((await session.wait_idle()).text)

    Contract: made by `start`, `open` or `resume`; used in the event loop it was made in, by any
    number of tasks. Leaving the block disposes of it; without a block it runs on, also when the
    program ends, until `dispose` or `stop`. A cancelled call happened completely or not at all: a
    message with a `message_id` can be sent again and is delivered once. After `detach` and
    `dispose` everything that needs the agent raises `WrongUse`; the conversation can still be read.
    """

    def __init__(self, link: SessionLink, token: "EventLoopToken") -> None:
        super().__init__(link)
        self._token = token
        self._asking: set[CancelScope] = set()

    # -- starting and opening -------------------------------------------------------------------

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
        and are refused when no answer comes in time. `clocks` stay with the session, also when
        another program drives it. Raises what `bridle.run` raises before anything is started,
        `WrongUse` for a name that is taken, and why the agent did not become ready; a start that
        failed or was cancelled leaves nothing behind.
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
        """Drive a session that exists, by its id, its name, or the beginning of its id: one that
        another program started, or the daemon drives. One that is over can be read.

        It is looked for in the project around `cwd`, then in the user's state folder. `runtime` is
        for a runtime that only this program knows, or a CLI that is not where the configuration
        says. Raises `UnknownSession`, and `SessionHeld` when another program (not the daemon)
        drives it.
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
        """Continue a session that is over: its agent resumes the conversation in a new process,
        with the options that it had, except for `changes`. Messages that it never got are sent.

        Raises `ResumeRefused` when the agent does not resume the conversation, `WrongUse` while
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
        """A new session that continues in a copy of this conversation; its `record.parent` is this
        session, which does not change. Options are those of this session, except for `changes`.

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
        """Make a session by `begin`, then call `then`; end the session when that fails or is
        cancelled."""
        await checkpoint_if_cancelled()
        token = current_token()
        with anyio.CancelScope(shield=True):
            # An interrupted start would leave an agent that nobody knows about.
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
        verb = verbs.WaitReady(session=self.session_id, timeout=timeout)
        self._link.ready(await self._call(verb), timeout)

    async def _call(self, verb: Verb[T]) -> T:
        await checkpoint_if_cancelled()
        return await outcome(self._link.call(verb))

    # -- verbs ----------------------------------------------------------------------------------

    async def prompt(
        self,
        text: str,
        *,
        images: Sequence[Image] = (),
        timeout: float | None = SEND_TIMEOUT,
        message_id: str | None = None,
    ) -> Receipt:
        """Give the agent a message, and wait until it has it, at most `timeout` seconds; after that
        the message is still on its way. While a turn is open it waits for the turn's end, and the
        receipt says so at once.

        `images` are files, or `{"type", "media_type", "data"}`. Raises `SessionOver`,
        `UnsupportedOption` for images that the runtime cannot take, `Unavailable` when the message
        cannot be written to disk.
        """
        return await self._send("prompt", text, images, timeout, message_id)

    async def steer(
        self, text: str, *, timeout: float | None = SEND_TIMEOUT, message_id: str | None = None
    ) -> Receipt:
        """Reach the model at the next tool boundary of the running turn. Where `features.steer` is
        false, and when the turn has just ended, the message becomes the next prompt."""
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
        link, name = self._link, new_message_id(message_id)
        kept = await in_thread(lambda: link.keep_images(name, images)) if images else ()
        verb = verbs.Send(
            session=self.session_id,
            kind=kind,
            text=text,
            message_id=name,
            images=kept,
            timeout=timeout,
        )
        return await outcome(link.call(verb)) or verb.on_its_way()

    async def abort(self, reason: str = "aborted by the caller", *, clear: bool = False) -> bool:
        """End the open turn, with status `aborted`; False when none is open. The conversation
        continues with the queued messages, unless `clear` drops them."""
        verb = verbs.Abort(session=self.session_id, reason=reason, clear=clear)
        return bool((await self._call(verb))["aborted"])

    async def compact(self) -> None:
        """Ask the agent to compact its context; events report the progress. Raises
        `UnsupportedOption` where that cannot be asked, `WrongUse` while the agent works."""
        await self._call(verbs.Compact(session=self.session_id))

    async def abort_compaction(self) -> bool:
        """Abort the running compaction; False when none runs. One within a turn may abort the turn
        too."""
        return bool((await self._call(verbs.AbortCompaction(session=self.session_id)))["aborted"])

    async def set_model(self, model: str) -> None:
        """Use another model from the next turn on; `WrongUse` while the agent works, and where the
        model cannot be changed."""
        await self._call(verbs.SetModel(session=self.session_id, model=model))

    async def rename(self, name: str) -> SessionRecord:
        """Give the session another name; `WrongUse` when a living session has it."""
        return await self._call(verbs.Rename(session=self.session_id, name=name))

    async def answer(
        self, request_id: str, allowed: bool, *, reason: str = "", by: str = "user"
    ) -> None:
        """Answer a permission request; `WrongUse` when no request of that id is open."""
        verb = verbs.Permit(
            session=self.session_id, request_id=request_id, allowed=allowed, by=by, reason=reason
        )
        await self._call(verb)

    async def wait_idle(self, timeout: float | None = None) -> TurnReport:
        """Wait until the agent is idle and no message is on its way, or until it has ended; returns
        how the last turn ended. Raises `TimedOut` after `timeout` seconds; the turn continues."""
        verb = verbs.WaitIdle(session=self.session_id, timeout=timeout)
        return self._link.idle(await self._call(verb), timeout)

    # -- events ---------------------------------------------------------------------------------

    def events(self, after: int = 0) -> "SessionEvents":
        """Every event with a number above `after`, past ones first, until the agent has ended or
        the session was released. Each reader gets all of them, at its own pace."""
        return SessionEvents(self._link.feed(after))

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Call `handler` in this event loop with every event from now on, in order; it may be
        async. Returns a function that unsubscribes. What it raises is logged."""
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
                # The event loop has ended or is ending: no subscriber is left.
                return

        def unsubscribe() -> None:
            nonlocal stopped
            stopped = True
            feed.close()

        threading.Thread(target=follow, name="bridle-subscriber", daemon=True).start()
        return unsubscribe

    def _policy(self, permission: Policy) -> PermissionPolicy:
        """The caller's policy, callable in a thread; what it awaits is awaited in the caller's
        event loop."""

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
        return False, "bridle", "the program released the session"

    # -- ending ---------------------------------------------------------------------------------

    async def stop(
        self, reason: str = "stopped", *, timeout: float | None = STOP_TIMEOUT
    ) -> SessionRecord:
        """End the agent, by its protocol when it is idle, and wait until its process and everything
        it started have ended. The session can be resumed. Raises `TimedOut` when that takes longer
        than `timeout`."""
        verb = verbs.Stop(session=self.session_id, reason=reason, timeout=timeout)
        return self._link.ended(await self._call(verb))

    async def detach(self) -> None:
        """Release the session, which runs on: the daemon, or another program, can drive it. A
        repeated call has no effect."""
        self._give_up_asking()
        await outcome(self._link.release())

    async def dispose(self) -> None:
        """End the agent, and release the session. A repeated call has no effect."""
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


class Opening(Generic[S]):
    """A session that is being started or opened: await it, or use it in `async with`, once."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, S]]) -> None:
        self._make = make
        self._session: S | None = None

    def __await__(self) -> Generator[Any, Any, S]:
        return self._make().__await__()

    async def __aenter__(self) -> S:
        self._session = await self._make()
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.__aexit__(kind, problem, trace)


class SessionEvents:
    """The events of a session as they happen; see `Session.events`.

    Contract: one task iterates it. The reader may stop at any time.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._ready: deque[Event] = deque()

    def __aiter__(self) -> "SessionEvents":
        return self

    async def __anext__(self) -> AnyEvent:
        if self._ready:
            await checkpoint_if_cancelled()
        while not self._ready:
            if self._feed.needs_disk:
                # Shielded: a cancellation must not lose events that were just taken.
                await checkpoint_if_cancelled()
                with anyio.CancelScope(shield=True):
                    taken = await in_thread(self._feed.take)
            else:
                taken = self._feed.take()
            if taken is None:
                raise StopAsyncIteration
            self._ready.extend(taken)
            if not taken:
                await self._news()
        return cast("AnyEvent", self._ready.popleft())

    async def _news(self) -> None:
        token = current_token()
        changed = anyio.Event()
        self._feed.call_when_news(lambda: soon(token, changed.set))
        await changed.wait()


# -- threads and the event loop (asyncio or Trio) ------------------------------------------------


def soon(token: EventLoopToken, act: Callable[[], object]) -> None:
    """Call `act` in the loop of `token`, without waiting for it; no effect when the loop has
    ended."""
    loop: Any = token.native_token
    post = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
    with contextlib.suppress(RuntimeError):
        post(act)


async def outcome(future: "Future[T]") -> T:
    """The result of another thread's future.

    Cancellation cancels the future too, if it has not begun; else it runs on, unobserved.
    """
    token = current_token()
    done = anyio.Event()
    future.add_done_callback(lambda _: soon(token, done.set))
    try:
        await done.wait()
    except BaseException:
        future.cancel()
        raise
    return future.result()


async def in_thread(act: Callable[[], T]) -> T:
    """Call `act` in a worker thread. It is never abandoned: a cancellation is raised after it has
    ended."""
    # Its own limiter, so that a hundred sessions do not wait for one another.
    return await to_thread.run_sync(act, limiter=anyio.CapacityLimiter(1))
