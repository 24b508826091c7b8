"""Judging compound commands: lists, pipelines, branches and loops, and what each leaves behind."""

from typing import TYPE_CHECKING

from bridle.guard.shell import tree
from bridle.guard.shell.scope import Scope
from bridle.guard.shell.values import EMPTY, NUMBER, SILENT, UNKNOWN, Input, Output, Value, merge

if TYPE_CHECKING:
    from bridle.guard.shell.walk import Walk

Compound = tree.Binary | tree.If | tree.While | tree.For | tree.Case

_LEAVING = frozenset({"exit", "return", "break", "continue"})


def compound(walk: "Walk", command: Compound, scope: Scope, stdin: Input) -> Output:
    """Judge a compound command; `scope` then holds what any path through it can result in."""
    match command:
        case tree.Binary():
            return _binary(walk, command, scope, stdin)
        case tree.If():
            return _if(walk, command, scope, stdin)
        case tree.While():
            return _loop(walk, command.cond, command.body, scope, stdin)
        case tree.For():
            return _for(walk, command, scope, stdin)
        case tree.Case():
            return _case(walk, command, scope, stdin)


def _binary(walk: "Walk", node: tree.Binary, scope: Scope, stdin: Input) -> Output:
    if node.op in ("|", "|&"):
        stages: list[tree.Stmt] = []
        _flatten(node, stages)
        output = SILENT
        for number, stage in enumerate(stages):
            given = stdin if number == 0 else Input(output, True, None)
            output = walk.statement(stage, scope.copy(), given)
        return output
    if node.op == "&&":
        first = walk.statement(node.left, scope, stdin)
        before = scope.directories
        second = walk.statement(node.right, scope, stdin)
        if scope.directories != before:
            scope.doubt = tuple(dict.fromkeys(scope.doubt + before))
        return merge(first, second)
    failing = scope.copy()
    first = walk.statement(node.left, scope, stdin)
    for name, binding in scope.variables.items():
        failing.variables[name] = binding
    if _leaves(node.right):
        walk.statement(node.right, failing, stdin)
        scope.doubt = ()
        return first
    second = walk.statement(node.right, failing, stdin)
    scope.join(failing)
    return merge(first, second)


def _flatten(node: tree.Binary, stages: list[tree.Stmt]) -> None:
    for side in (node.left, node.right):
        inner = side.command
        if (
            isinstance(inner, tree.Binary)
            and inner.op in ("|", "|&")
            and not side.redirects
            and not side.background
        ):
            _flatten(inner, stages)
        else:
            stages.append(side)


def _if(walk: "Walk", node: tree.If, scope: Scope, stdin: Input) -> Output:
    output = walk.statements(node.cond, scope, stdin)
    other = scope.copy()
    output = merge(output, walk.statements(node.then, scope, stdin))
    if node.other is not None:
        output = merge(output, _if(walk, node.other, other, stdin))
    scope.join(other)
    return output


def _loop(walk: "Walk", cond: tree.Script, body: tree.Script, scope: Scope, stdin: Input) -> Output:
    output = SILENT
    entry = scope.copy()
    for turn in range(3):
        before = scope.copy()
        walk.statements(cond, scope, stdin)
        output = merge(output, walk.statements(body, scope, stdin))
        scope.join(before)
        same = before.variables == scope.variables and before.directories == scope.directories
        if same:
            break
        if turn == 1:
            scope.widen(before)
    scope.join(entry)
    return output


def _for(walk: "Walk", node: tree.For, scope: Scope, stdin: Input) -> Output:
    expander = walk.expander(scope)
    expander.arithmetic(node.words)
    count(node.words, scope)
    if node.name in scope.references:
        # The loop makes it refer to one variable after the other.
        scope.references[node.name] = None
    if node.name:
        values: list[Value] = []
        if node.items is None:
            values = list(scope.positional) if scope.positional is not None else [UNKNOWN]
        else:
            for world in expander.worlds(node.items):
                expander.choice = world
                values.extend(f for word in node.items for f in expander.fields(word))
        scope.assign(node.name, tuple(values) or (EMPTY,))
    return _loop(walk, (), node.body, scope, stdin)


def _case(walk: "Walk", node: tree.Case, scope: Scope, stdin: Input) -> Output:
    expander = walk.expander(scope)
    expander.single(node.word)
    after = scope.copy()
    output = SILENT
    for patterns, body in node.items:
        for pattern in patterns:
            expander.single(pattern)
        branch = scope.copy()
        output = merge(output, walk.statements(body, branch, stdin))
        after.join(branch)
    scope.join(after)
    return output


def _leaves(statement: tree.Stmt) -> bool:
    """Whether the statement ends the shell, function or loop."""
    command = statement.command
    if isinstance(command, tree.Block) and command.body and not command.subshell:
        return _leaves(command.body[-1])
    if isinstance(command, tree.Call) and command.args:
        first = command.args[0].parts
        return len(first) == 1 and isinstance(first[0], tree.Lit) and first[0].text in _LEAVING
    return False


def count(words: tuple[tree.Word, ...], scope: Scope) -> None:
    """Variables that arithmetic names and nothing else has set are numbers."""
    for word in words:
        first = word.parts[0] if len(word.parts) == 1 else None
        if isinstance(first, tree.Lit) and first.text.isidentifier():
            scope.variables.setdefault(first.text, (Value((NUMBER,)),))
