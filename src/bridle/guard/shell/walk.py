"""Walking a shell program: every simple command of the tree is judged, in its own state."""

import re

from bridle.guard.budget import spend
from bridle.guard.commands.registry import base_name, effects_of
from bridle.guard.effects import Command, Effect, Run, Shell
from bridle.guard.rules import Rules
from bridle.guard.shell import producers, tree
from bridle.guard.shell.bindings import assigned, check_words, declare, redirected
from bridle.guard.shell.builtins import BUILTINS
from bridle.guard.shell.compounds import compound, count
from bridle.guard.shell.environment import check_variable
from bridle.guard.shell.parse import parse
from bridle.guard.shell.scope import Scope
from bridle.guard.shell.shfmt import ParseError
from bridle.guard.shell.values import (
    ANY,
    ATOM,
    SILENT,
    TERMINAL,
    UNKNOWN,
    UNKNOWN_OUTPUT,
    Input,
    Output,
    Value,
    literal,
    merge,
)
from bridle.guard.shell.words import Expander
from bridle.guard.verdict import Blocked, Part

MAX_DEPTH = 16
MAX_STEPS = 4000
_FIRST_PIPE = 63
MAX_WORDS = 10_000
"""Most words of one simple command."""
Environment = tuple[tuple[str, Value], ...]
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SAME_SHELL = frozenset({"command", "builtin", "noglob", "nocorrect"})
"""Words before a command that do not start another shell: a `cd` after them counts."""


class Walk:
    """One walk over one program. `trace` collects parts instead of stopping at the first block."""

    def __init__(self, rules: Rules, trace: list[Part] | None = None) -> None:
        self.rules = rules
        self.trace = trace
        self.steps = 0
        self.defined: dict[int, tuple[tree.Stmt, Scope]] = {}
        self.aliases: set[str] = set()
        self.pipes: dict[str, Output] = {}
        """What can be read from each process substitution, by its name."""
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
            scope.assume_success()
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
        spend(5 + 5 * len(statement.redirects))
        if self.steps > MAX_STEPS:
            raise Blocked("shell-unparsed", "the command has too many parts")
        if statement.background:
            scope = scope.copy()
        if statement.redirects:
            stdin = redirected(self, statement.redirects, scope, stdin)
        command = statement.command
        if command is None:
            reads = any(r.op == "<" for r in statement.redirects)
            return UNKNOWN_OUTPUT if reads else SILENT
        return self._command(command, scope, stdin)

    def _command(self, command: tree.Command, scope: Scope, stdin: Input) -> Output:
        match command:
            case tree.Call():
                return self._call(command, scope, stdin)
            case tree.Binary() | tree.If() | tree.While() | tree.For() | tree.Case():
                return compound(self, command, scope, stdin)
            case tree.Block():
                inner = scope.copy() if command.subshell else scope
                return self.statements(command.body, inner, stdin)
            case tree.Function():
                scope.functions[command.name] = command.body
                self.defined[id(command.body)] = (command.body, scope.copy())
                return SILENT
            case tree.Test():
                expander = self.expander(scope)
                for word in command.words:
                    expander.single(word)
                if command.arithmetic:
                    expander.arithmetic(command.words)
                    count(command.words, scope)
                return SILENT
            case tree.Declare():
                return declare(self, command, scope)
            case tree.Timed():
                if command.body is None:
                    return SILENT
                inner = scope.copy() if command.background else scope
                return self.statement(command.body, inner, stdin)

    def set_variable(
        self, name: str, values: tuple[Value, ...], scope: Scope, exported: bool = False
    ) -> None:
        """Give the variable these values, and judge what that makes later commands do."""
        meant = scope.meant(name) or name
        self.variable(meant, values, scope, exported or scope.exports)
        scope.assign(name, values)

    def variable(
        self,
        name: str,
        values: tuple[Value, ...],
        scope: Scope,
        exported: bool = True,
        gate: bool = False,
    ) -> None:
        """Judge what a variable with one of these values makes commands do."""
        home, implements = self.rules.places.home, self.rules.implements
        for value in values:
            for effect in check_variable(
                name, value, home, implements=implements, exported=exported
            ):
                self._effect(effect, scope, TERMINAL, gate, False)

    # --- simple commands -----------------------------------------------------------------------

    def expander(self, scope: Scope) -> Expander:
        """What words become in the scope."""
        return Expander(scope, self._substitute, self._pipe, self.rules.places.home)

    def _substitute(self, body: tree.Script, scope: Scope) -> Output:
        return self.statements(body, scope, TERMINAL)

    def _pipe(self, node: tree.ProcSubst, scope: Scope) -> str:
        """Judge a process substitution; the name under which a command finds it."""
        name = f"/dev/fd/{_FIRST_PIPE + len(self.pipes)}"
        if node.op == "<(":
            self.pipes[name] = self.statements(node.body, scope, TERMINAL)
        else:
            # What is written into it is not followed.
            self.pipes[name] = UNKNOWN_OUTPUT
            self.statements(node.body, scope, Input(UNKNOWN_OUTPUT, True))
        return name

    def _call(self, node: tree.Call, scope: Scope, stdin: Input) -> Output:
        expander = self.expander(scope)
        if not node.args:
            for assign in node.assigns:
                values = assigned(assign, expander, scope)
                if values:
                    self.set_variable(assign.name, values, scope)
            return SILENT
        env: list[tuple[str, Value]] = []
        given = [(a.name, assigned(a, expander, scope)) for a in node.assigns]
        env.extend((name, value) for name, values in given for value in values[:1])
        worlds = expander.worlds(node.args)
        if len(worlds) == 1:
            argv = [field for word in node.args for field in expander.fields(word)]
            gate = bool(given) and self.rules.is_gate(tuple(argv))
            for name, values in given:
                self.variable(name, values, scope, gate=gate)
            return self.simple(tuple(argv), tuple(env), scope, stdin)
        for name, values in given:
            self.variable(name, values, scope)
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
            scope.follow(after)
        return output

    def simple(
        self,
        argv: tuple[Value, ...],
        env: Environment,
        scope: Scope,
        stdin: Input,
        functions: bool = True,
        lifted: bool = False,
    ) -> Output:
        """Judge one simple command. Raises `Blocked`."""
        self.steps += 1
        if len(argv) > MAX_WORDS:
            raise Blocked("too-long", f"a command of {len(argv)} words")
        spend(20 + 4 * len(argv))
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
        if _is_text(path):
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
                self.note(_shown(argv))
                return output
        command = Command(
            name, argv[1:], _seen_by(env, scope), stdin.output, stdin.piped, stdin.file,
            scope.directories, self._pipes_in(argv),
        )  # fmt: skip
        policy = self.rules.policy
        home = self.rules.places.home
        effects = effects_of(command, path, policy.command_name, policy.safe_commands, home)
        gate = lifted or self.rules.is_gate(argv)
        allowed = self.rules.is_allowed(argv)
        nested: Output | None = None
        for effect in effects:
            result = self._effect(effect, scope, stdin, gate, allowed)
            nested = result if result is not None else nested
        self.note(_shown(argv))
        if nested is not None:
            return nested
        return producers.output(command, self.rules.places.worktree)

    def _pipes_in(self, argv: tuple[Value, ...]) -> tuple[tuple[str, Output], ...]:
        if not self.pipes:
            return ()
        # A name may be at the end of a word, after an option's letter or `=`.
        given = (value.lead[value.lead.rfind("/dev/fd/") :] for value in argv)
        return tuple((name, self.pipes[name]) for name in given if name in self.pipes)

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
            gated = gate or (bool(effect.env) and self.rules.is_gate(effect.argv))
            for name, value in effect.env:
                self.variable(name, (value,), inner, gate=gated)
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
        texts: list[str] = []
        for number, part in enumerate(effect.text.parts):
            if isinstance(part, str):
                texts.append(part)
            elif part == ANY:
                raise Blocked("command-unresolved", f"the program {effect.text.show()} for a shell")
            else:
                name = f"_bridle_hole_{inner.depth}_{number}"
                inner.variables[name] = (Value((part,)),)
                texts.append("${" + name + "}")
        output = self.text("".join(texts), inner, stdin)
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

    def note(self, part: str) -> None:
        """Tell a trace of a part that is allowed."""
        if self.trace is not None:
            self.trace.append(Part(part, "allow", "allowed", ""))


def _seen_by(env: Environment, scope: Scope) -> Environment:
    """What a program finds in its environment of what handlers look at."""
    spend(len(scope.variables) >> 4)
    given = {name for name, _ in env}
    kept = [
        (name, values[0] if len(values) == 1 else UNKNOWN)
        for name, values in scope.variables.items()
        if (name.startswith("GIT_") or name == "TMPDIR") and name not in given
    ]
    return (*env, *kept)


def _shown(argv: tuple[Value, ...]) -> str:
    return " ".join(value.show() for value in argv)


def _is_text(path: str) -> bool:
    """Whether a command word can only be a shell text that some program will split."""
    return any(c in path for c in " \t\n;|&") and not path.startswith(("/", "./", "../"))
