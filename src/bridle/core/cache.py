"""A small memory in the user's cache folder, for answers that cost a process to get."""

import os
from collections.abc import Callable

import msgspec

_MOST = 200


def remembered(key: str, ask: Callable[[], str | None]) -> str | None:
    """What `ask` once answered for `key`, from the user's cache file; None is asked again.

    When the file cannot be read or written, `ask` is called each time.
    """
    cache = _read_cache()
    if key in cache:
        return cache[key]
    answer = ask()
    if answer:
        cache[key] = answer
        _write_cache(cache)
    return answer


def forget(key: str) -> None:
    """Have `key` asked again: what was remembered turned out wrong."""
    cache = _read_cache()
    if cache.pop(key, None) is not None:
        _write_cache(cache)


def _cache_path() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "bridle", "versions.json")


def _read_cache() -> dict[str, str]:
    try:
        with open(_cache_path(), "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def _write_cache(cache: dict[str, str]) -> None:
    path = _cache_path()
    partial = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(msgspec.json.encode(dict(list(cache.items())[-_MOST:])))
        os.replace(partial, path)
    except OSError:
        # A memory that cannot be kept only costs the next start a moment.
        return
