"""Puts an agent's instructions into a worktree, and takes them out again to the last byte.

One rule for every runtime. A runtime names the files that its agent reads (`Place`), the best
first; what Bridle writes is a marked block at the end of one of them, and nothing else in it
changes:

1. the first file that does not exist yet, or is not under version control;
2. otherwise, in a linked worktree, the first file although it is tracked: this copy is not the
   project's own, and git ignores changes to it there, so the block is neither shown nor committed;
3. in the project's own folder, an existing file belongs to the project, tracked or not: if no other
   is left, nothing is written and `WrongUse` says where to deploy instead.

The block's first mark says what was made for it, so that undoing needs no other record. A file that
was made for the block is kept out of `git status`, so that `git add -A` does not commit it.
"""

import contextlib
import os

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.files import write_atomic
from bridle.core.git import find_git, hide_from_status, is_tracked, overlook, show_in_status

BEGIN = b"<!-- bridle:begin"
END = b"<!-- bridle:end -->\n"
_NEW_FILE, _NEW_FOLDER, _NEWLINE, _OVERLOOKED = b"file", b"folder", b"newline", b"tracked"


class Place(msgspec.Struct, frozen=True):
    """A file that an agent reads its instructions from."""

    name: str
    """Relative to the worktree."""
    carries: tuple[str, ...] = ()
    """Files that the agent would no longer read once this one exists; the first that exists is
    repeated in it."""


def override_places(worktree: str, name: str, hidden: str = "") -> tuple[Place, ...]:
    """The places of an agent that reads `AGENTS.override.md` instead of the file `name`, and `name`
    instead of `hidden`."""
    override = "AGENTS.override.md"
    rest = (hidden,) if hidden else ()
    instead = Place(override, carries=(name, *rest))
    try:
        there = _look(_root(worktree), override).foreign
    except WrongUse:
        there = True
    # If the user has one, the agent reads nothing else.
    return (Place(override),) if there else (Place(name, carries=rest), instead)


class _Found(msgspec.Struct, frozen=True):
    """The state of a file: what others wrote before and after the block, and the block's notes."""

    path: str
    before: bytes = b""
    after: bytes = b""
    notes: frozenset[bytes] | None = None
    """None where there is no block."""
    exists: bool = False

    @property
    def foreign(self) -> bool:
        """Whether others wrote this file or parts of it."""
        made = _NEW_FILE in (self.notes or ())
        return (self.exists and not made) or bool(self.before + self.after)


def deploy(worktree: str, places: tuple[Place, ...], content: str) -> str:
    """Put `content` where the agent reads it; returns the file. A second time replaces the first.

    Contract: raises `WrongUse`, and changes nothing, where the rule above finds no file, and where
    a symbolic link would lead out of the worktree.
    """
    root = _root(worktree)
    place, overlooked = _choose(root, places)
    found = _look(root, place.name)
    notes = found.notes
    if notes is None:
        notes = frozenset() if found.exists else frozenset({_NEW_FILE})
        if not found.exists and not os.path.isdir(os.path.dirname(found.path)):
            notes |= {_NEW_FOLDER}
        if found.before and not found.before.endswith(b"\n"):
            notes |= {_NEWLINE}
        if overlooked:
            notes |= {_OVERLOOKED}
    text = content.rstrip()
    if _NEW_FILE in notes and not found.foreign:
        text = "\n\n".join(filter(None, (text, _carried(root, place))))
    _replace(found, found.before + _block(text, notes) + found.after)
    if _NEW_FILE in notes and not found.foreign:
        hide_from_status(root, place.name)
    if _OVERLOOKED in notes:
        overlook(root, place.name, True)
    for other in places:
        if other.name != place.name:
            _take_back(root, other)
    return found.path


def withdraw(worktree: str, places: tuple[Place, ...]) -> list[str]:
    """Undo `deploy`: every file is again what it was, byte for byte, and a file that was made for
    the instructions is gone. What others wrote meanwhile stays. Returns the files changed."""
    root = _root(worktree)
    changed = [_take_back(root, place) for place in places]
    return [path for path in changed if path is not None]


def _root(worktree: str) -> str:
    root = os.path.realpath(worktree)
    if not os.path.isdir(root):
        raise WrongUse(f"no such worktree: {worktree}")
    return root


def _choose(root: str, places: tuple[Place, ...]) -> tuple[Place, bool]:
    """The file to write, and whether git must ignore changes to it."""
    git = find_git(root)
    projects_own = git is not None and not git.linked
    usable: list[Place] = []
    problem: WrongUse | None = None
    for place in places:
        try:
            found = _look(root, place.name)
        except WrongUse as reason:
            problem = problem or reason
            continue
        if not found.foreign or found.notes is not None:
            return place, False
        if not projects_own:
            if not is_tracked(root, place.name):
                return place, False
            usable.append(place)
    if usable:
        return usable[0], True
    if problem is not None:
        raise problem
    names = " and ".join(place.name for place in places)
    raise WrongUse(
        f"{names} in {root}: the project's own instructions, which Bridle does not touch",
        hint="deploy into a worktree of the project (git worktree add)",
    )


def _look(root: str, name: str) -> _Found:
    """The file `name` of the worktree, taken apart."""
    path = os.path.join(root, name)
    folder = os.path.realpath(os.path.dirname(path))
    if os.path.islink(path) or not f"{folder}{os.sep}".startswith(f"{root}{os.sep}"):
        raise WrongUse(
            f"{name} leads out of the worktree: Bridle does not write through a symbolic link",
            hint="replace the link with a file",
        )
    found = _read(path)
    if found.notes is not None and _OVERLOOKED not in found.notes and is_tracked(root, name):
        # Somebody committed the block: it is the file's own text by now.
        with open(path, "rb") as file:
            return _Found(path=path, before=file.read(), exists=True)
    return found


def _read(path: str) -> _Found:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return _Found(path=path)
    except NotADirectoryError:
        raise WrongUse(
            f"{os.path.dirname(path)} is a file, so {os.path.basename(path)} cannot be made in it",
            hint="make it a folder",
        ) from None
    except OSError as problem:
        raise WrongUse(f"cannot read {path}: {problem.strerror}") from None
    before, begun, rest = text.rpartition(BEGIN)
    if not begun:
        return _Found(path=path, before=text, exists=True)
    words, _, rest = rest.partition(b"\n")
    _, ended, after = rest.partition(END)
    if not ended:
        raise WrongUse(
            f"{path} holds Bridle's first mark but not its last",
            hint=f"remove the line that begins with {BEGIN.decode()}",
        )
    notes = frozenset(words.removesuffix(b"-->").split())
    if _NEWLINE in notes:
        before = before.removesuffix(b"\n")
    return _Found(path=path, before=before, after=after, notes=notes, exists=True)


def _block(text: str, notes: frozenset[bytes]) -> bytes:
    words = b" ".join((BEGIN, *sorted(notes), b"-->"))
    body = text.encode(errors="surrogateescape")
    return (b"\n" if _NEWLINE in notes else b"") + words + b"\n" + body + b"\n" + END


def _carried(root: str, place: Place) -> str:
    """The text that the agent would miss once this file exists."""
    for name in place.carries:
        found = _read(os.path.join(root, name))
        text = (found.before + found.after).decode(errors="surrogateescape").strip()
        if text:
            return text
    return ""


def _take_back(root: str, place: Place) -> str | None:
    try:
        found = _look(root, place.name)
    except WrongUse:
        # Bridle writes nothing behind a link, and an incomplete block cannot be recognized.
        return None
    if found.notes is None:
        return None
    rest = found.before + found.after
    if _NEW_FILE in found.notes and not rest:
        os.remove(found.path)
        if _NEW_FOLDER in found.notes:
            _remove_empty(os.path.dirname(found.path), root)
    else:
        _replace(found, rest)
    if _OVERLOOKED in found.notes:
        overlook(root, place.name, False)
    if _NEW_FILE in found.notes:
        show_in_status(root, place.name)
    return found.path


def _remove_empty(folder: str, root: str) -> None:
    """Remove `folder` and those around it, up to the worktree, as long as they are empty."""
    with contextlib.suppress(OSError):
        while folder != root:
            os.rmdir(folder)
            folder = os.path.dirname(folder)


def _replace(found: _Found, text: bytes) -> None:
    """Put `text` in the file's place in one step; who may read it stays."""
    os.makedirs(os.path.dirname(found.path), exist_ok=True)
    write_atomic(found.path, text, mode=0o666, keep_mode=True)
