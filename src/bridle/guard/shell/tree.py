"""A shell program as a small typed tree: what the judge walks.

The tree keeps what decides a verdict and drops the rest (positions, comments, semicolons).
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True):
    """Anything in the tree."""


class Lit(Node, frozen=True):
    """Unquoted text, backslashes still in place."""

    text: str


class Quoted(Node, frozen=True):
    """Text in single quotes; `ansi` for the $'...' form, escapes still in place."""

    text: str
    ansi: bool = False


class Double(Node, frozen=True):
    """Parts in double quotes."""

    parts: tuple["Part", ...]


class Param(Node, frozen=True):
    """A parameter expansion."""

    name: str
    length: bool = False
    indirect: bool = False
    names: bool = False
    index: "Word | None" = None
    complex_index: bool = False
    op: str = ""
    arg: "Word | None" = None
    replace: "tuple[Word, Word | None, bool] | None" = None
    slice: "tuple[Word | None, Word | None] | None" = None
    inner: "tuple[Word, ...]" = ()
    """Words in an index or slice that are not plain, kept so that their substitutions are seen."""


class Subst(Node, frozen=True):
    """A command substitution."""

    body: tuple["Stmt", ...]


class ProcSubst(Node, frozen=True):
    """A process substitution; `op` is `<(` or `>(`."""

    op: str
    body: tuple["Stmt", ...]


class Arith(Node, frozen=True):
    """Arithmetic; only its words matter, for what they run."""

    words: tuple["Word", ...]


class ExtGlob(Node, frozen=True):
    """An extended glob pattern such as @(a|b)."""

    text: str


Part: TypeAlias = Lit | Quoted | Double | Param | Subst | ProcSubst | Arith | ExtGlob


class Word(Node, frozen=True):
    """One word before expansion."""

    parts: tuple[Part, ...]


class Assign(Node, frozen=True):
    """An assignment; `array` when the value is a list."""

    name: str
    value: Word | None
    append: bool = False
    index: Word | None = None
    array: tuple[Word, ...] | None = None
    naked: bool = False


class Redirect(Node, frozen=True):
    """A redirection; `body` is the text of a heredoc, `quoted` when it is taken literally."""

    op: str
    target: Word
    body: Word | None = None
    quoted: bool = False


class Call(Node, frozen=True):
    """A simple command with its assignments."""

    assigns: tuple[Assign, ...]
    args: tuple[Word, ...]


class Declare(Node, frozen=True):
    """export, declare, local, readonly, typeset, nameref."""

    variant: str
    args: tuple[Assign, ...]


class Binary(Node, frozen=True):
    """Two statements joined by &&, ||, | or |&."""

    op: str
    left: "Stmt"
    right: "Stmt"


class Block(Node, frozen=True):
    """A group in braces, or one in parentheses when `subshell`."""

    body: tuple["Stmt", ...]
    subshell: bool = False


class If(Node, frozen=True):
    """A condition with its branches; an else is an If without a condition."""

    cond: tuple["Stmt", ...]
    then: tuple["Stmt", ...]
    other: "If | None" = None


class While(Node, frozen=True):
    """A while or until loop."""

    cond: tuple["Stmt", ...]
    body: tuple["Stmt", ...]


class For(Node, frozen=True):
    """A for or select loop over words; `items` is None for the positional parameters."""

    name: str
    items: tuple[Word, ...] | None
    body: tuple["Stmt", ...]
    words: tuple[Word, ...] = ()
    """Words of a C-style loop's three expressions."""


class Case(Node, frozen=True):
    """A case statement."""

    word: Word
    items: tuple[tuple[tuple[Word, ...], tuple["Stmt", ...]], ...]


class Function(Node, frozen=True):
    """A function definition."""

    name: str
    body: "Stmt"


class Test(Node, frozen=True):
    """[[ ... ]], (( ... )) or let: only the words matter, for what they run."""

    words: tuple[Word, ...]
    arithmetic: bool = False


class Timed(Node, frozen=True):
    """time or coproc before a statement."""

    body: "Stmt | None"
    background: bool = False


Command: TypeAlias = (
    Call | Declare | Binary | Block | If | While | For | Case | Function | Test | Timed
)


class Stmt(Node, frozen=True):
    """A command with its redirections."""

    command: Command | None
    redirects: tuple[Redirect, ...] = ()
    background: bool = False


Script: TypeAlias = tuple[Stmt, ...]


def nodes(script: Script) -> Iterator[Node]:
    """Every node of the script, including those inside words and substitutions, in no particular
    order."""
    waiting: list[Any] = list(script)
    while waiting:
        found = waiting.pop()
        if isinstance(found, tuple):
            waiting.extend(found)
        elif isinstance(found, Node):
            yield found
            waiting.extend(getattr(found, field) for field in found.__struct_fields__)


def plain_text(word: Word) -> str | None:
    """The text of a word without its quotes and backslashes; None if any part is only known at run
    time."""
    texts: list[str] = []
    for part in word.parts:
        inner = part.parts if isinstance(part, Double) else (part,)
        for each in inner:
            if not isinstance(each, Lit | Quoted) or (isinstance(each, Quoted) and each.ansi):
                return None
            if isinstance(each, Lit) and "{" in each.text and each is part:
                # Brace expansion may make several words of it.
                return None
            texts.append(each.text.replace("\\", "") if isinstance(each, Lit) else each.text)
    return "".join(texts)
