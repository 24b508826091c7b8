"""Where a path actually leads, and whether an agent may write there.

Paths are resolved as the kernel would: component by component, following symbolic links, `..` taken
from where a link led. Missing names are appended unchanged. Comparison is by component.
"""

import copy
import fnmatch
import os
import re
import stat
from typing import Literal

from bridle.guard.budget import spend
from bridle.guard.policy import Policy
from bridle.guard.shell.values import Hole, Value, join
from bridle.guard.verdict import Blocked

Mode = Literal["write", "entry", "tree", "merge"]
"""How a path is changed: `write` through links; `entry` the directory entry itself; `tree` all
below it (removed or moved away); `merge` files put below it."""

MAX_LINKS = 40
MAX_COMPONENTS = 1024
_LONGEST_PATTERN = 512
"""Longest pattern for a name that is evaluated; a longer one may match anything."""

SAFE_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"})

_PROTECTED = """
    .git .bridle
    .claude/settings*.json .claude/hooks .pi/extensions .pi/settings*.json .codex .copilot
    .gemini/settings*.json .gemini/hooks .gemini/extensions .gemini/policies .github/hooks
    .opencode/plugin .opencode/plugins .opencode/tool .opencode/tools .opencode/opencode.json*
    opencode.json opencode.jsonc .clinerules/hooks .cline/hooks .cline/plugins
    .cursor/hooks* .cursor/cli.json .qwen/settings*.json
    """
PROTECTED = tuple(tuple(path.split("/")) for path in _PROTECTED.split())
"""Below the worktree: what guards the agent, and the link to its repository."""

_SETTINGS_FROM = 2
"""The entries before this index are git's link and Bridle's own folder, which no agent's CLI
obeys."""


class Places:
    """The places of one policy, resolved once. Raises `Blocked` for any path not writable."""

    def __init__(self, policy: Policy) -> None:
        self.worktree = resolve("/", policy.worktree)
        self.home = policy.home or os.environ.get("HOME") or "/nonexistent"
        self.scratch = resolve("/", policy.scratch) if policy.scratch else None
        extra = (*policy.allow_paths, *policy.override.allow_paths)
        self.allowed = tuple(resolve("/", path) for path in extra)
        self._root = self.worktree + "/"
        self.links: dict[str, str] = {}
        """Links that the command under judgement makes, and where they lead."""

    def for_command(self) -> "Places":
        """The same places for one command, which may make links and then go through them."""
        own = copy.copy(self)
        own.links = {}
        return own

    def inside(self, path: str) -> bool:
        """Whether a resolved path is the worktree, scratch, an allowed path, or below one."""
        if path == self.worktree or path.startswith(self._root):
            return True
        places = (self.scratch, *self.allowed) if self.scratch else self.allowed
        return any(path == p or path.startswith(p + "/") for p in places if p)

    def check_text(self, path: str, directory: str, mode: Mode = "write") -> None:
        """Refuse a change of the path, relative to the directory, unless it is allowed."""
        if path.startswith("~"):
            path = self._tilde(path)
        joined = path if path.startswith("/") else f"{directory}/{path}"
        if joined.startswith("/dev/") and is_safe_device(joined):
            return
        real = self.real(joined, mode)
        self.check_real(real, path, mode)

    def real(self, path: str, mode: Mode = "write") -> str:
        """The path the kernel would reach. Raises `Blocked` when it cannot be resolved."""
        spend(8 + 4 * path.count("/") + len(self.links))
        try:
            if mode in ("entry", "tree"):
                head, name = _split_last(path)
                if name not in ("", ".", ".."):
                    parent = self._followed(self._resolve(head))
                    return f"{parent}/{name}" if parent != "/" else f"/{name}"
            return self._followed(self._resolve(path))
        except PathError as error:
            raise Blocked("path-outside", f"{path}: {error}") from None

    def _followed(self, path: str) -> str:
        for at, target in self.links.items():
            if path == at or path.startswith(at + "/"):
                return target + path[len(at) :]
        return path

    def _resolve(self, path: str) -> str:
        if path.startswith(self._root):
            # The worktree's own path is already resolved; only the rest can contain links. A second
            # slash changes nothing: the rest stays below the worktree.
            return resolve(self.worktree, path[len(self._root) :].lstrip("/"))
        return resolve("/", path)

    def check_real(self, real: str, shown: str, mode: Mode) -> None:
        """Refuse a change of the resolved path unless it is allowed."""
        if not self.inside(real):
            rule = "path-device" if real.startswith("/dev/") else "path-outside"
            raise Blocked(rule, f"{_led(shown, real)} outside the worktree {self.worktree}")
        if mode in ("tree", "entry") and self._is_root(real):
            raise Blocked("path-outside", f"{shown} is all of {real}")
        if real.startswith(self._root):
            relative = real[len(self._root) :]
            if mode in ("write", "entry") and relative[0] not in ".oO":
                return
            if is_protected(relative.split("/"), mode):
                raise Blocked("path-protected", f"{shown} belongs to the guard of this worktree")

    def settings_below(self, folder: str) -> str | None:
        """A file below the resolved `folder` that an agent's CLI obeys; None if there is none."""
        import glob

        spend(20 * len(PROTECTED))
        for rule in PROTECTED[_SETTINGS_FROM:]:
            for found in glob.iglob(os.path.join(glob.escape(self.worktree), *rule)):
                if found.startswith(folder.rstrip("/") + "/"):
                    return found
        return None

    def _is_root(self, real: str) -> bool:
        roots = (self.worktree, self.scratch, *self.allowed)
        return any(
            root == real or (root or "").startswith(real.rstrip("/") + "/") for root in roots
        )

    def _tilde(self, path: str) -> str:
        head, _, rest = path.partition("/")
        if head == "~":
            return f"{self.home}/{rest}"
        raise Blocked("path-outside", f"{path} is in another user's home directory")

    def check_value(self, value: Value, directory: str | None, mode: Mode = "write") -> None:
        """Refuse a change of what the value may name, relative to the directory."""
        text = value.text
        if text is not None:
            if directory is None and not text.startswith("/"):
                raise Blocked("path-unresolved", f"{text} is written from an unknown directory")
            if text == "":
                return
            self.check_text(text, directory or "/", mode)
            return
        self._check_holes(value, directory, mode)

    def _check_holes(self, value: Value, directory: str | None, mode: Mode) -> None:
        shown = value.show()
        holes = [p for p in value.parts if isinstance(p, Hole)]
        if any(h.kind == "any" for h in holes):
            raise Blocked("path-unresolved", f"the path {shown} is only known at run time")
        if value.parts[0] == Hole("scratch"):
            if self.scratch is None and not self.inside("/tmp/x"):
                raise Blocked("path-outside", f"{shown}: there is no scratch directory (TMPDIR)")
            if ".." in "".join(p for p in value.parts if isinstance(p, str)).split("/"):
                raise Blocked("path-unresolved", f"the path {shown} is only known at run time")
            return
        if any(h.kind == "scratch" for h in holes):
            raise Blocked("path-unresolved", f"the path {shown} is only known at run time")
        if directory is None and not value.lead.startswith("/"):
            raise Blocked("path-unresolved", f"{shown} is written from an unknown directory")
        if any(h.kind == "name" for h in holes):
            # It may be `..`: where that leads must be allowed too.
            up = join([".." if p == Hole("name") else p for p in value.parts])
            try:
                self.check_value(up, directory, mode)
            except Blocked as block:
                rule = block.rule if block.rule == "path-protected" else "path-unresolved"
                raise Blocked(rule, f"the path {shown} is only known at run time") from None
            value = Value(tuple(Hole("atom") if p == Hole("name") else p for p in value.parts))
        base, wild = _fixed_part(value, shown)
        joined = base if base.startswith("/") else f"{directory}/{base}"
        if base.startswith("~"):
            joined = self._tilde(base)
        real = self.real(joined, "write")
        if not self.inside(real):
            raise Blocked("path-outside", f"{_led(shown, real)} outside {self.worktree}")
        self._check_matches(real, wild, shown, mode)

    def _check_matches(self, real: str, wild: list[str], shown: str, mode: Mode) -> None:
        """Refuse a pattern that covers the guard's files, or links that lead out."""
        if real == self.worktree or real.startswith(self._root):
            relative = [c for c in real[len(self._root) :].split("/") if c]
            if is_protected(relative, mode) or covers_protected(relative + wild):
                raise Blocked("path-protected", f"{shown} may name files of this worktree's guard")
        if mode != "write" or not wild:
            return
        try:
            with os.scandir(real) as entries:
                for number, entry in enumerate(entries):
                    if number > 2000:
                        return
                    if entry.is_symlink() and fnmatch.fnmatchcase(entry.name, wild[0]):
                        self.check_real(self._resolve(entry.path), entry.path, mode)
        except (OSError, PathError):
            return


class PathError(Exception):
    """A path that cannot be resolved."""


def resolve(base: str, path: str) -> str:
    """The real path of `path` relative to `base`, which must be resolved already.

    Raises `PathError` on a loop of links, an overlong path, text that is not a path, or a path
    through a process's own view of the file system.
    """
    if "\0" in path:
        raise PathError("the path holds a NUL character")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise PathError("the path is not valid text") from None
    current = "" if base == "/" else base
    if path.startswith("/"):
        current = ""
    rest = [c for c in reversed(path.split("/")) if c and c != "."]
    if len(rest) > MAX_COMPONENTS:
        raise PathError("the path has too many components")
    links, missing = 0, False
    while rest:
        name = rest.pop()
        if name == "..":
            # What does not exist may be created before the path is used; `..` from it is its
            # parent.
            current = current.rpartition("/")[0]
            missing = False
            continue
        following = f"{current}/{name}"
        if following == "/proc" and rest:
            raise PathError("the path goes through /proc")
        if missing:
            current = following
            continue
        try:
            target = os.readlink(following)
        except OSError as error:
            # EINVAL: it exists and is not a link. Otherwise nothing below it exists either.
            missing = error.errno != 22
            if error.errno in (40, 36):
                raise PathError("the path cannot be followed") from None
            current = following
            continue
        links += 1
        if links > MAX_LINKS:
            raise PathError("the path is a loop of links")
        if target.startswith("/"):
            current = ""
        rest.extend(c for c in reversed(target.split("/")) if c and c != ".")
    return current or "/"


def _led(shown: str, real: str) -> str:
    """A path, and where it leads if that differs."""
    return f"{shown} is" if shown == real else f"{shown} leads to {real},"


def _split_last(path: str) -> tuple[str, str]:
    head, _, name = path.rstrip("/").rpartition("/")
    if path.endswith("/"):
        # A slash at the end follows a link.
        return path, ""
    return head or "/", name


def is_safe_device(path: str) -> bool:
    """Whether writing this path only reaches an open stream or nothing."""
    if path in SAFE_DEVICES:
        return True
    return path.startswith("/dev/fd/") and path[8:].isdigit()


def is_protected(parts: list[str], mode: Mode) -> bool:
    """Whether a change of this kind below the worktree touches the guard or the git link."""
    folded = [part.casefold() for part in parts]
    if not folded:
        return False
    for rule in PROTECTED:
        pairs = list(zip(folded, rule, strict=False))
        if not all(fnmatch.fnmatchcase(part, pattern) for part, pattern in pairs):
            continue
        if len(folded) >= len(rule) or mode in ("tree", "merge"):
            return True
        if mode == "entry" and len(folded) == len(rule) - 1:
            # Renaming or unlinking the folder itself also moves or removes what is below it.
            return True
    return False


def covers_protected(parts: list[str]) -> bool:
    """Whether a pattern below the worktree may match a protected path or a folder above one.

    Only a pattern that spells out the first character counts: a shell's `*` skips names with a
    leading dot, and a bare `*` means ordinary files.
    """
    for rule in PROTECTED:
        pairs = list(zip(parts, rule, strict=False))
        if not pairs:
            continue
        hit = all(pattern[0] == name[0] and may_meet(pattern, name) for pattern, name in pairs)
        if hit and (len(parts) >= len(rule) or rule[: len(parts)] != rule):
            return True
    return False


def may_meet(first: str, second: str) -> bool:
    """Whether some name matches both patterns; a bracket counts as any character."""
    first, second = (re.sub(r"\*+", "*", p.casefold()) for p in (first, second))
    if max(len(first), len(second)) > _LONGEST_PATTERN:
        return True
    first, second = (re.sub(r"\[[^]]+\]", "?", p) for p in (first, second))
    reach = {(0, 0)}
    seen: set[tuple[int, int]] = set()
    while reach:
        i, j = reach.pop()
        if (i, j) in seen:
            continue
        seen.add((i, j))
        if i == len(first) and j == len(second):
            return True
        a, b = first[i : i + 1], second[j : j + 1]
        if a == "*":
            reach.update({(i + 1, j)} | ({(i, j + 1)} if b else set()))
        if b == "*":
            reach.update({(i, j + 1)} | ({(i + 1, j)} if a else set()))
        if a and b and "*" not in (a, b) and (a == b or "?" in (a, b)):
            reach.add((i + 1, j + 1))
    return False


def _fixed_part(value: Value, shown: str) -> tuple[str, list[str]]:
    """The path before the first unknown component, and patterns for the rest."""
    pattern = ""
    for part in value.parts:
        if isinstance(part, str):
            pattern += part.replace("\1", "")
        else:
            pattern += "\1" + {"rel": "r", "atom": "a", "glob": "g"}[part.kind]
            pattern += part.text.replace("/", "\2") if part.kind == "glob" else ""
            pattern += "\1"
    components = pattern.split("/")
    fixed: list[str] = []
    wild: list[str] = []
    for component in components:
        if "\1" not in component:
            if wild and component == "..":
                raise Blocked("path-unresolved", f"the path {shown} climbs out of a pattern")
            (wild if wild else fixed).append(component)
            continue
        pieces = component.split("\1")
        known = "".join(pieces[::2])
        marks = pieces[1::2]
        if any(m == "r" for m in marks) and known in (".", ".."):
            raise Blocked("path-unresolved", f"the path {shown} is only known at run time")
        if len(marks) > 1 and known.startswith(".") and any(m == "r" for m in marks):
            raise Blocked("path-unresolved", f"the path {shown} is only known at run time")
        shape = ""
        for number, piece in enumerate(pieces):
            if number % 2 == 0:
                shape += piece
            else:
                shape += piece[1:] if piece.startswith("g") else "*"
        if shape.strip("*?") == "" and ".." in known:
            raise Blocked("path-unresolved", f"the path {shown} is only known at run time")
        wild.append(shape)
    joined = "/".join(fixed)
    if pattern.startswith("/") and not joined.startswith("/"):
        joined = "/" + joined
    return joined or ("/" if pattern.startswith("/") else "."), [w for w in wild if w]


def is_directory(path: str) -> bool:
    """Whether the path is a directory now."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
