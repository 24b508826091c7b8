"""HTTP responses: whole, streamed, slow, damaged, or cut off."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridle.testing.script import Fault
from bridle.testing.wire.base import Frame

_BROKEN_FRAME = b'data: {"type": "broken", "oops": \n\n'
_LOOK = 0.02
"""Seconds between two looks for the file that an answer waits for."""


class CutError(Exception):
    """Ends the connection in the middle of an answer, as a broken network would."""


class ScriptedResponse(Response):
    """A response made of frames, sent as its fault says."""

    def __init__(
        self,
        frames: Sequence[Frame],
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        content_type: str,
        whole: bool,
        fault: Fault | None,
        stopping: asyncio.Event,
    ) -> None:
        super().__init__(status_code=status, headers=headers, media_type=None)
        self._frames = _damaged(list(frames), fault, whole=whole)
        self._fault = fault or Fault()
        self._stopping = stopping
        self.headers["content-type"] = content_type
        if whole:
            size = sum(len(frame.data) for frame in self._frames)
            self.headers["content-length"] = str(size)
        else:
            del self.headers["content-length"]
            self.headers["cache-control"] = "no-cache"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or as much of it as the fault allows."""
        async with _gone(receive, self._stopping) as gone:
            await _pause(self._fault.delay, gone)
            while self._held():
                await _pause(_LOOK, gone)
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            left = self._bytes_before_cut()
            middle = _middle(self._frames)
            for index, frame in enumerate(self._frames):
                if index == middle:
                    await _pause(self._fault.stall, gone)
                if frame.delta:
                    await _pause(self._fault.slow, gone)
                data = frame.data if left is None else frame.data[:left]
                await send({"type": "http.response.body", "body": data, "more_body": True})
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        raise CutError
            if left is not None:
                raise CutError
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _held(self) -> bool:
        """Whether the file that the answer waits for is missing."""
        return self._fault.until is not None and not os.path.exists(self._fault.until)

    def _bytes_before_cut(self) -> int | None:
        cut = self._fault.cut
        if cut is False:
            return None
        size = sum(len(frame.data) for frame in self._frames)
        return size // 2 if cut is True else min(int(cut), size)


def _damaged(frames: list[Frame], fault: Fault | None, *, whole: bool) -> list[Frame]:
    """Break one frame in the middle and leave out the rest, if the fault says so."""
    if fault is None or not fault.malformed:
        return frames
    if whole:
        return [Frame(data=frame.data[: len(frame.data) // 2]) for frame in frames]
    return [*frames[: _middle(frames)], Frame(data=_BROKEN_FRAME)]


def _middle(frames: Sequence[Frame]) -> int:
    """The middle of a reply: before the delta half way through."""
    deltas = [index for index, frame in enumerate(frames) if frame.delta]
    return deltas[len(deltas) // 2] if deltas else len(frames) // 2


@contextlib.asynccontextmanager
async def _gone(receive: Receive, stopping: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when the client disconnects or the server stops."""
    gone = asyncio.Event()

    async def watch_client() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async def watch_server() -> None:
        await stopping.wait()
        gone.set()

    watchers = [asyncio.create_task(watch_client()), asyncio.create_task(watch_server())]
    try:
        yield gone
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)


async def _pause(seconds: float | None, gone: asyncio.Event) -> None:
    """Wait, unless the client disconnects."""
    if not seconds:
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(gone.wait(), seconds)
    if gone.is_set():
        raise CutError
