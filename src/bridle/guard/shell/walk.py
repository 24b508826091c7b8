"""Walks a shell program: judges every simple command of the tree in its own state."""

import re
from functools import partial

from bridle.guard.budget import spend
from bridle.guard.commands.given import check_variable
from bridle.guard.commands.registry import base_name, effects_of
from bridle.guard.effects import Command, Effect, Run, Shell
from bridle.guard.rules import Rules
from bridle.guard.shell import producers, tree
from bridle.guard.shell.builtins import Args, Builtins, Environment
from bridle.guard.shell.parse import parse
from bridle.guard.shell.scope import Scope
from bridle.guard.shell.shfmt import ParseError
from bridle.guard.shell.values import (
    ANY,
    ATOM,
    EMPTY,
    NUMBER,
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
)  # fmt: skip
from bridle.guard.shell.words import Expander
from bridle.guard.verdict import Blocked, Part

MAX_DEPTH = 16
MAX_STEPS = 4000
_FIRST_PIPE = 63
_LEAVING = frozenset({"exit", "return", "break", "continue"})
_REFERRING = frozenset({"declare", "typeset", "local"})
MAX_WORDS = 10_000
"""Most words of one simple command."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SAME_SHELL = frozenset({"command", "builtin", "noglob", "nocorrect"})
"""Words before a command that do not start another shell: a `cd` after them counts."""


class Walk(Builtins):
    """One walk over one program. `trace` collects parts instead of stopping at the first block."""

    def __init__(self, rules: Rules, trace: list[Part] | None = None) -> None:
        super().__init__(rules)
        self.trace = trace
        self.steps = 0
        self.defined: dict[int, tuple[tree.Stmt, Scope]] = {}
        self.pipes: dict[str, Output] = {}
        """What can be read from each process substitution, by its name."""

    # --- programs and statements ---------------------------------------------------------------

    def program(self, text: str, directory: str) -> None:
        """Judge a whole program text run in the directory. Raises `Blocked`."""
        home = self.rules.places.home
        variables: dict[str, Args] = {
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
        """Judge one statement; in a trace, continue after a block."""
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
            stdin = self._redirected(statement.redirects, scope, stdin)
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
            case tree.If():
                return self._if(command, scope, stdin)
            case tree.While():
                return self._loop(command.cond, command.body, scope, stdin)
            case tree.For():
                return self._for(command, scope, stdin)
            case tree.Case():
                return self._case(command, scope, stdin)
            case tree.Block():
                inner = scope.copy() if isinstance(command, tree.Subshell) else scope
                return self.statements(command.body, inner, stdin)
            case tree.Function():
                scope.functions[command.lit.text] = command.body
                self.defined[id(command.body)] = (command.body, scope.copy())
                return SILENT
            case tree.Test():
                expander, words = self.expander(scope), command.words
                for word in words:
                    expander.single(word)
                if command.arithmetic:
                    expander.arithmetic(words)
                    _count(words, scope)
                return SILENT
            case tree.Declare():
                return self._declare(command, scope)
            case tree.Timed():
                if command.body is None:
                    return SILENT
                inner = scope.copy() if isinstance(command, tree.Coproc) else scope
                return self.statement(command.body, inner, stdin)

    def set_variable(self, name: str, values: Args, scope: Scope, exported: bool = False) -> None:
        """Give the variable these values, and judge what that makes later commands do."""
        meant = scope.meant(name) or name
        self.variable(meant, values, scope, exported or scope.exports)
        scope.assign(name, values)

    def variable(
        self, name: str, values: Args, scope: Scope, exported: bool = True, gate: bool = False
    ) -> None:
        """Judge what a variable with one of these values makes commands do."""
        home, implements = self.rules.places.home, self.rules.implements
        for value in values:
            for effect in check_variable(
                name, value, home, implements=implements, exported=exported
            ):
                self._effect(effect, scope, TERMINAL, gate, False)

    # --- compound commands: the scope then contains the result of every path through them ---

    def _binary(self, node: tree.Binary, scope: Scope, stdin: Input) -> Output:
        if node.op in ("|", "|&"):
            stages: list[tree.Stmt] = []
            _flatten(node, stages)
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
        expander, loop = self.expander(scope), node.loop
        if isinstance(loop, tree.CStyleLoop):
            words = tree.words_in(loop.init, loop.cond, loop.post)
            expander.arithmetic(words)
            _count(words, scope)
            return self._loop((), node.body, scope, stdin)
        name, items = loop.lit.text, loop.items
        if name in scope.references:
            # The loop makes it refer to one variable after the other.
            scope.references[name] = None
        values: list[Value] = []
        if items is None:
            values = list(scope.positional) if scope.positional is not None else [UNKNOWN]
        else:
            for world in expander.worlds(items):
                expander.choice = world
                values.extend(f for word in items for f in expander.fields(word))
        scope.assign(name, tuple(values) or (EMPTY,))
        return self._loop((), node.body, scope, stdin)

    def _case(self, node: tree.Case, scope: Scope, stdin: Input) -> Output:
        expander = self.expander(scope)
        expander.single(node.word)
        after = scope.copy()
        output = SILENT
        for item in node.items:
            for pattern in item.patterns:
                expander.single(pattern)
            branch = scope.copy()
            output = merge(output, self.statements(item.body, branch, stdin))
            after.join(branch)
        scope.join(after)
        return output

    # --- redirections and declarations ---

    def _redirected(
        self, redirects: tuple[tree.Redirect, ...], scope: Scope, stdin: Input
    ) -> Input:
        """Judge where redirections write; returns what the command then reads."""
        for redirect in redirects:
            expander = self.expander(scope)
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
        self.note(f"{redirect.op} {target.show()}")
        return stdin

    def _declare(self, node: tree.Declare, scope: Scope) -> Output:
        """Judge a declaration and apply the values it sets."""
        expander = self.expander(scope)
        flags = ""
        for arg in node.args:
            if arg.naked and arg.name == "" and arg.value is not None:
                value = expander.single(arg.value)
                check_words("declare", (value, value))
                flags += value.text or ""
                continue
            exported = node.lit.text == "export" or "x" in flags
            refers = node.lit.text == "nameref" or ("n" in flags and node.lit.text in _REFERRING)
            if arg.naked:
                if refers and "+" not in flags:
                    scope.refer(arg.name, None)
                elif exported and "n" not in flags:
                    known = tuple(v for v in scope.lookup(arg.name) if v != UNKNOWN)
                    self.variable(arg.name, known, scope)
                continue
            values = assigned(arg, expander, scope)
            if values:
                if refers:
                    scope.refer(arg.name, values[0] if len(values) == 1 else UNKNOWN)
                    continue
                if "i" in flags and arg.value is not None:
                    expander.arithmetic((arg.value,))
                self.set_variable(arg.name, values, scope, exported)
        return SILENT

    # --- simple commands -----------------------------------------------------------------------

    def expander(self, scope: Scope) -> Expander:
        """What words become in the scope."""
        return Expander(scope, partial(self.statements, stdin=TERMINAL), self._pipe)

    def _pipe(self, node: tree.ProcSubst, scope: Scope) -> str:
        """Judge a process substitution; returns the name under which a command finds it."""
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
        given = [(a.name, assigned(a, expander, scope)) for a in node.assigns]
        env = tuple((name, value) for name, values in given for value in values[:1])
        worlds = expander.worlds(node.args)
        output, after = SILENT, None
        for number, world in enumerate(worlds):
            inner = scope if len(worlds) == 1 else scope.copy()
            expander.scope, expander.choice = inner, world
            argv = tuple([field for word in node.args for field in expander.fields(word)])
            if number == 0:
                gate = bool(given) and len(worlds) == 1 and self.rules.is_gate(argv)
                for name, values in given:
                    self.variable(name, values, scope, gate=gate)
            output = merge(output, self.simple(argv, env, inner, stdin))
            if after is None:
                after = inner
            else:
                after.join(inner)
        if after is not None and after is not scope:
            scope.follow(after)
        return output

    def simple(
        self,
        argv: Args,
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
            # After a wrapper nothing has this name; judge what a shell would have run.
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
        output = self.builtin(name, argv[1:], scope, stdin)
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

    def _pipes_in(self, argv: Args) -> tuple[tuple[str, Output], ...]:
        if not self.pipes:
            return ()
        # A name may be at the end of a word, after an option's letter or `=`.
        given = (value.lead[value.lead.rfind("/dev/fd/") :] for value in argv)
        return tuple((name, self.pipes[name]) for name in given if name in self.pipes)

    def _effect(
        self, effect: Effect, scope: Scope, stdin: Input, gate: bool, allowed: bool
    ) -> Output | None:
        """Judge one effect; returns the output of a nested command, None when nothing ran."""
        if isinstance(effect, Run):
            inner = scope.copy()
            inner.depth += 1
            self._check_depth(inner)
            if effect.directory is not None:
                inner.change_directory(effect.directory)
            gated = gate or (bool(effect.env) and self.rules.is_gate(effect.argv))
            for name, value in effect.env:
                self.variable(name, (value,), inner, gate=gated)
            return self.simple(effect.argv, effect.env, inner, stdin, effect.functions, gate)
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

    def _function(self, name: str, args: Args, scope: Scope, stdin: Input) -> Output:
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
        """Add an allowed part to the trace."""
        if self.trace is not None:
            self.trace.append(Part(part, "allow", "allowed", ""))


def _seen_by(env: Environment, scope: Scope) -> Environment:
    """The variables of a program's environment that handlers look at."""
    spend(len(scope.variables) >> 4)
    given = {name for name, _ in env}
    kept = [
        (name, values[0] if len(values) == 1 else UNKNOWN)
        for name, values in scope.variables.items()
        if (name.startswith("GIT_") or name == "TMPDIR") and name not in given
    ]
    return (*env, *kept)


def _shown(argv: Args) -> str:
    return " ".join(value.show() for value in argv)


def _is_text(path: str) -> bool:
    """Whether a command word can only be a shell text that some program will split."""
    return any(c in path for c in " \t\n;|&") and not path.startswith(("/", "./", "../"))


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


def _leaves(statement: tree.Stmt) -> bool:
    """Whether the statement ends the shell, function or loop."""
    command = statement.command
    if type(command) is tree.Block and command.body:
        return _leaves(command.body[-1])
    if isinstance(command, tree.Call) and command.args:
        first = command.args[0].parts
        return len(first) == 1 and isinstance(first[0], tree.Lit) and first[0].text in _LEAVING
    return False


def _count(words: tuple[tree.Word, ...], scope: Scope) -> None:
    """Variables that only arithmetic has set are numbers."""
    for word in words:
        first = word.parts[0] if len(word.parts) == 1 else None
        if isinstance(first, tree.Lit) and first.text.isidentifier():
            scope.variables.setdefault(first.text, (Value((NUMBER,)),))


_TABLES = frozenset({"BASH_CMDS", "BASH_ALIASES", "aliases", "commands", "functions", "galiases"})
"""Arrays in which a shell keeps what command names mean; zsh's are in lower case."""


def assigned(node: tree.Assign, expander: Expander, scope: Scope) -> Args:
    """The values that an assignment gives."""
    if node.name in _TABLES and (node.index is not None or node.elements is not None):
        raise Blocked("command-unresolved", f"{node.name} changes what commands are")
    for word in tree.words_in(node.index):
        expander.single(word)
    if node.elements is not None:
        words = [w for e in node.elements.items for w in tree.words_in(e.index, e.value)]
        elements = [f for word in words for f in expander.fields(word)]
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


def _all_atoms(value: Value) -> bool:
    return all(isinstance(p, Hole) and p.kind == "atom" for p in value.parts)


_EVALUATING = frozenset(
    {"test", "[", "unset", "read", "wait", "export", "declare", "typeset", "local", "readonly",
     "mapfile", "readarray", "printf", "getopts"}
)  # fmt: skip
"""Builtins that evaluate the subscript of a variable name in their arguments."""
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[[^]]*(?:\$\(|`)")


def check_words(name: str, argv: Args) -> None:
    """Refuse a command whose words hide another. Raises `Blocked`."""
    path = argv[0].text or ""
    if name != "declare" and path.startswith("-") and path != "-":
        # `time -o FILE cmd`: whether the word is a command or an option depends on the shell.
        raise Blocked("command-unresolved", f"the command {path}")
    if name in _EVALUATING:
        for arg in argv[1:]:
            if _SUBSCRIPT.match(arg.text or ""):
                raise Blocked("command-unresolved", f"{name} evaluates {arg.text}")
