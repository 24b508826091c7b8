"""Commands that copy, move, link and patch files."""

import os

from bridle.guard.commands.options import Parsed, read
from bridle.guard.effects import (
    Code,
    Command,
    Deny,
    Doubt,
    Effect,
    Link,
    Mutates,
    Run,
    Shell,
    Write,
)
from bridle.guard.paths import Mode, is_directory
from bridle.guard.values import Hole, Value, join, literal

_COPY_FLAGS = (
    "archive", "recursive", "link", "symbolic-link", "force", "no-clobber", "update?", "verbose",
    "dereference", "no-dereference", "preserve?", "parents", "attributes-only", "reflink?",
    "remove-destination", "one-file-system", "interactive", "backup?", "no-target-directory",
    "strip-trailing-slashes",
)  # fmt: skip


def below(directory: Value, source: Value) -> Value:
    """Where the source comes to lie in the directory."""
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
    targets = options.values("t", "target-directory")
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
    """Writes in case that the destination, which is not there yet, is a folder by then."""
    text = destination.text
    if text is None or any(
        d is not None and os.path.lexists(os.path.join(d, text)) for d in command.directories
    ):
        return []
    return [Write(below(destination, source)) for source in sources]


def _links_again(
    sources: list[Value], destination: Value, folder: bool, command: Command
) -> list[Effect]:
    """A link that gets a new name, or a copy, leads where it led."""
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
        command.args,
        short="tS",
        long=("target-directory", "suffix"),
        flags=("symbolic", "force", "no-dereference", "relative", "physical", "logical",
               "no-target-directory", "interactive", "verbose", "backup?"),
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


def hard_link(command: Command) -> list[Effect]:
    """Effects of link FILE1 FILE2."""
    if len(command.args) == 2:
        return [Link(command.args[0], command.args[1], False)]
    return []


def install(command: Command) -> list[Effect]:
    """Effects of install."""
    options = read(
        command.args,
        short="tmogSZ",
        long=("target-directory", "mode", "owner", "group", "suffix", "strip-program"),
        flags=("directory", "compare", "strip", "preserve-timestamps", "no-target-directory"),
    )
    if options.has("d", "directory"):
        return [Write(operand) for operand in options.operands]
    sources, destination, folder = _destination(options, command)
    runs: list[Effect] = [Shell(program) for program in options.values("strip-program")]
    return runs + (_put(sources, destination, folder, "write") if destination is not None else [])


def rsync(command: Command) -> list[Effect]:
    """Effects of rsync."""
    options = read(
        command.args,
        short="eBTfM@",
        long=("rsh", "rsync-path", "exclude", "include", "exclude-from", "include-from", "filter",
              "files-from", "backup-dir", "suffix", "temp-dir", "partial-dir", "log-file",
              "write-batch", "only-write-batch", "compare-dest", "copy-dest", "link-dest",
              "password-file", "bwlimit", "max-size", "min-size", "chmod", "chown", "port",
              "timeout", "out-format", "info", "block-size"),
        flags=("remove-source-files", "backup", "delete", "dry-run", "archive", "recursive",
               "list-only", "delete-after", "delete-before", "delete-excluded"),
    )  # fmt: skip
    effects: list[Effect] = [Shell(v) for v in options.values("e", "rsh")]
    written = ("backup-dir", "T", "temp-dir", "partial-dir", "log-file", "write-batch",
               "only-write-batch")  # fmt: skip
    effects.extend(Write(v) for v in options.values(*written))
    operands = list(options.operands)
    if options.has("n", "dry-run", "list-only") or len(operands) < 2:
        return effects
    destination = operands.pop()
    if _is_remote(destination):
        return [Deny("remote", f"rsync writes to {destination.show()}")]
    mode: Mode = "tree" if options.has("delete", "delete-after", "delete-before") else "merge"
    effects.append(Write(destination, mode if mode == "merge" else "merge"))
    effects.extend(
        Write(below(destination, s), "merge") for s in operands if not s.show().endswith("/")
    )
    if options.has("remove-source-files"):
        effects.extend(Write(source, "tree") for source in operands)
    return effects


def _is_remote(value: Value) -> bool:
    lead = value.lead
    if lead.startswith("rsync://"):
        return True
    colon, slash = lead.find(":"), lead.find("/")
    return colon > 0 and (slash < 0 or colon < slash)


def scp(command: Command) -> list[Effect]:
    """Effects of scp: downloads only."""
    options = read(command.args, short="cFiJloPSXD")
    operands = list(options.operands)
    if len(operands) < 2 or _is_remote(operands[-1]) or options.has("S", "o"):
        return [Deny("remote", "scp to another machine")]
    return [Write(operands[-1], "merge"), Mutates("scp")]


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
        flags=("dry-run", "reverse", "forward", "backup", "binary", "silent"),
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
    from bridle.guard.patches import diff_paths

    text = command.stdin.script
    if text is None:
        return []
    count = strip[-1].text if strip else None
    paths = diff_paths(text, int(count) if count is not None and count.isdigit() else default)
    place = places[-1] if places else None
    return [Write(literal(path), "write", place) for path in paths]


def mktemp(command: Command) -> list[Effect]:
    """Effects of mktemp; without a place it uses the scratch directory (TMPDIR)."""
    options = read(
        command.args, short="p", long=("tmpdir?", "suffix"),
        flags=("directory", "dry-run", "quiet"),
    )  # fmt: skip
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


def editor_text(command: Command) -> list[Effect]:
    """Effects of ed and ex-like line editors that take their commands on standard input."""
    operands = [a for a in command.args if not a.lead.startswith("-")]
    effects: list[Effect] = [Write(operand) for operand in operands]
    effects.append(Mutates("an editor"))
    script = command.stdin.script
    if script is not None:
        effects.append(Code(literal(script), "editor"))
    return effects


def apply_patch(command: Command) -> list[Effect]:
    """Effects of Codex's apply_patch when it is called in a shell."""
    from bridle.guard.patches import patch_paths

    texts: list[str | None] = [a.text for a in command.args if a.text]
    texts = texts or [command.stdin.script]
    effects: list[Effect] = [Mutates("apply_patch")]
    for text in texts:
        paths = patch_paths(text) if text is not None else None
        if not paths:
            return [Deny("path-unresolved", "the patch names no files that can be read")]
        effects.extend(Write(literal(path), "entry" if gone else "write") for path, gone in paths)
    return effects


def rename_all(command: Command) -> list[Effect]:
    """Effects of Perl's rename: its program runs on each name."""
    args = list(command.args)
    return [Code(args[0] if args else None, "perl"), *(Write(a, "entry") for a in args[1:])]


def run_applet(command: Command) -> list[Effect]:
    """busybox and toybox: the first argument is the command."""
    args = [a for a in command.args if a.parts]
    return [Run(tuple(args))] if args and not args[0].lead.startswith("--") else []
