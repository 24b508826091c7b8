"""The events of a session for one reader: each once, in order, at the reader's pace.

A reader that keeps up gets them from memory. One that falls behind reads the session's event file,
so that a slow reader costs no memory and loses nothing.
"""

import threading
from collections.abc import Callable, Iterator
from itertools import islice

from bridle.core.events import Event, SessionEnd
from bridle.sessions.event_log import EventLog

MOST = 4096
"""How many events wait in memory, and are read from disk at once."""


class Feed:
    """The events that one reader has not seen yet.

    Contract: one thread puts, one reader takes; any thread may `close`. Every event that is put is
    already in `log`.
    """

    def __init__(self, log: EventLog, after: int, *, up_to_date: bool) -> None:
        self._log = log
        self._last = after
        self._behind = not up_to_date
        self._ready: list[Event] = []
        self._ends_at: int | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._wake: Callable[[], None] | None = None

    # -- the engine -----------------------------------------------------------------------------

    def put(self, events: list[Event]) -> None:
        """Add new events."""
        with self._changed:
            if self._behind or len(self._ready) + len(events) > MOST:
                self._behind = True
            else:
                self._ready += events
            if isinstance(events[-1], SessionEnd):
                self._ends_at = events[-1].seq
            self._signal()

    def end_at(self, seq: int) -> None:
        """End after the event with that number."""
        with self._changed:
            self._ends_at = seq
            self._signal()

    def close(self) -> None:
        """End now; drop what was not taken."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._signal()

    def _signal(self) -> None:
        self._changed.notify_all()
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    # -- the reader -----------------------------------------------------------------------------

    @property
    def needs_disk(self) -> bool:
        """Whether the next `take` reads the event file."""
        with self._changed:
            return self._behind and not self._ready

    def take(self) -> list[Event] | None:
        """The events that are there now; [] for none yet, None when no more will come."""
        with self._changed:
            while True:
                if self._closed:
                    return None
                if self._ready:
                    fresh = [event for event in self._ready if event.seq > self._last]
                    self._ready.clear()
                elif self._behind:
                    fresh = self._catch_up()
                else:
                    is_over = self._ends_at is not None and self._last >= self._ends_at
                    return None if is_over else []
                if self._ends_at is not None:
                    # The file may hold the session's next process too.
                    fresh = [event for event in fresh if event.seq <= self._ends_at]
                    self._behind = self._behind and bool(fresh)
                if fresh:
                    self._last = fresh[-1].seq
                    return fresh

    def _catch_up(self) -> list[Event]:
        # From here on `put` adds events again; `take` skips those that the file has too.
        self._behind = False
        self._changed.release()
        try:
            past: list[Event] = list(islice(self._log.read(self._last), MOST))
        finally:
            self._changed.acquire()
        if len(past) == MOST:
            self._behind = True
            self._ready.clear()
        return past

    def wait(self) -> None:
        """Wait until `take` may return something."""
        with self._changed:
            self._changed.wait_for(self._has_news)

    def call_when_news(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when `take` may return something, immediately if it already may. `wake`
        may be called in any thread and must not block."""
        with self._changed:
            if self._has_news():
                wake()
            else:
                self._wake = wake

    def _has_news(self) -> bool:
        over = self._ends_at is not None and self._last >= self._ends_at
        return bool(self._closed or self._ready or self._behind or over)

    def __iter__(self) -> Iterator[Event]:
        """Every event until the end; waits for each."""
        while (events := self.take()) is not None:
            if not events:
                self.wait()
            for event in events:
                if self._closed:
                    return
                yield event
