"""The event file of a session: read from any number on, also when it is long or damaged."""

from pathlib import Path

import msgspec
import pytest

from bridle.core.events import MessageUpdate
from bridle.sessions.event_log import EventLog

COUNT = 3000


def long_log(folder: Path) -> EventLog:
    """Events of very different length, several times what one step of the search reads."""
    log = EventLog(str(folder))
    log.append(
        [
            MessageUpdate(
                seq=number,
                ts="2026-01-01T00:00:00.000Z",
                session_id="s",
                runtime="scripted",
                message_id="m",
                kind="text_delta",
                text="x" * (number * 37 % 700 if number != 1500 else 200_000),
            )
            for number in range(1, COUNT + 1)
        ]
    )
    log.rest()
    return log


@pytest.mark.parametrize("after", [-1, 0, 1, 2, 700, 1499, 1500, 1501, 2998, 2999, 3000, 9999])
def test_reading_begins_after_any_number(tmp_path: Path, after: int) -> None:
    log = long_log(tmp_path)
    numbers = [event.seq for event in log.read(after)]
    assert numbers == list(range(max(after, 0) + 1, COUNT + 1))


def test_a_reader_that_continues_reads_only_the_end(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    size = (tmp_path / "events.jsonl").stat().st_size
    assert size - log._offset(COUNT - 1) < 1 << 17


def test_an_incomplete_last_line_is_not_read(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    with open(log.path, "ab") as file:
        file.write(b'{"type":"message_update","seq":3001')
    assert [event.seq for event in log.read(COUNT - 1)] == [COUNT]
    assert log.last_seq() == COUNT


def test_a_damaged_line_is_an_error_as_before(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    data = Path(log.path).read_bytes()
    middle = data.index(b"\n", len(data) // 2)
    Path(log.path).write_bytes(data[: middle + 1] + b"nonsense\n" * 20_000 + data[middle + 1 :])
    with pytest.raises(msgspec.MsgspecError):
        list(log.read(COUNT - 1))
