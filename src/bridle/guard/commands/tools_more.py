"""Compilers, databases and converters: rows and handlers for where they put their output."""

import re

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Deny, Effect, Mutates, Run, Shell, Write
from bridle.guard.values import Value, literal

_SQL_READS = re.compile(
    r"\s*(?:(?:select|explain|with\b(?!.*\b(?:insert|update|delete|replace)\b)"
    r"|pragma\s+[\w.]+\s*+(?:\([^)]*\))?+\s*+)(?=[\s;(*]|\Z|(?<=\s))[^;]*+"
    r"|\.(?:schema|tables|indexes|indices|databases|headers?|mode|width|nullvalue|dump|fullschema"
    r"|timer|show|help|stats|quit|exit|separator|limit|print|echo)\b[^\n;]*+\s*+)\Z",
    re.IGNORECASE | re.DOTALL,
)
_SQL_ACTS = re.compile(r"\b(?:writefile|load_extension|edit|readfile)\s*\(", re.IGNORECASE)
_SQL_FILES = re.compile(
    r"(?m)^[ \t]*\.(?:output|once|backup|save|clone|log|open|excel|trace|recover|session)"
    r"\s+(?:-\w+\s+)*(?:main\s+)?['\"]?([^\s'\"]+)"
)
_SQL_WRITEFILE = re.compile(r"\bwritefile\s*\(\s*'([^']*)'", re.IGNORECASE)
_SQL_ATTACH = re.compile(r"\battach\s+(?:database\s+)?'([^']*)'", re.IGNORECASE)
_SQL_VACUUM = re.compile(r"\bvacuum\s+(?:\w+\s+)?into\s+'([^']*)'", re.IGNORECASE)
_SQL_SHELL = re.compile(
    r"""(?m)^[ \t]*\.(?:(?:shell|system|sh)\s+|(?:once|output|excel)\s+(?:-\w+\s+)*['"]?\|)"""
    r"""(.*?)['"]?$"""
)


def sqlite(command: Command) -> list[Effect]:
    """sqlite3: queries read; other statements change the file; dot commands write and run."""
    options = read(
        command.args, short="", long=("cmd",), flags=("readonly", "json", "csv", "header"),
    )  # fmt: skip
    texts: list[str | None] = []
    operands = list(options.operands)
    words = [a.text for a in command.args]
    for flag in ("-cmd", "--cmd", "-init", "--init", "-separator", "-nullvalue", "-newline"):
        for number, word in enumerate(words[:-1]):
            if word == flag:
                value = command.args[number + 1]
                operands = [o for o in operands if o is not value]
                if "cmd" in flag:
                    texts.append(value.text)
    database = operands[:1]
    texts.extend(o.text for o in operands[1:])
    if command.piped:
        texts.append(command.stdin.script)
    readonly = any(w in ("-readonly", "--readonly") for w in words)
    asks = [w for w in words if w in ("-version", "--version", "-help", "--help")]
    if asks or not database:
        return []
    effects: list[Effect] = []
    for text in texts:
        for pattern in (_SQL_FILES, _SQL_WRITEFILE, _SQL_ATTACH, _SQL_VACUUM):
            effects.extend(
                Write(literal(m)) for m in pattern.findall(text or "") if m not in ("stdout", "off")
            )
        effects.extend(Shell(literal(m)) for m in _SQL_SHELL.findall(text or ""))
    reads = bool(texts) and all(t is not None and _only_reads(t) for t in texts)
    if effects or readonly or reads:
        return effects
    return [Write(database[0])]


def _only_reads(text: str) -> bool:
    if _SQL_ACTS.search(text):
        return False
    return all(_SQL_READS.match(part) for part in text.split(";") if part.strip())


def debugger(command: Command) -> list[Effect]:
    """gdb and lldb: commands by option; one that runs a shell is judged as shell text."""
    words = [a.text for a in command.args]
    if words in (["--version"], ["--help"], ["-v"]):
        return []
    effects: list[Effect] = [Mutates(f"{command.name} runs a program")]
    for number, word in enumerate(words[:-1]):
        if word in ("-ex", "--ex", "-iex", "-eval-command", "--eval-command", "-o", "-O"):
            text = words[number + 1]
            if text is None:
                effects.append(Deny("command-unresolved", f"a command for {command.name}"))
                continue
            match = re.match(r"\s*(?:platform\s+)?(?:shell|!|pipe|make)\s*(.*)", text, re.DOTALL)
            if match:
                effects.append(Shell(literal(match[1])))
    return effects


def pager(command: Command) -> list[Effect]:
    """less: `+COMMAND` is typed into it, and may run or write something."""
    effects: list[Effect] = []
    for arg in command.args:
        typed = (arg.text or "").lstrip("+") if arg.lead.startswith("+") else ""
        if typed[:1] in ("!", "#"):
            effects.append(Shell(literal(typed[1:])))
        elif typed[:1] in ("|", "s", "v"):
            effects.append(Mutates("a command typed into less"))
    return effects


def bus(command: Command) -> list[Effect]:
    """D-Bus tools: a service on the other side acts outside of the session."""
    words = [a.text for a in command.args if not a.lead.startswith("-")]
    if not words or words[0] in ("list", "status", "tree", "introspect", "help", "monitor"):
        return []
    return [Deny("sandbox-escape", f"{command.name} makes a service act outside this session")]


_RELEASES: dict[str, frozenset[str]] = {
    "goreleaser": frozenset({"release", "publish", "continue"}),
    "vsce": frozenset({"publish", "unpublish"}),
    "ovsx": frozenset({"publish"}),
    "changeset": frozenset({"publish"}),
    "release-it": frozenset(),
    "semantic-release": frozenset(),
    "np": frozenset(),
    "git-cz": frozenset({"push"}),
    "bumpversion": frozenset({"push"}),
}


def release(command: Command) -> list[Effect]:
    """Tools that publish a release: refused, unless asked for something else or a dry run."""
    words = [a.text or "" for a in command.args]
    acts = _RELEASES[command.name]
    dry = any(w in ("--dry-run", "--snapshot", "--help", "--version", "-d") for w in words)
    plain = [w for w in words if not w.startswith("-")]
    if dry or (acts and not (plain and plain[0] in acts)):
        return [] if words in (["--help"], ["--version"]) else [Mutates(f"{command.name}")]
    return [Deny("publish", f"{command.name} publishes a release")]


def watch(command: Command) -> list[Effect]:
    """watch: its words together are a shell text, unless -x is given."""
    options = read(
        command.args, short="nq", long=("interval", "equexit"), optional="d",
        flags=("exec", "differences", "beep", "errexit", "chgexit", "no-title", "color"),
        permute=False,
    )  # fmt: skip
    if not options.operands:
        return []
    if options.has("x", "exec"):
        return [Run(tuple(options.operands), functions=False)]
    return [Shell(_words(options.operands))]


def _words(values: list[Value]) -> Value:
    from bridle.guard.values import join

    return join([p for n, v in enumerate(values) for p in ([" "] if n else []) + list(v.parts)])


RELEASES = frozenset(_RELEASES)
