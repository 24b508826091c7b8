"""Commands that search: they read, apart from what their options run or write."""

import itertools
import os
import re

from bridle.guard.budget import spend
from bridle.guard.commands.options import read
from bridle.guard.commands.wrappers import replaced
from bridle.guard.effects import Command, Deny, Effect, Mutates, Run, Write
from bridle.guard.paths import PROTECTED, may_meet
from bridle.guard.shell.values import ATOM, REL, UNKNOWN, Hole, Value, join, literal
from bridle.guard.tables import names

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
    follows = any(a.text in ("-L", "-follow") for a in args) and _links_out(command)
    while args and re.fullmatch(r"-[HLPD]|-O\d*|--", args[0].text or ""):
        if args.pop(0).text == "-D" and args:
            args.pop(0)
    while args and not (args[0].lead[:1] in ("-", "(", "!") and args[0].parts):
        starts.append(args.pop(0))
    starts = starts or [literal(".")]
    effects: list[Effect] = []
    named = any(a.text in _FIND_NAMES for a in args)
    pattern = _name_pattern(args)
    # Through links it may find anything.
    found = [UNKNOWN if follows else _found(start, pattern) for start in starts]
    found.extend(literal(path) for start in starts for path in _guarding(start, args, command))
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
            if word in ("-execdir", "-okdir"):
                effects.extend(_in_folders(argv, starts))
            for path in found:
                filled = tuple(replaced(a, "{}", path) for a in argv)
                effects.append(Run(filled, functions=False))
            number = end
        elif word in _FIND_WRITES:
            effects.extend(Write(a) for a in args[number + 1 : number + 2])
            number += _FIND_WRITES[word]
        elif word == "-delete":
            effects.extend(Write(path, "entry") for path in (found if named else []))
            effects.extend(Write(start, "tree") for start in ([] if named else starts))
        elif args[number].open_start:
            effects.append(Mutates("find with an expression only known at run time"))
        number += 1
    return effects


def _links_out(command: Command) -> bool:
    """Whether a link below the directory may lead out of it."""
    for directory in command.directories:
        if directory is None:
            return True
        root, seen = os.path.realpath(directory), 0
        for folder, folders, files in os.walk(root):
            for name in (*folders, *files):
                seen += 1
                path = os.path.join(folder, name)
                if seen > _MOST_ENTRIES or (
                    os.path.islink(path) and not os.path.realpath(path).startswith(f"{root}/")
                ):
                    return True
    return False


_MOST_ENTRIES = 5000


def _in_folders(argv: list[Value], starts: list[Value]) -> list[Effect]:
    """-execdir: the command runs in each file's folder: around the start, in it, or below."""
    filled = tuple(replaced(a, "{}", Value(("./", ATOM))) for a in argv)
    effects: list[Effect] = []
    for start in starts:
        places = [start, _found(start)]
        if start.text is not None and start.text.strip("./"):
            places.append(join([*start.parts, "/.."]))
        effects.extend(Run(filled, directory=place, functions=False) for place in places)
    return effects


def _guarding(start: Value, args: list[Value], command: Command) -> list[str]:
    """Paths of the worktree's guard that find prints when its patterns mean them.

    A pattern means a file when it spells how its name begins, or part of the folder it is in: an
    everyday `*.json` does not.
    """
    here = start.text in (".", "./", *command.directories)
    words = [a.text or "" for a in args]
    given: list[tuple[str, str]] = []
    for number, (word, pattern) in enumerate(itertools.pairwise(words)):
        if word in _BY_NAME or word in _BY_PATH:
            if words[number - 1 : number] in (["!"], ["-not"]) or _pruned(args, number):
                continue
            given.append((word, pattern))
    if not here or not given:
        return []
    given = list(dict.fromkeys(given))
    spend(2 * len(PROTECTED) * sum(8 + len(pattern) for _, pattern in given))
    check = any if "-o" in words or "-or" in words else all
    found: list[str] = []
    for rule in PROTECTED:
        path = "/".join(rule)
        meets = check(
            may_meet(pattern, rule[-1]) if word in _BY_NAME else may_meet(pattern, f"./{path}")
            for word, pattern in given
        )
        means = any(
            pattern[:1].casefold() == rule[-1][0] if word in _BY_NAME else _spells(pattern, rule[0])
            for word, pattern in given
        )
        if meets and means:
            found.append(path.replace("*", ""))
    return found


def _spells(pattern: str, name: str) -> bool:
    return any(len(run) > 2 and run in name for run in re.split(r"[*?/\[\]]+", pattern.casefold()))


_BY_NAME = names("-name -iname")
_BY_PATH = names("-path -ipath -wholename -iwholename")


def _name_pattern(args: list[Value]) -> str:
    """The pattern that the names found must match, empty without one or with several.

    A -path pattern says more than a -name pattern; it is seen from the starting point.
    """
    for options in (("-path", "-wholename", "-ipath"), ("-name", "-iname")):
        given = [n for n, a in enumerate(args) if a.text in options and not _pruned(args, n)]
        negated = [n for n in given if n and args[n - 1].text in ("!", "-not")]
        if len(given) == 1 and not negated and given[0] + 1 < len(args):
            return (args[given[0] + 1].text or "").removeprefix("./")
    return ""


def _pruned(args: list[Value], number: int) -> bool:
    """Whether what the pattern at this place matches is left out."""
    after = [a.text for a in args[number + 2 :] if a.text != ")"]
    return after[:1] == ["-prune"] and after[1:2] in (["-o"], ["-or"])


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
        if re.match(r"-[A-Za-z0-9]+[xX]|-[xX].|--exec(?:-batch)?=", name):
            return [Deny("command-unresolved", "fd with its command in a bundle of options")]
        if name in ("-x", "-X") or name.startswith("--exec"):
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
