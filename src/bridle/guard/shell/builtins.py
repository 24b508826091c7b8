"""Shell builtins that change the shell's own state: directory, variables, what runs later."""

import re
from abc import ABC, abstractmethod

import msgspec

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Shell
from bridle.guard.rules import Rules
from bridle.guard.shell import producers, tree
from bridle.guard.shell.parse import parse
from bridle.guard.shell.scope import Scope
from bridle.guard.shell.shfmt import ParseError
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
)  # fmt: skip
from bridle.guard.verdict import Blocked

Args = tuple[Value, ...]
Environment = tuple[tuple[str, Value], ...]
_HIDING = {"hash": "p", "compgen": "CW", "complete": "CW", "bind": "x", "jobs": "x", "emulate": "c",
           "enable": "f", "fc": "es"}  # fmt: skip
"""Builtins, and their options that run a text, load code or give a name another meaning."""
_LATE_SIGNALS = frozenset({"EXIT", "0", "INT", "TERM", "HUP", "SIGINT", "SIGTERM", "SIGHUP"})


class Builtins(ABC):
    """The builtins of one shell, each a method that judges the call and records what it changes;
    None when this use is an ordinary command."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.aliases: set[str] = set()
        self.at_exit: list[tuple[Shell, Scope]] = []
        """Traps, judged again with the final values of their variables."""

    @abstractmethod
    def nested(self, effect: Shell, scope: Scope, stdin: Input) -> Output:
        """Judge program text that a command runs in a shell."""

    @abstractmethod
    def simple(
        self, argv: Args, env: Environment, scope: Scope, stdin: Input, functions: bool = True
    ) -> Output:
        """Judge one simple command."""

    @abstractmethod
    def set_variable(self, name: str, values: Args, scope: Scope, exported: bool = False) -> None:
        """Give the variable these values, and judge what that makes later commands do."""

    def builtin(self, name: str, args: Args, scope: Scope, stdin: Input) -> Output | None:
        """Judge a call of the builtin; None if no builtin has that name."""
        if name in _HIDING:
            letters = _HIDING[name]
            if read(args, short=letters).has(*letters) or any(a.open_start for a in args):
                raise Blocked("command-unresolved", f"{name} runs something not in the call")
            return UNKNOWN_OUTPUT
        method = _METHODS.get(name)
        return None if method is None else method(self, args, scope, stdin)

    def _cd(self, args: Args, scope: Scope, stdin: Input) -> Output:
        operands = [a for a in args if not re.fullmatch(r"-[LPe@]+|--", a.text or "")]
        if not operands:
            home = scope.lookup("HOME")
            scope.change_directory(home[0] if len(home) == 1 else UNKNOWN)
        elif operands[0].text == "-":
            scope.go_back()
        elif _is_place(operands[0]):
            scope.change_directory(operands[0])
        else:
            scope.change_directory(UNKNOWN)
        return SILENT

    def _pushd(self, args: Args, scope: Scope, stdin: Input) -> Output:
        operands = [a for a in args if a.text != "--"]
        if not operands:
            scope.push_directory(None)
        elif _is_place(operands[0]):
            scope.push_directory(operands[0])
        else:
            # -n, +N, -N: the stack is turned, or changed without going there.
            scope.directories, scope.stack = (None,), None
        return SILENT

    def _popd(self, args: Args, scope: Scope, stdin: Input) -> Output:
        if args:
            scope.stack = None
        scope.pop_directory()
        return SILENT

    def _eval(self, args: Args, scope: Scope, stdin: Input) -> Output:
        words = [a for number, a in enumerate(args) if not (number == 0 and a.text == "--")]
        pieces: list[str | Hole] = []
        for number, word in enumerate(words):
            # A space after the last word would hide the end of a here-document.
            pieces.extend([*([" "] if number else []), *word.parts])
        return self.nested(Shell(join(pieces), sourced=True), scope, stdin)

    def _set(self, args: Args, scope: Scope, stdin: Input) -> Output:
        for number, arg in enumerate(args):
            text = arg.text or ""
            if text == "--" or not text.startswith(("-", "+")):
                rest = args[number + 1 :] if text == "--" else args[number:]
                scope.positional = rest
                break
            if text[0] == "-" and text[1:].isalpha() and "e" in text:
                scope.strict = True
            if re.fullmatch(r"-[a-z]*a[a-z]*", text) or text == "allexport":
                scope.exports = True
        return SILENT

    def _shift(self, args: Args, scope: Scope, stdin: Input) -> Output:
        count = int(args[0].text or "1") if args and (args[0].text or "").isdigit() else 1
        if scope.positional is not None:
            scope.positional = scope.positional[count:]
        return SILENT

    def _unset(self, args: Args, scope: Scope, stdin: Input) -> Output:
        for arg in args:
            if arg.text:
                scope.references.pop(arg.text, None)
                scope.functions.pop(arg.text, None)
                scope.arrays.pop(arg.text, None)
                scope.variables[arg.text] = (EMPTY,)
        return SILENT

    def _export(self, args: Args, scope: Scope, stdin: Input) -> Output:
        flags = ""
        for arg in args:
            name, equals, _ = arg.lead.partition("=")
            if arg.lead[:1] in ("-", "+"):
                flags += arg.lead
            elif "n" in flags and name.isidentifier():
                scope.refer(name, arg.after(len(name) + 1) if equals else None)
                continue
            if equals and name.isidentifier():
                self.set_variable(name, (arg.after(len(name) + 1),), scope, exported=True)
            elif arg.open_start:
                raise Blocked("command-unresolved", "a variable only known at run time is set")
        return SILENT

    def _read(self, args: Args, scope: Scope, stdin: Input) -> Output:
        names: list[str] = []
        skip = False
        for arg in args:
            text = arg.text or ""
            if skip:
                skip = False
            elif text.startswith("-"):
                skip = text[-1] in "adeinNptu"
                if text[-1] == "a" or text == "-a":
                    skip = False
            elif text.isidentifier():
                names.append(text)
        lines = stdin.output.lines if stdin.piped and stdin.file is None else ()
        parts = [part for line in lines for part in line.parts]
        below = all(isinstance(part, Hole) and part.kind in ("rel", "atom") for part in parts)
        for name in names or ["REPLY"]:
            known = lines and (len(names) <= 1 or below)
            scope.assign(name, tuple(lines) if known else (UNKNOWN,))
        return SILENT

    def _mapfile(self, args: Args, scope: Scope, stdin: Input) -> Output:
        names = [a.text for a in args if a.text and a.text.isidentifier()]
        lines = stdin.output.lines if stdin.piped and stdin.file is None else ()
        for arg in args:
            if re.match(r"-[a-zA-Z]*C", arg.lead):
                raise Blocked("command-unresolved", "a callback of mapfile")
        scope.arrays[names[-1] if names else "MAPFILE"] = tuple(lines) or (UNKNOWN,)
        return SILENT

    def _trap(self, args: Args, scope: Scope, stdin: Input) -> Output:
        operands = [a for a in args if a.text not in ("--", "-p", "-l")]
        if len(operands) > 1 and operands[0].text != "-":
            effect = Shell(operands[0])
            late = all(a.text in _LATE_SIGNALS for a in operands[1:])
            after = scope.copy()
            try:
                self.nested(msgspec.structs.replace(effect, sourced=True), after, TERMINAL)
                if not late:
                    # It may run before any command that follows.
                    scope.join(after)
            except Blocked as block:
                if not late or block.rule != "path-unresolved":
                    raise
            if late:
                # It runs with the final values of its variables.
                self.at_exit.append((effect, scope))
        return SILENT

    def _alias(self, args: Args, scope: Scope, stdin: Input) -> Output:
        for arg in args:
            name, equals, _ = arg.lead.partition("=")
            if not equals and not arg.open_start:
                continue
            if not self.rules.implements:
                raise Blocked("command-unresolved", "an alias hides what a command does")
            text = arg.after(len(name) + 1)
            self.nested(Shell(text), scope, TERMINAL)
            if text.text is not None:
                scope.functions[name] = self._alias_body(name, text.text)
        return SILENT

    def _alias_body(self, name: str, text: str) -> tree.Stmt:
        """What the name means from here on: the text with the words after it."""
        first = (text.split() or [""])[0]
        if first in self.aliases - {name}:
            raise Blocked("command-unresolved", f"the alias {name} of an alias")
        self.aliases.add(name)
        # Inside its own text the name is the command again.
        own = "command " if first == name else ""
        try:
            return tree.Stmt(tree.Block(parse(f'{own}{text} "$@"')))
        except ParseError:
            raise Blocked("shell-unparsed", f"the alias {name}") from None

    def _getopts(self, args: Args, scope: Scope, stdin: Input) -> Output:
        if len(args) > 1 and args[1].text:
            scope.assign(args[1].text, (UNKNOWN,))
        scope.assign("OPTARG", (UNKNOWN,))
        return SILENT

    def _printf(self, args: Args, scope: Scope, stdin: Input) -> Output | None:
        if len(args) > 1 and args[0].text == "-v" and args[1].text:
            name = args[1].text
            if not name.isidentifier():
                raise Blocked("command-unresolved", "printf -v with an index")
            output = producers.output(
                Command("printf", args[2:], directories=scope.directories), ""
            )
            self.set_variable(name, output.lines or (EMPTY,), scope)
            return SILENT
        return None

    def _shopt(self, args: Args, scope: Scope, stdin: Input) -> Output | None:
        words = [a.text for a in args]
        if "-s" in words and {"cdable_vars", "lastpipe", None}.intersection(words):
            raise Blocked("command-unresolved", "the shell changes directory in other ways")
        return None


_METHODS = {
    "shopt": Builtins._shopt, "cd": Builtins._cd, "chdir": Builtins._cd,
    "pushd": Builtins._pushd, "popd": Builtins._popd,
    "eval": Builtins._eval, "set": Builtins._set, "shift": Builtins._shift,
    "unset": Builtins._unset, "read": Builtins._read, "mapfile": Builtins._mapfile,
    "readarray": Builtins._mapfile, "trap": Builtins._trap, "alias": Builtins._alias,
    "unalias": Builtins._getopts, "getopts": Builtins._getopts, "printf": Builtins._printf,
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), Builtins._export),
}  # fmt: skip


def _is_place(value: Value) -> bool:
    """Whether the word names a directory that can be followed."""
    if value.text is not None:
        return not value.text.startswith(("+", "-"))
    kinds = {p.kind for p in value.parts if isinstance(p, Hole)}
    return bool(kinds) and kinds <= {"rel", "atom", "glob", "scratch"}
