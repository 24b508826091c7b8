"""Programs that no table knows, and those of which only a habit is known.

A program that is not known may change anything; one that takes a command runs it.
"""

import itertools
import re

from bridle.guard.budget import spend
from bridle.guard.commands.given_paths import TEXTS as _TEXTS
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell
from bridle.guard.shell import tree
from bridle.guard.shell.parse import parse
from bridle.guard.shell.shfmt import ParseError
from bridle.guard.shell.values import Value, literal
from bridle.guard.tables import names

_GIT_CHANGES = names("""
    push send-pack reset checkout switch restore branch config update-ref stash worktree clean
    commit rebase remote gc reflog tag merge subtree lfs
    """)


_CARRIED = names("""
    bash sh zsh dash ksh python python3 perl node rm mv cp ln tee touch chmod dd rsync sed curl env
    sudo ssh tmux xargs
    """)
"""Commands that are no subcommand of a program: one that is given them runs them."""
_TEXT = re.compile(
    r"-[A-Za-z]{0,3}[cx]|-e|--(?:exec|command|run|cmd|shell-command|on-change|call)", re.ASCII
)
"""Options whose value is a command text."""
_JOINED_TEXT = re.compile(r"(--[\w-]{1,40})=|(?!--)(-[A-Za-z]{0,3}?[cxe])(?=.)", re.DOTALL)
"""An option with its value in the same word."""
_CODE = re.compile(r"-[ecE]|-{1,2}(?:eval|exec|ex|iex|execute|command|expression|eval-command)")
"""Options whose value is program text, perhaps of its own language."""
_SHELLS_OUT = re.compile(r"\s*(?:platform\s+)?(?:!|(?:shell|pipe|make)\b)\s*(.*)", re.DOTALL)
"""How debuggers start a command."""
_PROGRAM_LIKE = re.compile(r"[\s;|&(){}<>$`'\"\\]")
"""Characters that a command text has and a plain word has not."""


def program_texts(command: Command) -> list[Effect]:
    """Program text that an unknown program is given: by an option, or on its standard input."""
    pairs = list(itertools.pairwise(command.args))
    found: list[Effect] = [
        Code(b, command.name) for a, b in pairs if a.text and _CODE.fullmatch(a.text)
    ]
    started = (_SHELLS_OUT.match(b.text or "") for a, b in pairs if a.lead.startswith("-"))
    found.extend(Shell(literal(match[1])) for match in started if match is not None)
    streams = [command.streamed(a) for a in command.args]
    scripts = [s.script for s in streams if s is not None and s.script is not None]
    return found + [Code(literal(script), command.name) for script in scripts]


def _is_shell(text: str, programs: frozenset[str]) -> bool:
    """Whether a text can be a shell program that runs one of `programs`; any program when that is
    empty. Of git only the subcommands that change something count: sentences name git too."""
    try:
        script = parse(text)
    except ParseError:
        # A shell may read what the parser does not: `! ! git push`.
        words = re.findall(r"[^\s!(){};|&]+", text)
        return bool(words) and words[0].rsplit("/", 1)[-1] in (programs or _CARRIED | {"git"})
    if not programs:
        return True
    for node in tree.nodes(script):
        spend(1)
        match node:
            case tree.Call(args=(first, *rest)):
                name = tree.plain_text(first)
                base = "" if name is None else name.rsplit("/", 1)[-1]
                follows = (tree.plain_text(rest[0]) if rest else None) or ""
                reads = base == "git" and follows not in _GIT_CHANGES and follows[:1] != "-"
                if name is None or (base in programs and not reads):
                    return True
    return False


def carried(command: Command, known: frozenset[str]) -> list[Effect]:
    """The command that an unknown program is given to run: after `--`, by option, or as it is."""
    args = command.args
    effects: list[Effect] = []
    for number, arg in enumerate(args):
        name = (arg.text or "").rsplit("/", 1)[-1]
        before = (args[number - 1].text or "") if number else ""
        if before == "--" and arg.text is not None:
            return effects + ([Run(args[number:], functions=False)] if name in known else [])
        # What is only known at run time counts as some word.
        shown = "".join(part if isinstance(part, str) else "x" for part in arg.parts)
        if _PROGRAM_LIKE.search(shown.strip()):
            joined = _JOINED_TEXT.match(arg.lead)
            if joined is not None:
                length = joined.end()
                arg, shown, before = arg.after(length), shown[length:], joined[1] or joined[2]
            effects.extend(_carried_text(command, arg, shown, before))
            continue
        # `--shell bash` names a program, `-f git push` runs one.
        named = re.fullmatch(r"--[^=]*|-p", before) is not None
        if name == "git" and number + 1 < len(args) and not named:
            follows = args[number + 1].text or ""
            if follows in _GIT_CHANGES or follows.startswith("-"):
                return [*effects, Run(args[number:], functions=False)]
        elif name in _CARRIED and not named and number + 1 < len(args):
            return [*effects, Run(args[number:], functions=False)]
    return effects


def _carried_text(command: Command, arg: Value, shown: str, before: str) -> list[Effect]:
    """The effects of a text, `shown` with its unknown parts filled in, after the word `before`."""
    effects: list[Effect] = []
    option = before.lstrip("-")
    spaced = " " in shown.strip()
    if "(" in shown and spaced and option not in _TEXTS:
        effects.append(Code(arg, command.name))
    started = re.match(r"\s*shell\s+(?=\S)", arg.lead) if before[:1] == "-" else None
    if started is not None:
        effects.append(Shell(arg.after(started.end())))
    programs: frozenset[str] = frozenset()
    if not (_TEXT.fullmatch(before) or (spaced and len(command.args) == 1)):
        programs = (_CARRIED if before[:1] == "-" else programs) | {"git"}
        if option in _TEXTS or not any(name in shown for name in programs):
            return effects
    return [*effects, Shell(arg)] if _is_shell(shown, programs) else effects


_RELEASERS = names("release-it semantic-release np goreleaser")
"""Programs that publish unless they are asked for something else."""
_DRY = names("--dry-run --snapshot --help --version -d build check init healthcheck changelog")


def publishes(command: Command) -> bool:
    """Whether an unknown program sends something to a registry, by its name or its first word."""
    words = [a.text or "" for a in command.args]
    first = next((w for w in words if not w.startswith("-")), "")
    if command.name in _RELEASERS:
        return not _DRY.intersection(words)
    return first in ("push", "publish", "unpublish") and not {"--dry-run", "--help"} & set(words)


def hooks(command: Command) -> list[Effect]:
    """Tools that plant git hooks: the hooks are shared by all worktrees."""
    words = [a.text or "" for a in command.args]
    if {"--version", "--help", "-v", "-h", "-V"}.intersection(words):
        return []
    first = next((w for w in words if not w.startswith("-") or w in _PLANTS), "")
    if first in _PLANTS or command.name in ("husky", "simple-git-hooks"):
        return [Deny("git-shared", f"{command.name} {first} plants git hooks")]
    return [Mutates(f"{command.name} {first}".strip())]


_PLANTS = names("install uninstall init init-templatedir add set --install -i --uninstall -u")
HOOK_PLANTERS = names("pre-commit prek husky lefthook simple-git-hooks overcommit")
