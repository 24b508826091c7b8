"""Plays a session anew from its files alone, for whoever wants to check its event file."""

import os

from bridle.core.events import Event
from bridle.core.redaction import Redactor
from bridle.runtimes.contract import Adapter
from bridle.sessions.holding import player_of, process_of
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import Begin, Entry, Ledger
from bridle.sessions.store import SessionRecord


def replayed(home: StateHome, record: SessionRecord, runtime: Adapter) -> list[Event]:
    """The events that journal and ledger of all the session's processes give; changes nothing.

    Only what patterns tell for a secret is removed: the keys of the time are not known any more.
    """
    entries = Ledger(os.path.join(home.folder(record.session_id), "ledger.jsonl")).read()
    events: list[Event] = []
    starts = [at for at, entry in enumerate(entries) if isinstance(entry, Begin)]
    for at, end in zip(starts, [*starts[1:], len(entries)], strict=True):
        begin = entries[at]
        assert isinstance(begin, Begin)
        events += _one(home, record, runtime, begin, entries[at + 1 : end])
    return events


def _one(
    home: StateHome,
    record: SessionRecord,
    runtime: Adapter,
    begin: Begin,
    entries: list[Entry],
) -> list[Event]:
    redactor = Redactor()
    player = player_of(record, begin, runtime, redactor)
    player.begin(begin.carried)
    waiting = list(reversed(entries))

    def catch_up() -> None:
        while waiting and waiting[-1].at <= player.lines:
            player.apply(waiting.pop())

    catch_up()
    folder = home.run_folder(record.session_id, begin.run)
    process = process_of(begin, folder, runtime)
    while lines := process.read_lines():
        for line in lines:
            player.feed(redactor.line(line))
            catch_up()
    ended = process.exit(redactor)
    if ended is not None:
        if last := process.last_words():
            player.feed(redactor.line(last))
        player.finish(ended)
    return player.take_events()
