"""Turns command text into a `tree.Script`: with shfmt's parser or, for the plainest text, directly.

Any failure, and any node or field this module does not know, is a `ParseError`: what cannot be read
cannot be judged.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from bridle.guard.budget import seconds_left, spend
from bridle.guard.shell import tree
from bridle.guard.shell.shfmt import ParseError, run_shfmt
from bridle.guard.shell.values import names

MAX_COMMAND = 1 << 18
"""Longest command text that is parsed, in characters. Linux starts no process with an argument of
more than 128 KiB."""
MAX_DEPTH = 120
CACHE_SIZE = 256
_PARSE = 200
"""Units of work that a process of the parser counts for."""

_RESERVED = names(
    "if then elif else fi do done case esac for while until select function time coproc in let "
    "declare local export readonly typeset nameref"
)
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-][A-Za-z0-9_./:@%+,=-]*(?: [A-Za-z0-9_./:@%+,=-]+)*\Z")
_cache: dict[str, tree.Script] = {}


def parse(text: str) -> tree.Script:
    """`text` as a script. Raises `ParseError`."""
    known = _cache.get(text)
    if known is not None:
        return known
    script = plain(text)
    if script is None:
        script = parse_with_shfmt(text)
    if len(text) <= 4096:
        if len(_cache) >= CACHE_SIZE:
            del _cache[next(iter(_cache))]
        _cache[text] = script
    return script


def plain(text: str) -> tree.Script | None:
    """The script of one plain simple command; None for anything that needs the parser.

    Only words of characters that no shell gives a meaning, one space between them, no assignment
    and no reserved word in front. A test proves that shfmt reads all of these alike.
    """
    if len(text) > 4096 or _PLAIN.match(text) is None:
        return None
    words = text.split(" ")
    if words[0] in _RESERVED or "=" in words[0]:
        return None
    args = tuple(tree.Word((tree.Lit(word),)) for word in words)
    return (tree.Stmt(tree.Call((), args)),)


def parse_with_shfmt(text: str) -> tree.Script:
    """The script as shfmt's parser reads it. Raises `ParseError`."""
    if len(text) > MAX_COMMAND:
        raise ParseError(f"the command is longer than {MAX_COMMAND} characters")
    if "\0" in text:
        raise ParseError("the command holds a NUL character")
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ParseError("the command is not valid text") from None
    output = run_shfmt(data, seconds_left())
    spend(_PARSE + (len(output) >> 5))
    try:
        root = msgspec.json.decode(output)
    except msgspec.DecodeError:
        raise ParseError("the shell parser gave no answer") from None
    if not isinstance(root, dict) or root.get("Type") != "File":
        raise ParseError("the shell parser gave an answer of another kind")
    script: tree.Script = _FILE(root, 0)
    return script


# --- from shfmt's JSON to the tree -------------------------------------------------------------

Json = dict[str, Any]
Reader = Callable[[Any, int], Any]


def _expect(node: Json, known: frozenset[str], depth: int) -> None:
    """Refuse nesting beyond the limit, and an unknown field unless it is a position."""
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    for key, value in node.items():
        if key not in known and not (
            isinstance(value, dict) and {"Offset", "Line"} <= value.keys()
        ):
            raise ParseError(f"the shell parser gave a field {key!r} that is not known")


def _known(fields: str) -> frozenset[str]:
    return names(f"Type Pos End ValuePos ValueEnd Comments Last Semicolon {fields}")


def _shape(build: Callable[..., Any], other: str = "", /, **fields: Reader) -> Reader:
    """A reader of one kind of node: each field by its reader, in the order in which `build` takes
    them; `other` fields change no verdict."""
    known = _known(" ".join((*fields, other)))
    readers = tuple(fields.items())

    def read(node: Json, depth: int) -> Any:
        _expect(node, known, depth)
        return build(*[reader(node.get(key), depth + 1) for key, reader in readers])

    return read


def _list(reader: Reader) -> Reader:
    return lambda nodes, depth: tuple([reader(node, depth) for node in nodes or ()])


def _optional(reader: Reader) -> Reader:
    return lambda node, depth: None if node is None else reader(node, depth)


def _chosen(kinds: dict[str, Reader], what: str) -> Reader:
    """A reader of a node that is one of several kinds, by its type."""

    def read(node: Json, depth: int) -> Any:
        kind = str(node.get("Type"))
        if kind not in kinds:
            raise ParseError(f"the {what} {kind!r} is not known")
        return kinds[kind](node, depth)

    return read


def _one_of(*operators: str) -> Reader:
    def read(value: Any, depth: int) -> Any:
        if value not in operators:
            raise ParseError(f"the operator {value!r} is not known")
        return value

    return read


def _flag(value: Any, depth: int) -> bool:
    return bool(value)


def _text(value: Any, depth: int) -> str:
    return value or ""


def _value(node: Json | None, depth: int) -> str:
    """The text of a literal; empty without one."""
    return "" if node is None else node.get("Value", "")


def _command(node: Json, depth: int) -> tree.Command:
    command: tree.Command = _COMMAND(node, depth)
    return command


def _part(node: Json, depth: int) -> tree.Part:
    if node.get("Type") == "Lit":
        # Most parts are plain text.
        _expect(node, _LIT, depth)
        return tree.Lit(node.get("Value", ""))
    part: tree.Part = _PART(node, depth)
    return part


_LIT = _known("Value")
_WORD = _known("Parts")
_parts = _list(_part)


def _word(node: Json, depth: int) -> tree.Word:
    _expect(node, _WORD, depth)
    return tree.Word(tuple([_part(part, depth + 1) for part in node.get("Parts") or ()]))


_words = _list(_word)
_ARITHMETIC = ("BinaryArithm", "UnaryArithm", "ParenArithm")
_TESTS = ("BinaryTest", "UnaryTest", "ParenTest")
_EXPRESSION = _known("Op X Y Post")


def _operands(node: Json | None, depth: int, kinds: tuple[str, ...] = _ARITHMETIC) -> list[Json]:
    """The words of an expression, and before each the operations around it."""
    if node is None:
        return []
    if node.get("Type") == "Word":
        return [node]
    _expect(node, _EXPRESSION, depth)
    if node.get("Type") not in kinds:
        raise ParseError(f"the expression {node.get('Type')!r} is not known")
    return [node, *(n for key in "XY" for n in _operands(node.get(key), depth + 1, kinds))]


def _arithmetic(node: Json | None, depth: int) -> tuple[tree.Word, ...]:
    """The words of an arithmetic expression."""
    found = _operands(node, depth)
    return tuple([_word(each, depth) for each in found if each["Type"] == "Word"])


def _arithmetics(nodes: list[Json] | None, depth: int) -> tuple[tree.Word, ...]:
    return tuple([word for node in nodes or () for word in _arithmetic(node, depth)])


_ARITHMETIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})


def _test(node: Json, depth: int) -> tree.Test:
    """[[ ]], which reads the operands of some operators as arithmetic."""
    _expect(node, _known("X"), depth)
    found = _operands(node["X"], depth, _TESTS)
    words = tuple([_word(each, depth) for each in found if each["Type"] == "Word"])
    return tree.Test(words, any(each.get("Op") in _ARITHMETIC_TESTS for each in found))


def _element(node: Json, depth: int) -> tuple[tree.Word, ...]:
    _expect(node, _known("Index Value"), depth)
    value = node.get("Value")
    return (*_arithmetic(node.get("Index"), depth), *([_word(value, depth)] if value else []))


def _elements(node: Json, depth: int) -> tuple[tree.Word, ...]:
    _expect(node, _known("Elems"), depth)
    return tuple([word for each in node.get("Elems", ()) for word in _element(each, depth)])


def _index(node: Json, depth: int) -> tree.Word:
    return tree.Word(tuple([part for word in _arithmetic(node, depth) for part in word.parts]))


_assign = _shape(
    tree.Assign, Name=_value, Value=_optional(_word), Append=_flag, Index=_optional(_index),
    Array=_optional(_elements), Naked=_flag,
)  # fmt: skip


def _redirection(op: str, target: tree.Word, body: tree.Word | None) -> tree.Redirect:
    quoted = any(not isinstance(p, tree.Lit) or "\\" in p.text for p in target.parts)
    return tree.Redirect(op, target, body, quoted)


_redirect = _shape(
    _redirection, "N", Op=_one_of(*names("> >> < <> <& >& >| << <<- <<< &> &>>")), Word=_word,
    Hdoc=_optional(_word),
)  # fmt: skip


def _statement(
    command: tree.Command | None, redirects: tuple[tree.Redirect, ...], *background: bool
) -> tree.Stmt:
    return tree.Stmt(command, redirects, any(background))


_stmt = _shape(
    _statement, "Negated Disown", Cmd=_optional(_command), Redirs=_list(_redirect),
    Background=_flag, Coprocess=_flag,
)  # fmt: skip
_stmts = _list(_stmt)
_FILE = _shape(lambda script: script, "Name", Stmts=_stmts)


def _else(node: Json, depth: int) -> tree.If:
    found: tree.If = _IF(node, depth)
    return found


_IF = _shape(tree.If, "Kind", Cond=_stmts, Then=_stmts, Else=_optional(_else))


def _for(node: Json, depth: int) -> tree.For:
    _expect(node, _known("Loop Do Select Braces"), depth)
    loop, body = node["Loop"], _stmts(node.get("Do"), depth)
    if loop["Type"] == "WordIter":
        _expect(loop, _known("Name Items"), depth)
        explicit = "Items" in loop or "InPos" in loop
        return tree.For(
            loop["Name"]["Value"], _words(loop.get("Items"), depth) if explicit else None, body
        )
    if loop["Type"] == "CStyleLoop":
        _expect(loop, _known("Init Cond Post"), depth)
        steps = [loop.get(key) for key in ("Init", "Cond", "Post")]
        return tree.For("", (), body, _arithmetics(steps, depth))
    raise ParseError(f"the loop {loop['Type']!r} is not known")


_case_item = _shape(lambda *pair: pair, "Op", Patterns=_words, Stmts=_stmts)
_calculation = partial(tree.Test, arithmetic=True)

_COMMAND = _chosen(
    {
        "CallExpr": _shape(tree.Call, Assigns=_list(_assign), Args=_words),
        "DeclClause": _shape(tree.Declare, Variant=_value, Args=_list(_assign)),
        "BinaryCmd": _shape(tree.Binary, Op=_one_of("&&", "||", "|", "|&"), X=_stmt, Y=_stmt),
        "Block": _shape(tree.Block, Stmts=_stmts),
        "Subshell": _shape(partial(tree.Block, subshell=True), Stmts=_stmts),
        "IfClause": _IF,
        "WhileClause": _shape(tree.While, "Until", Cond=_stmts, Do=_stmts),
        "ForClause": _for,
        "CaseClause": _shape(tree.Case, "Braces", Word=_word, Items=_list(_case_item)),
        "FuncDecl": _shape(tree.Function, "Parens RsrvWord", Name=_value, Body=_stmt),
        "TestClause": _test,
        "ArithmCmd": _shape(_calculation, "Unsigned", X=_arithmetic),
        "LetClause": _shape(_calculation, Exprs=_arithmetics),
        "TimeClause": _shape(tree.Timed, "PosixFormat", Stmt=_optional(_stmt)),
        "CoprocClause": _shape(partial(tree.Timed, background=True), "Name", Stmt=_optional(_stmt)),
    },
    "shell construct",
)


def _param(node: Json, depth: int) -> tree.Param:
    _expect(node, _PARAM, depth)
    if node.get("Width") or node.get("IsSet"):
        raise ParseError("this parameter expansion is not known")
    raw, part, change, operation = (
        node.get(key) or {} for key in ("Index", "Slice", "Repl", "Exp")
    )
    _expect(part, _known("Offset Length"), depth)
    _expect(change, _known("All Orig With"), depth)
    _expect(operation, _known("Op Word"), depth)
    index = _word(raw, depth) if raw.get("Type") == "Word" else None
    ends = [part.get(key) for key in ("Offset", "Length")]
    bounds = [_word(e, depth) if e and e.get("Type") == "Word" else None for e in ends]
    replace = None
    if change:
        source = _word(change["Orig"], depth) if change.get("Orig") else tree.Word(())
        with_ = _word(change["With"], depth) if change.get("With") else None
        replace = (source, with_, bool(change.get("All")))
    return tree.Param(
        node["Param"]["Value"],
        bool(node.get("Length")),
        bool(node.get("Excl")),
        bool(node.get("Names")),
        index,
        bool(raw) and index is None,
        operation["Op"] if operation else "",
        _word(operation["Word"], depth) if operation.get("Word") else None,
        replace,
        (bounds[0], bounds[1]) if part else None,
        _arithmetics([each for each in (raw, *ends) if each], depth),
    )


_PARAM = _known("Short Param Length Excl Width IsSet Names Index Slice Repl Exp")


_PART = _chosen(
    {
        "SglQuoted": _shape(tree.Quoted, Value=_text, Dollar=_flag),
        "DblQuoted": _shape(tree.Double, "Dollar", Parts=_parts),
        "ParamExp": _param,
        "CmdSubst": _shape(tree.Subst, "Backquotes TempFile ReplyVar", Stmts=_stmts),
        "ProcSubst": _shape(tree.ProcSubst, Op=_text, Stmts=_stmts),
        "ArithmExp": _shape(tree.Arith, "Bracket Unsigned", X=_arithmetic),
        "ExtGlob": _shape(
            lambda op, pattern: tree.ExtGlob(f"{op}{pattern})"), Op=_text, Pattern=_value
        ),
    },
    "word part",
)
