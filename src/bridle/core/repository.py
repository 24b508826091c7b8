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

    @property
    def inside(self) -> bool:
        """Whether the repository is simply the work tree's folder `.git`."""
        return self.git_dir == os.path.join(self.root, ".git")

    @property
    def main_root(self) -> str | None:
        """The main work tree that a linked one belongs to; None for any other repository."""
        if self.linked and os.path.basename(self.common_dir) == ".git":
            return os.path.dirname(self.common_dir)
        return None

    def proven(self) -> bool:
        """Whether the repository itself says that this work tree is one of its own.

        A work tree names its repository in a file that whoever works there can change, so that
        file alone must never open another folder. A `.git` that is a folder needs no proof, unless
        a file in it names another common folder: git obeys that in part even where a variable
        names the right one.
        """
        if not self.linked:
            common = _read(os.path.join(self.git_dir, "commondir"))
            if common and not _same(os.path.join(self.git_dir, common), self.git_dir):
                return False
        if self.inside:
            return True
        marker = os.path.join(self.root, ".git")
        if self.linked:
            back = _read(os.path.join(self.git_dir, "gitdir"))
            known = os.path.dirname(self.git_dir) == os.path.join(self.common_dir, "worktrees")
            return known and _same(os.path.join(self.git_dir, back), marker)
        tree = _core_worktree(os.path.join(self.git_dir, "config"))
        return bool(tree) and _same(os.path.join(self.git_dir, tree), self.root)


def find_git(folder: str) -> GitPlace | None:
    """The work tree around `folder`, links resolved as git does; None outside of any.

    Like git itself it passes over a `.git` folder without HEAD, which is no repository: sandboxes
    leave empty ones behind.
    """
    here = os.path.realpath(folder)
    while True:
        marker = os.path.join(here, ".git")
        if os.path.lexists(os.path.join(marker, "HEAD")):
            return GitPlace(root=here, git_dir=marker, common_dir=marker)
        if os.path.isfile(marker):
            return _from_file(here, marker)
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def commit_dirs(place: GitPlace, branch_prefix: str | None = None) -> list[str]:
    """Folders that `git commit` must be able to write, beside the work tree itself.

    A linked work tree needs its own git folder, the objects, and the branches with their logs
    (only those below `branch_prefix` when given); the repository's hooks and configuration are not
    among them. A plain repository keeps its index and HEAD directly in `.git`, so there the whole
    folder is needed. The folders need not exist.
    """
    if not place.linked:
        return [place.git_dir]
    below = os.path.join("refs", "heads", branch_prefix or "").rstrip("/")
    inside = [os.path.join(place.common_dir, name) for name in ("objects", below)]
    return [place.git_dir, *inside, os.path.join(place.common_dir, "logs", below)]


def own_branches(folder: str, agent: str | None) -> str | None:
    """The part of the branch names that belongs to the agent in the linked work tree `folder`.

    Up to and with the agent's name where the current branch holds it (`bridle/ann/fix` of `ann`:
    `bridle/ann`), else all but the last part (`feature` of `feature/fix`). None when there is no
    such part, no branch, or no linked work tree: then all branches are open.
    """
    place = find_git(folder)
    head = _read(os.path.join(place.git_dir, "HEAD")) if place and place.linked else ""
    kind, _, branch = head.partition("ref: refs/heads/")
    if kind or not branch:
        return None
    parts = branch.split("/")
    depth = parts.index(agent) + 1 if agent in parts[:-1] else len(parts) - 1
    return "/".join(parts[:depth]) or None


def _from_file(root: str, marker: str) -> GitPlace | None:
    text = _read(marker)
    if not text.startswith("gitdir:"):
        return None
    git_dir = os.path.realpath(os.path.join(root, text[len("gitdir:") :].strip()))
    if not os.path.lexists(os.path.join(git_dir, "HEAD")):
        return None
    common = _read(os.path.join(git_dir, "commondir"))
    common_dir = os.path.realpath(os.path.join(git_dir, common)) if common else git_dir
    return GitPlace(root=root, git_dir=git_dir, common_dir=common_dir)


def _core_worktree(config: str) -> str:
    """What `core.worktree` says in a git configuration file, as git itself writes it."""
    section = ""
    for line in _read(config).splitlines():
        word = line.strip()
        if word.startswith("["):
            section = word.lower()
        name, equals, value = word.partition("=")
        if equals and section == "[core]" and name.strip().lower() == "worktree":
            return value.strip().strip('"')
    return ""


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(1 << 20).strip()
    except OSError:
        return ""


def find_project(folder: str) -> str | None:
    """The project around `folder`: the nearest folder upwards with a `.bridle`; None outside of
    any."""
    here = os.path.realpath(folder)
    while not os.path.isdir(os.path.join(here, ".bridle")):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return here
