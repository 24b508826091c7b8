"""Where a folder's git repository keeps its things, read from files: no process on a run's way."""

import os

import msgspec


class GitPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A folder inside a git work tree."""

    root: str
    """Top of the work tree."""
    git_dir: str
    """This work tree's own git folder: `.git`, or `.git/worktrees/NAME` for a linked one."""
    common_dir: str
    """The repository's git folder, shared by all its work trees."""

    @property
    def linked(self) -> bool:
        """Whether this is a linked work tree, whose own git folder is apart from the common one."""
        return self.git_dir != self.common_dir


def find_git(folder: str) -> GitPlace | None:
    """The work tree around `folder`, None outside of any."""
    here = os.path.realpath(folder)
    while True:
        marker = os.path.join(here, ".git")
        # As git itself does: an empty `.git` is no repository. Sandboxes leave such folders behind.
        if os.path.lexists(os.path.join(marker, "HEAD")):
            return GitPlace(root=here, git_dir=marker, common_dir=marker)
        if os.path.isfile(marker):
            return _from_file(here, marker)
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def _from_file(root: str, marker: str) -> GitPlace | None:
    text = _read(marker)
    if not text.startswith("gitdir:"):
        return None
    git_dir = os.path.realpath(os.path.join(root, text[len("gitdir:") :].strip()))
    common = _read(os.path.join(git_dir, "commondir"))
    common_dir = os.path.realpath(os.path.join(git_dir, common)) if common else git_dir
    return GitPlace(root=root, git_dir=git_dir, common_dir=common_dir)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip()
    except OSError:
        return ""


def commit_dirs(place: GitPlace) -> list[str]:
    """Folders that `git commit` must be able to write, beside the work tree itself.

    A linked work tree needs objects, refs, logs and its own git folder; the repository's hooks and
    config stay protected. A plain repository keeps its index and HEAD directly in `.git`, so there
    the whole folder is needed.
    """
    if not place.linked:
        return [place.git_dir]
    inside = [os.path.join(place.common_dir, name) for name in ("objects", "refs", "logs")]
    return [*(each for each in inside if os.path.isdir(each)), place.git_dir]


def trust_roots(folder: str, place: GitPlace | None) -> list[str]:
    """Every folder whose trust Codex may look up for a run in `folder`.

    Codex asks for the main repository's root, also in a linked work tree, and for the folder
    itself outside of git.
    """
    roots = [os.path.realpath(folder), os.path.abspath(folder)]
    if place is not None:
        roots += [place.root, os.path.dirname(place.common_dir)]
    return list(dict.fromkeys(roots))
