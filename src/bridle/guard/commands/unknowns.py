"""Programs that no table knows, and those of which only a habit is known.

A program that is not known may change anything; one that takes a command runs it.
"""

import itertools
import re

from bridle.guard.commands.given import given
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell
from bridle.guard.names import names
from bridle.guard.values import literal

_GIT_CHANGES = names("""
    push send-pack reset checkout switch restore branch config update-ref stash worktree clean
    commit rebase remote gc reflog tag merge subtree lfs
    """)


_CARRIED = names("""
    bash sh zsh dash ksh python python3 perl node rm mv cp ln tee touch chmod dd rsync sed curl env
    sudo ssh tmux xargs
    """)
"""Commands that are no subcommand of a program: one that is given them runs them."""
_TEXT_OPTIONS = names("-c -x -e --exec --command --run --cmd --shell-command --on-change --call")


_CODE_FLAGS = names("-e -c -E --eval --exec --execute --command --expression -eval -exec")


def program_texts(command: Command) -> list[Effect]:
    """Program text that an unknown program is given: by an option, or on its standard input."""
    texts = [b for a, b in itertools.pairwise(command.args) if a.text in _CODE_FLAGS]
    found: list[Effect] = [Code(text, command.name) for text in texts]
    streams = [command.streamed(a) for a in command.args]
    scripts = [s.script for s in streams if s is not None and s.script is not None]
    return found + [Code(literal(script), command.name) for script in scripts]


def carried(command: Command, known: frozenset[str]) -> list[Effect]:
    """The command that an unknown program is given to run: after `--`, by option, or as it is."""
    args = command.args
    effects: list[Effect] = []
    for number, arg in enumerate(args):
        name = (arg.text or "").rsplit("/", 1)[-1]
        before = args[number - 1].text if number else ""
        if before == "--" and arg.text is not None:
            return effects + ([Run(args[number:], functions=False)] if name in known else [])
        if arg.text is not None and " " in arg.text.strip():
            alone = number == 0 and len(args) == 1
            if (alone or before in _TEXT_OPTIONS) and arg.text.split()[0] in known:
                effects.append(Shell(arg))
            continue
        # `--shell bash` names a program, `-f git push` runs one.
        named = re.fullmatch(r"--[^=]*|-p", before or "") is not None
        if name == "git" and number + 1 < len(args) and not named:
            follows = args[number + 1].text or ""
            if follows in _GIT_CHANGES or follows.startswith("-"):
                return [*effects, Run(args[number:], functions=False)]
        elif name in _CARRIED and not named and number + 1 < len(args):
            return [*effects, Run(args[number:], functions=False)]
    return effects


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

_SQL_RUNS = re.compile(
    r"(?:^|\s)(?:\\!|\.(?:shell|system|sh)\b|\\(?:o|g|gx)\s*\|)\s*([^\n]+)"
    r"|\b(?:to|from)\s+program\s+'([^']+)'",
    re.IGNORECASE,
)


def sql_client(command: Command) -> list[Effect]:
    """duckdb, psql, mysql: the server is not ours to judge; the programs their text starts are."""
    words = [a.text for a in command.args]
    if words in (["--version"], ["-V"], ["--help"], ["-version"]):
        return []
    effects: list[Effect] = [Mutates(command.name)]
    texts = [w for w in words if w and (" " in w or w.startswith("\\"))]
    if command.stdin.script is not None:
        texts.append(command.stdin.script)
        effects.extend(given(command, (literal(command.stdin.script),)))
    for text in texts:
        effects.extend(Shell(literal(m[1] or m[2])) for m in _SQL_RUNS.finditer(text))
    return effects
