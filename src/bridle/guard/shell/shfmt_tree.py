"""From shfmt's JSON to our tree. What is not known here is a `ParseError`."""

from typing import Any

from bridle.guard.shell import tree
from bridle.guard.shell.shfmt import ParseError

MAX_DEPTH = 120

Json = dict[str, Any]

_IGNORED = frozenset({"Comments", "Last", "Semicolon"})


def expect(node: Json, *known: str) -> None:
    """Refuse an unknown field, unless it is only a position."""
    for key, value in node.items():
        if key in known or key in _IGNORED:
            continue
        if isinstance(value, dict) and "Offset" in value and "Line" in value:
            continue
        raise ParseError(f"the shell parser gave a field {key!r} that is not known")


def read_stmts(nodes: Any, depth: int) -> tree.Script:
    """The statements of a list of nodes."""
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    return tuple([_stmt(node, depth + 1) for node in nodes or ()])


def _stmt(node: Json, depth: int) -> tree.Stmt:
    expect(node, "Cmd", "Redirs", "Negated", "Background", "Coprocess", "Disown")
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
    expect(node, "Type", "Assigns", "Args")
    return tree.Call(
        tuple([_assign(a, depth) for a in node.get("Assigns", ())]),
        tuple([_word(w, depth) for w in node.get("Args", ())]),
    )


def _declare(node: Json, depth: int) -> tree.Declare:
    expect(node, "Type", "Variant", "Args")
    args = tuple([_assign(a, depth) for a in node.get("Args", ())])
    return tree.Declare(node["Variant"]["Value"], args)


def _binary_cmd(node: Json, depth: int) -> tree.Binary:
    expect(node, "Type", "Op", "X", "Y")
    if node["Op"] not in ("&&", "||", "|", "|&"):
        raise ParseError(f"the operator {node['Op']!r} is not known")
    return tree.Binary(node["Op"], _stmt(node["X"], depth), _stmt(node["Y"], depth))


def _block(node: Json, depth: int) -> tree.Block:
    expect(node, "Type", "Stmts")
    return tree.Block(read_stmts(node.get("Stmts"), depth), node["Type"] == "Subshell")


def _if(node: Json, depth: int) -> tree.If:
    expect(node, "Type", "Cond", "Then", "Else", "Kind")
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    other = node.get("Else")
    return tree.If(
        read_stmts(node.get("Cond"), depth),
        read_stmts(node.get("Then"), depth),
        _if(other, depth + 1) if other is not None else None,
    )


def _while(node: Json, depth: int) -> tree.While:
    expect(node, "Type", "Cond", "Do", "Until")
    return tree.While(read_stmts(node.get("Cond"), depth), read_stmts(node.get("Do"), depth))


def _for(node: Json, depth: int) -> tree.For:
    expect(node, "Type", "Loop", "Do", "Select", "Braces")
    loop = node["Loop"]
    body = read_stmts(node.get("Do"), depth)
    if loop["Type"] == "WordIter":
        expect(loop, "Type", "Name", "Items")
        items = loop.get("Items")
        explicit = items is not None or "InPos" in loop
        words = tuple([_word(w, depth) for w in items or ()])
        return tree.For(loop["Name"]["Value"], words if explicit else None, body)
    if loop["Type"] == "CStyleLoop":
        expect(loop, "Type", "Init", "Cond", "Post")
        found: list[tree.Word] = []
        for field in ("Init", "Cond", "Post"):
            if field in loop:
                _arithm(loop[field], found, depth)
        return tree.For("", (), body, tuple(found))
    raise ParseError(f"the loop {loop['Type']!r} is not known")


def _case(node: Json, depth: int) -> tree.Case:
    expect(node, "Type", "Word", "Items", "Braces")
    items = []
    for item in node.get("Items", ()):
        expect(item, "Op", "Patterns", "Stmts")
        patterns = tuple([_word(w, depth) for w in item.get("Patterns", ())])
        items.append((patterns, read_stmts(item.get("Stmts"), depth)))
    return tree.Case(_word(node["Word"], depth), tuple(items))


def _function(node: Json, depth: int) -> tree.Function:
    expect(node, "Type", "Parens", "RsrvWord", "Name", "Body")
    return tree.Function(node["Name"]["Value"], _stmt(node["Body"], depth))


def _test(node: Json, depth: int) -> tree.Test:
    expect(node, "Type", "X")
    found: list[tree.Word] = []
    arithmetic = _test_words(node["X"], found, depth)
    return tree.Test(tuple(found), arithmetic)


def _arithm_cmd(node: Json, depth: int) -> tree.Test:
    expect(node, "Type", "X", "Unsigned")
    found: list[tree.Word] = []
    if node.get("X") is not None:
        _arithm(node["X"], found, depth)
    return tree.Test(tuple(found), True)


def _let(node: Json, depth: int) -> tree.Test:
    expect(node, "Type", "Exprs")
    found: list[tree.Word] = []
    for expr in node.get("Exprs", ()):
        _arithm(expr, found, depth)
    return tree.Test(tuple(found), True)


def _timed(node: Json, depth: int) -> tree.Timed:
    expect(node, "Type", "PosixFormat", "Stmt", "Name")
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
    """Collect the words of a [[ ]] expression; returns whether one is read as arithmetic."""
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    kind = node.get("Type")
    if kind == "Word":
        found.append(_word(node, depth))
        return False
    if kind not in ("BinaryTest", "UnaryTest", "ParenTest"):
        raise ParseError(f"the test {kind!r} is not known")
    expect(node, "Type", "Op", "X", "Y")
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
    expect(node, "Type", "Op", "X", "Y", "Post")
    for field in ("X", "Y"):
        if node.get(field) is not None:
            _arithm(node[field], found, depth + 1)


def _assign(node: Json, depth: int) -> tree.Assign:
    expect(node, "Append", "Naked", "Name", "Index", "Value", "Array")
    array = node.get("Array")
    elements: tuple[tree.Word, ...] | None = None
    if array is not None:
        expect(array, "Elems")
        found: list[tree.Word] = []
        for element in array.get("Elems", ()):
            expect(element, "Index", "Value")
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
    expect(node, "Op", "N", "Word", "Hdoc")
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
    expect(node, "Type", "Parts")
    return tree.Word(_parts(node.get("Parts"), depth + 1))


def _parts(nodes: Any, depth: int) -> tuple[tree.Part, ...]:
    if depth > MAX_DEPTH:
        raise ParseError("the command is nested too deeply")
    return tuple([_part(node, depth) for node in nodes or ()])


def _part(node: Json, depth: int) -> tree.Part:
    kind = node.get("Type")
    if kind == "Lit":
        expect(node, "Type", "Value")
        return tree.Lit(node.get("Value", ""))
    if kind == "SglQuoted":
        expect(node, "Type", "Value", "Dollar")
        return tree.Quoted(node.get("Value", ""), bool(node.get("Dollar")))
    if kind == "DblQuoted":
        expect(node, "Type", "Parts", "Dollar")
        return tree.Double(_parts(node.get("Parts"), depth + 1))
    if kind == "ParamExp":
        return _param(node, depth)
    if kind == "CmdSubst":
        expect(node, "Type", "Stmts", "Backquotes", "TempFile", "ReplyVar")
        return tree.Subst(read_stmts(node.get("Stmts"), depth + 1))
    if kind == "ProcSubst":
        expect(node, "Type", "Op", "Stmts")
        return tree.ProcSubst(node["Op"], read_stmts(node.get("Stmts"), depth + 1))
    if kind == "ArithmExp":
        expect(node, "Type", "X", "Bracket", "Unsigned")
        found: list[tree.Word] = []
        if node.get("X") is not None:
            _arithm(node["X"], found, depth + 1)
        return tree.Arith(tuple(found))
    if kind == "ExtGlob":
        expect(node, "Type", "Op", "Pattern")
        return tree.ExtGlob(node["Op"] + node["Pattern"].get("Value", "") + ")")
    raise ParseError(f"the word part {kind!r} is not known")


def _param(node: Json, depth: int) -> tree.Param:
    fields = ("Type", "Short", "Param", "Length", "Excl", "Width", "IsSet", "Names")
    expect(node, *fields, "Index", "Slice", "Repl", "Exp")
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
        expect(raw_slice, "Offset", "Length")
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
        expect(raw, "All", "Orig", "With")
        source = _word(raw["Orig"], depth + 1) if raw.get("Orig") else tree.Word(())
        with_ = _word(raw["With"], depth + 1) if raw.get("With") else None
        replace = (source, with_, bool(raw.get("All")))
    op, arg = "", None
    raw = node.get("Exp")
    if raw is not None:
        expect(raw, "Op", "Word")
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
