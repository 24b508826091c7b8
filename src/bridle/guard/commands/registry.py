"""Maps a command name to what is known about it."""

import itertools
import re
from collections.abc import Callable

from bridle.core.capabilities import TOO_BROAD
from bridle.guard.budget import spend
from bridle.guard.commands import (
    files,
    git,
    given,
    packages,
    programs,
    readers,
    sed_awk,
    system,
    wrappers,
)
from bridle.guard.commands.files import SPECS
from bridle.guard.commands.given import TEXTS as _TEXTS
from bridle.guard.commands.options import read
from bridle.guard.commands.readers import LISTED, READERS
from bridle.guard.effects import Code, Command, Deny, Effect, Mutates, Run, Shell, Unlisted, Write
from bridle.guard.policy import TRACKERS, Policy, PolicyError
from bridle.guard.shell import tree
from bridle.guard.shell.parse import parse
from bridle.guard.shell.shfmt import ParseError
from bridle.guard.shell.values import Value, literal, names

Handler = Callable[[Command], list[Effect]]

HANDLERS: dict[str, Handler] = {
    "git": git.git,
    "sed": sed_awk.sed, "awk": sed_awk.awk, "cp": files.copy, "mv": files.move, "ln": files.link,
    "link": files.link, "dd": files.dd, "tar": files.tar, "unzip": files.unzip,
    "patch": files.patch, "mktemp": files.mktemp, "apply_patch": files.apply_patch,
    "env": wrappers.env, "command": wrappers.command_builtin,
    "xargs": wrappers.xargs, "parallel": wrappers.parallel,
    "find": wrappers.find, "fd": wrappers.fd,
    "source": programs.source, ".": programs.source,
    "python": programs.python, "perl": programs.perl,
    "make": programs.make, "ninja": programs.make,
    "just": programs.make, "task": programs.make,
    "ruff": packages.ruff, "curl": packages.curl, "wget": packages.wget,
    "kill": system.kill, "pkill": system.kill_by_name,
    "killall": system.kill_by_name, "killall5": system.kill_by_name, "skill": system.kill_by_name,
    "sqlite3": programs.sqlite, "less": programs.pager, "zless": programs.pager,
    "gh": system.github, "glab": system.github, "hub": system.github, "tea": system.github,
}  # fmt: skip

for _handler, _names in (
    (programs.shell, programs.SHELLS),
    (programs.interpreter, frozenset(programs.CODE_OPTIONS) - {"bun", "deno"}),
    (programs.editor, programs.EDITORS),
    (packages.hooks, packages.HOOK_PLANTERS),
    (system.version_control, names("hg svn jj sl bzr fossil")),
    (system.refused, frozenset(system.REFUSED)),
    (system.remote_shell, system.REMOTE),
    (system.container, system.CONTAINERS),
    (packages.package_tool, packages.TOOLS),
):
    for _name in _names:
        HANDLERS.setdefault(_name, _handler)

KNOWN = (
    frozenset(HANDLERS) | frozenset(SPECS) | frozenset(wrappers.WRAPPERS) | READERS
    | frozenset(LISTED) | frozenset(readers.QUERIES)
)  # fmt: skip
"""Every program that has its own rule."""
HANDLERS["chmod"] = files.chmod


def check_safe(policy: Policy) -> None:
    """Raise `PolicyError` for a safe command that is not a program's plain name, or has its own
    rules, which calling it safe would disable."""
    for name in set(policy.safe_commands) - set(TRACKERS):
        if not name.strip() or set(name) & set(" \t/") or name in TOO_BROAD or name in KNOWN:
            raise PolicyError(f"{name!r} cannot be a safe command: name a program without rules")


_KNOWING = names("""
    git sed awk cp mv ln link dd tar unzip patch mktemp find fd env command xargs parallel docker
    podman nerdctl curl wget apply_patch source . sqlite3
    """) | frozenset(name for name, spec in SPECS.items() if spec.operands != "last")
"""Programs whose handlers know which of their words are written."""
_FILE = re.compile(r"(?!-)[\w./~@+-]+")
_RUNS_FILES = programs.SHELLS | frozenset(programs.CODE_OPTIONS) | names("python perl")

_TAKES_CODE = frozenset(programs.CODE_OPTIONS)

_CONVERTERS = names("ffmpeg convert magick sox pandoc")
"""Programs that read their operands and write the last of them, or what an option names."""

_STANDARD_BINS = re.compile(
    r"(/usr/local/s?bin|/usr/s?bin|/s?bin|/opt/[^/]+/bin|/usr/lib/git-core|/usr/libexec/git-core"
    r"|/home/[^/]+/\.local/bin|.*/\.?venv/bin|\.?venv/bin|.*/node_modules/\.bin|node_modules/\.bin"
    r"|/nix/store/[^/]+/bin|/snap/bin)/"
)
_VERSIONED = re.compile(r"(python|pypy|pip|perl|ruby|node|php|lua|gcc|g\+\+|clang|awk)[-\d.]+\Z")
_ALIASES = {
    "mawk": "awk", "nawk": "awk", "bsdtar": "tar", "fdfind": "fd", "batcat": "bat",
    "nodejs": "node", "applypatch": "apply_patch", "tempfile": "mktemp", "pypy": "python",
    **{f"g{name}": name for name in (*SPECS, *names("cp mv ln sed awk tar find xargs make timeout "
                                                    "time stat date env"))},
}  # fmt: skip
"""Other names of programs; GNU's have a `g` in front on other systems."""
_LOADER = re.compile(r"ld-linux[\w.-]*\.so[\w.]*\Z|ld-musl[\w.-]*\.so[\w.]*\Z|ld\.so\Z")
_ONLY_ASKS = frozenset({"--version", "--help", "-V", "-h", "-version", "version", "help"})


def base_name(name: str) -> str:
    """The name a command is known by: no path, no version, no zsh `=`."""
    base = name.rsplit("/", 1)[-1].removesuffix(".exe")
    if "@" in base[1:]:
        # A package with its version, as runners take it: codex@latest.
        base = base[0] + base[1:].partition("@")[0]
    if base.startswith("=") and len(base) > 1:
        base = base[1:]
    if _LOADER.match(base):
        return "ld.so"
    versioned = _VERSIONED.match(base)
    if versioned is not None:
        base = versioned.group(1)
    base = _ALIASES.get(base, base)
    if base not in KNOWN and base.lower() in KNOWN:
        return base.lower()
    return base


def is_local(name: str) -> bool:
    """Whether the name is the path of a program that is not one of the system's own."""
    return "/" in name and _STANDARD_BINS.match(name) is None


def effects_of(
    command: Command, path: str, own: str, safe: tuple[str, ...], home: str
) -> list[Effect]:
    """What the command does. `path` is the name as written, `own` the orchestrator's command."""
    effects = _effects(command, own, safe)
    if command.name not in safe and command.name not in (own, "bridle"):
        effects = effects + _given(command, effects, home)
    if command.name in _TAKES_CODE:
        # An option that no table knows may hold code: `--import data:…`.
        known = {effect.text for effect in effects if isinstance(effect, Code | Shell)}
        texts = [a for a in command.args if "(" in a.show() and a not in known]
        if any(isinstance(effect, Mutates) for effect in effects):
            effects = effects + [Code(text, command.name) for text in texts]
    if is_local(path) and not any(isinstance(e, Mutates) for e in effects):
        effects = [*effects, Mutates(f"the program {path}")]
    return effects


def _given(command: Command, effects: list[Effect], home: str) -> list[Effect]:
    """What the general rule says about the paths among the command's arguments."""
    name = command.name
    if name in READERS:
        return []
    found: list[Effect] = []
    for variable, value in command.env:
        found.extend(given.given_variable(variable, value, home))
    if name in _KNOWING or name in LISTED or not effects:
        # Its handler knows what it writes, or has found that it only reads.
        return found
    judged: set[Value] = set()
    for effect in effects:
        match effect:
            case Write():
                judged.add(effect.target)
            case Code() | Shell() if name in KNOWN:
                judged.update(() if effect.text is None else (effect.text,))
            case Run() if name in KNOWN:
                judged.update(effect.argv)
    words = [word for word in command.args if word not in judged]
    if name in _RUNS_FILES:
        # The program itself is read; what follows are its arguments.
        first = next((n for n, w in enumerate(words) if _FILE.fullmatch(w.lead)), len(words))
        words = words[:first] + words[first + 1 :]
        if first and words[first - 1].text == "-m":
            words = words[: first - 1] + words[first:]
    if name in SPECS:
        # What it copies is read.
        copied = read(command.args, SPECS[name].short, SPECS[name].long).operands
        words = [word for word in words if word not in copied]
    if name in _CONVERTERS:
        words = [*_options_of(words[:-1]), *words[-1:]]
    return found + given.given(command, tuple(words))


def _options_of(words: list[Value]) -> list[Value]:
    """The options and their values: all but the files that are read."""
    pairs = zip([literal(""), *words], words, strict=False)
    return [
        word for before, word in pairs
        if word.lead.startswith("-") or (before.lead.startswith("-") and before.text != "-i")
    ]  # fmt: skip


def _effects(command: Command, own: str, safe: tuple[str, ...]) -> list[Effect]:
    name = command.name
    if name == own or name == "bridle":
        return system.orchestrator(command)
    if name in safe:
        return system.tracker(command)
    if name in READERS or [a.text for a in command.args] in (["--version"], ["--help"]):
        return []
    if name in wrappers.WRAPPERS:
        wrapped = wrappers.wrapped(command, wrappers.WRAPPERS[name])
        if wrapped is not None:
            return wrapped
    query = readers.asked(command)
    if query is not None:
        # With an unlisted option it may do anything that the program can do.
        return [*query, *_beyond(command)] if query else []
    return _beyond(command)


def _beyond(command: Command) -> list[Effect]:
    name = command.name
    handler = HANDLERS.get(name)
    row = LISTED.get(name)
    if handler is not None:
        effects = handler(command)
        if handler is packages.package_tool and all(isinstance(e, Mutates) for e in effects):
            effects = effects + carried(command)
        if row is not None:
            effects = effects + [
                e for e in readers.reading(command, row) if isinstance(e, Unlisted)
            ]
        return effects
    if row is not None:
        return readers.reading(command, row)
    if name in SPECS:
        return files.by_spec(command, SPECS[name])
    if name.startswith("git-") and len(name) > 4:
        return git.dashed(command)
    return unknown(command)


def unknown(command: Command) -> list[Effect]:
    """An unknown program: it may change anything."""
    if len(command.args) == 1 and command.args[0].text in _ONLY_ASKS:
        return []
    if publishes(command):
        return [Deny("publish", f"{command.name} publishes something")]
    effects: list[Effect] = [Mutates(f"the program {command.name}")]
    effects.extend(program_texts(command))
    return effects + carried(command)


# --- unknown programs: one that takes a command runs it --------------------------------------

_GIT_CHANGES = names("""
    push send-pack reset checkout switch restore branch config update-ref stash worktree clean
    commit rebase remote gc reflog tag merge subtree lfs
    """)


_CARRIED = names("""
    bash sh zsh dash ksh python python3 perl node rm mv cp ln tee touch chmod dd rsync sed curl env
    sudo ssh tmux xargs
    """)
"""Commands that are not subcommands of a program: a program that gets them as arguments runs
them."""
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
"""Characters that occur in command text but not in a plain word."""


def program_texts(command: Command) -> list[Effect]:
    """Program text that an unknown program gets by an option or on its standard input."""
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


def carried(command: Command) -> list[Effect]:
    """The command that an unknown program gets to run: after `--`, by option, or as its
    arguments."""
    args = command.args
    effects: list[Effect] = []
    for number, arg in enumerate(args):
        name = (arg.text or "").rsplit("/", 1)[-1]
        before = (args[number - 1].text or "") if number else ""
        if before == "--" and arg.text is not None:
            return effects + ([Run(args[number:], functions=False)] if name in KNOWN else [])
        # What is only known at run time counts as any word.
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
"""Programs that publish unless told otherwise."""
_DRY = names("--dry-run --snapshot --help --version -d build check init healthcheck changelog")


def publishes(command: Command) -> bool:
    """Whether an unknown program sends something to a registry, by its name or its first word."""
    words = [a.text or "" for a in command.args]
    first = next((w for w in words if not w.startswith("-")), "")
    if command.name in _RELEASERS:
        return not _DRY.intersection(words)
    return first in ("push", "publish", "unpublish") and not {"--dry-run", "--help"} & set(words)
