"""Who may do what: an effect, a role and a place determine a verdict."""

import copy
import os
from typing import assert_never

from bridle.guard import effects
from bridle.guard.code import check_code
from bridle.guard.commands.packages import TEST_RUNNERS
from bridle.guard.commands.readers import LISTED
from bridle.guard.commands.registry import base_name
from bridle.guard.paths import Mode, Places, is_safe_device
from bridle.guard.policy import Policy
from bridle.guard.shell.values import Value, literal
from bridle.guard.verdict import Blocked

Directories = tuple[str | None, ...]

LIFTABLE = frozenset({"remote", "container", "system", "publish", "scheduler", "privilege"})
"""Rules that an operator's allowed command may override; never git, agents, paths or sessions."""

_RESTRAINTS = frozenset(
    {"check", "check-only", "noEmit", "no-emit", "dry-run", "diff", "list-different", "no-fix", "n"}
    | {name for row in LISTED.values() for name in row.needs}
)
"""Options of a quality gate without which it would write."""

_WHOLE_TREE = frozenset({":/", "*", "**", ":", ":/*", ":(top)", ":/.", "**/*", ":(glob)**", ":/:"})


class Rules:
    """The policy's rules, prepared once; every check raises `Blocked` or returns."""

    def __init__(self, policy: Policy, places: Places) -> None:
        self.policy = policy
        self.places = places
        self.implements = policy.implements
        own = policy.override
        self.gates = [gate.split() for gate in policy.quality_gates]
        self.allowed = [c.split() for c in (*policy.allow_commands, *own.allow_commands)]
        self.denied = [c.split() for c in own.deny_commands]
        agent = policy.agent
        self.own_branches = f"{policy.branch_prefix}/{agent}/" if agent else None
        self._link = self._read_link()

    def for_command(self) -> "Rules":
        """The same rules for one command; see `Places.for_command`."""
        own = copy.copy(self)
        own.places = self.places.for_command()
        return own

    def is_gate(self, argv: tuple[Value, ...]) -> bool:
        """Whether the command is a quality gate, perhaps with other arguments."""
        words = [value.text or "" for value in argv]
        for gate in self.gates:
            if words[: len(gate)] == gate:
                return True
            if not set(words) >= {word for word in gate if word.lstrip("-") in _RESTRAINTS}:
                continue
            lead = _leading_words(gate)
            runner = base_name(lead[0]) in TEST_RUNNERS if lead else False
            if (len(lead) > 1 or runner) and words[: len(lead)] == lead:
                return True
        return False

    def is_allowed(self, argv: tuple[Value, ...]) -> bool:
        """Whether the operator allowed this command beyond the role."""
        words = [value.text or "" for value in argv]
        return any(words[: len(allowed)] == allowed for allowed in self.allowed)

    def check_denied(self, argv: tuple[Value, ...]) -> None:
        """Refuse a command that the operator denied to this capability."""
        words = [value.text or "" for value in argv]
        for denied in self.denied:
            if words[: len(denied)] == denied:
                raise Blocked("command-denied", f"{' '.join(denied)} is denied to your role")

    def check(
        self, effect: effects.Effect, directories: Directories, lifted: bool, allowed: bool
    ) -> None:
        """Refuse the effect unless role and place allow it.

        `lifted` when the command is a quality gate, `allowed` when the operator allowed it.
        """
        match effect:
            case effects.Write():
                self.check_write(effect.target, directories, effect.mode, effect.directory)
            case effects.Given():
                if self.implements or lifted:
                    # Other roles run readers only, and those may read anywhere.
                    self._check_given(effect, directories)
            case effects.Link():
                self._check_link(effect, directories)
            case effects.Mutates():
                self._check_mutates(effect, directories, lifted or allowed)
            case effects.Deny():
                if not (allowed and effect.rule in LIFTABLE):
                    raise Blocked(effect.rule, effect.detail)
            case effects.Git():
                self._check_git(effect, directories)
            case effects.Discard():
                self._check_discard(effect, directories)
            case effects.Branch():
                self._check_branch(effect)
            case effects.Code():
                self._check_code(effect, directories)
            case effects.Doubt():
                if not self.implements:
                    detail = f"{effect.what} with an argument only known at run time"
                    raise Blocked("command-unresolved", detail)
            case effects.Unlisted():
                if not self.implements and not (lifted or allowed):
                    raise Blocked("option-role", f"{effect.what} may do more than read")
            case effects.Run() | effects.Shell():
                raise Blocked("internal-error", "a nested command was not walked")
            case _:
                assert_never(effect)

    def check_write(
        self,
        target: Value,
        directories: Directories,
        mode: Mode = "write",
        directory: Value | None = None,
    ) -> None:
        """Refuse to change the target unless role and place allow it."""
        text = target.text
        if text is not None and text.startswith("/dev/") and is_safe_device(text):
            return
        if not self.implements:
            raise Blocked("write-role", f"this writes {target.show() or 'a file'}")
        for place in self.seen_from(directories, directory):
            self.places.check_value(target, place, mode)

    def seen_from(self, directories: Directories, directory: Value | None) -> Directories:
        """The directories after changing to one more."""
        if directory is None:
            return directories
        text = directory.text
        if text is None:
            return (None,)
        if text.startswith("/"):
            return (text,)
        if text.startswith("~"):
            return (self.places.home + text[1:],)
        return tuple(None if d is None else f"{d}/{text}" for d in directories)

    def _inside(self, directories: Directories) -> bool:
        for directory in directories:
            if directory is None:
                return False
            if not self.places.inside(self.places.real(directory)):
                return False
        return True

    def _check_given(self, effect: effects.Given, directories: Directories) -> None:
        path = effect.path.text or ""
        for place in directories:
            if not path.startswith(("/", "~", "..")) and not self._inside((place,)):
                # Where a program runs is judged by `Mutates`.
                continue
            try:
                self.places.check_text(path, place or "/", "write")
            except Blocked as block:
                names_it = "/" in path.strip("./") and not any(c in path for c in "*?[")
                if block.rule == "path-protected" and not names_it:
                    # `.git` alone, or a pattern, mostly names what to exclude.
                    continue
                rule = "path-given" if block.rule == "path-outside" else block.rule
                raise Blocked(rule, f"{effect.what} is given {path}: {block.detail}") from None

    def _check_link(self, effect: effects.Link, directories: Directories) -> None:
        self.check_write(effect.at, directories, "entry")
        target = effect.target.text
        if target is None:
            for place in directories:
                self.places.check_value(effect.target, place, "write")
            return
        at = effect.at.text or "."
        for place in directories:
            if place is None:
                raise Blocked(
                    "link-outside", f"the link to {target} is made from somewhere unknown"
                )
            base = os.path.dirname(os.path.join(place, at)) if effect.symbolic else place
            path = target if target.startswith("/") else f"{base}/{target}"
            if target.startswith("~"):
                path = self.places.home + target[1:]
            real = self.places.real(path)
            if not self.places.inside(real):
                raise Blocked("link-outside", f"the link to {target} leads to {real}")
            if real != self.places.worktree:
                # A second name for what guards the worktree would bypass the guard.
                self.places.check_real(real, target, "entry")
            if effect.symbolic:
                self.places.links[self.places.real(os.path.join(place, at), "entry")] = real

    def _check_mutates(
        self, effect: effects.Mutates, directories: Directories, lifted: bool
    ) -> None:
        if not self.implements and not lifted:
            raise Blocked("program-role", f"{effect.what} may change files")
        if not self._inside(self.seen_from(directories, effect.directory)):
            raise Blocked("program-outside", f"{effect.what} would run outside the worktree")

    def _check_git(self, effect: effects.Git, directories: Directories) -> None:
        policy = self.policy
        if not (self.implements or (effect.commits and policy.commits)):
            raise Blocked("git-role", f"git {effect.what} changes the repository")
        places = self.seen_from(directories, effect.directory)
        if effect.elsewhere or not self._inside(places):
            raise Blocked("git-elsewhere", f"git {effect.what} in another repository or worktree")
        self.check_link()
        for value in effect.forced:
            self._check_forced(effect, value, places)

    def _check_forced(self, effect: effects.Git, value: Value, places: Directories) -> None:
        """Refuse to commit an ignored file that agents obey: the worktrees that get the branch
        would obey it too."""
        for place in places:
            try:
                self.places.check_value(value, place, "write")
            except Blocked as block:
                if block.rule == "path-protected":
                    raise
            if value.text is None or place is None:
                continue
            path = value.text if value.text.startswith("/") else f"{place}/{value.text}"
            if found := self.places.settings_below(self.places.real(path)):
                raise Blocked("path-protected", f"git {effect.what} would include {found}")

    def _read_link(self) -> str | None:
        path = self.places.worktree + "/.git"
        try:
            # The agent may have put a FIFO there, which must not block the judge.
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            with os.fdopen(handle, encoding="utf-8", errors="surrogateescape") as opened:
                return opened.read(4096)
        except IsADirectoryError:
            return "<directory>"
        except OSError:
            return None

    def check_link(self) -> None:
        """Refuse git changes when the worktree's link leads elsewhere than before."""
        now = self._read_link()
        expected = self.policy.git_link if self.policy.git_link is not None else self._link
        if now != expected:
            raise Blocked("git-link", "the worktree's .git file was changed")
        main = self.policy.main_repo
        if now is None or main is None or not now.startswith("gitdir:"):
            return
        target = now[7:].strip()
        path = target if target.startswith("/") else f"{self.places.worktree}/{target}"
        root = self.places.real(main)
        if not self.places.real(path).startswith(root.rstrip("/") + "/"):
            raise Blocked("git-link", f"the worktree's .git file leads to {target}")

    def _check_discard(self, effect: effects.Discard, directories: Directories) -> None:
        shown = effect.pathspec.show()
        text = effect.pathspec.text
        whole = shown.strip("'") in _WHOLE_TREE or shown.startswith((":!", ":^", ":(exclude"))
        if whole or (text is not None and text.startswith(":/") and not text[2:].strip("./*")):
            raise Blocked("git-reset", f"git overwrites the whole tree ({shown})")
        value = effect.pathspec
        if text is not None and text.startswith(":"):
            value = literal(text.rpartition(")")[2] if text.startswith(":(") else text.lstrip(":/"))
        if value.holds("rel") or value.holds("atom"):
            return
        places = self.seen_from(directories, effect.directory)
        worktree = self.places.worktree
        for place in places:
            if value.text and place is not None:
                path = value.text if value.text.startswith("/") else f"{place}/{value.text}"
                real = self.places.real(path)
                if real == worktree or worktree.startswith(real.rstrip("/") + "/"):
                    raise Blocked("git-reset", f"git overwrites the whole tree ({shown})")
            self.places.check_value(value, place, "tree")

    def _check_branch(self, effect: effects.Branch) -> None:
        name = effect.name.text
        if name is None:
            raise Blocked("git-branch", f"git {effect.what} a branch only known at run time")
        short = name.removeprefix("+").removeprefix("refs/heads/")
        own = self.own_branches
        if own is None or not short.startswith(own) or len(short) == len(own) or ".." in short:
            prefix = own or "your own prefix"
            raise Blocked("git-branch", f"git {effect.what} {name}, which is not below {prefix}")

    def _check_code(self, effect: effects.Code, directories: Directories) -> None:
        if not self.implements:
            raise Blocked("inline-code", f"{effect.language} code may change files")
        if not self._inside(directories):
            raise Blocked("program-outside", f"{effect.language} would run outside the worktree")
        text = effect.text
        if text is None:
            return
        shown = "".join(p if isinstance(p, str) else "\n" for p in text.parts)
        check_code(shown, effect.language, self.places, directories[0] or self.places.worktree)


def _leading_words(gate: list[str]) -> list[str]:
    """The gate's program and subcommands: its words before the first option or path."""
    words: list[str] = []
    for word in gate:
        if word.startswith("-") or word in (".", "..") or (words and "/" in word):
            break
        words.append(word)
    return words
