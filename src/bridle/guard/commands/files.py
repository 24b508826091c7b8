"""Commands that copy, move, link, patch, pack and unpack files, or write their operands."""

import os
import re
from typing import Literal

import msgspec

from bridle.guard.commands.options import Parsed, read
from bridle.guard.effects import Command, Deny, Doubt, Effect, Link, Mutates, Shell, Write, hook
from bridle.guard.paths import Mode, is_directory
from bridle.guard.shell.values import EMPTY, Hole, Value, join, literal
from bridle.guard.tools import diff_paths, patch_paths

_COPY_FLAGS = ("archive", "recursive", "link", "symbolic-link", "no-dereference",
               "no-target-directory")  # fmt: skip


def below(directory: Value, source: Value) -> Value:
    """The path of the source in the directory."""
    text = source.text
    if text is None:
        last = source.parts[-1]
        tail = last.rpartition("/")[2] if isinstance(last, str) and "/" in last else None
        name: Value = literal(tail) if tail else Value((Hole("glob", "*"),))
        if source.holds("any"):
            name = Value((Hole("atom"),))
    else:
        base = text.rstrip("/").rpartition("/")[2]
        if base in ("", ".", ".."):
            return directory
        name = literal(base)
    lead = directory.parts[-1] if directory.parts else ""
    slash = "" if isinstance(lead, str) and lead.endswith("/") else "/"
    return join([*directory.parts, slash, *name.parts])


def _is_folder(value: Value, command: Command) -> bool:
    text = value.text
    if text is None:
        return False
    if text.endswith(("/", "/.")) or text in (".", ".."):
        return True
    return any(
        is_directory(text if text[0] == "/" else f"{d}/{text}") for d in command.directories if text
    )


def _destination(options: Parsed, command: Command) -> tuple[list[Value], Value | None, bool]:
    """Sources, destination, and whether the destination is a folder that gets the sources."""
    operands = list(options.operands)
    targets = [v for v in options.values("t", "target-directory") if v.parts]
    if targets:
        return operands, targets[-1], True
    if len(operands) < 2:
        return operands, None, False
    destination = operands.pop()
    if options.has("T", "no-target-directory"):
        return operands, destination, False
    return operands, destination, len(operands) > 1 or _is_folder(destination, command)


def _put(sources: list[Value], destination: Value, folder: bool, mode: Mode) -> list[Effect]:
    if not folder:
        return [Write(destination, mode)]
    effects: list[Effect] = [Write(below(destination, source), mode) for source in sources]
    return [*effects, Write(destination, "write")]


def _perhaps_below(sources: list[Value], destination: Value, command: Command) -> list[Effect]:
    """Writes in case the destination, which does not exist yet, is a folder by then."""
    text = destination.text
    if text is None or any(
        d is not None and os.path.lexists(os.path.join(d, text)) for d in command.directories
    ):
        return []
    return [Write(below(destination, source)) for source in sources]


def _links_again(
    sources: list[Value], destination: Value, folder: bool, command: Command
) -> list[Effect]:
    """A renamed or copied link leads to the same target."""
    effects: list[Effect] = []
    for source in sources:
        for directory in command.directories:
            path = os.path.join(directory or "/", (source.text or "").rstrip("/"))
            if source.text and os.path.islink(path):
                at = below(destination, source) if folder else destination
                effects.append(Link(literal(os.path.realpath(path)), at, True))
    return effects


def copy(command: Command) -> list[Effect]:
    """Effects of cp."""
    options = read(
        command.args, short="tSZ", long=("target-directory", "suffix", "sparse"), flags=_COPY_FLAGS
    )
    sources, destination, folder = _destination(options, command)
    if destination is None:
        return [Doubt("cp")] if options.open_options else []
    deep = options.has("r", "R", "a", "recursive", "archive")
    effects = _put(sources, destination, folder, "merge" if deep else "write")
    if not folder and not options.has("T", "no-target-directory"):
        effects.extend(_perhaps_below(sources, destination, command))
    if deep or options.has("d", "P", "no-dereference"):
        effects.extend(_links_again(sources, destination, folder, command))
    if options.has("l", "s", "link", "symbolic-link"):
        symbolic = options.has("s", "symbolic-link")
        effects.extend(Link(s, below(destination, s), symbolic) for s in sources)
    return effects


def move(command: Command) -> list[Effect]:
    """Effects of mv."""
    options = read(
        command.args, short="tSZ", long=("target-directory", "suffix"), flags=_COPY_FLAGS
    )
    sources, destination, folder = _destination(options, command)
    effects: list[Effect] = [Write(source, "tree") for source in sources]
    if destination is not None:
        effects.extend(_put(sources, destination, folder, "entry" if not folder else "tree"))
        if not folder and not options.has("T", "no-target-directory"):
            effects.extend(_perhaps_below(sources, destination, command))
        effects.extend(_links_again(sources, destination, folder, command))
    return effects


def link(command: Command) -> list[Effect]:
    """Effects of ln."""
    options = read(
        command.args, short="tS", long=("target-directory", "suffix"),
        flags=("symbolic", "no-dereference", "relative"),
    )  # fmt: skip
    operands = list(options.operands)
    symbolic = options.has("s", "symbolic") and not options.has("r", "relative")
    targets = options.values("t", "target-directory")
    if len(operands) == 1 and not targets:
        return [Link(operands[0], below(literal("."), operands[0]), symbolic)]
    if targets:
        return [Link(t, below(targets[-1], t), symbolic) for t in operands]
    if not operands:
        return []
    place = operands.pop()
    folder = len(operands) > 1 or (
        _is_folder(place, command) and not options.has("n", "T", "no-dereference")
    )
    return [Link(t, below(place, t) if folder else place, symbolic) for t in operands]


def copied(command: Command, options: Parsed, mode: Mode) -> list[Effect]:
    """What install, rsync and scp write: their last operand, or the given names below it."""
    if options.has("d", "directory"):
        return [Write(operand) for operand in options.operands]
    sources, destination, folder = _destination(options, command)
    if destination is None:
        return []
    if _is_remote(destination):
        return [Deny("remote", f"{command.name} writes to {destination.show()}")]
    effects = [*_put(sources, destination, folder, mode), Write(destination, mode)]
    if not folder:
        effects.extend(_perhaps_below(sources, destination, command))
    if options.has("remove-source-files"):
        effects.extend(Write(source, "tree") for source in sources)
    return effects


def _is_remote(value: Value) -> bool:
    lead = value.lead
    if lead.startswith("rsync://"):
        return True
    colon, slash = lead.find(":"), lead.find("/")
    return colon > 0 and (slash < 0 or colon < slash)


def dd(command: Command) -> list[Effect]:
    """Effects of dd."""
    effects: list[Effect] = []
    for arg in command.args:
        if arg.lead.startswith("of="):
            effects.append(Write(arg.after(3)))
        elif arg.open_start:
            effects.append(Doubt("dd"))
    return effects


def patch(command: Command) -> list[Effect]:
    """Effects of patch: the file operand, else what the patch text names."""
    options = read(
        command.args, short="dioprBDFVYz",
        long=("directory", "input", "output", "strip", "reject-file", "prefix", "fuzz"),
        flags=("dry-run",),
    )  # fmt: skip
    if options.has("dry-run"):
        return []
    effects: list[Effect] = [Mutates("patch changes files")]
    written = ("o", "output", "r", "reject-file", "B", "prefix")
    effects.extend(Write(v) for v in options.values(*written))
    places = options.values("d", "directory")
    effects.extend(Write(v, "merge") for v in places)
    effects.extend(Write(v) for v in options.operands[:1])
    if not options.has("d", "directory") and not options.operands:
        effects.append(Write(literal("."), "merge"))
    if not options.operands:
        effects.extend(patched(command, options.values("p", "strip"), None, places))
    return effects


def patched(
    command: Command, strip: list[Value], default: int | None, places: list[Value]
) -> list[Effect]:
    """Writes of the patch that arrives on standard input, where its text is known."""
    text = command.stdin.script
    if text is None:
        return []
    count = strip[-1].text if strip else None
    paths = diff_paths(text, int(count) if count is not None and count.isdigit() else default)
    place = places[-1] if places else None
    return [Write(literal(path), "write", place) for path in paths]


def mktemp(command: Command) -> list[Effect]:
    """Effects of mktemp; without a path it uses the scratch directory (TMPDIR)."""
    options = read(command.args, short="p", long=("tmpdir?", "suffix"), flags=("dry-run",))
    if options.has("u", "dry-run"):
        return []
    places = [v for v in options.values("p", "tmpdir") if v.parts]
    if places:
        return [Write(place, "merge") for place in places]
    if options.has("t", "tmpdir", "p") or not options.operands:
        chosen = dict(command.env).get("TMPDIR")
        if chosen is None:
            return [Write(Value((Hole("scratch"),)), "merge")]
        return [Write(chosen if chosen.parts else literal("/tmp"), "merge")]
    return [Write(operand) for operand in options.operands]


def apply_patch(command: Command) -> list[Effect]:
    """Effects of Codex's apply_patch when it is called in a shell."""
    texts: list[str | None] = [a.text for a in command.args if a.text]
    texts = texts or [command.stdin.script]
    effects: list[Effect] = [Mutates("apply_patch")]
    for text in texts:
        paths = patch_paths(text) if text is not None else None
        if not paths:
            return [Deny("path-unresolved", "the patch names no files that can be read")]
        effects.extend(Write(literal(path), "entry" if gone else "write") for path, gone in paths)
    return effects


_TAR_VALUES = (
    "file", "directory", "exclude", "exclude-from", "files-from", "transform", "xform",
    "to-command", "use-compress-program", "checkpoint-action", "info-script", "new-volume-script",
    "rsh-command", "rmt-command", "index-file", "listed-incremental", "owner", "group", "mode",
    "mtime", "strip-components", "format", "label", "suffix", "add-file", "volno-file",
    "checkpoint?", "newer", "blocking-factor", "starting-file", "one-top-level?", "backup?",
)  # fmt: skip

_TAR_SHORT = "fCXTIbgHKLNVF"
_TAR_WRITES = ("create", "append", "update", "concatenate", "catenate", "delete")


def tar(command: Command) -> list[Effect]:
    """Effects of tar in its three option styles."""
    args = list(command.args)
    if args and args[0].text and not args[0].lead.startswith("-"):
        args = old_style(args)
    options = read(
        args, short=_TAR_SHORT, long=_TAR_VALUES,
        flags=(*_TAR_WRITES, "extract", "get", "list", "to-stdout", "remove-files",
               "absolute-names"),
    )  # fmt: skip
    effects: list[Effect] = []
    runs = ("to-command", "I", "use-compress-program", "F", "info-script", "new-volume-script",
            "rsh-command", "rmt-command")  # fmt: skip
    effects.extend(Shell(v) for v in options.values(*runs))
    actions = options.values("checkpoint-action")
    effects.extend(Shell(a.after(5)) for a in actions if a.lead.startswith("exec="))
    written = ("g", "listed-incremental", "index-file", "volno-file")
    effects.extend(Write(v) for v in options.values(*written))
    archives = options.values("f", "file")
    if options.has("c", "r", "u", "A", *_TAR_WRITES):
        effects.extend(Write(a) for a in archives if a.text != "-")
        if options.has("remove-files"):
            effects.extend(Write(o, "tree") for o in options.operands)
    if options.has("x", "extract", "get") and not options.has("O", "to-stdout"):
        places = options.values("C", "directory") or [literal(".")]
        places += [v for v in options.values("one-top-level") if v.parts]
        effects.extend(Write(place, "merge") for place in places)
        if options.has("P", "absolute-names"):
            effects.append(Deny("path-unresolved", "tar extracts to names the archive chooses"))
    elif not effects and options.open_options:
        effects.append(Doubt("tar"))
    return effects


def old_style(args: list[Value]) -> list[Value]:
    """`tar xfC a.tar dir`: the letters' values follow in their order."""
    letters = args[0].text or ""
    rest = args[1:]
    found: list[Value] = []
    for letter in letters:
        found.append(literal("-" + letter))
        if letter in _TAR_SHORT:
            found.append(rest.pop(0) if rest else EMPTY)
    return found + rest


def unzip(command: Command) -> list[Effect]:
    """Effects of unzip."""
    options = read(command.args, short="dxP")
    if options.has("l", "t", "p", "Z", "v", "z", "c"):
        return []
    places = options.values("d") or [literal(".")]
    return [Write(place, "merge") for place in places]


# --- commands that write their operands, as data ---------------------------------------------

Which = Literal["all", "first", "second", "rest", "last"]


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What one command writes."""

    operands: Which = "all"
    """Operands that are written: all, the first, the second, all but the first, or the last, which
    gets copies of the others."""
    mode: Mode = "write"
    short: str = ""
    """Letters of options that take a value."""
    long: tuple[str, ...] = ()
    """Long options that take a value."""
    flags: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    """Options whose value runs as a shell command."""
    asks: tuple[str, ...] = ()
    """With one of these options nothing is written."""
    deep: tuple[str, ...] = ()
    """With one of these options the change applies to everything below."""
    here: bool = False
    """Whether the current directory gets files when no operand names a place."""


SPECS: dict[str, Spec] = {
    "rm": Spec(mode="entry", deep=("r", "R", "recursive")),
    "rmdir": Spec(mode="entry"), "unlink": Spec(mode="entry"),
    "trash": Spec(mode="tree"), "trash-put": Spec(mode="tree"),
    "shred": Spec(short="ns", long=("iterations", "size", "random-source")),
    "touch": Spec(short="drt", long=("date", "reference", "time")),
    "mkdir": Spec(short="mZ", long=("mode", "context?")),
    "mkfifo": Spec(short="m", long=("mode",)),
    "mknod": Spec(operands="first", short="m", long=("mode",)),
    "truncate": Spec(short="rs", long=("reference", "size")),
    "fallocate": Spec(short="lo", long=("length", "offset")),
    "sponge": Spec(),
    "split": Spec(operands="second", here=True, short="abClnt", runs=("filter",),
                  long=("suffix-length", "bytes", "line-bytes", "lines", "number", "filter",
                        "separator", "additional-suffix")),
    "chmod": Spec(operands="rest", long=("reference",), deep=("R", "recursive")),
    "chown": Spec(operands="rest", long=("reference", "from"), deep=("R", "recursive")),
    "chgrp": Spec(operands="rest", long=("reference",), deep=("R", "recursive")),
    "chattr": Spec(operands="rest", deep=("R",)),
    "setfacl": Spec(short="mxMX", long=("modify", "remove", "restore")),
    "rename": Spec(operands="rest", mode="entry"),
    "install": Spec(operands="last", short="tmogSZ", flags=("directory",), runs=("strip-program",),
                    long=("target-directory", "mode", "owner", "group", "suffix",
                          "strip-program")),
    "scp": Spec(operands="last", mode="merge", short="cFiJloPSXD", runs=("S", "o")),
    "rsync": Spec(operands="last", mode="merge", short="eBTfM@", runs=("e", "rsh"),
                  asks=("n", "dry-run", "list-only"), flags=("remove-source-files",),
                  long=("rsh", "rsync-path", "exclude", "include", "exclude-from", "include-from",
                        "filter", "files-from", "backup-dir", "suffix", "temp-dir", "partial-dir",
                        "log-file", "write-batch", "only-write-batch", "compare-dest", "copy-dest",
                        "link-dest", "password-file", "bwlimit", "max-size", "min-size", "chmod",
                        "chown", "port", "timeout", "out-format", "info", "block-size")),
}  # fmt: skip
"""Commands with writing operands."""


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
        return effects + copied(command, options, spec.mode)
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
    """Whether it is chmod -R u+w or similar: no permission below is removed."""
    return any(re.match(r"[ugoa]*\+[rwxXst]+\Z", a.text or "") for a in command.args)


def _targets(operands: list[Value], spec: Spec, reference: bool) -> list[Value]:
    if spec.operands == "rest" and not reference:
        return operands[1:]
    if spec.operands == "first":
        return operands[:1]
    if spec.operands == "second":
        return operands[1:2]
    return operands
