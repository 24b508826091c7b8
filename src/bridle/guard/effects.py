"""What a command does, apart from who may do it.

The `commands` package turns an argument list into effects; the judge decides on each by role and
place. A command with no effects only reads.
"""

from typing import TypeAlias

import msgspec

from bridle.guard.paths import Mode
from bridle.guard.shell.values import REL, SILENT, Output, Value, join


class Write(msgspec.Struct, frozen=True):
    """A path is changed."""

    target: Value
    mode: Mode = "write"
    directory: Value | None = None
    """Directory the path is relative to, when the command changes to one first."""


class Given(msgspec.Struct, frozen=True):
    """A path is passed to a program that may write it; it must be inside the worktree."""

    path: Value
    what: str
    """The program, or the variable with its `=`."""


class Link(msgspec.Struct, frozen=True):
    """A link is created; `symbolic` targets are relative to the link."""

    target: Value
    at: Value
    symbolic: bool


class Run(msgspec.Struct, frozen=True):
    """Another command runs."""

    argv: tuple[Value, ...]
    env: tuple[tuple[str, Value], ...] = ()
    directory: Value | None = None
    functions: bool = True
    """Whether shell functions may answer to the name."""


class Shell(msgspec.Struct, frozen=True):
    """Program text runs in a shell; `args` are its positional parameters."""

    text: Value
    args: tuple[Value, ...] | None = None
    directory: Value | None = None
    sourced: bool = False


def hook(program: Value) -> "Shell":
    """A program given by an option or variable: it runs with a file name after its text."""
    return Shell(join([*program.parts, " ", REL]))


class Code(msgspec.Struct, frozen=True):
    """Program text in another language runs; None when it is not known before."""

    text: Value | None
    language: str


class Mutates(msgspec.Struct, frozen=True):
    """Something changes, or a program runs whose arguments do not show what it writes."""

    what: str
    directory: Value | None = None


class Deny(msgspec.Struct, frozen=True):
    """Refused for everybody."""

    rule: str
    detail: str


class Git(msgspec.Struct, frozen=True):
    """The repository changes. `commits` when it is git add or commit, which coordinators may
    run."""

    what: str
    commits: bool = False
    directory: Value | None = None
    elsewhere: bool = False
    """Whether options or the environment point git at another repository."""
    forced: tuple[Value, ...] = ()
    """Paths that are added to the index although they are ignored."""


class Discard(msgspec.Struct, frozen=True):
    """Git overwrites the working files that a pathspec names; never those of the whole tree."""

    pathspec: Value
    directory: Value | None = None


class Branch(msgspec.Struct, frozen=True):
    """A branch is made, moved, renamed or deleted; only the agent's own may be."""

    name: Value
    what: str


class Unlisted(msgspec.Struct, frozen=True):
    """A reading command has an option with which it may do more than read."""

    what: str


class Doubt(msgspec.Struct, frozen=True):
    """An argument only known at run time could turn a reading command into a writing one."""

    what: str


Effect: TypeAlias = (
    Write | Given | Link | Run | Shell | Code | Mutates | Deny | Git | Discard | Branch | Doubt
    | Unlisted
)  # fmt: skip


class Command(msgspec.Struct, frozen=True):
    """A simple command as the handlers see it."""

    name: str
    args: tuple[Value, ...]
    env: tuple[tuple[str, Value], ...] = ()
    stdin: Output = SILENT
    piped: bool = False
    """Whether standard input is a pipe, heredoc or file rather than the terminal."""
    stdin_file: Value | None = None
    directories: tuple[str | None, ...] = ()
    pipes: tuple[tuple[str, Output], ...] = ()
    """The names of process substitutions, with what can be read there."""

    def streamed(self, file: Value) -> Output | None:
        """The content of a file that is a stream of this command; None for any other file."""
        name = file.text
        if name in STDIN_NAMES:
            return Output(self.stdin.lines, self.stdin_file or self.stdin.file)
        return next((output for path, output in self.pipes if path == name), None)


STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
