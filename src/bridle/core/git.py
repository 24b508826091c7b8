"""Every git command that Bridle itself runs.

Agents write in the folders where these run, and git obeys much of what it finds there: hooks, a
program that watches files, filters, aliases, helpers, another common folder. `run_git` obeys none
of it: the repository is the one that the folder was found to belong to, and every setting that
names a program is the user's own or switched off.
"""

import os
import re
import subprocess
from collections.abc import Mapping

from bridle.core.errors import WrongUse
from bridle.core.repository import GitPlace, find_git

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
"""What holds for every command, whatever a repository says."""

_NAMES_A_PROGRAM = re.compile(
    r"^(filter\..*\.(clean|smudge|process|required)|diff\..*\.(command|textconv)|merge\..*\.driver"
    r"|credential\..*|alias\..*|pager\..*|gpg\..*|hook\..*|remote\..*\.(uploadpack|receivepack|vcs)"
    r"|url\..*|submodule\..*\.update|tar\..*\.command|trailer\..*\.(command|cmd))$",
    re.IGNORECASE,
)
"""Settings with a name of somebody's choice in them, by which git would run a program or go
elsewhere."""
_PROGRAMS = {"textconv": "cat", "driver": "false", "required": "false", "update": "none"}
"""What such a setting becomes, by its last part; empty for others, which switches them off."""

_KEPT = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_\w+|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|GIT_EXEC_PATH|GIT_TRACE\w*"
)
"""Variables of git's own that are the user's to set; the others would lead elsewhere."""


def run_git(
    folder: str, *words: str, env: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> subprocess.CompletedProcess[bytes]:
    """Run git in `folder` and return how it ended, with its output.

    Nothing that an agent can write in the folder or its repository makes it run a program, and it
    never asks for anything at the terminal. Raises `WrongUse` when the repository that the folder
    names does not know it in turn, and what `subprocess.run` raises.
    """
    place = None if words[:1] == ("init",) else find_git(folder)
    if place is not None and not place.proven():
        raise WrongUse(
            f"{place.git_dir} does not know the worktree {place.root}",
            hint="look at its .git file: somebody changed it",
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
        if not name.startswith("GIT_") or _KEPT.fullmatch(name)
    }
    around |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "false"}
    around |= {"GIT_PAGER": "cat", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_SSH_COMMAND": "false"}
    if place is not None:
        # Pinned: git would look for it anew, and a file there can name another one.
        around |= {"GIT_DIR": place.git_dir, "GIT_COMMON_DIR": place.common_dir}
        around |= {"GIT_WORK_TREE": place.root}
    return around


def _switched_off(folder: str, around: Mapping[str, str], seconds: float) -> dict[str, str]:
    """The repository's own settings that name a program, each with the value that the user's own
    configuration gives it, or without one."""
    words = ("config", "--null", "--show-scope", "--list")
    listed = _run(folder, words, {**around, **_as_variables(_SETTINGS)}, seconds)
    fields = listed.stdout.decode(errors="surrogateescape").split("\0")
    users: dict[str, str] = {}
    found: set[str] = set()
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = entry.partition("\n")
        if not _NAMES_A_PROGRAM.match(name):
            continue
        if scope in ("system", "global"):
            users[name] = value
        elif scope != "command":
            found.add(name)
    return {name: users.get(name, _PROGRAMS.get(name.rpartition(".")[2], "")) for name in found}


def _as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings as variables, which outrank every file."""
    made = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        made |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return made
