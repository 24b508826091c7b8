"""Walking a shell program: every simple command of the tree is judged, in its own state."""

import re

from bridle.guard import producers, tree
from bridle.guard.builtins import BUILTINS
from bridle.guard.commands.registry import base_name, effects_of
from bridle.guard.effects import Command, Effect, Run, Shell
from bridle.guard.environment import check_variable
from bridle.guard.hidden import check_words, is_text
from bridle.guard.parse import parse
from bridle.guard.rules import Rules
from bridle.guard.scope import Scope
from bridle.guard.shfmt import ParseError
from bridle.guard.values import (
    ANY,
    ATOM,
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
    literal,
    merge,
)
from bridle.guard.verdict import Blocked, Part
from bridle.guard.words import Expander

MAX_DEPTH = 16
MAX_STEPS = 4000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SAME_SHELL = frozenset({"command", "builtin", "noglob", "nocorrect"})
"""Words before a command that do not start another shell: a `cd` after them counts."""
_LEAVING = frozenset({"exit", "return", "break", "continue"})


class Walk:
    """One walk over one program. `trace` collects parts instead of stopping at the first block."""

    def __init__(self, rules: Rules, trace: list[Part] | None = None) -> None:
        self.rules = rules
        self.trace = trace
        self.steps = 0
        self.defined: dict[int, tuple[tree.Stmt, Scope]] = {}
        self.aliases: set[str] = set()
        self.at_exit: list[tuple[Shell, Scope]] = []
        """Traps, judged once more with the values that their variables have in the end."""

    # --- programs and statements ---------------------------------------------------------------

    def program(self, text: str, directory: str) -> None:
        """Judge a whole program text run in the directory. Raises `Blocked`."""
        home = self.rules.places.home
        variables: dict[str, tuple[Value, ...]] = {
            "HOME": (literal(home),),
            "IFS": (literal(" \t\n"),),
        }
        scratch = self.rules.policy.scratch
        if scratch is not None:
            variables["TMPDIR"] = (literal(scratch),)
        scope = Scope(directory, variables)
        scope.arrays["COPROC"] = (Value((ATOM,)), Value((ATOM,)))
        self.text(text, scope)
        while self.defined:
            _, (body, seen) = self.defined.popitem()
            seen.positional = None
            self.statement(body, seen, TERMINAL)
        for effect, seen in self.at_exit:
            self.nested(effect, seen, TERMINAL)

    def text(self, text: str, scope: Scope, stdin: Input = TERMINAL) -> Output:
        """Judge program text in the scope."""
        try:
            script = parse(text)
        except ParseError as error:
            raise Blocked("shell-unparsed", f"{error}") from None
        return self.statements(script, scope, stdin)

    def statements(self, script: tree.Script, scope: Scope, stdin: Input) -> Output:
        """Judge statements one after the other."""
        output = SILENT
        for statement in script:
            output = merge(output, self.statement(statement, scope, stdin))
            scope.settle()
        return output

    def statement(self, statement: tree.Stmt, scope: Scope, stdin: Input) -> Output:
        """Judge one statement; in a trace, go on after a block."""
        if self.trace is None:
            return self._statement(statement, scope, stdin)
        try:
            return self._statement(statement, scope, stdin)
        except Blocked as block:
            verdict = block.verdict()
            self.trace.append(Part(block.detail, "block", verdict.rule, verdict.reason))
            return UNKNOWN_OUTPUT

    def _statement(self, statement: tree.Stmt, scope: Scope, stdin: Input) -> Output:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Blocked("shell-unparsed", "the command has too many parts")
        if statement.background:
            scope = scope.copy()
        if statement.redirects:
            stdin = self._redirects(statement.redirects, scope, stdin)
        command = statement.command
        if command is None:
            reads = any(r.op == "<" for r in statement.redirects)
            return UNKNOWN_OUTPUT if reads else SILENT
        return self._command(command, scope, stdin)

    def _command(self, command: tree.Command, scope: Scope, stdin: Input) -> Output:
        match command:
            case tree.Call():
                return self._call(command, scope, stdin)
            case tree.Binary():
                return self._binary(command, scope, stdin)
            case tree.Block():
                inner = scope.copy() if command.subshell else scope
                return self.statements(command.body, inner, stdin)
            case tree.If():
                return self._if(command, scope, stdin)
            case tree.While():
                return self._loop(command.cond, command.body, scope, stdin)
            case tree.For():
                return self._for(command, scope, stdin)
            case tree.Case():
                return self._case(command, scope, stdin)
            case tree.Function():
                scope.functions[command.name] = command.body
                self.defined[id(command.body)] = (command.body, scope.copy())
                return SILENT
            case tree.Test():
                expander = self._expander(scope)
                for word in command.words:
                    expander.single(word)
                if command.arithmetic:
                    expander.arithmetic(command.words)
                    _count(command.words, scope)
                return SILENT
            case tree.Declare():
                return self._declare(command, scope)
            case tree.Timed():
                if command.body is None:
                    return SILENT
                inner = scope.copy() if command.background else scope
                return self.statement(command.body, inner, stdin)

    def _binary(self, node: tree.Binary, scope: Scope, stdin: Input) -> Output:
        if node.op in ("|", "|&"):
            stages: list[tree.Stmt] = []
            self._flatten(node, stages)
            output = SILENT
            for number, stage in enumerate(stages):
                given = stdin if number == 0 else Input(output, True, None)
                output = self.statement(stage, scope.copy(), given)
            return output
        if node.op == "&&":
            first = self.statement(node.left, scope, stdin)
            before = scope.directories
            second = self.statement(node.right, scope, stdin)
            if scope.directories != before:
                scope.doubt = tuple(dict.fromkeys(scope.doubt + before))
            return merge(first, second)
        failing = scope.copy()
        first = self.statement(node.left, scope, stdin)
        for name, binding in scope.variables.items():
            failing.variables[name] = binding
        if _leaves(node.right):
            self.statement(node.right, failing, stdin)
            scope.doubt = ()
            return first
        second = self.statement(node.right, failing, stdin)
        scope.join(failing)
        return merge(first, second)

    def _flatten(self, node: tree.Binary, stages: list[tree.Stmt]) -> None:
        for side in (node.left, node.right):
            inner = side.command
            if (
                isinstance(inner, tree.Binary)
                and inner.op in ("|", "|&")
                and not side.redirects
                and not side.background
            ):
                self._flatten(inner, stages)
            else:
                stages.append(side)

    def _if(self, node: tree.If, scope: Scope, stdin: Input) -> Output:
        output = self.statements(node.cond, scope, stdin)
        other = scope.copy()
        output = merge(output, self.statements(node.then, scope, stdin))
        if node.other is not None:
            output = merge(output, self._if(node.other, other, stdin))
        scope.join(other)
        return output

    def _loop(self, cond: tree.Script, body: tree.Script, scope: Scope, stdin: Input) -> Output:
        output = SILENT
        entry = scope.copy()
        for turn in range(3):
            before = scope.copy()
            self.statements(cond, scope, stdin)
            output = merge(output, self.statements(body, scope, stdin))
            scope.join(before)
            same = before.variables == scope.variables and before.directories == scope.directories
            if same:
                break
            if turn == 1:
                scope.widen(before)
        scope.join(entry)
        return output

    def _for(self, node: tree.For, scope: Scope, stdin: Input) -> Output:
        expander = self._expander(scope)
        expander.arithmetic(node.words)
        _count(node.words, scope)
        if node.name:
            values: list[Value] = []
            if node.items is None:
                values = list(scope.positional) if scope.positional is not None else [UNKNOWN]
            else:
                for world in expander.worlds(node.items):
                    expander.choice = world
                    values.extend(f for word in node.items for f in expander.fields(word))
            scope.assign(node.name, tuple(values) or (EMPTY,))
        return self._loop((), node.body, scope, stdin)

    def _case(self, node: tree.Case, scope: Scope, stdin: Input) -> Output:
        expander = self._expander(scope)
        expander.single(node.word)
        after = scope.copy()
        output = SILENT
        for patterns, body in node.items:
            for pattern in patterns:
                expander.single(pattern)
            branch = scope.copy()
            output = merge(output, self.statements(body, branch, stdin))
            after.join(branch)
        scope.join(after)
        return output

    # --- redirections and assignments ----------------------------------------------------------

    def _redirects(self, redirects: tuple[tree.Redirect, ...], scope: Scope, stdin: Input) -> Input:
        for redirect in redirects:
            expander = self._expander(scope)
            if redirect.body is not None:
                text = expander.heredoc(redirect.body, redirect.quoted)
                stdin = Input(Output((text,)), True)
                continue
            for world in expander.worlds((redirect.target,)):
                expander.choice = world
                stdin = self._redirect(redirect, expander, scope, stdin)
        return stdin

    def _redirect(
        self, redirect: tree.Redirect, expander: Expander, scope: Scope, stdin: Input
    ) -> Input:
        parts = redirect.target.parts
        if redirect.op == "<<<":
            return Input(Output((expander.single(redirect.target),)), True)
        if redirect.op == "<":
            if len(parts) == 1 and isinstance(parts[0], tree.ProcSubst):
                return Input(self.statements(parts[0].body, scope.copy(), TERMINAL), True)
            return Input(UNKNOWN_OUTPUT, True, expander.single(redirect.target))
        fields = expander.fields(redirect.target)
        target = fields[0] if len(fields) == 1 else expander.single(redirect.target)
        if redirect.op in (">&", "<&"):
            text = target.text
            if text is not None and re.fullmatch(r"\d*-?", text):
                return stdin
            if redirect.op == "<&" or (text is None and target.parts and _all_atoms(target)):
                return stdin
        self.rules.check_write(target, scope.directories)
        self._note(f"{redirect.op} {target.show()}")
        return stdin

    def _assign(self, node: tree.Assign, expander: Expander, scope: Scope) -> tuple[Value, ...]:
        """The values that an assignment gives."""
        if node.index is not None:
            expander.single(node.index)
        if node.array is not None:
            elements = [f for word in node.array for f in expander.fields(word)]
            scope.variables.pop(node.name, None)
            kept = scope.arrays.get(node.name, ()) if node.append else ()
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

    def set_variable(self, name: str, values: tuple[Value, ...], scope: Scope) -> None:
        """Give the variable these values, and judge what that makes later commands do."""
        self._variable(name, values, scope)
        scope.assign(name, values)

    def _variable(self, name: str, values: tuple[Value, ...], scope: Scope) -> None:
        for value in values:
            for effect in check_variable(name, value, self.rules.implements):
                self._effect(effect, scope, TERMINAL, False, False)

    def _declare(self, node: tree.Declare, scope: Scope) -> Output:
        expander = self._expander(scope)
        flags = ""
        for arg in node.args:
            if arg.naked and arg.name == "" and arg.value is not None:
                value = expander.single(arg.value)
                check_words("declare", (value, value))
                flags += value.text or ""
                continue
            if arg.naked:
                continue
            values = self._assign(arg, expander, scope)
            if values:
                if "n" in flags.replace("-", "") and node.variant != "export":
                    values = (UNKNOWN,)
                self.set_variable(arg.name, values, scope)
        return SILENT

    # --- simple commands -----------------------------------------------------------------------

    def _expander(self, scope: Scope) -> Expander:
        return Expander(scope, self._substitute, self.rules.places.home)

    def _substitute(self, body: tree.Script, scope: Scope) -> Output:
        return self.statements(body, scope, TERMINAL)

    def _call(self, node: tree.Call, scope: Scope, stdin: Input) -> Output:
        expander = self._expander(scope)
        if not node.args:
            for assign in node.assigns:
                values = self._assign(assign, expander, scope)
                if values:
                    self.set_variable(assign.name, values, scope)
            return SILENT
        env: list[tuple[str, Value]] = []
        for assign in node.assigns:
            values = self._assign(assign, expander, scope)
            self._variable(assign.name, values, scope)
            env.extend((assign.name, value) for value in values[:1])
        worlds = expander.worlds(node.args)
        if len(worlds) == 1:
            argv = [field for word in node.args for field in expander.fields(word)]
            return self.simple(tuple(argv), tuple(env), scope, stdin)
        output = SILENT
        after: Scope | None = None
        for world in worlds:
            inner = scope.copy()
            expander.scope = inner
            expander.choice = world
            argv = [field for word in node.args for field in expander.fields(word)]
            output = merge(output, self.simple(tuple(argv), tuple(env), inner, stdin))
            if after is None:
                after = inner
            else:
                after.join(inner)
        if after is not None:
            scope.directories = after.directories
            scope.variables = after.variables
            scope.doubt = after.doubt
        return output

    def simple(
        self,
        argv: tuple[Value, ...],
        env: tuple[tuple[str, Value], ...],
        scope: Scope,
        stdin: Input,
        functions: bool = True,
        lifted: bool = False,
    ) -> Output:
        """Judge one simple command. Raises `Blocked`."""
        self.steps += 1
        while argv and _ASSIGNMENT.match(argv[0].lead):
            # After a wrapper this is a name that nothing has; judge what a shell would have run.
            argv = argv[1:]
        if not argv:
            return SILENT
        path = argv[0].text
        if path is None:
            raise Blocked("command-unresolved", f"the command {argv[0].show()}")
        if path == "":
            return SILENT
        if functions and path in scope.functions:
            return self._function(path, argv[1:], scope, stdin)
        self.rules.check_denied(argv)
        name = base_name(path)
        check_words(name, argv)
        if is_text(path):
            # No program has such a name: whatever runs this word hands it to a shell.
            self.nested(Shell(argv[0]), scope, stdin)
        if name in _SAME_SHELL:
            rest = argv[1:]
            while rest and rest[0].text in ("-p", "--"):
                rest = rest[1:]
            if rest and not rest[0].lead.startswith("-"):
                return self.simple(rest, env, scope, stdin, False, lifted)
        builtin = BUILTINS.get(name)
        if builtin is not None:
            output: Output | None = builtin(self, argv[1:], scope, stdin)
            if output is not None:
                self._note(_shown(argv))
                return output
        for key, value in scope.variables.items():
            seen = key.startswith("GIT_") or key == "TMPDIR"
            if seen and not any(key == k for k, _ in env):
                env = (*env, (key, value[0] if len(value) == 1 else UNKNOWN))
        command = Command(
            name, argv[1:], env, stdin.output, stdin.piped, stdin.file, scope.directories
        )
        policy = self.rules.policy
        effects = effects_of(command, path, policy.command_name, policy.safe_commands)
        gate = lifted or self.rules.is_gate(argv)
        allowed = self.rules.is_allowed(argv)
        nested: Output | None = None
        for effect in effects:
            result = self._effect(effect, scope, stdin, gate, allowed)
            nested = result if result is not None else nested
        self._note(_shown(argv))
        if nested is not None:
            return nested
        return producers.output(command, self.rules.places.worktree)

    def _effect(
        self, effect: Effect, scope: Scope, stdin: Input, gate: bool, allowed: bool
    ) -> Output | None:
        """Judge one effect; the output of a nested command, None when nothing ran."""
        if isinstance(effect, Run):
            inner = scope.copy()
            inner.depth += 1
            self._check_depth(inner)
            if effect.directory is not None:
                inner.change_directory(effect.directory)
            for name, value in effect.env:
                self._variable(name, (value,), inner)
            given = stdin if effect.stdin is None else Input(effect.stdin, True)
            return self.simple(effect.argv, effect.env, inner, given, effect.functions, gate)
        if isinstance(effect, Shell):
            return self.nested(effect, scope, stdin)
        self.rules.check(effect, scope.directories, gate, allowed)
        return None

    def nested(self, effect: Shell, scope: Scope, stdin: Input) -> Output:
        """Judge program text that a command runs in a shell."""
        inner = scope if effect.sourced else scope.copy()
        depth = inner.depth
        inner.depth += 1
        self._check_depth(inner)
        if effect.directory is not None:
            inner.change_directory(effect.directory)
        if effect.args is not None:
            inner.positional = effect.args
        text = ""
        for number, part in enumerate(effect.text.parts):
            if isinstance(part, str):
                text += part
            elif part == ANY:
                raise Blocked("command-unresolved", f"the program {effect.text.show()} for a shell")
            else:
                name = f"_bridle_hole_{inner.depth}_{number}"
                inner.variables[name] = (Value((part,)),)
                text += "${" + name + "}"
        output = self.text(text, inner, stdin)
        inner.depth = depth
        return output

    def _check_depth(self, scope: Scope) -> None:
        if scope.depth > MAX_DEPTH:
            raise Blocked("shell-unparsed", "commands that run commands too deeply")

    def _function(self, name: str, args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
        body = scope.functions[name]
        self.defined.pop(id(body), None)
        scope.depth += 1
        if scope.depth > MAX_DEPTH:
            scope.depth -= 1
            return UNKNOWN_OUTPUT
        saved, scope.positional = scope.positional, args
        output = self.statement(body, scope, stdin)
        scope.positional = saved
        scope.depth -= 1
        return output

    def _note(self, part: str) -> None:
        if self.trace is not None:
            self.trace.append(Part(part, "allow", "allowed", ""))


def _shown(argv: tuple[Value, ...]) -> str:
    return " ".join(value.show() for value in argv)


def _leaves(statement: tree.Stmt) -> bool:
    """Whether the statement ends the shell, function or loop."""
    command = statement.command
    if isinstance(command, tree.Block) and command.body and not command.subshell:
        return _leaves(command.body[-1])
    if isinstance(command, tree.Call) and command.args:
        first = command.args[0].parts
        return len(first) == 1 and isinstance(first[0], tree.Lit) and first[0].text in _LEAVING
    return False


def _count(words: tuple[tree.Word, ...], scope: Scope) -> None:
    """Variables that arithmetic names and nothing else has set are numbers."""
    for word in words:
        first = word.parts[0] if len(word.parts) == 1 else None
        if isinstance(first, tree.Lit) and first.text.isidentifier():
            scope.variables.setdefault(first.text, (Value((ATOM,)),))


def _all_atoms(value: Value) -> bool:
    return all(isinstance(p, Hole) and p.kind == "atom" for p in value.parts)
