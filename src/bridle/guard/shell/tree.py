"""A shell program as a small typed tree: what the judge walks.

The classes are those of shfmt's JSON, decoded without a step between. They name what decides a
verdict; the rest (positions, comments, semicolons) is left out.
"""

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True, tag_field="Type"):
    """Anything in the tree."""


class Lit(Node, frozen=True, tag="Lit", rename={"text": "Value"}):
    """Unquoted text, backslashes still in place."""

    text: str = ""


class Quoted(Node, frozen=True, tag="SglQuoted", rename={"text": "Value", "ansi": "Dollar"}):
    """Text in single quotes; `ansi` for the $'...' form, escapes still in place."""

    text: str = ""
    ansi: bool = False


class Double(Node, frozen=True, tag="DblQuoted", rename={"parts": "Parts"}):
    """Parts in double quotes."""

    parts: tuple["Part", ...] = ()


class Slice(Node, frozen=True, rename={"start": "Offset", "length": "Length"}):
    """The bounds of `${x:start:length}`."""

    start: "Expression | None" = None
    length: "Expression | None" = None


class Replace(Node, frozen=True, rename={"source": "Orig", "by": "With", "every": "All"}):
    """The change of `${x/source/by}`."""

    source: "Word | None" = None
    by: "Word | None" = None
    every: bool = False


class Expansion(Node, frozen=True, rename={"op": "Op", "arg": "Word"}):
    """The operator of `${x:-arg}` and similar."""

    op: str
    arg: "Word | None" = None


class Param(
    Node, frozen=True, tag="ParamExp",
    rename={"param": "Param", "length": "Length", "indirect": "Excl", "names": "Names",
            "at": "Index", "slice": "Slice", "replace": "Repl", "expansion": "Exp"},
):  # fmt: skip
    """A parameter expansion."""

    param: Lit
    length: bool = False
    indirect: bool = False
    names: str = ""
    at: "Expression | None" = None
    slice: Slice | None = None
    replace: Replace | None = None
    expansion: Expansion | None = None

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.param.text

    @property
    def inner(self) -> tuple["Word", ...]:
        """Words in an index or slice: what they run is judged."""
        bounds = (self.slice.start, self.slice.length) if self.slice is not None else ()
        return words_in(self.at, *bounds)


class Subst(Node, frozen=True, tag="CmdSubst", rename={"body": "Stmts"}):
    """A command substitution."""

    body: tuple["Stmt", ...] = ()


class ProcSubst(Node, frozen=True, tag="ProcSubst", rename={"op": "Op", "body": "Stmts"}):
    """A process substitution."""

    op: Literal["<(", ">("]
    body: tuple["Stmt", ...] = ()


class Arith(Node, frozen=True, tag="ArithmExp", rename={"x": "X"}):
    """Arithmetic in a word."""

    x: "Expression | None" = None


class ExtGlob(Node, frozen=True, tag="ExtGlob", rename={"op": "Op", "pattern": "Pattern"}):
    """An extended glob pattern such as @(a|b)."""

    op: str
    pattern: Lit


Part: TypeAlias = Lit | Quoted | Double | Param | Subst | ProcSubst | Arith | ExtGlob


class Word(Node, frozen=True, tag="Word", rename={"parts": "Parts"}):
    """One word before expansion."""

    parts: tuple[Part, ...] = ()


class BinaryArithm(Node, frozen=True, tag=True, rename={"op": "Op", "x": "X", "y": "Y"}):
    """An operation in arithmetic or a test; the classes below are further kinds."""

    op: str = ""
    x: "Expression | None" = None
    y: "Expression | None" = None


class UnaryArithm(BinaryArithm, frozen=True, tag=True):
    """An operation with one operand, as `x++`."""


class ParenArithm(BinaryArithm, frozen=True, tag=True):
    """Arithmetic in parentheses."""


class BinaryTest(BinaryArithm, frozen=True, tag=True):
    """A test of two words, or two tests joined."""


class UnaryTest(BinaryArithm, frozen=True, tag=True):
    """A test of one word, or a negated one."""


class ParenTest(BinaryArithm, frozen=True, tag=True):
    """A test in parentheses."""


Expression: TypeAlias = (
    Word | BinaryArithm | UnaryArithm | ParenArithm | BinaryTest | UnaryTest | ParenTest
)


class Element(Node, frozen=True, rename={"index": "Index", "value": "Value"}):
    """One element of a list that is assigned."""

    index: Expression | None = None
    value: Word | None = None


class Elements(Node, frozen=True, rename={"items": "Elems"}):
    """A list that is assigned."""

    items: tuple[Element, ...] = ()


class Assign(
    Node, frozen=True,
    rename={"lit": "Name", "value": "Value", "append": "Append", "index": "Index",
            "elements": "Array", "naked": "Naked"},
):  # fmt: skip
    """An assignment; `elements` when the value is a list."""

    lit: Lit = Lit()
    value: Word | None = None
    append: bool = False
    index: Expression | None = None
    elements: Elements | None = None
    naked: bool = False

    @property
    def name(self) -> str:
        """The name of the variable, empty for an option of `declare`."""
        return self.lit.text


class Redirect(Node, frozen=True, rename={"op": "Op", "target": "Word", "body": "Hdoc"}):
    """A redirection; `body` is the text of a heredoc."""

    op: Literal[">", ">>", "<", "<>", "<&", ">&", ">|", "<<", "<<-", "<<<", "&>", "&>>"]
    target: Word
    body: Word | None = None

    @property
    def quoted(self) -> bool:
        """Whether the heredoc is taken literally."""
        return any(not isinstance(p, Lit) or "\\" in p.text for p in self.target.parts)


class Call(Node, frozen=True, tag="CallExpr", rename={"assigns": "Assigns", "args": "Args"}):
    """A simple command with its assignments."""

    assigns: tuple[Assign, ...] = ()
    args: tuple[Word, ...] = ()


class Declare(Node, frozen=True, tag="DeclClause", rename={"lit": "Variant", "args": "Args"}):
    """export, declare, local, readonly, typeset, nameref: `lit` says which."""

    lit: Lit
    args: tuple[Assign, ...] = ()


class Binary(Node, frozen=True, tag="BinaryCmd", rename={"op": "Op", "left": "X", "right": "Y"}):
    """Two statements joined."""

    op: Literal["&&", "||", "|", "|&"]
    left: "Stmt"
    right: "Stmt"


class Block(Node, frozen=True, tag="Block", rename={"body": "Stmts"}):
    """A group in braces."""

    body: tuple["Stmt", ...] = ()


class Subshell(Block, frozen=True, tag="Subshell"):
    """A group in parentheses."""


class If(Node, frozen=True, tag="IfClause",
         rename={"cond": "Cond", "then": "Then", "other": "Else"}):  # fmt: skip
    """A condition with its branches; an else is an If without a condition."""

    cond: tuple["Stmt", ...] = ()
    then: tuple["Stmt", ...] = ()
    other: "If | None" = None


class While(Node, frozen=True, tag="WhileClause", rename={"cond": "Cond", "body": "Do"}):
    """A while or until loop."""

    cond: tuple["Stmt", ...] = ()
    body: tuple["Stmt", ...] = ()


class WordIter(Node, frozen=True, tag=True,
               rename={"lit": "Name", "listed": "Items", "in_": "InPos"}):  # fmt: skip
    """The head of a loop over words."""

    lit: Lit
    listed: tuple[Word, ...] | None = None
    in_: Any = None

    @property
    def items(self) -> tuple[Word, ...] | None:
        """The words; None for the positional parameters."""
        return () if self.listed is None and self.in_ is not None else self.listed


class CStyleLoop(Node, frozen=True, tag=True,
                 rename={"init": "Init", "cond": "Cond", "post": "Post"}):  # fmt: skip
    """The head of a C-style loop."""

    init: Expression | None = None
    cond: Expression | None = None
    post: Expression | None = None


class For(Node, frozen=True, tag="ForClause", rename={"loop": "Loop", "body": "Do"}):
    """A for or select loop."""

    loop: WordIter | CStyleLoop
    body: tuple["Stmt", ...] = ()


class CaseItem(Node, frozen=True, rename={"patterns": "Patterns", "body": "Stmts"}):
    """One branch of a case statement."""

    patterns: tuple[Word, ...] = ()
    body: tuple["Stmt", ...] = ()


class Case(Node, frozen=True, tag="CaseClause", rename={"word": "Word", "items": "Items"}):
    """A case statement."""

    word: Word
    items: tuple[CaseItem, ...] = ()


class Function(Node, frozen=True, tag="FuncDecl", rename={"lit": "Name", "body": "Body"}):
    """A function definition."""

    lit: Lit
    body: "Stmt"


_ARITHMETIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})


class Test(Node, frozen=True, tag="TestClause", rename={"x": "X", "more": "Exprs"}):
    """[[ ... ]]: only the words matter, for what they run."""

    x: Expression | None = None
    more: tuple[Expression, ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of the expressions."""
        return words_in(self.x, *self.more)

    @property
    def arithmetic(self) -> bool:
        """Whether some words are read as arithmetic."""
        found = operands(self.x)
        return any(isinstance(e, BinaryArithm) and e.op in _ARITHMETIC_TESTS for e in found)


class Calculation(Test, frozen=True, tag="ArithmCmd"):
    """(( ... ))."""

    @property
    def arithmetic(self) -> bool:
        """Whether some words are read as arithmetic."""
        return True


class Let(Calculation, frozen=True, tag="LetClause"):
    """The let builtin."""


class Timed(Node, frozen=True, tag="TimeClause", rename={"body": "Stmt"}):
    """A statement after `time`."""

    body: "Stmt | None" = None


class Coproc(Timed, frozen=True, tag="CoprocClause"):
    """A statement after `coproc`."""


Command: TypeAlias = (
    Call | Declare | Binary | Block | Subshell | If | While | For | Case | Function | Test
    | Calculation | Let | Timed | Coproc
)  # fmt: skip


class Stmt(
    Node, frozen=True,
    rename={"command": "Cmd", "redirects": "Redirs", "background": "Background"},
):  # fmt: skip
    """A command with its redirections."""

    command: Command | None = None
    redirects: tuple[Redirect, ...] = ()
    background: bool = False


Script: TypeAlias = tuple[Stmt, ...]


class File(msgspec.Struct, frozen=True, rename={"kind": "Type", "body": "Stmts"}):
    """A whole program."""

    kind: Literal["File"]
    """Required: an object of another kind is not an empty program."""
    body: Script = ()


def operands(*expressions: Expression | None) -> Iterator[Expression]:
    """The words of expressions, and before each the operations around it."""
    waiting = [e for e in reversed(expressions) if e is not None]
    while waiting:
        found = waiting.pop()
        yield found
        if isinstance(found, BinaryArithm):
            waiting.extend(e for e in (found.y, found.x) if e is not None)


def words_in(*expressions: Expression | None) -> tuple[Word, ...]:
    """The words of expressions."""
    return tuple([found for found in operands(*expressions) if isinstance(found, Word)])


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
