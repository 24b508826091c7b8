"""Keeps a confined agent from rewiring the git repository it commits to.

Git obeys many files of its folder: configuration, hooks, the name of the common folder, alternates.
`hold` says which of them a sandbox must keep read-only, makes harmless placeholders for those that
do not exist (only what exists can be kept read-only), and gives the agent its own object store, so
that it can add objects but not replace or remove any. `release` moves the new objects into the
repository and removes what `hold` made.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import msgspec

from bridle.core import structs
from bridle.core.files import (
    PRIVATE_DIR,
    PRIVATE_FILE,
    make_private_dir,
    write_atomic,
    write_new,
)
from bridle.core.git import GitPlace, commit_dirs

T = TypeVar("T")

FOLDER = "bridle"
"""Where holds are kept, inside the repository's common folder."""
_RECORD = "hold.json"

_OBEYED_FILES = {"config": None, "config.worktree": "", "commondir": ".\n"}
"""Files of a plain repository that git obeys, with the content of a placeholder that changes
nothing; None for a file that is always there."""
_OBEYED_FOLDERS = ("hooks", "info", "modules", "worktrees", "branches", "remotes", "refs/replace")
_OF_LINKED = {"commondir": None, "gitdir": None, "config.worktree": ""}
_FOLDER_OF_LINKED = "modules"
"""Where the repositories of a linked worktree's submodules are, each with its own configuration."""
_MOST_BRANCHES = 200
"""Branches that are held one by one."""
_PATIENCE = 10.0
"""Seconds to wait for another process that changes the same repository."""
_MOST_OBJECT = 1 << 30
"""Largest object that is taken over, unpacked; a larger one stays in the agent's own store."""


class GitHold(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox needs to know to hold a repository."""

    writable: tuple[str, ...]
    protected: tuple[str, ...] = ()
    views: tuple[tuple[str, str], ...] = ()
    """Folders and where else they are visible, read-only."""
    own: tuple[tuple[str, str], ...] = ()
    """The agent's own folders, and the folders they replace in its view."""
    folder: str = ""
    """What `release` takes, once the agent is gone."""
    notes: tuple[str, ...] = ()


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a hold has to undo; kept in its folder, which the agent cannot write."""

    common_dir: str
    boot: str
    placeholders: tuple[str, ...] = ()
    kept: dict[str, bytes | None] = {}
    """Small files that nothing keeps the agent from changing, and what must be in them; None for a
    file that must not be there."""


def hold(place: GitPlace, name: str, *, mounts: bool, branch_prefix: str | None) -> GitHold:
    """Prepare the repository of `place` for an agent; `name` is unique to its run.

    With `mounts` the sandbox can keep single paths read-only and show one folder in place of
    another. Without, only a linked worktree is held: by its folders, and by `release`, which puts
    back the files that name its repository.
    """
    folders = open_folders(place, branch_prefix)
    folder = os.path.join(place.common_dir, FOLDER, name)
    make_private_dir(os.path.dirname(folder))
    os.mkdir(folder, PRIVATE_DIR)
    kept = {} if mounts else _linked_files(place)
    with _locked(place.common_dir):
        made = _placeholders(place) if mounts else []
        known = [path for other in _others(place.common_dir, folder) for path in other.placeholders]
        record = _Record(
            common_dir=place.common_dir,
            boot=_boot(),
            placeholders=tuple(dict.fromkeys([*known, *(path for path, _ in made)])),
            kept=kept,
        )
        # On disk before anything is made: a crash in between leaves nothing unaccounted for.
        write_new(os.path.join(folder, _RECORD), _encoded(record))
        for path, text in made:
            _make(path, text)
    if not mounts:
        names = ", ".join(kept)
        gaps = [f"no user namespaces: only put back when the agent is gone: {names}"]
        if branch_prefix is None:
            gaps.append(f"{_ALL_BRANCHES}: without user namespaces they cannot be held one by one")
        return GitHold(writable=tuple(folders), folder=folder, notes=tuple(gaps))
    objects = os.path.join(place.common_dir, "objects")
    own, base = os.path.join(folder, "objects"), os.path.join(folder, "base")
    for path in (base, os.path.join(own, "info"), os.path.join(own, "pack")):
        os.makedirs(path, PRIVATE_DIR)
    write_new(os.path.join(own, "info", "alternates"), os.fsencode(f"{base}\n"))
    _edit_alternates(objects, add=own)
    others, notes = _other_branches(place, branch_prefix)
    return GitHold(
        writable=tuple(each for each in folders if each != objects),
        protected=(
            *_held(place),
            os.path.join(place.common_dir, FOLDER),
            os.path.join(objects, "info"),
            os.path.join(objects, "pack"),
            *others,
        ),
        views=((objects, base),),
        own=((own, objects),),
        folder=folder,
        notes=notes,
    )


def open_folders(place: GitPlace, branch_prefix: str | None) -> list[str]:
    """The folders that `git commit` must be able to write (`commit_dirs`), all of them there."""
    folders = commit_dirs(place, branch_prefix)
    if place.linked:
        for folder in folders[2:]:
            os.makedirs(folder, exist_ok=True)
            if branch_prefix:
                # Landlock rules belong to the folder, and packing refs deletes empty ones.
                with open(os.path.join(folder, ".keep"), "ab"):
                    pass
    return folders


def release(folder: str) -> None:
    """Undo the hold kept in `folder`, and keep the objects that the agent made.

    Safe to call again, and while the agent still runs in another process: objects only ever move
    into the repository. Does nothing when `folder` is not a hold; a hold that cannot be undone now
    stays (`is_hold`).
    """
    with suppress(OSError):
        _release(folder)


def _release(folder: str) -> None:
    record = _recorded(folder)
    if record is None:
        return
    objects, own = os.path.join(record.common_dir, "objects"), os.path.join(folder, "objects")
    if os.path.isdir(own):
        if _take_over(own, objects):
            _edit_alternates(objects, remove=own)
        else:
            # Objects that do not match their names stay visible where they are, for the user to
            # look at; the hold's folder stays with them.
            return
    for path, content in record.kept.items():
        _put_back(path, content)
    with _locked(record.common_dir):
        if not _others(record.common_dir, folder):
            for path in reversed(record.placeholders):
                _remove_placeholder(path)
        with suppress(OSError):
            os.unlink(os.path.join(folder, _RECORD))


def is_hold(folder: str) -> bool:
    """Whether `folder` is a hold that is not released."""
    return os.path.exists(os.path.join(folder, _RECORD))


def _held(place: GitPlace) -> list[str]:
    """Every path that git obeys in the folders that committing opens."""
    marker = os.path.join(place.root, ".git")
    if place.linked:
        names = [*_OF_LINKED, _FOLDER_OF_LINKED]
        return [marker, *(os.path.join(place.git_dir, name) for name in names)]
    names = [*_OBEYED_FILES, *_OBEYED_FOLDERS]
    held = [os.path.join(place.git_dir, name) for name in names]
    return held if place.inside else [*held, marker]


_ALL_BRANCHES = "all branches of the repository are open"


def _other_branches(
    place: GitPlace, branch_prefix: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of the branches that are not the agent's, where no prefix separates them, and the
    warning when they cannot be held.

    A branch that is only packed gets its own file with the same content: otherwise the agent could
    make one with other content.
    """
    if not place.linked or branch_prefix is not None:
        return (), ()
    heads = os.path.join(place.common_dir, "refs", "heads")
    own = _bytes(os.path.join(place.git_dir, "HEAD")).removeprefix(b"ref: refs/heads/").strip()
    packed = dict(_packed_branches(place.common_dir))
    loose = {
        os.path.relpath(os.path.join(folder, name), heads)
        for folder, _, names in os.walk(heads)
        for name in names
        if not name.startswith(".") and not name.endswith(".lock")
    }
    names = sorted((loose | set(packed)) - {os.fsdecode(own)})
    if len(names) > _MOST_BRANCHES:
        return (), (f"{_ALL_BRANCHES}: there are too many to hold one by one",)
    for name in set(names) - loose:
        path = os.path.join(heads, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with suppress(FileExistsError):
            write_new(path, packed[name] + b"\n", mode=0o644)
    return tuple(os.path.join(heads, name) for name in names), ()


def _packed_branches(common_dir: str) -> Iterator[tuple[str, bytes]]:
    for line in _bytes(os.path.join(common_dir, "packed-refs")).splitlines():
        value, _, name = line.partition(b" ")
        if name.startswith(b"refs/heads/"):
            yield os.fsdecode(name.removeprefix(b"refs/heads/")), value


def _placeholders(place: GitPlace) -> list[tuple[str, str | None]]:
    """What must be made so that it can be held, with its content; None makes a folder."""
    files = _OF_LINKED if place.linked else _OBEYED_FILES
    wanted: list[tuple[str, str | None]] = [
        (os.path.join(place.git_dir, name), text)
        for name, text in files.items()
        if text is not None
    ]
    inside = (_FOLDER_OF_LINKED,) if place.linked else _OBEYED_FOLDERS
    wanted += [(os.path.join(place.git_dir, name), None) for name in inside]
    return [(path, text) for path, text in wanted if not os.path.lexists(path)]


def _linked_files(place: GitPlace) -> dict[str, bytes | None]:
    """The files that git obeys in a linked worktree, with their content."""
    if not place.linked:
        return {}
    paths = [os.path.join(place.git_dir, name) for name in _OF_LINKED]
    paths.append(os.path.join(place.root, ".git"))
    modules = os.path.join(place.git_dir, _FOLDER_OF_LINKED)
    if not os.path.lexists(modules):
        paths.append(modules)
    return {path: _bytes(path) if os.path.lexists(path) else None for path in paths}


def _put_back(path: str, content: bytes | None) -> None:
    if content is None and os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif content is None:
        with suppress(FileNotFoundError):
            os.unlink(path)
    elif os.path.islink(path) or _bytes(path) != content:
        write_atomic(path, content)


def _remove_placeholder(path: str) -> None:
    """Remove a placeholder that is still what was made; anything else is the user's."""
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        elif _bytes(path) in (b"", b".\n"):
            os.unlink(path)


def _others(common_dir: str, folder: str) -> list[_Record]:
    """Records of the other holds on a repository that this boot knows to be in force."""
    found = []
    parent = os.path.join(common_dir, FOLDER)
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        record = None if path == folder else _recorded(path)
        if record is not None and record.boot == _boot():
            found.append(record)
    return found


def _encoded(record: _Record) -> bytes:
    # Not msgspec's own encoder: a path need not be Unicode text.
    return json.dumps(msgspec.to_builtins(record)).encode()


def _recorded(folder: str) -> _Record | None:
    """The record of the hold in `folder`; None when there is none."""
    try:
        with open(os.path.join(folder, _RECORD), "rb") as file:
            return structs.convert(json.loads(file.read()), _Record)
    except (OSError, ValueError):
        return None


@contextmanager
def _locked(common_dir: str) -> Iterator[None]:
    """Allow one hold or release at a time: the last release removes what the next hold may rely
    on."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(os.path.join(common_dir, FOLDER, "lock"), flags, PRIVATE_FILE)
    try:
        _retried(lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)


def _retried(act: Callable[[], T]) -> T:
    """What `act` returns, retried for some seconds while another process interferes."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return act()
        except (BlockingIOError, FileExistsError):
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


# -- objects --------------------------------------------------------------------------------------


def _take_over(own: str, objects: str) -> bool:
    """Move the loose objects of `own` into `objects`; False when one is not what its name says."""
    whole = True
    for fan in sorted(os.listdir(own)):
        if len(fan) != 2:
            continue
        folder = os.path.join(own, fan)
        if os.path.islink(folder) or not os.path.isdir(folder):
            whole = False
            continue
        for rest in sorted(os.listdir(folder)):
            if rest.startswith("tmp_obj_"):
                continue
            source, target = os.path.join(folder, rest), os.path.join(objects, fan, rest)
            if os.path.exists(target):
                continue
            # Read once: the agent may still have the file open, so the bytes that are checked must
            # be the bytes that are kept.
            packed = b"" if os.path.islink(source) else _bytes(source)
            if not _is_object(packed, fan + rest):
                whole = False
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            write_atomic(target, packed, mode=0o444)
    return whole


def _is_object(packed: bytes, name: str) -> bool:
    """Whether the bytes of a loose object are intact and have the id `name`."""
    digest = hashlib.sha1() if len(name) == 40 else hashlib.sha256()
    reader = zlib.decompressobj()
    size, rest = 0, packed
    try:
        while rest:
            plain = reader.decompress(rest, 1 << 20)
            digest.update(plain)
            size += len(plain)
            if size > _MOST_OBJECT:
                return False
            rest = reader.unconsumed_tail
    except zlib.error:
        return False
    return reader.eof and digest.hexdigest() == name


def _edit_alternates(objects: str, *, add: str | None = None, remove: str | None = None) -> None:
    """Change the list of further object stores, under git's own lock on it."""
    path = os.path.join(objects, "info", "alternates")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    lock = f"{path}.lock"
    handle = _retried(lambda: os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    try:
        lines = _bytes(path).splitlines()
        lines = [line for line in lines if line != os.fsencode(remove or "")]
        if add is not None:
            lines.append(os.fsencode(add))
        with os.fdopen(handle, "wb") as file:
            file.writelines(line + b"\n" for line in lines)
        if lines:
            os.replace(lock, path)
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(lock)


# -- files ----------------------------------------------------------------------------------------


def _boot() -> str:
    """Identifies this boot of the machine; a fixed text where that is unknown."""
    return _bytes("/proc/sys/kernel/random/boot_id").decode().strip()


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _make(path: str, text: str | None) -> None:
    with suppress(FileExistsError):
        if text is None:
            os.makedirs(path, 0o755)
        else:
            write_new(path, text, mode=0o644)
