"""Commands that search: they read, apart from what they are told to run or write."""

import re

from bridle.guard.commands.options import read
from bridle.guard.commands.wrappers import replaced
from bridle.guard.effects import Command, Effect, Mutates, Run, Write, hook
from bridle.guard.names import names
from bridle.guard.values import REL, UNKNOWN, Hole, Value, join, literal

_FIND_ACTIONS = {"-exec": False, "-execdir": False, "-ok": False, "-okdir": False}
_FIND_WRITES = {"-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}
_FIND_NAMES = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -newer -inum -samefile "
    "-lname -empty -perm -user -size -mtime -mmin"
)


def find(command: Command) -> list[Effect]:
    """Effects of find: what -exec runs, -delete removes and -fprint writes."""
    starts: list[Value] = []
    args = list(command.args)
    while args and re.fullmatch(r"-[HLPD]|-O\d*|--", args[0].text or ""):
        if args.pop(0).text == "-D" and args:
            args.pop(0)
    while args and not (args[0].lead[:1] in ("-", "(", "!") and args[0].parts):
        starts.append(args.pop(0))
    effects: list[Effect] = []
    named = any(a.text in _FIND_NAMES for a in args)
    pattern = _name_pattern(args)
    number = 0
    while number < len(args):
        word = args[number].text
        if word in _FIND_ACTIONS:
            end = number + 1
            while end < len(args) and args[end].text not in (";", "+"):
                end += 1
            if end < len(args) and args[end].text == "+" and args[end - 1].text != "{}":
                end = next(
                    (i for i in range(end + 1, len(args)) if args[i].text in (";", "+")), len(args)
                )
            argv = args[number + 1 : end]
            for start in starts or [literal(".")]:
                filled = tuple(replaced(a, "{}", _found(start, pattern)) for a in argv)
                effects.append(Run(filled, functions=False))
            number = end
        elif word in _FIND_WRITES:
            effects.extend(Write(a) for a in args[number + 1 : number + 2])
            number += _FIND_WRITES[word]
        elif word == "-delete":
            for start in starts or [literal(".")]:
                target = _found(start, pattern) if named else start
                effects.append(Write(target, "entry" if named else "tree"))
        elif args[number].open_start:
            effects.append(Mutates("find with an expression only known at run time"))
        number += 1
    return effects


def _name_pattern(args: list[Value]) -> str:
    """The pattern that the names found must match, empty when there is none or several.

    A -path pattern says more than a -name pattern; it is seen from the starting point.
    """
    for options in (("-path", "-wholename", "-ipath"), ("-name", "-iname")):
        given = [n for n, a in enumerate(args) if a.text in options]
        negated = [n for n in given if n and args[n - 1].text in ("!", "-not")]
        if len(given) == 1 and not negated and given[0] + 1 < len(args):
            return (args[given[0] + 1].text or "").removeprefix("./")
    return ""


def pattern_value(pattern: str) -> Value:
    """A path pattern as a value, component by component."""
    pieces: list[str | Hole] = []
    for number, component in enumerate(pattern.split("/")):
        wild = any(c in component for c in "*?[")
        pieces.append("/" if number else "")
        pieces.append(Hole("glob", component) if wild else component)
    return join(pieces)


def _found(start: Value, pattern: str = "") -> Value:
    """A path that find prints for this starting point."""
    if pattern and "/" in pattern:
        # Seen from the directory, as -path patterns are.
        return pattern_value(pattern)
    found = Hole("glob", pattern) if pattern else REL
    text = start.text
    if text in (".", "./"):
        return Value((found,))
    if start.holds("any"):
        return UNKNOWN
    tail = "" if text is not None and text.endswith("/") else "/"
    return join([*start.parts, tail, found])


def fd(command: Command) -> list[Effect]:
    """Effects of fd: what -x and -X run on each file."""
    values = ("exec", "exec-batch", "type", "extension", "exclude", "max-depth", "base-directory",
              "color", "size", "changed-within", "changed-before", "search-path", "threads",
              "glob", "min-depth", "owner", "max-results")  # fmt: skip
    for number, arg in enumerate(command.args):
        name = arg.text or ""
        if name in ("-x", "-X") or (name.startswith("--exec") and "=" not in name):
            argv = [replaced(a, "{}", Value((REL,))) for a in command.args[number + 1 :]]
            argv = argv[: next((i for i, a in enumerate(argv) if a.text == ";"), len(argv))]
            if tuple(argv) == command.args[number + 1 :]:
                argv.append(Value((REL,)))
            before = read(command.args[:number], short="teEdcSj", long=values)
            base = list(before.operands[1:])
            outside = list(base + before.values("base-directory", "search-path"))
            runs: list[Effect] = [Run(tuple(argv), functions=False)] if argv else []
            for place in outside:
                filled = [replaced(a, "{}", _found(place)) for a in command.args[number + 1 :]]
                runs.append(Run((*filled, _found(place)), functions=False))
            return runs
    return []


def rg(command: Command) -> list[Effect]:
    """Effects of ripgrep: only --pre and --hostname-bin run something."""
    options = read(
        command.args, short="ABCEefgjMmrtT",
        long=("pre", "hostname-bin", "glob", "type", "regexp", "file", "replace", "max-count",
              "context", "after-context", "before-context", "pre-glob", "sort", "color",
              "max-depth", "encoding", "engine"),
    )  # fmt: skip
    effects: list[Effect] = [hook(v) for v in options.values("pre", "hostname-bin")]
    return effects
