"""Waiting in an event loop, on asyncio and on Trio, for what happens in threads."""

import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio import to_thread
from anyio.lowlevel import EventLoopToken, checkpoint_if_cancelled, current_token

from bridle.core.events import AnyEvent, Event
from bridle.sessions.feed import Feed

T = TypeVar("T")
S = TypeVar("S", bound=AbstractAsyncContextManager[Any])


def soon(token: EventLoopToken, act: Callable[[], object]) -> None:
    """Have `act` called in the loop of `token`, without waiting for it; a loop that has ended is
    nobody's any more."""
    loop: Any = token.native_token
    post = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
    with contextlib.suppress(RuntimeError):
        post(act)


async def outcome(future: "Future[T]") -> T:
    """What a future of another thread comes to.

    Cancelled, it cancels the future too, if that has not begun; else what was asked for happens,
    and the caller does not learn of it.
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
    """What `act` returns in a worker thread. It is never abandoned: a cancellation comes out after
    it has ended."""
    # A limiter of its own: a hundred sessions at once must not wait for one another.
    return await to_thread.run_sync(act, limiter=anyio.CapacityLimiter(1))


class Opening(Generic[S]):
    """A session that is about to be there: await it, or use it in `async with`, once."""

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

    Contract: one task iterates it. It may be dropped at any time.
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
                # Shielded, or what was taken in the moment of a cancellation would be lost.
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
