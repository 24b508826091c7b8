"""Remembers what configuration files say, so that an unchanged one is not parsed again.

Reading YAML costs thirty milliseconds of every run, half of what Bridle may cost. The memory holds
the text each answer was read from and is used only when the file still has exactly that text, so
it can never be out of date. It is a cache file of the user's, readable by its owner alone; when it
cannot be read or written, the files are parsed each time.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle._version import __version__
from bridle.config import schema

_LARGEST = 1 << 16
"""Bytes; a larger file is parsed each time."""
_MOST_FILES = 32


class _Entry(msgspec.Struct, frozen=True):
    text: str
    values: msgspec.Raw


class _Memory(msgspec.Struct):
    made_by: str = ""
    """Which schema the answers were checked against; another one's are forgotten."""
    files: dict[str, _Entry] = {}


def read_remembered(path: str, env: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """What `reading.read_file` says about the file at `path`, from memory where it is still true.

    Only files without mistakes are remembered.
    """
    text = _text_of(path)
    place = _place(env)
    memory = _recall(place) if text is not None else _Memory()
    known = memory.files.get(path)
    if known is not None and known.text == text:
        return msgspec.json.decode(known.values, type=dict[str, Any]), []
    from bridle.config.reading import read_file

    values, problems = read_file(path)
    # Read once more: what was parsed must be what is remembered.
    if not problems and text is not None and text == _text_of(path):
        entry = _Entry(text, msgspec.Raw(msgspec.json.encode(values)))
        others = {name: each for name, each in memory.files.items() if name != path}
        kept = dict(list(others.items())[-(_MOST_FILES - 1) :])
        _keep(place, _Memory(made_by=_maker(), files={**kept, path: entry}))
    return values, problems


def _text_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        return None if len(data) > _LARGEST else data.decode()
    except (OSError, UnicodeDecodeError):
        return None


def _maker() -> str:
    try:
        found = os.stat(schema.__file__)
    except OSError:
        return __version__
    return f"{__version__} {found.st_mtime_ns} {found.st_size}"


def _place(env: Mapping[str, str]) -> str:
    base = env.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".cache")
    return os.path.join(base, "bridle", "config.json")


def _recall(place: str) -> _Memory:
    try:
        with open(place, "rb") as file:
            memory = msgspec.json.decode(file.read(), type=_Memory)
    except (OSError, msgspec.MsgspecError):
        return _Memory()
    return memory if memory.made_by == _maker() else _Memory()


def _keep(place: str, memory: _Memory) -> None:
    partial = f"{place}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(msgspec.json.encode(memory))
        os.replace(partial, place)
    except OSError:
        # A memory that cannot be kept only costs the next start a moment.
        with contextlib.suppress(OSError):
            os.unlink(partial)
