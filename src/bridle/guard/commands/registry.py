"""From a command name to what is known of it."""

import re
from collections.abc import Callable

from bridle.guard.commands import (
    awk,
    containers,
    databases,
    files,
    git,
    given_paths,
    packages,
    programs,
    queries,
    readers,
    search,
    sed,
    system,
    unknown_programs,
    wrappers,
)
from bridle.guard.commands.options import read
from bridle.guard.commands.readers import LISTED, READERS
from bridle.guard.commands.writers import SPECS, Spec
from bridle.guard.effects import (
    Code,
    Command,
    Deny,
    Doubt,
    Effect,
    Mutates,
    Run,
    Shell,
    Unlisted,
    Write,
    hook,
)
from bridle.guard.shell.values import Value, literal
from bridle.guard.tables import names

Handler = Callable[[Command], list[Effect]]

HANDLERS: dict[str, Handler] = {
    "git": git.git,
    "sed": sed.sed, "awk": awk.awk, "cp": files.copy, "mv": files.move, "ln": files.link,
    "link": files.link, "dd": files.dd, "tar": files.tar, "unzip": files.unzip,
    "patch": files.patch, "mktemp": files.mktemp, "apply_patch": files.apply_patch,
    "env": wrappers.env, "command": wrappers.command_builtin,
    "xargs": wrappers.xargs, "parallel": wrappers.parallel,
    "find": search.find, "fd": search.fd,
    "source": programs.source, ".": programs.source,
    "python": programs.python, "perl": programs.perl,
    "make": programs.make, "ninja": programs.make,
    "just": programs.make, "task": programs.make,
    "ruff": packages.ruff, "curl": packages.curl, "wget": packages.wget,
    "kill": system.kill, "pkill": system.kill_by_name,
    "killall": system.kill_by_name, "killall5": system.kill_by_name, "skill": system.kill_by_name,
    "sqlite3": databases.sqlite, "less": programs.pager, "zless": programs.pager,
    "gh": system.github, "glab": system.github, "hub": system.github, "tea": system.github,
}  # fmt: skip

for _handler, _names in (
    (programs.shell, programs.SHELLS),
    (programs.interpreter, frozenset(programs.CODE_OPTIONS) - {"bun", "deno"}),
    (programs.editor, programs.EDITORS),
    (unknown_programs.hooks, unknown_programs.HOOK_PLANTERS),
    (system.version_control, names("hg svn jj sl bzr fossil")),
    (system.refused, frozenset(system.REFUSED)),
    (system.remote_shell, system.REMOTE),
    (containers.container, containers.CONTAINERS),
    (packages.package_tool, packages.TOOLS),
):
    for _name in _names:
        HANDLERS.setdefault(_name, _handler)

KNOWN = (
    frozenset(HANDLERS) | frozenset(SPECS) | frozenset(wrappers.WRAPPERS) | READERS
    | frozenset(LISTED) | frozenset(queries.QUERIES)
)  # fmt: skip
"""Every program that has its own rule."""
HANDLERS["chmod"] = lambda command: chmod(command)

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
    """What the general rule says of the paths that the command is given."""
    name = command.name
    if name in READERS:
        return []
    found: list[Effect] = []
    for variable, value in command.env:
        found.extend(given_paths.given_variable(variable, value, home))
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
        # The program itself is read; what follows it is given to it.
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
    return found + given_paths.given(command, tuple(words))


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
    query = queries.asked(command)
    if query is not None:
        # With an option that is not listed it may be anything that the program does.
        return [*query, *_beyond(command)] if query else []
    return _beyond(command)


def _beyond(command: Command) -> list[Effect]:
    name = command.name
    handler = HANDLERS.get(name)
    row = LISTED.get(name)
    if handler is not None:
        effects = handler(command)
        if handler is packages.package_tool and all(isinstance(e, Mutates) for e in effects):
            effects = effects + unknown_programs.carried(command, KNOWN)
        if row is not None:
            effects = effects + [
                e for e in readers.reading(command, row) if isinstance(e, Unlisted)
            ]
        return effects
    if row is not None:
        return readers.reading(command, row)
    spec = SPECS.get(name)
    if spec is not None:
        return by_spec(command, spec)
    if name.startswith("git-") and len(name) > 4:
        return git.dashed(command)
    return unknown(command)


def unknown(command: Command) -> list[Effect]:
    """A program that is not known: it may change anything."""
    if len(command.args) == 1 and command.args[0].text in _ONLY_ASKS:
        return []
    if unknown_programs.publishes(command):
        return [Deny("publish", f"{command.name} publishes something")]
    effects: list[Effect] = [Mutates(f"the program {command.name}")]
    effects.extend(unknown_programs.program_texts(command))
    return effects + unknown_programs.carried(command, KNOWN)


def by_spec(command: Command, spec: Spec) -> list[Effect]:
    """Effects by the command's row in the table."""
    options = read(
        command.args, spec.short, spec.long,
        flags=(*spec.flags, *(n for n in spec.deep if len(n) > 1)),
    )  # fmt: skip
    effects: list[Effect] = [hook(v) for v in options.values(*spec.runs)]
    if options.has(*spec.asks):
        return effects
    if spec.operands == "last":
        return effects + files.copied(command, options, spec.mode)
    deep = options.has(*spec.deep)
    targets = _targets(options.operands, spec, options.has("reference"))
    for target in targets:
        mode = spec.mode
        if deep:
            mode = "tree" if spec.mode == "entry" or not _only_adds(command) else "write"
        effects.append(Write(target, mode))
    if spec.here and not targets:
        effects.append(Write(literal("."), "merge"))
    if options.open_options:
        effects.append(Doubt(command.name))
    return effects


def chmod(command: Command) -> list[Effect]:
    """chmod: a mode may look like options (`chmod -w file`)."""
    args = tuple(
        literal("a" + (a.text or "")) if re.fullmatch(r"-[rwxXst]+(,.*)?", a.text or "") else a
        for a in command.args
    )
    return by_spec(Command(command.name, args, directories=command.directories), SPECS["chmod"])


def _only_adds(command: Command) -> bool:
    """chmod -R u+w and the like: nothing below is taken away."""
    return any(re.match(r"[ugoa]*\+[rwxXst]+\Z", a.text or "") for a in command.args)


def _targets(operands: list[Value], spec: Spec, reference: bool) -> list[Value]:
    if spec.operands == "rest" and not reference:
        return operands[1:]
    if spec.operands == "first":
        return operands[:1]
    if spec.operands == "second":
        return operands[1:2]
    return operands
