"""What a command is bound to: the files of its redirections, the values of its variables, and words
that run something although they look like names."""

import re
from typing import TYPE_CHECKING

from bridle.guard.budget import spend
from bridle.guard.shell import tree
from bridle.guard.shell.scope import Scope
from bridle.guard.shell.values import (
    EMPTY,
    SILENT,
    TERMINAL,
    UNKNOWN,
    UNKNOWN_OUTPUT,
    Hole,
    Input,
    Output,
    Value,
    join,
)
from bridle.guard.shell.words import Expander
from bridle.guard.verdict import Blocked

if TYPE_CHECKING:
    from bridle.guard.shell.walk import Walk


def redirected(
    walk: "Walk", redirects: tuple[tree.Redirect, ...], scope: Scope, stdin: Input
) -> Input:
    """Judge where redirections write; what the command reads then."""
    for redirect in redirects:
        expander = walk.expander(scope)
        if redirect.body is not None:
            text = expander.heredoc(redirect.body, redirect.quoted)
            stdin = Input(Output((text,)), True)
            continue
        for world in expander.worlds((redirect.target,)):
            expander.choice = world
            stdin = _redirect(walk, redirect, expander, scope, stdin)
    return stdin


def _redirect(
    walk: "Walk", redirect: tree.Redirect, expander: Expander, scope: Scope, stdin: Input
) -> Input:
    parts = redirect.target.parts
    if redirect.op == "<<<":
        return Input(Output((expander.single(redirect.target),)), True)
    if redirect.op == "<":
        if len(parts) == 1 and isinstance(parts[0], tree.ProcSubst):
            return Input(walk.statements(parts[0].body, scope.copy(), TERMINAL), True)
        return Input(UNKNOWN_OUTPUT, True, expander.single(redirect.target))
    fields = expander.fields(redirect.target)
    target = fields[0] if len(fields) == 1 else expander.single(redirect.target)
    if redirect.op in (">&", "<&"):
        text = target.text
        if text is not None and re.fullmatch(r"\d*-?", text):
            return stdin
        if redirect.op == "<&" or (text is None and target.parts and _all_atoms(target)):
            return stdin
    walk.rules.check_write(target, scope.directories)
    walk.note(f"{redirect.op} {target.show()}")
    return stdin


_TABLES = frozenset({"BASH_CMDS", "BASH_ALIASES", "aliases", "commands", "functions", "galiases"})
"""Arrays in which a shell keeps what command names mean; zsh's are in lower case."""


def assigned(node: tree.Assign, expander: Expander, scope: Scope) -> tuple[Value, ...]:
    """The values that an assignment gives."""
    if node.index is not None:
        expander.single(node.index)
        if node.name in _TABLES:
            raise Blocked("command-unresolved", f"{node.name} changes what commands are")
    if node.array is not None:
        elements = [f for word in node.array for f in expander.fields(word)]
        if node.name in _TABLES:
            raise Blocked("command-unresolved", f"{node.name} changes what commands are")
        if scope.references.get(node.name):
            scope.assign(node.name, (UNKNOWN,))
            return ()
        scope.variables.pop(node.name, None)
        kept = scope.arrays.get(node.name, ()) if node.append else ()
        spend(len(kept) + len(elements) >> 2)
        scope.arrays[node.name] = (*kept, *elements)
        return ()
    if node.value is None:
        return (EMPTY,)
    values: list[Value] = []
    for world in expander.worlds((node.value,)):
        expander.choice = world
        value = expander.single(node.value)
        if node.append:
            old = scope.lookup(node.name)
            value = join([*(old[0] if len(old) == 1 else UNKNOWN).parts, *value.parts])
        values.append(value)
    expander.choice = {}
    return tuple(values) if node.index is None else (UNKNOWN,)


_REFERRING = frozenset({"declare", "typeset", "local"})


def declare(walk: "Walk", node: tree.Declare, scope: Scope) -> Output:
    """Judge a declaration and take in the values it gives."""
    expander = walk.expander(scope)
    flags = ""
    for arg in node.args:
        if arg.naked and arg.name == "" and arg.value is not None:
            value = expander.single(arg.value)
            check_words("declare", (value, value))
            flags += value.text or ""
            continue
        exported = node.variant == "export" or "x" in flags
        refers = node.variant == "nameref" or ("n" in flags and node.variant in _REFERRING)
        if arg.naked:
            if refers and "+" not in flags:
                scope.refer(arg.name, None)
            elif exported and "n" not in flags:
                known = tuple(v for v in scope.lookup(arg.name) if v != UNKNOWN)
                walk.variable(arg.name, known, scope)
            continue
        values = assigned(arg, expander, scope)
        if values:
            if refers:
                scope.refer(arg.name, values[0] if len(values) == 1 else UNKNOWN)
                continue
            if "i" in flags and arg.value is not None:
                expander.arithmetic((arg.value,))
            walk.set_variable(arg.name, values, scope, exported)
    return SILENT


def _all_atoms(value: Value) -> bool:
    return all(isinstance(p, Hole) and p.kind == "atom" for p in value.parts)


_EVALUATING = frozenset(
    {"test", "[", "unset", "read", "wait", "export", "declare", "typeset", "local", "readonly",
     "mapfile", "readarray", "printf", "getopts"}
)  # fmt: skip
"""Builtins that evaluate the subscript of a variable name they are given."""
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[[^]]*(?:\$\(|`)")


def check_words(name: str, argv: tuple[Value, ...]) -> None:
    """Refuse a command whose words hide another. Raises `Blocked`."""
    path = argv[0].text or ""
    if name != "declare" and path.startswith("-") and path != "-":
        # `time -o FILE cmd`: whether the word is a command or an option depends on the shell.
        raise Blocked("command-unresolved", f"the command {path}")
    if name in _EVALUATING:
        for arg in argv[1:]:
            if _SUBSCRIPT.match(arg.text or ""):
                raise Blocked("command-unresolved", f"{name} evaluates {arg.text}")
