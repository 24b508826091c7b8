"""Programs that no table knows, and those of which only a habit is known.

A program that is not known may change anything. Two habits tell more: one that is asked to rewrite
or to make things does it at the paths it is given, and one that takes a command runs it.
"""

import itertools
import os
import re

from bridle.guard.commands.options import read
from bridle.guard.commands.programs import output_options
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell, Write
from bridle.guard.names import names
from bridle.guard.values import Value, literal

_REWRITING_FLAGS = names(
    "--fix --write --in-place --inplace --update-all --autocorrect --auto-correct --autofix"
)
_MAKING_VERBS = names("fmt format fix create new init build clean scaffold")
_SOURCES = names("template config from source input spec schema include plugin theme")
_GIT_CHANGES = names("""
    push send-pack reset checkout switch restore branch config update-ref stash worktree clean
    commit rebase remote gc reflog tag merge subtree lfs
    """)


def looks_outside(value: Value) -> bool:
    """Whether an operand looks like a path that may lead out of the current directory."""
    lead = value.lead
    if lead.startswith("/"):
        # A pattern or a route (`/api/v1`) begins like a path; no directory is named like it.
        return os.path.isdir("/" + lead.split("/")[1]) and len(lead) > 1
    return lead.startswith(("~", "../")) or value.text == ".."


def rewritten(args: tuple[Value, ...]) -> list[Effect]:
    """Paths that a program rewrites or makes, when its words say that it does so."""
    operands = [a for a in args if not a.lead.startswith("-")]
    asked = any(a.text in _REWRITING_FLAGS for a in args)
    if not asked and not (operands and operands[0].text in _MAKING_VERBS):
        return []
    read_from = [b for a, b in itertools.pairwise(args) if (a.text or "").lstrip("-") in _SOURCES]
    return [Write(o, "merge") for o in operands if looks_outside(o) and o not in read_from]


_CODE_FLAGS = names("-e -c -E --eval --exec --execute --command --expression -eval -exec")


def program_texts(command: Command) -> list[Effect]:
    """Program text that an unknown program is given: by an option, or on its standard input."""
    texts = [b for a, b in itertools.pairwise(command.args) if a.text in _CODE_FLAGS]
    found: list[Effect] = [Code(text, command.name) for text in texts]
    streams = [command.streamed(a) for a in command.args]
    scripts = [s.script for s in streams if s is not None and s.script is not None]
    return found + [Code(literal(script), command.name) for script in scripts]


def carried(command: Command, known: frozenset[str]) -> list[Effect]:
    """The command that an unknown program is given to run: after `--`, or one of git's."""
    args = command.args
    for number, arg in enumerate(args[1:], 1):
        if args[number - 1].text == "--" and arg.text is not None:
            if arg.text.rsplit("/", 1)[-1] in known:
                return [Run(args[number:], functions=False)]
            return []
    for number, arg in enumerate(args[:-1]):
        if arg.text is None or arg.text.rsplit("/", 1)[-1] != "git":
            continue
        before = args[number - 1].lead if number else ""
        follows = args[number + 1].text or ""
        if not before.startswith("--") and (follows in _GIT_CHANGES or follows.startswith("-")):
            return [Run(args[number:], functions=False)]
    return []


def hooks(command: Command) -> list[Effect]:
    """Tools that plant git hooks: the hooks are shared by all worktrees."""
    words = [a.text or "" for a in command.args if not a.lead.startswith("-")]
    first = words[0] if words else ""
    flags = {a.text for a in command.args}
    if flags & {"--version", "--help", "-v", "-h", "-V"}:
        return []
    plants = first in ("install", "uninstall", "init", "init-templatedir", "add", "set")
    if command.name in ("husky", "simple-git-hooks"):
        plants = True
    if command.name == "overcommit":
        plants = bool(flags & {"--install", "-i", "--uninstall", "-u"})
    if plants:
        return [Deny("git-shared", f"{command.name} {first} plants git hooks")]
    return [Mutates(f"{command.name} {first}".strip())]


HOOK_PLANTERS = names("pre-commit prek husky lefthook simple-git-hooks overcommit")

_SQL_FILES = re.compile(
    r"\bcopy\b[^;]{0,2000}?\bto\s+'([^']+)'|\binto\s+(?:out|dump)file\s+'([^']+)'"
    r"|\battach\s+(?:database\s+)?(?:if\s+not\s+exists\s+)?'([^']+)'"
    r"|\bexport\s+database\s+'([^']+)'"
    r"|(?:^|\s)\\(?:o|out|w|write|g|gx|s)\s+'?([^\s'|]+)",
    re.IGNORECASE,
)
_SQL_RUNS = re.compile(
    r"(?:^|\s)(?:\\!|\.(?:shell|system|sh)\b|\\(?:o|g|gx)\s*\|)\s*([^\n]+)"
    r"|\b(?:to|from)\s+program\s+'([^']+)'",
    re.IGNORECASE,
)


def sql_client(command: Command) -> list[Effect]:
    """duckdb, psql, mysql: the server is not ours to judge; the files their text names are."""
    words = [a.text for a in command.args]
    if words in (["--version"], ["-V"], ["--help"], ["-version"]):
        return []
    effects: list[Effect] = [Mutates(command.name), *output_options(command.args)]
    for number, word in enumerate(words[:-1]):
        if word in ("-L", "--log-file", "--tee"):
            effects.append(Write(command.args[number + 1]))
    operands = [a for a in command.args if not a.lead.startswith("-")]
    if command.name == "duckdb":
        read_only = "-readonly" in words or "--readonly" in words
        effects.extend(Write(o) for o in operands[:1] if looks_outside(o) and not read_only)
    texts = [w for w in words if w and (" " in w or w.startswith("\\"))]
    if command.stdin.script is not None:
        texts.append(command.stdin.script)
    for text in texts:
        named = (next(filter(None, m.groups())) for m in _SQL_FILES.finditer(text))
        effects.extend(Write(literal(path)) for path in named)
        effects.extend(Shell(literal(m[1] or m[2])) for m in _SQL_RUNS.finditer(text))
    return effects


def sass(command: Command) -> list[Effect]:
    """sass: `SOURCE TARGET`, or pairs `SOURCE:TARGET`."""
    options = read(command.args, short="Is", long=("load-path", "style"))
    if options.has("version", "help"):
        return []
    pairs = [o for o in options.operands if ":" in o.lead]
    effects: list[Effect] = [Mutates("sass writes style sheets")]
    effects.extend(Write(o.after(o.lead.index(":") + 1), "merge") for o in pairs)
    if not pairs:
        effects.extend(Write(o) for o in options.operands[1:2])
    return effects


def key_maker(command: Command) -> list[Effect]:
    """ssh-keygen: makes a key, unless it is asked to show one."""
    options = read(command.args, short="fbtCNPIOsDEMmVwYzZ")
    if options.has("l", "B") and not options.has("R", "H"):
        return []
    return [Mutates("makes a key"), *(Write(v) for v in options.values("f"))]
