"""What was judged, written down by whoever judged it before the hook hears the verdict.

A session outlives its driver, and its hooks are answered by a driver or, while there is none, by a
program of their own. Both append to one file; the driver takes the verdicts from there.
"""

import os

import msgspec

from bridle.turns.guard_contract import HookNote

LONGEST_ARGS = 4096
"""Bytes of a call's arguments that are kept with its verdict; longer ones are left out."""
_PIECE = 1 << 20


def append_note(path: str, note: HookNote, *, with_args: bool) -> None:
    """Write a note down, as one line; raises `OSError` when it cannot be, and then whoever asked
    must be refused. Arguments are kept only of what was refused, and only `with_args`."""
    refused = note.verdict is not None and not note.verdict.allowed
    if not (with_args and refused and len(msgspec.json.encode(note.args)) <= LONGEST_ARGS):
        note = msgspec.structs.replace(note, args=None)
    line = msgspec.json.encode(note) + b"\n"
    # Never made anew here: a file that is gone is no place to write a verdict to.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.write(handle, line) != len(line):
            raise OSError("the verdict could not be written down")
    finally:
        os.close(handle)


def read_notes(path: str, start: int) -> list[tuple[HookNote, int]]:
    """The notes from byte `start` on, each with where it ends. Lines that are none are passed over:
    an agent that breaks out of its guard can write there too, and gains nothing by it."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(_PIECE)
    except OSError:
        return []
    found = []
    for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
        start += len(line)
        try:
            found.append((msgspec.json.decode(line, type=HookNote), start))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found
