"""What reading commands print, as far as a later command's arguments depend on it."""

import os
import re
from collections import deque

from bridle.guard.budget import spend
from bridle.guard.commands.options import Parsed, read
from bridle.guard.commands.system import kill_by_name
from bridle.guard.effects import Command, Deny
from bridle.guard.paths import is_directory
from bridle.guard.shell.values import (
    AGENTS,
    ANY,
    ATOM,
    NAME,
    NUMBER,
    REL,
    SCRATCH,
    SILENT,
    UNKNOWN,
    UNKNOWN_OUTPUT,
    Hole,
    Output,
    Value,
    join,
    literal,
    names,
    summarize,
)

_ATOMS = names(
    "nproc whoami id uname arch uuidgen hostid seq wc md5sum sha1sum sha256sum cksum stat "
    "logname tty hostname expr bc nl pgrep pidof"
)
_FILTERS = names("head tail sort uniq tac shuf grep egrep fgrep cat tee rg column")
_SILENT = names(
    "cd pushd popd true false : test [ export set unset shift sleep mkdir touch rm mv cp ln chmod "
    "kill wait source . alias trap umask read"
)


_SETTINGS = frozenset(
    {("brew", "shellenv"), ("pyenv", "init"), ("rbenv", "init"), ("nodenv", "init"), ("fnm", "env"),
     ("mise", "activate"), ("direnv", "hook"), ("opam", "env"), ("luarocks", "path")}
)  # fmt: skip
"""Commands that print assignments of search paths, made for `eval`."""
_ATOM, _NUMBER, _REL = (Output((Value((hole,)),)) for hole in (ATOM, NUMBER, REL))
_STATUS = join([ATOM, " ", REL])
"""A line of git's short status: two letters, then a path."""
_NUMBERED = join([NUMBER, ":", ANY])
"""A line with its number before it."""
_FIRST_FIELD = re.compile(r"-d ?: -f ?1|-f ?1 -d ?:|-F ?: \{ ?print \$1 ?\}")


def output(command: Command, worktree: str) -> Output:
    """What the command prints; `worktree` is where git's top level is."""
    name, args = command.name, command.args
    if name in _SILENT:
        return SILENT
    if (name, args[0].text if args else "") in _SETTINGS:
        return SILENT
    if name == "echo":
        return _echo(args)
    if name == "printf":
        return _printf(args)
    if name == "pwd":
        return Output(tuple(UNKNOWN if d is None else literal(d) for d in command.directories))
    if name in ("realpath", "readlink", "dirname", "basename"):
        return _path_tool(name, args, command)
    if name in ("which", "whereis") or (name == "command" and args[:1] == (literal("-v"),)):
        names = [a for a in args if not a.lead.startswith("-")]
        return Output(tuple(Value(("/usr/bin/", *a.parts)) for a in names)) or UNKNOWN_OUTPUT
    if name == "mktemp":
        return _mktemp(args, dict(command.env).get("TMPDIR"))
    if name == "date":
        shown = "".join(a.show() for a in args)
        return UNKNOWN_OUTPUT if "/" in shown.replace("date/", "") or ".." in shown else _ATOM
    if name in ("pgrep", "pidof") and any(
        isinstance(effect, Deny) for effect in kill_by_name(command)
    ):
        return Output((Value((AGENTS,)),))
    if name == "wc":
        operands = read(args, long=("files0-from",)).operands
        return _ATOM if operands or not command.piped else _NUMBER
    formatted = [a.lead for a in command.args if re.match(r"-[fc]|--(?:format|printf)", a.lead)]
    if name in ("seq", "stat") and formatted and any("/" in a.show() for a in command.args):
        return UNKNOWN_OUTPUT
    if name in ("nproc", "seq"):
        return _NUMBER
    if name in _ATOMS:
        return _ATOM
    if name == "git":
        return _git(args, command, worktree)
    if name in ("find", "fd", "ls", "rg", "grep", "egrep", "fgrep", "tree"):
        return _listing(name, command)
    if name in ("cat", "head", "tail") and (not command.piped or command.pipes):
        operands = read(args, short="nc", long=("lines", "bytes")).operands
        if len(operands) == 1 and (stream := command.streamed(operands[0])) is not None:
            return stream
        if len(operands) == 1 and name == "cat":
            return Output((UNKNOWN,), operands[0])
        return UNKNOWN_OUTPUT
    if name in _FILTERS or name in ("tr", "cut", "awk", "xargs", "sed"):
        return _filter(name, command)
    return UNKNOWN_OUTPUT


def _echo(args: tuple[Value, ...]) -> Output:
    words = list(args)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0].text or ""):
        escapes = escapes or "e" in (words.pop(0).text or "")
    pieces: list[str | Hole] = []
    for number, word in enumerate(words):
        if number:
            pieces.append(" ")
        pieces.extend(_as_text(part) for part in word.parts)
    value = join(pieces)
    if escapes and "\\" in value.show():
        return UNKNOWN_OUTPUT
    return Output((value,))


def _as_text(part: str | Hole) -> str | Hole:
    """A pattern printed is what it matches: names below here."""
    return REL if isinstance(part, Hole) and part.kind == "glob" else part


_CONVERSION = r"%(?:[sd%]|[-0 +]*\d*[dixXou])"


def _printf(args: tuple[Value, ...]) -> Output:
    if args and args[0].text == "--":
        args = args[1:]
    if not args or args[0].text is None or args[0].text == "-v":
        return UNKNOWN_OUTPUT if not args or args[0].text != "-v" else SILENT
    form, rest = args[0].text, deque(args[1:])
    if re.search(r"\\(?![nt0\\])|\\0\d", form):
        return UNKNOWN_OUTPUT
    form = form.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\n")
    form = form.replace("\\\\", "\\")
    if "%" not in form:
        return Output(tuple(literal(line) for line in form.splitlines()))
    if re.sub(_CONVERSION, "", form).count("%"):
        return UNKNOWN_OUTPUT
    lines: list[Value] = []
    steps = re.split(f"({_CONVERSION})", form)
    while True:
        pieces: list[str | Hole] = []
        before = len(rest)
        spend(2 + len(steps))
        for piece in steps:
            if piece == "%%":
                pieces.append("%")
            elif re.fullmatch(_CONVERSION, piece) and piece not in ("%s", "%d"):
                # A number in some format.
                if rest:
                    rest.popleft()
                pieces.append(ATOM)
            elif piece in ("%s", "%d"):
                parts = rest.popleft().parts if rest else ()
                pieces.extend(_as_text(p) for p in parts)
            else:
                pieces.append(piece)
        value = join(pieces)
        if value.text is None:
            shape = [p.strip("\n") if isinstance(p, str) else p for p in value.parts]
            lines.append(join(shape) if not any("\n" in str(p) for p in shape) else UNKNOWN)
        else:
            lines.extend(literal(line) for line in value.text.splitlines())
        if not rest or len(rest) == before:
            # A format without placeholders is printed once, however many arguments there are.
            return Output(summarize(tuple(lines), 64))


def _mktemp(args: tuple[Value, ...], chosen: Value | None) -> Output:
    options = read(args, short="p", long=("tmpdir?", "suffix"))
    places = [v for v in options.values("p", "tmpdir") if v.parts]
    if places:
        return Output((join([*places[-1].parts, "/", ATOM]),))
    if options.operands and not options.has("t", "tmpdir"):
        template = options.operands[0]
        shown = template.text
        if shown is None:
            return UNKNOWN_OUTPUT
        return Output((join([shown.partition("XXX")[0], ATOM]),))
    if chosen is not None:
        return Output((join([*(chosen.parts or ("/tmp",)), "/", ATOM]),))
    return Output((Value((SCRATCH,)),))


def _git(args: tuple[Value, ...], command: Command, worktree: str) -> Output:
    words = [a.text or "" for a in args]
    if not words:
        return UNKNOWN_OUTPUT
    if words[0] in ("-C", "-c", "--git-dir", "--work-tree"):
        return UNKNOWN_OUTPUT
    named = words[0] in ("diff", "show", "log", "diff-tree", "grep") and (
        "--name-only" in words or "--name-status" in words
    )
    shaped = [w for w in words if w.startswith(("--line-prefix", "--format"))]
    if shaped and any("/" in w or ".." in w for w in words):
        # Its lines may begin with another folder.
        return UNKNOWN_OUTPUT
    if named or words[0] in ("ls-files", "ls-tree"):
        return _REL
    if words[0] == "status" and any(
        w in ("--short", "--porcelain") or w.startswith("--porcelain=") or _is_flag(w, "s")
        for w in words
    ):
        return Output((_STATUS,))
    if words[0] == "grep" and any(
        w in ("--files-with-matches", "--name-only", "--files-without-match") or _is_flag(w, "lL")
        for w in words
    ):
        return _REL
    if words[0] == "rev-parse":
        if "--show-toplevel" in words:
            below = all(d is not None and f"{d}/".startswith(f"{worktree}/") and ".." not in d
                        for d in command.directories)  # fmt: skip
            return Output((literal(worktree),)) if below else UNKNOWN_OUTPUT
        if any(
            w.startswith("--") and w not in ("--short", "--verify", "--abbrev-ref") for w in words
        ):
            return UNKNOWN_OUTPUT
        return Output((Value((NAME,)),)) if "--abbrev-ref" in words else _ATOM
    if words[0] in ("merge-base", "rev-list", "describe", "hash-object", "write-tree"):
        return _ATOM
    if words[0] == "log":
        form = next((w for w in words if w.startswith(("--format=", "--pretty="))), "")
        if re.fullmatch(r"--(format|pretty)=(format:)?%[hHtTpP]", form):
            return _ATOM
    return UNKNOWN_OUTPUT


def _is_flag(word: str, letters: str) -> bool:
    """Whether the word is a bundle of one-letter options with one of these among them."""
    return word[:1] == "-" and word[1:].isalpha() and any(c in word for c in letters)


def _listing(name: str, command: Command) -> Output:
    """Names that a search prints: below the places it was given."""
    args = command.args
    if name == "find":
        starts = []
        for arg in args:
            if arg.lead[:1] in ("-", "(", "!"):
                break
            starts.append(arg)
        if any((a.text or "") in ("-exec", "-execdir", "-printf", "-fprintf") for a in args):
            return UNKNOWN_OUTPUT
        return Output(tuple(_below(s) for s in starts) or (Value((REL,)),))
    if name in ("grep", "egrep", "fgrep", "rg"):
        options = read(args, short="efABCmgtT", long=("include", "exclude", "glob", "type",
                                                      "exclude-dir", "regexp"))  # fmt: skip
        if not options.has("l", "L", "files-with-matches", "files", "files-without-match"):
            if options.has("c", "count", "n", "line-number") and _one_file(options, command):
                return _NUMBER if options.has("c", "count") else Output((_NUMBERED,))
            if command.piped:
                return _filter(name, command)
            return UNKNOWN_OUTPUT
        given = options.has("e", "regexp", "f", "files")
        places = options.operands if given else options.operands[1:]
        if command.piped and not places:
            return _filter(name, command)
        return Output(tuple(_below(p) for p in places) or (Value((REL,)),))
    operands = [a for a in args if not a.lead.startswith("-")]
    if name == "fd":
        return Output(tuple(_below(p) for p in operands[1:]) or (Value((REL,)),))
    if name == "ls":
        if not operands:
            return _REL
        if any(o.holds("glob") for o in operands):
            return Output(tuple(operands))
        if _lists_folders(command, operands):
            return _ATOM
        text = operands[0].text or "/"
        below = text[0] not in "/~" and ".." not in text.split("/")
        if len(operands) == 1 and below and not _shows_all(command):
            # The names in a folder, or the name of the file itself.
            return _REL
        return Output((Value((NAME,)),))
    return UNKNOWN_OUTPUT


def _one_file(options: Parsed, command: Command) -> bool:
    """Whether a search looks into one file or its input alone, and prints no names before."""
    if options.has("r", "R", "recursive", "dereference-recursive", "H", "with-filename", "o"):
        return False
    given = options.has("e", "regexp", "f")
    places = options.operands if given else options.operands[1:]
    if not places:
        return command.piped
    text = places[0].text
    return (
        len(places) == 1
        and text is not None
        and not any(d is None or is_directory(os.path.join(d, text)) for d in command.directories)
    )


def _shows_all(command: Command) -> bool:
    flags = "".join(a.text or "a" for a in command.args if a.lead.startswith("-"))
    return any(c in flags for c in "adfR")


def _lists_folders(command: Command, operands: list[Value]) -> bool:
    """Whether `ls` prints nothing but plain names: one folder that is there, dot files left out."""
    text = operands[0].text
    if len(operands) != 1 or text is None or _shows_all(command):
        return False
    return all(d is not None and is_directory(os.path.join(d, text)) for d in command.directories)


def _below(place: Value) -> Value:
    text = place.text
    if text in (".", "./"):
        return Value((REL,))
    if place.holds("any"):
        return UNKNOWN
    if place.holds("glob"):
        return place
    tail = "" if text is not None and text.endswith("/") else "/"
    return join([*place.parts, tail, REL])


def _filter(name: str, command: Command) -> Output:
    """A filter prints lines of what it reads."""
    if not command.piped:
        return UNKNOWN_OUTPUT
    if name in ("awk", "sed", "tr", "cut"):
        shown = " ".join(a.show() for a in command.args)
        plain = {
            "awk": r"\{ ?print \$(\d+|NF) ?\}",
            "sed": r"(-n )?['\"]?(\d+(,\d+)?p|s[|#/]\^?\\?\./?[|#/]{2})",
            "tr": r"(-d )?(\\n|\n|\\0| ) ?(\\0|\\n| |\n)?",
            "cut": r"-d ?. -f ?\d+|-f ?\d+ -d ?.",
        }[name]
        if command.stdin.lines == (_NUMBERED,) and _FIRST_FIELD.fullmatch(shown.strip()):
            return _NUMBER
        if command.stdin.lines == (_STATUS,) and re.fullmatch(
            r"-c ?[34]-|s[|#/]\^\.{2,3}[|#/]{2}", shown.strip()
        ):
            return _REL
        if not re.fullmatch(plain, shown.strip()):
            return UNKNOWN_OUTPUT
        if name in ("awk", "cut") and any(line.text is not None for line in command.stdin.lines):
            return UNKNOWN_OUTPUT
        return Output(command.stdin.lines)
    if name == "xargs":
        return UNKNOWN_OUTPUT
    if name in ("cat", "tee", "tac", "sort", "uniq"):
        operands = [a for a in command.args if not a.lead.startswith("-")]
        return UNKNOWN_OUTPUT if operands and name != "tee" else command.stdin
    return Output(command.stdin.lines)


def _path_tool(name: str, args: tuple[Value, ...], command: Command) -> Output:
    """What realpath, readlink, dirname and basename print."""
    operands = [a for a in args if not a.lead.startswith("-")]
    if not operands:
        return UNKNOWN_OUTPUT
    first = operands[0]
    text = first.text
    if name == "basename":
        if text is not None:
            base = text.rstrip("/").rpartition("/")[2]
            suffix = operands[1].text if len(operands) > 1 else ""
            return Output((literal(base.removesuffix(suffix) if suffix else base),))
        return Output((Value((ATOM if _is_plain(_last(first)) else NAME,)),))
    if name == "dirname":
        if text is not None:
            return Output(
                (literal(text.rstrip("/").rpartition("/")[0] or ("/" if text[:1] == "/" else ".")),)
            )
        return Output((_folder(first),))
    if text is None:
        return UNKNOWN_OUTPUT
    if text.startswith("/"):
        return Output((first,))
    return Output(
        tuple(UNKNOWN if d is None else literal(f"{d}/{text}") for d in command.directories)
    )


def _last(path: Value) -> list[str | Hole]:
    """The parts of a path after its last known slash."""
    found: list[str | Hole] = []
    for part in reversed(path.parts):
        if isinstance(part, str) and "/" in part:
            return [part.rpartition("/")[2], *found]
        found.insert(0, part)
    return found


def _is_plain(parts: list[str | Hole]) -> bool:
    """Whether the last component of the parts can be neither empty nor `.` nor `..`."""
    if any(isinstance(p, Hole) and p.kind not in ("rel", "atom", "glob") for p in parts):
        return False
    shown = "".join(p if isinstance(p, str) else p.text or "x" for p in parts)
    return shown.strip("*?") == "" or shown[:1] not in (".", "[", "")


def _folder(path: Value) -> Value:
    """The directory of a path with holes."""
    last = _last(path)
    if any(isinstance(p, Hole) and p.kind in ("any", "scratch") for p in path.parts):
        return UNKNOWN
    kept = len(path.parts) - len(last)
    before = list(path.parts[:kept])
    first = path.parts[kept]
    if isinstance(first, str) and "/" in first:
        before.append(first[: first.rindex("/") + 1])
    deeper = REL in last
    if not before:
        return Value((REL,)) if deeper else literal(".")
    folder = join([*before, REL]) if deeper else join(before)
    text = folder.text
    return folder if text is None else literal(text.rstrip("/") or "/")
