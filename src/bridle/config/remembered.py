"""Remembers what configuration files say, so that an unchanged one is not parsed again.

Reading YAML costs thirty milliseconds of every run, half of what Bridle may cost. The memory holds
the text each answer was read from and is used only when the file still has exactly that text, so
it can never be out of date. It is a cache file of the user's, readable by its owner alone; when it
cannot be read or written, the files are parsed each time.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle._version import __version__
from bridle.config import schema
from bridle.core.files import Cache

_LARGEST = 1 << 16
"""Bytes; a larger file is parsed each time."""
_MOST_FILES = 32


class _Entry(msgspec.Struct, frozen=True):
    text: str
    values: dict[str, Any]


def read_remembered(path: str, env: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """What `reading.read_file` says about the file at `path`, from the cache where the file still
    has the same text. Only files without mistakes are cached."""
    text = _text_of(path)
    cache = _cache(env)
    known = cache.get(path, _Entry) if text is not None else None
    if known is not None and known.text == text:
        return known.values, []
    from bridle.config.reading import read_file

    values, problems = read_file(path)
    # Read once more: what was parsed must be what is cached.
    if not problems and text is not None and text == _text_of(path):
        cache.put(path, _Entry(text, values))
    return values, problems


def _cache(env: Mapping[str, str]) -> Cache:
    return Cache("config.json", limit=_MOST_FILES, made_by=_maker(), env=env)


def _text_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        return None if len(data) > _LARGEST else data.decode()
    except (OSError, UnicodeDecodeError):
        return None


def _maker() -> str:
    """Which schema the values were checked against."""
    try:
        found = os.stat(schema.__file__)
    except OSError:
        return __version__
    return f"{__version__} {found.st_mtime_ns} {found.st_size}"
