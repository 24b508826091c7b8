"""User folders, private files, atomic writes and the cache.

Bridle follows the XDG rules by hand: importing `platformdirs` costs more than 20 ms of each run
(docs/decisions/0010-user-folders.md). Everything that Bridle writes for itself is readable by its
owner alone.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, TypeVar

import msgspec

from bridle.core import structs

T = TypeVar("T")

PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700


# -- user folders ---------------------------------------------------------------------------------


def config_dir(env: Mapping[str, str]) -> str:
    """Bridle's folder for configuration: `$XDG_CONFIG_HOME/bridle`, else `~/.config/bridle`."""
    return _user_dir(env, "XDG_CONFIG_HOME", ".config")


def state_dir(env: Mapping[str, str]) -> str:
    """Bridle's folder for sessions and running agents: `$XDG_STATE_HOME/bridle`, else
    `~/.local/state/bridle`."""
    return _user_dir(env, "XDG_STATE_HOME", ".local/state")


def cache_dir(env: Mapping[str, str]) -> str:
    """Bridle's folder for data that can be made again: `$XDG_CACHE_HOME/bridle`, else
    `~/.cache/bridle`."""
    return _user_dir(env, "XDG_CACHE_HOME", ".cache")


def run_dir(env: Mapping[str, str]) -> str:
    """The parent of the folders that belong to single runs."""
    return os.path.join(state_dir(env), "run")


def home_dir(env: Mapping[str, str]) -> str:
    """The user's home folder under `env`."""
    return env.get("HOME") or os.path.expanduser("~")


_XDG = {
    ".config": "XDG_CONFIG_HOME",
    ".cache": "XDG_CACHE_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
}


def in_home(path: str, env: Mapping[str, str]) -> str:
    """The path of `path`, relative to the user's home; XDG variables may move its first folder."""
    for usual, variable in _XDG.items():
        if path.startswith(f"{usual}/") and os.path.isabs(env.get(variable, "")):
            return os.path.join(env[variable], path[len(usual) + 1 :])
    return os.path.join(home_dir(env), path)


def _user_dir(env: Mapping[str, str], variable: str, default: str) -> str:
    base = env.get(variable, "")
    # The XDG rules: a relative path is ignored.
    if not os.path.isabs(base):
        base = os.path.join(home_dir(env), *default.split("/"))
    return os.path.join(base, "bridle")


# -- private folders and files --------------------------------------------------------------------


def make_private_dir(path: str) -> str:
    """Create the folder `path` for this user alone, with its parents, unless it exists; returns
    `path`. The mode of an existing folder stays."""
    os.makedirs(path, mode=PRIVATE_DIR, exist_ok=True)
    return path


def new_private_dir(env: Mapping[str, str], runtime: str, name: str | None = None) -> str:
    """Create an empty folder for one run, readable by this user alone; the caller removes it.

    Its name ends in `name`, or in a random word when `name` is None or taken.
    """
    parent = make_private_dir(run_dir(env))
    if name is not None:
        folder = os.path.join(parent, f"{runtime}-{name}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, PRIVATE_DIR)
            return folder
    folder = os.path.join(parent, f"{runtime}-{os.urandom(8).hex()}")
    os.mkdir(folder, PRIVATE_DIR)
    return folder


def write_private(folder: str, name: str, content: str | bytes) -> str:
    """Write `content` to the file `name` below `folder`, readable by this user alone; returns its
    path. Folders in `name` are created, private too."""
    path = os.path.join(folder, name)
    inner = folder
    for part in name.split("/")[:-1]:
        # One by one: `makedirs` gives its mode to the last folder only.
        inner = os.path.join(inner, part)
        if not os.path.isdir(inner):
            os.mkdir(inner, PRIVATE_DIR)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, PRIVATE_FILE), "wb") as file:
        file.write(_encoded(content))
    return path


def write_new(path: str, content: str | bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Write a file that must not exist yet; raises `FileExistsError` when it does."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        file.write(_encoded(content))


# -- atomic writes --------------------------------------------------------------------------------


def write_atomic(
    path: str,
    content: str | bytes,
    *,
    mode: int = PRIVATE_FILE,
    keep_mode: bool = False,
    sync: bool = False,
) -> None:
    """Replace the file at `path` in one step: a reader finds the old content or the new one.

    `keep_mode` keeps the mode of an existing file; `mode` is for a new one. `sync` waits until the
    content is on the disk. On any error the old file stays and no partial file remains.
    """
    with atomic_file(path, mode=mode, keep_mode=keep_mode, sync=sync) as file:
        file.write(_encoded(content))


@contextlib.contextmanager
def atomic_file(
    path: str, *, mode: int = PRIVATE_FILE, keep_mode: bool = False, sync: bool = False
) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of the one at `path` when the block ends without
    an error. The arguments are those of `write_atomic`."""
    partial = f"{path}.bridle-{os.getpid()}-{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(partial, flags, mode)
    try:
        with open(handle, "wb") as file:
            yield file
            if keep_mode:
                with contextlib.suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), os.stat(path).st_mode & 0o7777)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _encoded(content: str | bytes) -> bytes:
    # A path that is not UTF-8 is kept unchanged.
    return content.encode(errors="surrogateescape") if isinstance(content, str) else content


# -- the cache ------------------------------------------------------------------------------------


class _CacheFile(msgspec.Struct):
    made_by: str = ""
    entries: dict[str, msgspec.Raw] = {}


class Cache:
    """JSON values by key, in one file of the user's cache folder.

    Contract: never raises for a file that cannot be read or written; the value is then computed
    again. The oldest entries are dropped when there are more than `limit`.
    """

    def __init__(
        self, name: str, *, limit: int, made_by: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        """Entries that were written under another `made_by` do not count."""
        self.path = os.path.join(cache_dir(os.environ if env is None else env), name)
        self._limit = limit
        self._made_by = made_by

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value of `key`; None if it has no value of this kind."""
        entry = self._read().get(key)
        try:
            return None if entry is None else structs.decode(entry, kind)
        except msgspec.MsgspecError:
            return None

    def put(self, key: str, value: object) -> None:
        """Keep `value` under `key`, as the newest entry."""
        entries = {name: each for name, each in self._read().items() if name != key}
        entries[key] = msgspec.Raw(msgspec.json.encode(value))
        self._write(entries)

    def remove(self, key: str) -> None:
        """Drop the value of `key`, if there is one."""
        entries = self._read()
        if entries.pop(key, None) is not None:
            self._write(entries)

    def _read(self) -> dict[str, msgspec.Raw]:
        try:
            with open(self.path, "rb") as file:
                content = structs.decode(file.read(), _CacheFile)
        except (OSError, msgspec.MsgspecError):
            return {}
        return content.entries if content.made_by == self._made_by else {}

    def _write(self, entries: dict[str, msgspec.Raw]) -> None:
        kept = dict(list(entries.items())[-self._limit :])
        # A cache that cannot be written only costs time.
        with contextlib.suppress(OSError):
            make_private_dir(os.path.dirname(self.path))
            write_atomic(self.path, msgspec.json.encode(_CacheFile(self._made_by, kept)))


def cached_text(key: str, ask: Callable[[], str | None]) -> str | None:
    """The answer of `ask` for `key`, which may take a process to get, from the cache where it is
    known. An empty answer is not kept."""
    cache = _texts()
    known = cache.get(key, str)
    if known is not None:
        return known
    answer = ask()
    if answer:
        cache.put(key, answer)
    return answer


def forget_cached_text(key: str) -> None:
    """Have `cached_text` ask again for `key`: the answer turned out wrong."""
    _texts().remove(key)


def _texts() -> Cache:
    return Cache("versions.json", limit=200)
