"""What a confined agent may write."""

import os
from typing import Literal

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import make_private_dir, write_new
from bridle.core.git import GitPlace, find_git
from bridle.core.git_hold import hold, release

Mode = Literal["read-only", "commit", "worktree"]
"""`SandboxMode` without `off`."""

DEVICES = ("/dev/null", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/zero", "/dev/full")
"""What programs write to without changing anything."""


class SandboxNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent's CLI needs for itself, regardless of what the agent may do."""

    writable: tuple[str, ...] = ()
    """Folders, created when missing: its conversations, its caches. The agent can write there too,
    so none whose content the user's later sessions obey or run."""
    files: tuple[str, ...] = ()
    """Single files, where they exist. A program that replaces a file by renaming needs its folder
    instead."""
    own: tuple[str, ...] = ()
    """Folders that the run sees empty and private, since other sessions run code from the shared
    ones. Without namespaces the run sees the shared ones, and a warning says so."""
    protected: dict[str, str | None] = {}
    """Paths inside `writable` that stay read-only, for a CLI that needs the folder around what its
    later sessions obey or run. What is missing is created, since only what exists can be protected:
    a file with the text given here, a folder if that is None."""
    private: tuple[str, ...] = ()
    """Writable folders of this run alone, removed when it is over."""
    scratch_variables: tuple[str, ...] = ()
    """Variables that name the scratch folder, in addition to the usual ones."""


class SandboxPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Where writing is allowed; reading is allowed everywhere."""

    mode: Mode
    writable: tuple[str, ...]
    """Folders, with all below them."""
    files: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    """Paths inside `writable` that stay read-only where namespaces are in force."""
    own: tuple[tuple[str, str], ...] = ()
    """Writable folders, and the folders that they replace for the agent."""
    views: tuple[tuple[str, str], ...] = ()
    """Folders, and where else they are visible read-only."""
    hold: str = ""
    """Folder of the hold on the repository: `git_hold.release` it when the agent is gone."""
    hide: tuple[str, ...] = ()
    """Folders shown empty where namespaces are in force: they contain sockets that lead out."""
    notes: tuple[str, ...] = ()
    """What the caller should know about this set."""


def policy_for(
    mode: Mode,
    worktree: str,
    *,
    scratch: str,
    own_in: str | None = None,
    needs: SandboxNeeds | None = None,
    branch_prefix: str | None = None,
    hide: tuple[str, ...] = (),
    mounts: bool = True,
) -> SandboxPolicy:
    """The writable set of an agent, for a machine with or without mount namespaces (`mounts`).

    `read-only`: its scratch folder and its CLI's own state. `commit`: also what `git add` and `git
    commit` need of the repository; with `branch_prefix` only branches below it, else all of the
    repository's branches. `worktree`: also the worktree. What git obeys in those folders is
    protected, and objects can only be added (`core.git_hold`). The folders that replace shared ones
    are created in `own_in`, one of the private folders of `needs`, or else in the scratch folder,
    where an earlier agent could have put links.

    Raises `GuardRefused` when the scratch folder or a path of the repository is a symbolic link:
    earlier agents could have put it there; and when the worktree contains a repository that this
    machine cannot protect. Creates missing folders of `needs` and of the branches.
    """
    needs = needs or SandboxNeeds()
    writable = [scratch]
    protected: list[str] = []
    notes: list[str] = []
    held = None
    if mode == "worktree":
        writable.append(os.path.realpath(worktree))
    if mode != "read-only":
        place = find_git(worktree)
        if place is not None and place.proven():
            _refuse_links(place)
            if place.linked or mounts:
                name = os.urandom(8).hex()
                held = hold(place, name, mounts=mounts, branch_prefix=branch_prefix)
                writable += held.writable
                protected += held.protected
                notes += held.notes
            else:
                problem = _cannot_protect(mode, place, os.path.realpath(worktree))
                if problem:
                    raise GuardRefused(f"sandbox: {problem}", hint=_LINKED)
                notes.append(_CLOSED)
        elif place is not None:
            notes.append(
                f"commits are not possible: {place.git_dir} does not know the worktree {place.root}"
            )
    try:
        for path in (*writable, *protected):
            if os.path.islink(path):
                raise GuardRefused(f"sandbox: {path} is a symbolic link")
        for path in needs.writable:
            make_private_dir(path)
        own = list(held.own) if held is not None else []
        for path in needs.own:
            mine = os.path.join(own_in or scratch, f".{os.path.basename(path)}")
            own.append((mine, os.path.realpath(path)))
            for folder in own[-1]:
                make_private_dir(folder)
        for path, text in needs.protected.items():
            _make(path, text)
            protected.append(os.path.realpath(path))
            if os.path.islink(path):
                notes.append(f"{path} is a symbolic link; the agent can put a file in its place")
    except BaseException:
        release(held.folder if held is not None else "")
        raise
    kept = [
        os.path.realpath(path)
        for path in (*writable, *needs.writable, *needs.private)
        if os.path.isdir(path)
    ]
    return SandboxPolicy(
        mode=mode,
        writable=tuple(dict.fromkeys(kept)),
        files=tuple(path for path in (*DEVICES, *needs.files) if os.path.exists(path)),
        protected=tuple(path for path in protected if os.path.exists(path)),
        own=tuple(own),
        views=held.views if held is not None else (),
        hold=held.folder if held is not None else "",
        hide=hide,
        notes=tuple(notes),
    )


def _refuse_links(place: GitPlace) -> None:
    """Create nothing in a repository whose folders lead elsewhere."""
    names = ("objects", "refs", "logs", "hooks", "info", "modules", "worktrees", "bridle")
    for path in (place.git_dir, *(os.path.join(place.common_dir, name) for name in names)):
        if os.path.islink(path):
            raise GuardRefused(f"sandbox: {path} is a symbolic link")


_LINKED = "let it work in a linked worktree (git worktree add), or use --sandbox off"
_CLOSED = "commits are not possible: without user namespaces a plain repository stays closed"


def cannot_hold(mode: Mode, worktree: str, *, mounts: bool) -> str:
    """Why a machine with or without mount namespaces cannot confine an agent of `worktree` in
    `mode`; empty when it can."""
    place = None if mounts or mode != "worktree" else find_git(worktree)
    if place is None or place.linked or not place.proven():
        return ""
    return _cannot_protect(mode, place, os.path.realpath(worktree))


def _cannot_protect(mode: Mode, place: GitPlace, worktree: str) -> str:
    """Why a plain repository cannot be protected on a machine that can only open or close whole
    folders: it is inside one that must be open. Empty when it is elsewhere."""
    if mode == "worktree" and os.path.commonpath((place.git_dir, worktree)) == worktree:
        return f"without user namespaces {place.git_dir} cannot be protected from the agent"
    return ""


def _make(path: str, text: str | None) -> None:
    if os.path.lexists(path):
        return
    if text is None:
        os.mkdir(path, 0o700)
        return
    write_new(path, text)
