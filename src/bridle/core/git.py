"""Git repositories: where they are, which folders a commit writes, how Bridle runs git, and how it
keeps its own files out of `git status`.

A folder's repository is found by reading files, because a run has no time for a process. Bridle's
own git commands go through `run_git`. Agents write in the folders where these run, and git obeys
much of what it finds there: hooks, file monitors, filters, aliases, credential helpers, another
common folder. `run_git` obeys none of it: it pins the repository that the folder belongs to, and
replaces every repository setting that names a program by the user's own value or switches it off.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.files import write_atomic

# -- finding a repository -------------------------------------------------------------------------


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

        A work tree names its repository in a file that the agent there can change, so that file
        alone must never open another folder. A `.git` folder needs no proof, unless a file in it
        names another common folder: git obeys that in part even where a variable names the right
        one.
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
    """The work tree around `folder`, with links resolved as git does; None outside of any.

    Like git, it skips a `.git` folder without HEAD, which is not a repository: sandboxes leave
    empty ones behind.
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
    """Folders that `git commit` must be able to write, in addition to the work tree itself.

    A linked work tree needs its own git folder, the objects, and the branches with their logs
    (only those below `branch_prefix` when given), but not the repository's hooks and configuration.
    A plain repository keeps its index and HEAD directly in `.git`, so it needs the whole folder.
    The folders need not exist.
    """
    if not place.linked:
        return [place.git_dir]
    below = os.path.join("refs", "heads", branch_prefix or "").rstrip("/")
    inside = [os.path.join(place.common_dir, name) for name in ("objects", below)]
    return [place.git_dir, *inside, os.path.join(place.common_dir, "logs", below)]


def own_branches(folder: str, agent: str | None) -> str | None:
    """The part of the branch names that belongs to the agent in the linked work tree `folder`.

    Up to and including the agent's name if the current branch contains it (`bridle/ann/fix` of
    `ann`: `bridle/ann`), else all but the last part (`feature` of `feature/fix`). None when there
    is no such part, no branch, or no linked work tree: then all branches are open.
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
    """The project around `folder`: the nearest folder, upwards, with a `.bridle`; None outside of
    any."""
    here = os.path.realpath(folder)
    while not os.path.isdir(os.path.join(here, ".bridle")):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return here


# -- running git ----------------------------------------------------------------------------------

SECONDS = 60.0

_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "core.askPass": "",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.alternateRefsCommand": "",
    "core.untrackedCache": "false",
    "sequence.editor": "false",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "submodule.recurse": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "log.showSignature": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.file.allow": "always",
    "safe.bareRepository": "explicit",
}
"""Settings of every command; they override the repository's."""

_NAMES_A_PROGRAM = (
    r"(?i)^(filter\..*\.(clean|smudge|process|required)|diff\..*\.(command|textconv)|merge\..*\.driver"
    r"|credential\..*|alias\..*|pager\..*|gpg\..*|hook\..*|remote\..*\.(uploadpack|receivepack|vcs)"
    r"|url\..*|submodule\..*\.update|tar\..*\.command|trailer\..*\.(command|cmd))$"
)
"""Settings with a free part in their name that make git run a program or contact another host.
Compiled when git runs (`re` keeps it): most commands run no git."""
_PROGRAMS = {"textconv": "cat", "driver": "false", "required": "false", "update": "none"}
"""The replacement for such a setting, by its last part; others become empty, which disables
them."""

_KEPT = r"GIT_(AUTHOR|COMMITTER)_\w+|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|GIT_EXEC_PATH|GIT_TRACE\w*"
"""Git's variables that the user may set; the others could select another repository."""


def run_git(
    folder: str, *words: str, env: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> subprocess.CompletedProcess[bytes]:
    """Run git in `folder`; returns its exit status and output.

    Nothing that an agent can write in the folder or its repository makes git run a program, and git
    never prompts at the terminal. Raises `WrongUse` when the repository that the folder names does
    not list the folder as one of its work trees, and what `subprocess.run` raises.
    """
    place = None if words[:1] == ("init",) else find_git(folder)
    if place is not None and not place.proven():
        raise WrongUse(
            f"{place.git_dir} does not list the worktree {place.root}",
            hint="look at its .git file: it was changed",
        )
    around = _environment(os.environ if env is None else env, place)
    settings = {**_SETTINGS, **(_switched_off(folder, around, seconds) if place else {})}
    return _run(folder, words, {**around, **_as_variables(settings)}, seconds)


def _run(
    folder: str, words: tuple[str, ...], env: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ("git", *words),
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )


def _environment(env: Mapping[str, str], place: GitPlace | None) -> dict[str, str]:
    around = {
        name: value
        for name, value in env.items()
        if not name.startswith("GIT_") or re.fullmatch(_KEPT, name)
    }
    around |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "false"}
    around |= {"GIT_PAGER": "cat", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_SSH_COMMAND": "false"}
    if place is not None:
        # Pinned: git would search again, and a file there can name another repository.
        around |= {"GIT_DIR": place.git_dir, "GIT_COMMON_DIR": place.common_dir}
        around |= {"GIT_WORK_TREE": place.root}
    return around


def _switched_off(folder: str, around: Mapping[str, str], seconds: float) -> dict[str, str]:
    """The repository's settings that name a program, each with the value from the user's own
    configuration, or with one that disables it."""
    words = ("config", "--null", "--show-scope", "--list")
    listed = _run(folder, words, {**around, **_as_variables(_SETTINGS)}, seconds)
    fields = listed.stdout.decode(errors="surrogateescape").split("\0")
    users: dict[str, str] = {}
    found: set[str] = set()
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = entry.partition("\n")
        if not re.match(_NAMES_A_PROGRAM, name):
            continue
        if scope in ("system", "global"):
            users[name] = value
        elif scope != "command":
            found.add(name)
    return {name: users.get(name, _PROGRAMS.get(name.rpartition(".")[2], "")) for name in found}


def _as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings as environment variables, which override every file."""
    made = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        made |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return made


# -- what git does not see ------------------------------------------------------------------------

_BEGIN = b"# bridle:begin"
_END = b"# bridle:end\n"


def is_tracked(root: str, name: str) -> bool:
    """Whether the file `name` of the worktree `root` is there and under version control.

    Also true when git does not answer: the file may be the user's.
    """
    if not os.path.exists(os.path.join(root, name)):
        return False
    return _status_of(root, "ls-files", "--error-unmatch", "--", name) in (0, None)


def overlook(root: str, name: str, yes: bool) -> None:
    """Make git ignore changes of a tracked file in this worktree, or see them again. Other
    worktrees and the project are not affected."""
    _status_of(root, "update-index", "--skip-worktree" if yes else "--no-skip-worktree", "--", name)


def hide_from_status(worktree: str, name: str) -> None:
    """Keep the file `name`, which Bridle made in `worktree`, out of `git status` and so out of what
    `git add -A` takes.

    Git has one list for all worktrees of a repository (`info/exclude`), so while the file is there
    no worktree shows an untracked file of that name. A marked block at the end of the list says
    which worktree each line is for; `show_in_status` takes it out again.
    """
    _change_exclude(worktree, name, hidden=True)


def show_in_status(worktree: str, name: str) -> None:
    """Undo `hide_from_status`; with the last line the list is again what it was, to the byte."""
    _change_exclude(worktree, name, hidden=False)


def _status_of(root: str, *words: str) -> int | None:
    """The exit status of a git command; None when git did not answer."""
    try:
        return run_git(root, *words, seconds=30).returncode
    except (OSError, subprocess.TimeoutExpired, WrongUse):
        return None


def _change_exclude(worktree: str, name: str, *, hidden: bool) -> None:
    place = find_git(worktree)
    if place is None:
        return
    folder = os.path.join(place.common_dir, "info")
    try:
        os.makedirs(folder, exist_ok=True)
        with _exclude_lock(folder):
            _rewrite_exclude(
                os.path.join(folder, "exclude"), place.root, worktree, name, hidden=hidden
            )
    except OSError:
        # Without the entry the file only shows in `git status`.
        return


def _rewrite_exclude(path: str, root: str, worktree: str, name: str, *, hidden: bool) -> None:
    try:
        with open(path, "rb") as file:
            text = file.read()
        notes = b"" if not text or text.endswith(b"\n") else b" newline"
    except FileNotFoundError:
        text, notes = b"", b" file"
    before, begun, rest = text.rpartition(_BEGIN)
    block, ended, after = rest.partition(_END)
    if begun and ended:
        notes, _, block = block.partition(b"\n")
    else:
        before, block, after = text, b"", b""
        before += b"\n" if notes == b" newline" else b""
    lines = block.splitlines()
    entries = [(owner, line) for owner, line in zip(lines[::2], lines[1::2], strict=False)]
    inside = os.path.relpath(os.path.join(os.path.realpath(worktree), name), root)
    own = (b"# " + os.fsencode(root), b"/" + _exclude_pattern(inside))
    kept = [each for each in entries if each != own and os.path.isdir(each[0][2:])]
    if hidden:
        kept.append(own)
    if kept == entries:
        return
    if kept:
        body = b"".join(owner + b"\n" + line + b"\n" for owner, line in kept)
        _replace_exclude(path, before + _BEGIN + notes + b"\n" + body + _END + after)
    elif notes == b" file" and not before + after:
        os.unlink(path)
    else:
        _replace_exclude(
            path, (before.removesuffix(b"\n") if notes == b" newline" else before) + after
        )


def _exclude_pattern(name: str) -> bytes:
    """The line of git's list that means this file and no other."""
    return b"".join(
        b"\\" + bytes((c,)) if c in b"*?[\\ " else bytes((c,)) for c in os.fsencode(name)
    )


def _replace_exclude(path: str, text: bytes) -> None:
    write_atomic(path, text, mode=0o666, keep_mode=True)


@contextmanager
def _exclude_lock(folder: str) -> Iterator[None]:
    """Lock the list: several Bridle processes may make worktrees at the same time."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
