"""Shell builtins that change the shell's own state: directory, variables, what runs later."""

import re
import shlex
from typing import TYPE_CHECKING, Protocol

import msgspec

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Shell
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
    literal,
)
from bridle.guard.verdict import Blocked

if TYPE_CHECKING:
    from bridle.guard.shell.walk import Walk


class Builtin(Protocol):
    """One builtin; None when this use of it is an ordinary command after all."""

    def __call__(
        self, walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input
    ) -> Output | None:
        """Judge the call and take in what it changes."""
        ...


def _cd(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
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


def _pushd(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    operands = [a for a in args if a.text != "--"]
    if not operands:
        scope.push_directory(None)
    elif _is_place(operands[0]):
        scope.push_directory(operands[0])
    else:
        # -n, +N, -N: the stack is turned, or changed without going there.
        scope.directories, scope.stack = (None,), None
    return SILENT


def _popd(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    if args:
        scope.stack = None
    scope.pop_directory()
    return SILENT


def _is_place(value: Value) -> bool:
    """Whether the word names a directory that can be followed."""
    if value.text is None:
        return _is_below(value)
    return not value.text.startswith(("+", "-"))


def _eval(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    words = [a for number, a in enumerate(args) if not (number == 0 and a.text == "--")]
    pieces: list[str | Hole] = []
    for number, word in enumerate(words):
        # A blank after the last word would hide the end of a here-document.
        pieces.extend([*([" "] if number else []), *word.parts])
    return walk.nested(Shell(join(pieces), sourced=True), scope, stdin)


def _set_builtin(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
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
        if text in ("-o", "+o"):
            continue
    return SILENT


def _shift(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    count = int(args[0].text or "1") if args and (args[0].text or "").isdigit() else 1
    if scope.positional is not None:
        scope.positional = scope.positional[count:]
    return SILENT


def _unset(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    for arg in args:
        if arg.text:
            scope.references.pop(arg.text, None)
            scope.functions.pop(arg.text, None)
            scope.arrays.pop(arg.text, None)
            scope.variables[arg.text] = (EMPTY,)
    return SILENT


def _export(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    flags = ""
    for arg in args:
        name, equals, _ = arg.lead.partition("=")
        if arg.lead[:1] in ("-", "+"):
            flags += arg.lead
        elif "n" in flags and name.isidentifier():
            scope.refer(name, arg.after(len(name) + 1) if equals else None)
            continue
        if equals and name.isidentifier():
            walk.set_variable(name, (arg.after(len(name) + 1),), scope, exported=True)
        elif arg.open_start:
            raise Blocked("command-unresolved", "a variable only known at run time is set")
    return SILENT


def _read(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
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
    for name in names or ["REPLY"]:
        known = lines and (len(names) <= 1 or all(_all_holes(line) for line in lines))
        scope.assign(name, tuple(lines) if known else (UNKNOWN,))
    return SILENT


def _mapfile(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    names = [a.text for a in args if a.text and a.text.isidentifier()]
    lines = stdin.output.lines if stdin.piped and stdin.file is None else ()
    for arg in args:
        if re.match(r"-[a-zA-Z]*C", arg.lead):
            raise Blocked("command-unresolved", "a callback of mapfile")
    scope.arrays[names[-1] if names else "MAPFILE"] = tuple(lines) or (UNKNOWN,)
    return SILENT


def _trap(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    operands = [a for a in args if a.text not in ("--", "-p", "-l")]
    if len(operands) > 1 and operands[0].text != "-":
        effect = Shell(operands[0])
        late = all(a.text in _LATE_SIGNALS for a in operands[1:])
        after = scope.copy()
        try:
            walk.nested(msgspec.structs.replace(effect, sourced=True), after, TERMINAL)
            if not late:
                # It may run before any command that follows.
                scope.join(after)
        except Blocked as block:
            if not late or block.rule != "path-unresolved":
                raise
        if late:
            # It runs with what its variables hold in the end.
            walk.at_exit.append((effect, scope))
    return SILENT


_LATE_SIGNALS = frozenset({"EXIT", "0", "INT", "TERM", "HUP", "SIGINT", "SIGTERM", "SIGHUP"})


def _alias(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    for arg in args:
        name, equals, _ = arg.lead.partition("=")
        if not equals and not arg.open_start:
            continue
        if not walk.rules.implements:
            raise Blocked("command-unresolved", "an alias hides what a command does")
        text = arg.after(len(name) + 1)
        walk.nested(Shell(text), scope, TERMINAL)
        if text.text is not None:
            scope.functions[name] = _alias_body(walk, name, text.text)
    return SILENT


def _alias_body(walk: "Walk", name: str, text: str) -> tree.Stmt:
    """What the name means from here on: the text with the words after it."""
    first = (text.split() or [""])[0]
    if first in walk.aliases - {name}:
        raise Blocked("command-unresolved", f"the alias {name} of an alias")
    walk.aliases.add(name)
    # Inside its own text the name is the command again.
    own = "command " if first == name else ""
    try:
        return tree.Stmt(tree.Block(parse(f'{own}{text} "$@"')))
    except ParseError:
        raise Blocked("shell-unparsed", f"the alias {name}") from None


def _getopts(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    if len(args) > 1 and args[1].text:
        scope.assign(args[1].text, (UNKNOWN,))
    scope.assign("OPTARG", (UNKNOWN,))
    return SILENT


def _printf(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output | None:
    if len(args) > 1 and args[0].text == "-v" and args[1].text:
        name = args[1].text
        if not name.isidentifier():
            raise Blocked("command-unresolved", "printf -v with an index")
        output = producers.output(Command("printf", args[2:], directories=scope.directories), "")
        walk.set_variable(name, output.lines or (EMPTY,), scope)
        return SILENT
    return None


def _hash(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    options = read(args, short="p", permute=False)
    for path in options.values("p"):
        for name in options.operands:
            if path.text is None or name.text is None:
                raise Blocked("command-unresolved", "a command name is given another program")
            # From here on the name is that program.
            scope.functions[name.text] = _alias_body(walk, name.text, shlex.quote(path.text))
    return SILENT


def _runs_text(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    """compgen, complete, bind: what a text among their options runs, now or at a key."""
    options = read(args, short="oAGWFCXPSmfuqrx" if args else "")
    for words in options.values("W"):
        if any(mark in words.show() for mark in ("$(", "`", "<any>")):
            raise Blocked("command-unresolved", "a list of words that runs a command")
    for text in options.values("C", "x"):
        command = text.after(text.lead.index(":") + 1) if options.has("x") and ":" in text.lead \
            else text  # fmt: skip
        quoted = re.fullmatch(r"\s*\"(.*)\"\s*", command.text or "", re.DOTALL)
        walk.nested(Shell(command if quoted is None else literal(quoted[1])), scope, stdin)
    return UNKNOWN_OUTPUT if options.has("C") else SILENT


def _jobs(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output | None:
    if args and args[0].text == "-x":
        return walk.simple(args[1:], (), scope, stdin, False)
    return None


def _emulate(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output | None:
    for text in read(args, short="co").values("c"):
        walk.nested(Shell(text), scope, stdin)
    return None


def _loads(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output:
    """enable, fc: other code under a builtin's name, or a command line only the shell knows."""
    options = read(args, short="fe" if args else "")
    if options.has("f", "e", "s") or any(a.open_start for a in args):
        raise Blocked("command-unresolved", "the shell runs code that is not in the call")
    return SILENT


def _shopt(walk: "Walk", args: tuple[Value, ...], scope: Scope, stdin: Input) -> Output | None:
    words = [a.text for a in args]
    if "-s" in words and {"cdable_vars", "lastpipe", None}.intersection(words):
        raise Blocked("command-unresolved", "the shell changes directory in other ways")
    return None


BUILTINS: dict[str, Builtin] = {
    "shopt": _shopt,
    "hash": _hash,
    "compgen": _runs_text,
    "complete": _runs_text,
    "bind": _runs_text,
    "jobs": _jobs,
    "emulate": _emulate,
    "enable": _loads,
    "fc": _loads,
    "cd": _cd,
    "chdir": _cd,
    "pushd": _pushd,
    "popd": _popd,
    "eval": _eval,
    "set": _set_builtin,
    "shift": _shift,
    "unset": _unset,
    "export": _export,
    "declare": _export,
    "typeset": _export,
    "local": _export,
    "readonly": _export,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "trap": _trap,
    "alias": _alias,
    "unalias": _getopts,
    "getopts": _getopts,
    "printf": _printf,
}


def _is_below(value: Value) -> bool:
    kinds = {p.kind for p in value.parts if isinstance(p, Hole)}
    return bool(kinds) and kinds <= {"rel", "atom", "glob", "scratch"}


def _all_holes(value: Value) -> bool:
    return all(isinstance(p, Hole) and p.kind in ("rel", "atom") for p in value.parts)
