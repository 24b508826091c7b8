"""Programs that no table knows, and those of which only a habit is known.

A program that is not known may change anything; one that takes a command runs it.
"""

import itertools
import re

from bridle.guard.commands.given import TEXTS as _TEXTS
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell
from bridle.guard.names import names
from bridle.guard.shell.values import literal

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
_CODE = re.compile(r"-[ecE]|-{1,2}(?:eval|exec|ex|iex|execute|command|expression|eval-command)")
"""Options whose value is program text, perhaps of a language of its own."""
_SHELLS_OUT = re.compile(r"\s*(?:platform\s+)?(?:!|(?:shell|pipe|make)\b)\s*(.*)", re.DOTALL)
"""How debuggers start a command."""
_ASSIGNED = re.compile(r"(?:\w+=\S*\s+)*(?:\S*/)?([^\s/]+)")


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


def _is_prose(text: str) -> bool:
    """Whether a text that begins with a command's name goes on like a sentence."""
    words = text.split()
    follows = words[1] if len(words) > 1 else ""
    return words[0] == "git" and follows not in _GIT_CHANGES and follows[:1] != "-"


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
            if "(" in arg.text and (before or "").lstrip("-") not in _TEXTS:
                effects.append(Code(arg, command.name))
            joined = re.fullmatch(r"-[^=\s]{1,40}=\s*shell\s(.*)", arg.text, re.DOTALL)
            if joined is not None:
                effects.append(Shell(literal(joined[1])))
            option = (before or "").lstrip("-")
            program = arg.text.split()[0].rsplit("/", 1)[-1]
            runs = program == "git" or (program in _CARRIED and (before or "")[:1] == "-")
            if runs and option not in _TEXTS and not _is_prose(arg.text):
                effects.append(Shell(arg))
                continue
            first = _ASSIGNED.match(arg.text.strip())
            if (alone or _TEXT.fullmatch(before or "")) and first and first[1] in known:
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
