"""Commands that pack and unpack files."""

from bridle.guard.commands.options import Parsed, read
from bridle.guard.effects import Command, Deny, Doubt, Effect, Shell, Write
from bridle.guard.values import EMPTY, Value, literal

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
        args = old_style(args)
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
