"""Turns command text into a `tree.Script`: with shfmt's parser or, for the plainest text, directly.

Any failure, and any node or field that is not known, is a `ParseError`: what cannot be read cannot
be judged.
"""

import re

import msgspec

from bridle.core import structs
from bridle.guard.budget import seconds_left, spend
from bridle.guard.shell import tree
from bridle.guard.shell.shfmt import ParseError, run_shfmt
from bridle.guard.shell.values import names

MAX_COMMAND = 1 << 18
"""Longest command text that is parsed, in characters. Linux starts no process with an argument of
more than 128 KiB."""
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
    if not _KEYS.issuperset(_KEY.findall(output)):
        raise ParseError("the shell parser gave a field that is not known")
    try:
        return _DECODER.decode(output).body
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"the command cannot be read ({error})") from None


_DECODER = structs.decoder(tree.File)
_KEY = re.compile(rb'"([A-Z]\w*)":')
"""A field of an object. In a text a quote has a backslash before it, so none looks like this."""
_KEYS = frozenset(
    name.encode()
    for name in names("""
    Type Name Stmts Cmd Redirs Background Negated Disown Assigns Args Append Value Index Array Elems
    Naked Op N Word Hdoc Parts Dollar Short Param Length Excl Names Slice Offset Repl Orig With All
    Exp X Y Post Cond Then Else Kind Until Do Loop Items Init Select Braces Patterns Parens RsrvWord
    Body Unsigned Exprs Stmt PosixFormat Variant Pattern Backquotes TempFile ReplyVar Bracket
    Pos End ValuePos ValueEnd Line Col Position Semicolon OpPos Left Right Lparen Rparen Lbrace
    Rbrace ForPos DoPos DonePos ThenPos FiPos ElsePos IfPos WhilePos InPos Case Esac In Time Coproc
    Let Comments Last Hash Text
    """)
)
"""Every field that shfmt writes and the tree knows or may leave out."""
