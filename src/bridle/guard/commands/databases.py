"""sqlite3: what its statements and dot commands read, write and run."""

import re

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Effect, Shell, Write
from bridle.guard.shell.values import literal

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
