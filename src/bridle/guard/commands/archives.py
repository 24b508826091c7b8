"""Commands that pack and unpack files."""

from bridle.guard.commands.options import Parsed, read
from bridle.guard.effects import Command, Deny, Doubt, Effect, Mutates, Shell, Write
from bridle.guard.values import EMPTY, UNKNOWN, Value, literal

_TAR_VALUES = (
    "file", "directory", "exclude", "exclude-from", "files-from", "transform", "xform",
    "to-command", "use-compress-program", "checkpoint-action", "info-script", "new-volume-script",
    "rsh-command", "rmt-command", "index-file", "listed-incremental", "owner", "group",
    "mode", "mtime",
    "strip-components", "format", "label", "suffix", "add-file", "volno-file", "checkpoint?",
    "newer", "blocking-factor", "starting-file", "one-top-level?", "backup?",
)  # fmt: skip

_TAR_SHORT = "fCXTIbgHKLNVF"


def tar(command: Command) -> list[Effect]:
    """Effects of tar in its three option styles."""
    args = list(command.args)
    if args and args[0].text and not args[0].lead.startswith("-"):
        args = _old_style(args)
    options = read(
        args, short=_TAR_SHORT, long=_TAR_VALUES,
        flags=("create", "extract", "get", "list", "append", "update", "delete", "concatenate",
               "catenate", "diff", "compare", "to-stdout", "gzip", "bzip2", "xz", "zstd",
               "remove-files", "absolute-names", "verbose", "keep-old-files", "overwrite",
               "same-owner", "no-same-owner", "auto-compress", "wildcards"),
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
    if options.has("c", "create", "r", "append", "u", "update", "A", "concatenate", "catenate",
                   "delete"):  # fmt: skip
        effects.extend(Write(a) for a in archives if a.text != "-")
        if options.has("remove-files"):
            effects.extend(Write(o, "tree") for o in options.operands)
    if options.has("x", "extract", "get") and not options.has("O", "to-stdout"):
        effects.extend(_extracted(options))
        if options.has("P", "absolute-names"):
            effects.append(Deny("path-unresolved", "tar extracts to names the archive chooses"))
    elif not effects and options.open_options:
        effects.append(Doubt("tar"))
    return effects


def _extracted(options: Parsed) -> list[Effect]:
    places = options.values("C", "directory") or [literal(".")]
    places += [v for v in options.values("one-top-level") if v.parts]
    return [Write(place, "merge") for place in places]


def _old_style(args: list[Value]) -> list[Value]:
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


def seven_zip(command: Command) -> list[Effect]:
    """Effects of 7z and its kin."""
    action = command.args[0].text if command.args else ""
    if action in ("l", "t", "i", "h", "b"):
        return []
    operands = [a for a in command.args[1:] if not a.lead.startswith("-")]
    outs = [a.after(2) for a in command.args if a.lead.startswith("-o")]
    if action in ("x", "e"):
        if command.name in ("unrar", "rar"):
            # The destination is an operand that ends in a slash.
            outs = [o for o in operands[1:] if o.show().endswith("/")]
        return [Write(out, "merge") for out in outs or [literal(".")]]
    return [Write(operands[0] if operands else UNKNOWN)]


def ar(command: Command) -> list[Effect]:
    """Effects of ar: t and p only look; x extracts here; the rest change the archive."""
    words = list(command.args)
    letters = (words[0].text or "").lstrip("-") if words else ""
    if letters[:1] in ("t", "p"):
        return []
    if letters[:1] == "x":
        return [Write(literal("."), "merge")]
    return [Write(v) for v in words[1:2]] or [Doubt("ar")]


def cpio(command: Command) -> list[Effect]:
    """Effects of cpio."""
    options = read(
        command.args, short="CDEFHIMORW",
        long=("directory", "file", "format", "pattern-file", "rsh-command"),
        flags=("extract", "create", "pass-through", "list", "to-stdout"),
    )  # fmt: skip
    effects: list[Effect] = [Shell(v) for v in options.values("rsh-command")]
    if options.has("o", "create"):
        effects.extend(Write(v) for v in options.values("O", "F", "file"))
    elif options.has("p", "pass-through"):
        effects.extend(Write(v, "merge") for v in options.operands[-1:])
    elif options.has("i", "extract") and not options.has("t", "list", "to-stdout"):
        places = options.values("D", "directory") or [literal(".")]
        effects.extend(Write(v, "merge") for v in places)
        if not options.has("no-absolute-filenames"):
            effects.append(Mutates("cpio extracts"))
    return effects
