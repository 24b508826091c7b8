"""The state of a shell while its program is walked: directory, variables, functions.

After a branch the state contains both outcomes: several directories, several values of a variable.
A verdict must hold for all of them.
"""

import os

from bridle.guard.budget import spend
from bridle.guard.shell import tree
from bridle.guard.shell.values import SCRATCH, UNKNOWN, Value, join, literal, summarize

MAX_DIRECTORIES = 8
MAX_DOUBTS = 32
"""Most directories that the shell can be in after steps that may have failed."""
MAX_VALUE = 1 << 14
"""Longest text a variable keeps; a longer one is only known at run time."""

MAX_REFERENCES = 8
"""Longest chain of names that refer to one another."""

MAX_PATH = 4096
"""Longest directory that is followed, as in the kernel."""

Binding = tuple[Value, ...]
"""The values a variable may have, never empty."""


class Scope:
    """One shell's state. Copied for subshells, joined after branches."""

    __slots__ = ("arrays", "depth", "directories", "doubt", "exports", "functions", "positional",
                 "previous", "references", "stack", "strict", "variables")  # fmt: skip

    def __init__(self, directory: str, variables: dict[str, Binding]) -> None:
        self.directories: tuple[str | None, ...] = (directory,)
        self.variables = variables
        self.arrays: dict[str, tuple[Value, ...]] = {}
        self.functions: dict[str, tree.Stmt] = {}
        self.references: dict[str, str | None] = {}
        """Names that refer to another variable (declare -n); None when that is not known."""
        self.positional: tuple[Value, ...] | None = None
        self.doubt: tuple[str | None, ...] = ()
        """Directories that the shell would still be in if a `cd` of this statement had failed."""
        self.previous: tuple[str | None, ...] = (None,)
        """Where `cd -` leads."""
        self.stack: tuple[tuple[str | None, ...], ...] | None = ()
        """Where `popd` leads, the last first; None when that is not known."""
        self.depth = 0
        self.exports = False
        """Whether every variable that is set is exported (set -a)."""
        self.strict = False
        """Whether a failing statement ends the shell (set -e)."""

    def copy(self) -> "Scope":
        """A copy of this state."""
        spend(1 + ((len(self.variables) + len(self.arrays) + len(self.functions)) >> 5))
        twin = Scope.__new__(Scope)
        twin.variables, twin.arrays = self.variables.copy(), self.arrays.copy()
        twin.functions, twin.references = self.functions.copy(), self.references.copy()
        twin.directories, twin.previous, twin.stack = self.directories, self.previous, self.stack
        twin.positional, twin.depth, twin.doubt = self.positional, self.depth, self.doubt
        twin.strict, twin.exports = self.strict, self.exports
        return twin

    def join(self, other: "Scope") -> None:
        """Make this the state after either of two branches."""
        spend(len(self.variables) + len(self.arrays) + len(self.functions) >> 2)
        self.directories = tuple(dict.fromkeys(self.directories + other.directories))
        if len(self.directories) > MAX_DIRECTORIES:
            self.directories = (None,)
        self.previous = tuple(dict.fromkeys(self.previous + other.previous))
        if self.stack != other.stack:
            self.stack = None
        for name in self.variables.keys() | other.variables.keys():
            mine = self.variables.get(name, (UNKNOWN,))
            theirs = other.variables.get(name, (UNKNOWN,))
            if mine != theirs:
                self.variables[name] = summarize(mine + theirs)
        for name in self.arrays.keys() | other.arrays.keys():
            if self.arrays.get(name) != other.arrays.get(name):
                self.arrays[name] = (UNKNOWN,)
        for name, body in other.functions.items():
            if self.functions.setdefault(name, body) is not body:
                # Either body may run: a block that runs both represents them.
                both = (self.functions[name], body)
                self.functions[name] = tree.Stmt(tree.Block(both))
        if self.positional != other.positional:
            self.positional = None
        for name in self.references.keys() | other.references.keys():
            if self.references.get(name, name) != other.references.get(name, name):
                self.references[name] = None

    def widen(self, before: "Scope") -> None:
        """After a loop body ran again and still changed the state, treat what changed as
        unknown."""
        for name, binding in self.variables.items():
            if before.variables.get(name) != binding:
                self.variables[name] = (UNKNOWN,)
        if before.directories != self.directories:
            self.directories = (*self.directories, None)
        if before.stack != self.stack:
            self.stack = None

    def assume_success(self) -> None:
        """A statement ended: a `cd` in it may have failed, and the next one runs anyway."""
        if self.doubt and not self.strict:
            self.directories = tuple(dict.fromkeys(self.directories + self.doubt))
            if len(self.directories) > MAX_DOUBTS:
                self.directories = (None,)
        self.doubt = ()

    def refer(self, name: str, target: Value | None) -> None:
        """Make the name refer to the variable that the target names."""
        text = target.text if target is not None else ""
        if text == "":
            # It refers to the first value that it gets.
            self.references[name] = ""
        else:
            self.references[name] = text if text is not None and text.isidentifier() else None

    def meant(self, name: str) -> str | None:
        """The variable that a name refers to; None when that is not known."""
        found: str | None = name
        for _ in range(MAX_REFERENCES):
            if found is None or found not in self.references:
                return found
            if self.references[found] == "":
                return found
            found = self.references[found]
        return None

    def assign(self, name: str, values: Binding) -> None:
        """Give the variable these possible values."""
        if self.references:
            if self.references.get(name) == "":
                self.refer(name, values[0] if len(values) == 1 else UNKNOWN)
                return
            meant = self.meant(name)
            if meant is None:
                # Any variable may be the one that changes.
                self.variables = dict.fromkeys(self.variables, (UNKNOWN,))
                self.arrays = dict.fromkeys(self.arrays, (UNKNOWN,))
                return
            name = meant
        kept = tuple(value if value.size <= MAX_VALUE else UNKNOWN for value in values)
        self.variables[name] = summarize(kept) if kept else (UNKNOWN,)
        self.arrays.pop(name, None)

    def lookup(self, name: str) -> Binding:
        """The values the variable may have."""
        if self.references:
            meant = self.meant(name)
            if meant is None:
                return (UNKNOWN,)
            name = meant
        if name in ("PWD", "OLDPWD") and name not in self.variables:
            places = self.directories if name == "PWD" else self.previous
            return tuple(UNKNOWN if d is None else literal(d) for d in places)
        if name in self.arrays:
            return self.arrays[name][:1] or (literal(""),)
        return self.variables.get(name, (UNKNOWN,))

    def change_directory(self, target: Value) -> None:
        """Apply a `cd` to the target."""
        before = self.directories
        self.variables.pop("PWD", None)
        self.variables.pop("OLDPWD", None)
        self.previous = before
        if target.parts and target.parts[0] == SCRATCH and "TMPDIR" in self.variables:
            # A fresh directory there: any name represents it.
            target = join([*self.variables["TMPDIR"][0].parts, "/fresh", *target.parts[1:]])
        text = target.text
        found = False
        if text is None:
            text = _stand_in(target)
            found = text is not None
        after: list[str | None] = []
        sure = True
        for directory in before:
            if text is None or (directory is None and not text.startswith("/")):
                after.append(None)
                continue
            path = text if directory is None else os.path.join(directory, text)
            if len(path) > MAX_PATH:
                after.append(None)
                continue
            after.append(path)
            sure = sure and (found or os.path.isdir(path))
        self.directories = tuple(dict.fromkeys(after))
        if not sure:
            self.doubt = tuple(dict.fromkeys(self.doubt + before))

    def go_back(self) -> None:
        """Apply a `cd -`."""
        self.directories, self.previous = self.previous, self.directories

    def push_directory(self, target: Value | None) -> None:
        """Apply a `pushd`; None swaps the last two."""
        before = self.directories
        if target is not None:
            self.change_directory(target)
        elif self.stack:
            self.directories, self.previous = self.stack[0], before
            self.stack = self.stack[1:]
        else:
            return
        if self.stack is not None:
            self.stack = (before, *self.stack)

    def pop_directory(self) -> None:
        """Apply a `popd`, which stays where it is when nothing was pushed."""
        if self.stack is None:
            self.directories = (None,)
        elif self.stack:
            self.previous = self.directories
            self.directories, self.stack = self.stack[0], self.stack[1:]

    def follow(self, after: "Scope") -> None:
        """Continue from another state of the same shell."""
        for name in ("directories", "previous", "stack", "variables", "references", "doubt"):
            setattr(self, name, getattr(after, name))


def _stand_in(target: Value) -> str | None:
    """An invented path for a directory that was found or created below a known place.

    What a listing, a pattern or a counter names is one component or more below; a name that does
    not exist represents it. None when it may be anywhere.
    """
    kinds = {p.kind for p in target.parts if not isinstance(p, str)}
    texts = [p for p in target.parts if isinstance(p, str)]
    if not kinds <= {"rel", "atom", "glob"} or any(".." in t for t in texts):
        return None
    return "".join(p if isinstance(p, str) else "found" for p in target.parts)
