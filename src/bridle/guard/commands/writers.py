"""Commands that write their operands, as data.

A `Spec` says which operands a command writes and how. Everything else about paths is one rule, in
`given`; what only reads is in `readers` and `queries`.
"""

from typing import Literal

import msgspec

from bridle.guard.paths import Mode

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
    """With one of these options the change reaches everything below."""
    here: bool = False
    """Whether the current directory gets files when no operand names a place."""


SPECS: dict[str, Spec] = {
    "rm": Spec(mode="entry", deep=("r", "R", "recursive"),
               flags=("recursive", "force", "interactive", "verbose", "dir", "one-file-system",
                      "preserve-root", "no-preserve-root")),
    "rmdir": Spec(mode="entry", flags=("parents", "ignore-fail-on-non-empty")),
    "unlink": Spec(mode="entry"),
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
    "chmod": Spec(operands="rest", long=("reference",), deep=("R", "recursive"),
                  flags=("recursive", "verbose", "changes", "silent", "quiet")),
    "chown": Spec(operands="rest", long=("reference", "from"), deep=("R", "recursive"),
                  flags=("recursive",)),
    "chgrp": Spec(operands="rest", long=("reference",), deep=("R", "recursive"),
                  flags=("recursive",)),
    "chattr": Spec(operands="rest", deep=("R",)),
    "setfacl": Spec(short="mxMX", long=("modify", "remove", "restore")),
    "rename": Spec(operands="rest", mode="entry"),
    "install": Spec(operands="last", short="tmogSZ", flags=("directory",), runs=("strip-program",),
                    long=("target-directory", "mode", "owner", "group", "suffix",
                          "strip-program")),
    "scp": Spec(operands="last", mode="merge", short="cFiJloPSXD", runs=("S", "o")),
    "rsync": Spec(operands="last", mode="merge", short="eBTfM@", runs=("e", "rsh"),
                  asks=("n", "dry-run", "list-only"), flags=("remove-source-files", "archive"),
                  long=("rsh", "rsync-path", "exclude", "include", "exclude-from", "include-from",
                        "filter", "files-from", "backup-dir", "suffix", "temp-dir", "partial-dir",
                        "log-file", "write-batch", "only-write-batch", "compare-dest", "copy-dest",
                        "link-dest", "password-file", "bwlimit", "max-size", "min-size", "chmod",
                        "chown", "port", "timeout", "out-format", "info", "block-size")),
}  # fmt: skip
"""Commands with writing operands."""
