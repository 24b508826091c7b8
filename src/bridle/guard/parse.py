"""Turn command text into a `tree.Script`, by shfmt's parser or, for the plainest text, at once.

shfmt is called by its absolute path inside the installed environment, never through a PATH that an
agent can set, with a time limit. Any failure, and any node or field this module does not know, is a
`ParseError`: what cannot be read cannot be judged.
"""

import os
import re
import select
import signal
import sys
import time
from typing import Any

import msgspec

from bridle.guard import tree
from bridle.guard.names import names

MAX_COMMAND = 1 << 20
"""Longest command text that is parsed, in characters."""
TIME_LIMIT = 5.0
"""Seconds a parse may take before the command is refused."""
CACHE_SIZE = 256
MAX_DEPTH = 120

Json = dict[str, Any]


class ParseError(Exception):
    """The text cannot be read as a shell program we know."""


_RESERVED = names(
    "if then elif else fi do done case esac for while until select function time coproc in let "
    "declare local export readonly typeset nameref"
)
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-][A-Za-z0-9_./:@%+,=-]*(?: [A-Za-z0-9_./:@%+,=-]+)*\Z")
_cache: dict[str, tree.Script] = {}


def parse(text: str) -> tree.Script:
    """The script that `text` is. Raises `ParseError`."""
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
    """The script of one plain simple command, None for anything that needs the parser.

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
    output = _run_shfmt(data)
    try:
        root = msgspec.json.decode(output)
    except msgspec.DecodeError:
        raise ParseError("the shell parser gave no answer") from None
    if not isinstance(root, dict) or root.get("Type") != "File":
        raise ParseError("the shell parser gave an answer of another kind")
    _expect(root, "Type", "Stmts", "Name")
    return _stmts(root.get("Stmts"), 0)


def shfmt_path() -> str:
    """Absolute path of the shfmt that came with this installation. Raises `ParseError`."""
    global _binary
    if not _binary:
        name = "shfmt.exe" if os.name == "nt" else "shfmt"
        scripts = os.path.dirname(os.path.abspath(sys.executable))
        for folder in (
            scripts,
            os.path.join(sys.prefix, "bin"),
            os.path.join(sys.prefix, "Scripts"),
        ):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK):
                _binary = path
                break
        else:
            raise ParseError("shfmt is missing from this installation; reinstall bridle")
    return _binary


_binary = ""


def _run_shfmt(data: bytes) -> bytes:
    path = shfmt_path()
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    pid = 0
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, in_read, 0),
            (os.POSIX_SPAWN_DUP2, out_write, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            pid = os.posix_spawn(
                path,
                [path, "-ln", "bash", "--to-json"],
                {"GOMAXPROCS": "1"},
                file_actions=actions,
                setsigdef=[signal.SIGPIPE],
            )
        except OSError as error:
            raise ParseError(f"the shell parser could not be started ({error.strerror})") from None
        os.close(in_read)
        os.close(out_write)
        in_read = out_write = -1
        output, in_write = _exchange(in_write, out_read, data)
        _, status = os.waitpid(pid, 0)
        pid = 0
        if status != 0:
            raise ParseError("the command is not valid shell")
        return output
    finally:
        for fd in (in_read, in_write, out_read, out_write):
            if fd >= 0:
                os.close(fd)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _exchange(in_write: int, out_read: int, data: bytes) -> tuple[bytes, int]:
    """Feed `data`, collect the answer; the returned descriptor needs closing (or is -1)."""
    deadline = time.monotonic() + TIME_LIMIT
    if len(data) <= 4096:
        os.write(in_write, data)
        os.close(in_write)
        in_write = -1
    else:
        os.set_blocking(in_write, False)
    poll = select.poll()
    poll.register(out_read, select.POLLIN)
    if in_write >= 0:
        poll.register(in_write, select.POLLOUT)
    chunks: list[bytes] = []
    sent = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ParseError("the shell parser took too long")
        for fd, _ in poll.poll(left * 1000):
            if fd == out_read:
                chunk = os.read(out_read, 1 << 18)
                if not chunk:
                    return b"".join(chunks), in_write
                chunks.append(chunk)
                continue
            try:
                sent += os.write(in_write, data[sent : sent + (1 << 16)])
            except BrokenPipeError:
                sent = len(data)
            if sent >= len(data):
                poll.unregister(in_write)
                os.close(in_write)
                in_write = -1


# --- from shfmt's JSON to our tree -------------------------------------------------------------

_IGNORED = frozenset({"Comments", "Last", "Semicolon"})


def _expect(node: Json, *known: str) -> None:
    """Refuse a field we do not know, unless it only tells a position."""
    for key, value in node.items():
        if key in known or key in _IGNORED:
            continue
        if isinstance(value, dict) and "Offset" in value and "Line" in value:
            continue
        raise ParseError(f"the shell parser gave a field {key!r} that is not known")


def _stmts(nodes: Any, depth: int) -> tree.Script:
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    return tuple([_stmt(node, depth + 1) for node in nodes or ()])


def _stmt(node: Json, depth: int) -> tree.Stmt:
    _expect(node, "Cmd", "Redirs", "Negated", "Background", "Coprocess", "Disown")
    command = node.get("Cmd")
    return tree.Stmt(
        _command(command, depth) if command is not None else None,
        tuple([_redirect(r, depth) for r in node.get("Redirs", ())]),
        bool(node.get("Background") or node.get("Coprocess")),
    )


def _command(node: Json, depth: int) -> tree.Command:
    kind = node.get("Type")
    reader = _COMMANDS.get(str(kind))
    if reader is None or depth > MAX_DEPTH:
        raise ParseError(f"the shell construct {kind!r} is not known")
    command: tree.Command = reader(node, depth + 1)
    return command


def _call(node: Json, depth: int) -> tree.Call:
    _expect(node, "Type", "Assigns", "Args")
    return tree.Call(
        tuple([_assign(a, depth) for a in node.get("Assigns", ())]),
        tuple([_word(w, depth) for w in node.get("Args", ())]),
    )


def _declare(node: Json, depth: int) -> tree.Declare:
    _expect(node, "Type", "Variant", "Args")
    args = tuple([_assign(a, depth) for a in node.get("Args", ())])
    return tree.Declare(node["Variant"]["Value"], args)


def _binary_cmd(node: Json, depth: int) -> tree.Binary:
    _expect(node, "Type", "Op", "X", "Y")
    if node["Op"] not in ("&&", "||", "|", "|&"):
        raise ParseError(f"the operator {node['Op']!r} is not known")
    return tree.Binary(node["Op"], _stmt(node["X"], depth), _stmt(node["Y"], depth))


def _block(node: Json, depth: int) -> tree.Block:
    _expect(node, "Type", "Stmts")
    return tree.Block(_stmts(node.get("Stmts"), depth), node["Type"] == "Subshell")


def _if(node: Json, depth: int) -> tree.If:
    _expect(node, "Type", "Cond", "Then", "Else", "Kind")
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    other = node.get("Else")
    return tree.If(
        _stmts(node.get("Cond"), depth),
        _stmts(node.get("Then"), depth),
        _if(other, depth + 1) if other is not None else None,
    )


def _while(node: Json, depth: int) -> tree.While:
    _expect(node, "Type", "Cond", "Do", "Until")
    return tree.While(_stmts(node.get("Cond"), depth), _stmts(node.get("Do"), depth))


def _for(node: Json, depth: int) -> tree.For:
    _expect(node, "Type", "Loop", "Do", "Select", "Braces")
    loop = node["Loop"]
    body = _stmts(node.get("Do"), depth)
    if loop["Type"] == "WordIter":
        _expect(loop, "Type", "Name", "Items")
        items = loop.get("Items")
        explicit = items is not None or "InPos" in loop
        words = tuple([_word(w, depth) for w in items or ()])
        return tree.For(loop["Name"]["Value"], words if explicit else None, body)
    if loop["Type"] == "CStyleLoop":
        _expect(loop, "Type", "Init", "Cond", "Post")
        found: list[tree.Word] = []
        for field in ("Init", "Cond", "Post"):
            if field in loop:
                _arithm(loop[field], found, depth)
        return tree.For("", (), body, tuple(found))
    raise ParseError(f"the loop {loop['Type']!r} is not known")


def _case(node: Json, depth: int) -> tree.Case:
    _expect(node, "Type", "Word", "Items", "Braces")
    items = []
    for item in node.get("Items", ()):
        _expect(item, "Op", "Patterns", "Stmts")
        patterns = tuple([_word(w, depth) for w in item.get("Patterns", ())])
        items.append((patterns, _stmts(item.get("Stmts"), depth)))
    return tree.Case(_word(node["Word"], depth), tuple(items))


def _function(node: Json, depth: int) -> tree.Function:
    _expect(node, "Type", "Parens", "RsrvWord", "Name", "Body")
    return tree.Function(node["Name"]["Value"], _stmt(node["Body"], depth))


def _test(node: Json, depth: int) -> tree.Test:
    _expect(node, "Type", "X")
    found: list[tree.Word] = []
    arithmetic = _test_words(node["X"], found, depth)
    return tree.Test(tuple(found), arithmetic)


def _arithm_cmd(node: Json, depth: int) -> tree.Test:
    _expect(node, "Type", "X", "Unsigned")
    found: list[tree.Word] = []
    if node.get("X") is not None:
        _arithm(node["X"], found, depth)
    return tree.Test(tuple(found), True)


def _let(node: Json, depth: int) -> tree.Test:
    _expect(node, "Type", "Exprs")
    found: list[tree.Word] = []
    for expr in node.get("Exprs", ()):
        _arithm(expr, found, depth)
    return tree.Test(tuple(found), True)


def _timed(node: Json, depth: int) -> tree.Timed:
    _expect(node, "Type", "PosixFormat", "Stmt", "Name")
    body = node.get("Stmt")
    background = node["Type"] == "CoprocClause"
    return tree.Timed(_stmt(body, depth) if body is not None else None, background)


_COMMANDS: dict[str, Any] = {
    "CallExpr": _call,
    "DeclClause": _declare,
    "BinaryCmd": _binary_cmd,
    "Block": _block,
    "Subshell": _block,
    "IfClause": _if,
    "WhileClause": _while,
    "ForClause": _for,
    "CaseClause": _case,
    "FuncDecl": _function,
    "TestClause": _test,
    "ArithmCmd": _arithm_cmd,
    "LetClause": _let,
    "TimeClause": _timed,
    "CoprocClause": _timed,
}

_ARITHMETIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})


def _test_words(node: Json, found: list[tree.Word], depth: int) -> bool:
    """Collect the words of a [[ ]] expression; tells whether one is read as arithmetic."""
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    kind = node.get("Type")
    if kind == "Word":
        found.append(_word(node, depth))
        return False
    if kind not in ("BinaryTest", "UnaryTest", "ParenTest"):
        raise ParseError(f"the test {kind!r} is not known")
    _expect(node, "Type", "Op", "X", "Y")
    arithmetic = node.get("Op") in _ARITHMETIC_TESTS
    for field in ("X", "Y"):
        if node.get(field) is not None and _test_words(node[field], found, depth + 1):
            arithmetic = True
    return arithmetic


def _arithm(node: Json, found: list[tree.Word], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    kind = node.get("Type")
    if kind == "Word":
        found.append(_word(node, depth))
        return
    if kind not in ("BinaryArithm", "UnaryArithm", "ParenArithm"):
        raise ParseError(f"the arithmetic {kind!r} is not known")
    _expect(node, "Type", "Op", "X", "Y", "Post")
    for field in ("X", "Y"):
        if node.get(field) is not None:
            _arithm(node[field], found, depth + 1)


def _assign(node: Json, depth: int) -> tree.Assign:
    _expect(node, "Append", "Naked", "Name", "Index", "Value", "Array")
    array = node.get("Array")
    elements: tuple[tree.Word, ...] | None = None
    if array is not None:
        _expect(array, "Elems")
        found: list[tree.Word] = []
        for element in array.get("Elems", ()):
            _expect(element, "Index", "Value")
            if element.get("Index") is not None:
                _arithm(element["Index"], found, depth)
            if element.get("Value") is not None:
                found.append(_word(element["Value"], depth))
        elements = tuple(found)
    index: list[tree.Word] = []
    if node.get("Index") is not None:
        _arithm(node["Index"], index, depth)
    name = node.get("Name")
    value = node.get("Value")
    return tree.Assign(
        name["Value"] if name is not None else "",
        _word(value, depth) if value is not None else None,
        bool(node.get("Append")),
        tree.Word(tuple([part for word in index for part in word.parts])) if index else None,
        elements,
        bool(node.get("Naked")),
    )


_REDIRECTS = frozenset({">", ">>", "<", "<>", "<&", ">&", ">|", "<<", "<<-", "<<<", "&>", "&>>"})


def _redirect(node: Json, depth: int) -> tree.Redirect:
    _expect(node, "Op", "N", "Word", "Hdoc")
    if node["Op"] not in _REDIRECTS:
        raise ParseError(f"the redirection {node['Op']!r} is not known")
    body = node.get("Hdoc")
    number = node.get("N")
    target = _word(node["Word"], depth)
    quoted = any(not isinstance(p, tree.Lit) or "\\" in p.text for p in target.parts)
    return tree.Redirect(
        node["Op"],
        target,
        _word(body, depth) if body is not None else None,
        quoted,
        number["Value"] if number is not None else "",
    )


def _word(node: Json, depth: int) -> tree.Word:
    _expect(node, "Type", "Parts")
    return tree.Word(_parts(node.get("Parts"), depth + 1))


def _parts(nodes: Any, depth: int) -> tuple[tree.Part, ...]:
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    return tuple([_part(node, depth) for node in nodes or ()])


def _part(node: Json, depth: int) -> tree.Part:
    kind = node.get("Type")
    if kind == "Lit":
        _expect(node, "Type", "Value")
        return tree.Lit(node.get("Value", ""))
    if kind == "SglQuoted":
        _expect(node, "Type", "Value", "Dollar")
        return tree.Quoted(node.get("Value", ""), bool(node.get("Dollar")))
    if kind == "DblQuoted":
        _expect(node, "Type", "Parts", "Dollar")
        return tree.Double(_parts(node.get("Parts"), depth + 1))
    if kind == "ParamExp":
        return _param(node, depth)
    if kind == "CmdSubst":
        _expect(node, "Type", "Stmts", "Backquotes", "TempFile", "ReplyVar")
        return tree.Subst(_stmts(node.get("Stmts"), depth + 1))
    if kind == "ProcSubst":
        _expect(node, "Type", "Op", "Stmts")
        return tree.ProcSubst(node["Op"], _stmts(node.get("Stmts"), depth + 1))
    if kind == "ArithmExp":
        _expect(node, "Type", "X", "Bracket", "Unsigned")
        found: list[tree.Word] = []
        if node.get("X") is not None:
            _arithm(node["X"], found, depth + 1)
        return tree.Arith(tuple(found))
    if kind == "ExtGlob":
        _expect(node, "Type", "Op", "Pattern")
        return tree.ExtGlob(node["Op"] + node["Pattern"].get("Value", "") + ")")
    raise ParseError(f"the word part {kind!r} is not known")


def _param(node: Json, depth: int) -> tree.Param:
    fields = ("Type", "Short", "Param", "Length", "Excl", "Width", "IsSet", "Names")
    _expect(node, *fields, "Index", "Slice", "Repl", "Exp")
    if node.get("Width") or node.get("IsSet"):
        raise ParseError("this parameter expansion is not known")
    inner: list[tree.Word] = []
    index: tree.Word | None = None
    raw_index = node.get("Index")
    if raw_index is not None:
        if raw_index.get("Type") == "Word":
            index = _word(raw_index, depth + 1)
            inner.append(index)
        else:
            _arithm(raw_index, inner, depth + 1)
    bounds: tuple[tree.Word | None, tree.Word | None] | None = None
    raw_slice = node.get("Slice")
    if raw_slice is not None:
        _expect(raw_slice, "Offset", "Length")
        ends: list[tree.Word | None] = []
        for field in ("Offset", "Length"):
            end = raw_slice.get(field)
            if end is not None and end.get("Type") == "Word":
                ends.append(_word(end, depth + 1))
            else:
                ends.append(None)
            if end is not None:
                _arithm(end, inner, depth + 1)
        bounds = (ends[0], ends[1])
    return _param_operation(node, index, bounds, tuple(inner), depth)


def _param_operation(
    node: Json,
    index: tree.Word | None,
    bounds: tuple[tree.Word | None, tree.Word | None] | None,
    inner: tuple[tree.Word, ...],
    depth: int,
) -> tree.Param:
    replace: tuple[tree.Word, tree.Word | None, bool] | None = None
    raw = node.get("Repl")
    if raw is not None:
        _expect(raw, "All", "Orig", "With")
        source = _word(raw["Orig"], depth + 1) if raw.get("Orig") else tree.Word(())
        with_ = _word(raw["With"], depth + 1) if raw.get("With") else None
        replace = (source, with_, bool(raw.get("All")))
    op, arg = "", None
    raw = node.get("Exp")
    if raw is not None:
        _expect(raw, "Op", "Word")
        op = raw["Op"]
        arg = _word(raw["Word"], depth + 1) if raw.get("Word") else None
    return tree.Param(
        node["Param"]["Value"],
        bool(node.get("Length")),
        bool(node.get("Excl")),
        bool(node.get("Names")),
        index,
        node.get("Index") is not None and index is None,
        op,
        arg,
        replace,
        bounds,
        inner,
    )
