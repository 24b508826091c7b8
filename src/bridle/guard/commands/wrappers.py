"""Commands that run another command: stripped, so that the command itself is judged."""

import re

import msgspec

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Deny, Effect, Mutates, Run, Shell, Write
from bridle.guard.shell.values import EMPTY, UNKNOWN, Hole, Output, Value, join, literal
from bridle.guard.tables import names


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """How the wrapped command is found: after options and `skip` operands."""

    short: str = ""
    long: tuple[str, ...] = ()
    optional: str = ""
    skip: int = 0
    assignments: bool = False
    """Whether NAME=VALUE words may come before the command."""
    writes: tuple[str, ...] = ()
    chdir: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    """Options whose value runs as shell text."""
    locks: bool = False
    """Whether the first operand is a file that is written."""
    joins: bool = False
    """Whether the words together are a shell text."""
    subcommands: tuple[str, ...] = ()
    """The wrapper only wraps after one of these first words; other uses are ordinary commands."""


WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys(
        names("nohup setsid builtin noglob nocorrect - busybox toybox bunx pnpx"), Wrapper()),
    "nice": Wrapper(short="n", long=("adjustment",)),
    "ionice": Wrapper(short="cnpPu", long=("class", "classdata")),
    "chrt": Wrapper(short="TPD", skip=1),
    "taskset": Wrapper(skip=1),
    "timeout": Wrapper(short="ks", long=("kill-after", "signal"), skip=1),
    "time": Wrapper(short="fo", long=("format", "output"), writes=("o", "output")),
    "stdbuf": Wrapper(short="ioe", long=("input", "output", "error")),
    "exec": Wrapper(short="a"),
    "watch": Wrapper(short="nq", long=("interval", "equexit"), optional="d", joins=True),
    "flock": Wrapper(short="wEc", long=("wait", "timeout", "conflict-exit-code", "command"),
                     skip=1, locks=True, shell=("c", "command")),
    "ld.so": Wrapper(long=("library-path", "preload", "argv0", "audit", "inhibit-rpath")),
    "repeat": Wrapper(skip=1),
    "strace": Wrapper(short="abeEIkoOpPsSuUX", long=("output", "trace"), writes=("o", "output")),
    "cross-env": Wrapper(assignments=True),
    "uv": Wrapper(
        short="pw", subcommands=("run",), chdir=("directory", "project"),
        long=("with", "python", "directory", "project", "group", "extra", "env-file",
              "with-editable", "with-requirements", "index-url", "package", "module",
              "only-group", "no-group"),
    ),
    "uvx": Wrapper(short="pw", long=("with", "python", "from")),
    "npx": Wrapper(short="pc", long=("package", "call"), shell=("c", "call")),
}  # fmt: skip

WRAPPERS.update(
    (name, Wrapper(subcommands=("run", "exec", "x"), short="Cpne",
                   chdir=("C", "cwd", "directory", "project"),
                   long=("directory", "project", "env", "name", "prefix", "cwd", "python")))
    for name in ("poetry", "pipenv", "pipx", "pdm", "rye", "hatch", "conda", "mamba", "bundle",
                 "mise", "asdf", "rbenv", "pyenv")
)  # fmt: skip

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def wrapped(command: Command, wrapper: Wrapper) -> list[Effect] | None:
    """Effects of a wrapper call; None when this use of it wraps nothing."""
    options = read(
        command.args, wrapper.short, wrapper.long, optional=wrapper.optional,
        permute=False,
    )  # fmt: skip
    operands = list(options.operands)
    if wrapper.subcommands:
        if not operands or operands[0].text not in wrapper.subcommands:
            return None
        chdirs = options.values(*wrapper.chdir)
        inner = read(operands[1:], wrapper.short, wrapper.long, permute=False)
        operands = list(inner.operands)
        chdirs += inner.values(*wrapper.chdir)
        if inner.has("m", "module") and command.name == "uv":
            operands = [literal("python"), literal("-m"), *inner.values("m", "module"), *operands]
        options = inner
    else:
        chdirs = options.values(*wrapper.chdir)
    # A file whose name begins with one of these is a command that gets the output.
    effects: list[Effect] = [
        Shell(value.after(1)) if value.lead[:1] in ("|", "!") else Write(value)
        for value in options.values(*wrapper.writes)
    ]
    effects.extend(Shell(value) for value in options.values(*wrapper.shell))
    env: list[tuple[str, Value]] = []
    if wrapper.locks and not ((operands and operands[0].text) or "x").isdigit():
        effects.extend(Write(lock) for lock in operands[:1])
    operands = operands[wrapper.skip :]
    while wrapper.assignments and operands and _ASSIGNMENT.match(operands[0].lead):
        env.append(split_assignment(operands.pop(0)))
    if operands and operands[0].text == "--":
        operands.pop(0)
    if wrapper.shell and operands and operands[0].text in ("-c", "--command"):
        return effects + [Shell(text) for text in operands[1:2]]
    if wrapper.joins and operands:
        pieces = [p for n, v in enumerate(operands) for p in (*((" ",) if n else ()), *v.parts)]
        effects.append(Shell(join(pieces)))
    elif operands:
        directory = chdirs[-1] if chdirs else None
        effects.append(Run(tuple(operands), tuple(env), directory, functions=False))
        if command.name in PACKAGE_RUNNERS:
            effects.extend(packaged(operands[0]))
    return effects


PACKAGE_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx"})


def packaged(name: Value) -> list[Effect]:
    """A package that has the name of a reading command of the system is another program."""
    from bridle.guard.commands.readers import READERS

    return [Mutates(f"the package {name.show()}")] if name.text in READERS else []


def split_assignment(value: Value) -> tuple[str, Value]:
    """Name and value of a NAME=VALUE word."""
    name = value.lead.partition("=")[0]
    return name.rstrip("+"), value.after(len(name) + 1)


def env(command: Command) -> list[Effect]:
    """Effects of env."""
    options = read(
        command.args, short="uCS", long=("unset", "chdir", "split-string", "argv0",
                                         "block-signal?", "default-signal?", "ignore-signal?"),
        optional="", flags=("ignore-environment", "null", "debug"), permute=False,
    )  # fmt: skip
    operands = list(options.operands)
    strings = options.values("S", "split-string")
    if strings:
        if strings[0].text is None:
            return [Deny("command-unresolved", "env -S with a command only known at run time")]
        if "${" in strings[0].text:
            return [Deny("command-unresolved", "env -S with a variable in its command")]
        words = _plain_words(strings[0].text.replace("\\_", " "))
        operands = [literal(word) for word in words] + operands
    assigned: list[tuple[str, Value]] = []
    while operands and _ASSIGNMENT.match(operands[0].lead):
        assigned.append(split_assignment(operands.pop(0)))
    if operands and operands[0].text == "-":
        operands.pop(0)
    places = options.values("C", "chdir")
    if not operands:
        return []
    unset = [value.text for value in options.values("u", "unset")]
    bare = options.has("i", "ignore-environment")
    if (bare or "TMPDIR" in unset) and not any(name == "TMPDIR" for name, _ in assigned):
        assigned.append(("TMPDIR", EMPTY))
    directory = places[-1] if places else None
    return [Run(tuple(operands), tuple(assigned), directory, functions=False)]


def _plain_words(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def command_builtin(command: Command) -> list[Effect]:
    """Effects of the `command` builtin."""
    options = read(command.args, permute=False)
    if options.has("v", "V"):
        return []
    return [Run(tuple(options.operands), functions=False)] if options.operands else []


def xargs(command: Command) -> list[Effect]:
    """Effects of xargs: its command with what arrives on standard input."""
    options = read(
        command.args, short="aEILPdns", optional="eil",
        long=("arg-file", "delimiter", "eof?", "replace?", "max-lines?", "max-args", "max-procs",
              "max-chars", "process-slot-var"),
        flags=("null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"),
        permute=False,
    )  # fmt: skip
    argv = list(options.operands) or [literal("echo")]
    if options.has("a", "arg-file"):
        items: tuple[Value, ...] = (UNKNOWN,)
    else:
        items = _items(command.stdin)
    marks = options.values("I") + [
        value if value.parts else literal("{}") for value in options.values("i", "replace")
    ]
    if not marks:
        return [Run((*argv, *items))]
    mark = marks[-1].text or "{}"
    if not options.has("a", "arg-file") and command.stdin.lines:
        # With a mark the item is the whole line, not a word of it.
        items = tuple(
            line if line.text is None else literal(line.text.strip())
            for line in command.stdin.lines
        )
    return [Run(tuple(replaced(arg, mark, item) for arg in argv)) for item in items or (EMPTY,)]


def _items(stdin: Output) -> tuple[Value, ...]:
    if not stdin.lines:
        return (UNKNOWN,)
    found: list[Value] = []
    for line in stdin.lines:
        text = line.text
        if text is None:
            found.append(line)
        else:
            found.extend(literal(word) for word in _plain_words(text))
    return tuple(found)


def replaced(arg: Value, mark: str, item: Value) -> Value:
    """The argument with each mark replaced by the item."""
    pieces: list[str | Hole] = []
    for part in arg.parts:
        if not isinstance(part, str):
            pieces.append(part)
            continue
        for number, stretch in enumerate(part.split(mark)):
            if number:
                pieces.extend(item.parts)
            pieces.append(stretch)
    return join(pieces)


def parallel(command: Command) -> list[Effect]:
    """Effects of GNU parallel: one command text for each item."""
    options = read(
        command.args, short="jIadCnNsP",
        long=("jobs", "arg-file", "colsep", "joblog", "results", "tmpdir", "delay", "timeout",
              "max-args", "workdir", "wd", "sshlogin"),
        permute=False,
    )  # fmt: skip
    effects: list[Effect] = [Write(v) for v in options.values("joblog", "results", "tmpdir")]
    if options.has("S", "sshlogin"):
        return [Deny("remote", "parallel on other machines")]
    operands = list(options.operands)
    inputs: list[Value] = []
    for number, operand in enumerate(operands):
        if operand.text in (":::", "::::", ":::+"):
            inputs = operands[number + 1 :] if operand.text == ":::" else [UNKNOWN]
            operands = operands[:number]
            break
    items = inputs or list(_items(command.stdin))
    places = options.values("workdir", "wd")
    place = places[-1] if places else None
    for item in items:
        words = operands
        for mark in ("{}", "{.}", "{/}", "{/.}", "{//}"):
            # A part of the item stays where the item may be.
            words = [replaced(word, mark, item) for word in words]
        if words == operands:
            words = [*words, item]
        pieces: list[str | Hole] = []
        for word in words:
            pieces.extend([*word.parts, " "])
        text = join(pieces)
        # The command is a shell text, unless holes make that unreadable: then its words.
        effects.append(
            Shell(text, directory=place)
            if not text.holds("any")
            else Run(tuple(words), directory=place)
        )
    return effects
