"""What ordinary commands write, as data.

A `Spec` says which operands and options a command writes. A command that is not here, and has no
handler of its own, is an unknown program.
"""

from typing import Literal

import msgspec

from bridle.guard.names import names
from bridle.guard.paths import Mode

Which = Literal["none", "all", "first", "last", "second", "rest"]


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What one command writes."""

    operands: Which = "none"
    """Operands that are written: all, the first, the last, the second, or all but the first."""
    mode: Mode = "write"
    short: str = ""
    """Letters of options that take a value."""
    long: tuple[str, ...] = ()
    """Long options that take a value."""
    optional: str = ""
    flags: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Options whose value is a written path."""
    into: tuple[str, ...] = ()
    """Options whose value is a directory that gets files."""
    runs: tuple[str, ...] = ()
    """Options whose value runs as a shell command."""
    when: tuple[str, ...] = ()
    """Operands are written only with one of these options."""
    unless: tuple[str, ...] = ()
    """Nothing is written with one of these options."""
    deep: tuple[str, ...] = ()
    """With one of these options the change reaches everything below."""
    here: str = ""
    """Reason that the current directory gets files, unless an option names another place."""
    mutates: str = ""
    """A change that is not a path of the arguments."""
    mutates_when: tuple[str, ...] = ()
    """The change happens only with one of these options."""


_READ = Spec()

READERS = names("""
    type zipinfo pipdeptree ts ifconfig arp lsscsi cat head tail wc ls dir vdir pwd echo printf
    grep egrep fgrep zgrep bzgrep xzgrep cut tr nl tac rev fold fmt column comm cmp diff diff3
    stat file du df basename dirname realpath readlink uname whoami id groups who w uptime free ps
    pgrep pidof pstree lsof true false : test [ expr seq sleep md5sum sha1sum sha224sum sha256sum
    sha384sum sha512sum b2sum cksum sum od hexdump strings nm objdump readelf ldd size which
    whereis whatis apropos tldr help more most zcat bzcat xzcat zstdcat lz4cat zless zmore zdiff
    zcmp jq gron getent getconf locale tty nproc lscpu lsblk lsusb lspci lsmod arch cal ncal bc
    factor numfmt tsort join paste look tput clear reset pathchk mountpoint findmnt printenv
    logname users last vmstat iostat mpstat netstat ping dig nslookup host traceroute whois
    pr expand unexpand ptx colordiff difft delta tokei exa eza lsd
    duf dust procs btop htop top glances figlet cowsay banner hostid uuidgen pkg-config wait jobs
    times fg bg break continue return exit logout ulimit caller dirs nop lsattr getfacl
    getfattr lscgroup lsns lslocks lsipc ipcs sensors acpi sw_vers system_profiler otool dwarfdump
    c++filt addr2line icdiff ugrep sift pt csvcut csvgrep csvlook csvstat glow mdcat sha3sum
    xxhsum crc32 namei pcregrep pcre2grep loc sloccount dmesg inxi neofetch
    screenfetch fastfetch getopt stty col colrm diffstat lsdiff grepdiff
    """)
"""Commands that only read and print, whatever their options."""

_EDITOR = Spec(
    operands="all",
    short="cSsTtuUWwPdi",
    long=("cmd", "servername", "eval", "load", "script", "funcall"),
    mutates="an editor",
)
_GZIP = Spec(
    operands="all",
    mode="entry",
    short="SbT",
    long=("suffix", "threads", "memlimit"),
    unless=("c", "l", "t", "stdout", "to-stdout", "list", "test"),
    writes=("o",),
    flags=("stdout", "list", "test"),
)
_FORMATTER = Spec(
    operands="all",
    when=("w", "write", "i", "fix", "in-place", "inplace", "apply"),
    long=("config", "parser", "ignore-path", "write?", "fix?", "stdin-filepath", "plugin"),
    flags=("write", "fix", "in-place"),
    mode="merge",
)

_ENCODER = Spec(short="wiob", long=("wrap", "output", "input"), writes=("o", "output"))

SPECS: dict[str, Spec] = {
    "rm": Spec(
        operands="all",
        mode="entry",
        deep=("r", "R", "recursive"),
        flags=("recursive", "force", "interactive", "verbose", "dir", "one-file-system",
               "preserve-root", "no-preserve-root"),
    ),
    "rmdir": Spec(operands="all", mode="entry", flags=("parents", "ignore-fail-on-non-empty")),
    "unlink": Spec(operands="all", mode="entry"),
    "trash": Spec(operands="all", mode="tree"),
    "trash-put": Spec(operands="all", mode="tree"),
    "shred": Spec(operands="all", short="ns", long=("iterations", "size", "random-source")),
    "srm": Spec(operands="all", mode="tree"),
    "touch": Spec(operands="all", short="drt", long=("date", "reference", "time")),
    "mkdir": Spec(operands="all", short="mZ", long=("mode", "context?")),
    "mkfifo": Spec(operands="all", short="m", long=("mode",)),
    "mknod": Spec(operands="first", short="m", long=("mode",)),
    "truncate": Spec(operands="all", short="rs", long=("reference", "size")),
    "fallocate": Spec(operands="all", short="lo", long=("length", "offset")),
    "tee": Spec(operands="all", long=("output-error?",), flags=("append", "ignore-interrupts")),
    "sponge": Spec(operands="all"),
    "sort": Spec(
        short="okStT",
        long=("output", "key", "field-separator", "buffer-size", "temporary-directory",
              "compress-program", "parallel", "sort", "batch-size", "files0-from",
              "random-source"),
        flags=("reverse", "numeric-sort", "unique", "zero-terminated", "version-sort",
               "human-numeric-sort", "general-numeric-sort", "random-sort", "check", "merge",
               "stable", "ignore-case", "dictionary-order", "month-sort", "debug"),
        writes=("o", "output"),
        into=("T", "temporary-directory"),
        runs=("compress-program",),
    ),
    "uniq": Spec(operands="second", short="fsw", long=("skip-fields", "skip-chars", "check-chars")),
    "shuf": Spec(
        short="inoe", long=("output", "input-range", "head-count", "random-source"),
        writes=("o", "output"),
    ),
    "sdiff": Spec(short="oWI", long=("output", "width"), writes=("o", "output")),
    "xxd": Spec(operands="second", short="cglosnR", long=("cols",)),
    "iconv": Spec(short="fto", long=("output", "from-code", "to-code"), writes=("o", "output")),
    "tree": Spec(short="LPIHTo", long=("filelimit", "charset"), writes=("o",)),
    "less": Spec(
        short="bhjkoOpPtTxyz", long=("log-file", "LOG-FILE", "pattern"),
        writes=("o", "O", "log-file", "LOG-FILE"),
    ),
    "bat": Spec(short="lHrm", long=("language", "pager", "theme", "style", "line-range"),
                runs=("pager",)),
    "batcat": Spec(short="lHrm", long=("language", "pager", "theme", "style", "line-range"),
                   runs=("pager",)),
    "cloc": Spec(
        long=("out", "report-file", "sum-reports", "write-lang-def", "ignored", "counted",
              "exclude-dir", "include-lang", "exclude-lang", "match-f", "not-match-f"),
        writes=("out", "report-file", "write-lang-def", "ignored", "counted"),
    ),
    "date": Spec(short="dfrs", long=("date", "file", "reference", "set", "iso-8601?"),
                 mutates="sets the clock", mutates_when=("s", "set")),
    "yes": _READ,
    "split": Spec(
        operands="second", here="split", short="abClnt",
        long=("suffix-length", "bytes", "line-bytes", "lines", "number", "filter", "separator",
              "additional-suffix"),
        runs=("filter",),
    ),
    "csplit": Spec(here="csplit", short="bfn", long=("prefix", "suffix-format", "digits"),
                   writes=("f", "prefix")),
    "chmod": Spec(operands="rest", long=("reference",), deep=("R", "recursive"),
                  flags=("recursive", "verbose", "changes", "silent", "quiet")),
    "chown": Spec(operands="rest", long=("reference", "from"), deep=("R", "recursive"),
                  flags=("recursive",)),
    "chgrp": Spec(operands="rest", long=("reference",), deep=("R", "recursive"),
                  flags=("recursive",)),
    "chattr": Spec(operands="rest", deep=("R",)),
    "setfacl": Spec(operands="all", short="mxMX", long=("modify", "remove", "restore")),
    "setfattr": Spec(operands="all", short="nvx", long=("name", "value", "remove", "restore")),
    "chcon": Spec(operands="rest", short="urtl"),
    "gzip": _GZIP, "gunzip": _GZIP, "bzip2": _GZIP, "bunzip2": _GZIP, "xz": _GZIP, "unxz": _GZIP,
    "lzma": _GZIP, "unlzma": _GZIP, "compress": _GZIP, "uncompress": _GZIP, "pigz": _GZIP,
    "pbzip2": _GZIP, "lz4": _GZIP, "zstd": _GZIP, "unzstd": _GZIP, "brotli": _GZIP,
    "zip": Spec(operands="first", short="bntTiPx", long=("output-file", "temp-path"),
                writes=("O", "output-file")),
    "ranlib": Spec(operands="all"),
    "strip": Spec(operands="all", short="oFINKR", writes=("o",)),
    "objcopy": Spec(operands="last", short="IOFBjRNGKWL"),
    "patchelf": Spec(operands="all", long=("set-rpath", "set-interpreter", "output"),
                     writes=("output",)),
    "dos2unix": Spec(operands="all", mode="entry"), "unix2dos": Spec(operands="all", mode="entry"),
    "rename": Spec(operands="rest", mode="entry"),
    "mmv": Spec(mutates="renames files"),
    "vim": _EDITOR, "vi": _EDITOR, "nvim": _EDITOR, "view": _EDITOR, "ex": _EDITOR,
    "gvim": _EDITOR, "rvim": _EDITOR, "vimdiff": _EDITOR, "nano": _EDITOR, "pico": _EDITOR,
    "emacs": _EDITOR, "emacsclient": _EDITOR, "micro": _EDITOR, "joe": _EDITOR, "jed": _EDITOR,
    "kak": _EDITOR, "hx": _EDITOR, "helix": _EDITOR, "mcedit": _EDITOR, "ne": _EDITOR,
    "code": _EDITOR, "subl": _EDITOR, "gedit": _EDITOR, "kate": _EDITOR,
    "prettier": _FORMATTER, "eslint": Spec(
        operands="all", mode="merge", when=("fix",), short="co",
        long=("config", "output-file", "ext", "format", "max-warnings", "cache-location",
              "rulesdir"),
        flags=("fix", "fix-dry-run", "cache", "quiet"), writes=("o", "output-file")),
    "markdownlint": Spec(operands="all", when=("f", "fix"), short="cioprs", mode="merge",
                         long=("config", "ignore", "output", "rules", "disable"), flags=("fix",),
                         writes=("o", "output")),
    "stylelint": _FORMATTER, "biome": _FORMATTER, "dprint": _FORMATTER, "rome": _FORMATTER,
    "oxlint": _FORMATTER, "markdownlint-cli2": _FORMATTER, "standard": _FORMATTER,
    "xo": _FORMATTER, "tslint": _FORMATTER, "htmlhint": _FORMATTER,
    "gofmt": _FORMATTER, "goimports": _FORMATTER, "gofumpt": _FORMATTER, "shfmt": _FORMATTER,
    "clang-format": Spec(operands="all", when=("i",), long=("style", "assume-filename"),
                         optional=""),
    "clang-tidy": Spec(operands="all", when=("fix", "fix-errors"), long=("checks", "fix?"),
                       short="p", writes=("export-fixes",)),
    "black": Spec(operands="all", mode="merge", short="ltc",
                  long=("line-length", "target-version", "config", "code", "include", "exclude"),
                  unless=("check", "diff", "version", "help"), flags=("check", "diff")),
    "isort": Spec(operands="all", mode="merge", unless=("c", "check", "check-only", "diff", "d"),
                  long=("profile", "settings-path"), flags=("check", "check-only", "diff")),
    "autopep8": Spec(operands="all", when=("i", "in-place"), flags=("in-place", "diff"),
                     mode="merge"),
    "yapf": Spec(operands="all", when=("i", "in-place"), flags=("in-place", "diff"), mode="merge"),
    "autoflake": Spec(operands="all", when=("i", "in-place"), flags=("in-place",), mode="merge"),
    "pyupgrade": Spec(operands="all"),
    "rustfmt": Spec(operands="all", unless=("check",), flags=("check",),
                    long=("edition", "config", "emit")),
    "rubocop": Spec(operands="all", when=("a", "A", "autocorrect", "auto-correct",
                                          "autocorrect-all", "x"), mode="merge",
                    short="cfro", long=("only", "except", "config", "format", "require", "out"),
                    writes=("o", "out")),
    "tomlq": Spec(operands="all", when=("i", "in-place"), mode="entry", flags=("in-place",)),
    "xq": Spec(operands="all", when=("i", "in-place"), mode="entry", flags=("in-place",)),
    "jsonlint": Spec(operands="all", when=("i", "in-place"), mode="entry", short="tV",
                     flags=("in-place",)),
    "yq": Spec(operands="all", when=("i", "inplace", "in-place"), short="opsIP", mode="entry",
               long=("output-format", "input-format", "split-exp", "from-file"),
               flags=("inplace", "in-place", "null-input", "exit-status"), optional=""),
    "xmlstarlet": Spec(operands="all", when=("L", "inplace"), short="uvdiasrmNtnx", mode="entry"),
    "xmllint": Spec(long=("output", "schema", "xpath", "encode"), short="o",
                    writes=("o", "output")),
    "tidy": Spec(operands="all", when=("m", "modify"), short="of", writes=("o", "f")),
    "pandoc": Spec(short="oftsVHBAMc", long=("output", "from", "to", "extract-media"),
                   writes=("o", "output"), into=("extract-media",)),
    "ffmpeg": Spec(operands="last"), "convert": Spec(operands="last"),
    "magick": Spec(operands="last"), "sox": Spec(operands="last"),
    "virtualenv": Spec(operands="all", mode="merge", short="p", long=("python", "prompt"),
                       mutates="makes an environment"),
    "age": Spec(short="oriR", writes=("o",)),
    "logger": Spec(mutates="writes to the system log"),
    "wall": Spec(mutates="writes to other terminals"),
    "journalctl": Spec(short="unpo", long=("unit", "since", "until", "lines", "output",
                                           "vacuum-size", "vacuum-time"),
                       mutates="trims the journal",
                       mutates_when=("vacuum-size", "vacuum-time", "rotate", "flush")),
    "mkisofs": Spec(short="oV", writes=("o",)), "genisoimage": Spec(short="oV", writes=("o",)),
    "umask": _READ, "hash": Spec(short="p", mutates="changes what a command name means",
                                 mutates_when=("p",)),
    "enable": Spec(short="fn", mutates="changes the shell's builtins", mutates_when=("f", "n")),
    "bind": Spec(short="xf", mutates="changes key bindings"),
    "complete": Spec(short="CFAGPSWXoa", mutates="a completion that runs a command",
                     mutates_when=("C",)),
    "shopt": _READ, "history": Spec(mutates="writes the history",
                                                       mutates_when=("w", "a", "r", "c")),
    "fc": Spec(mutates="runs commands again", unless=("l",)),
    "pygmentize": Spec(short="olfOPS", writes=("o",)),
    "mlr": Spec(when=("I",), operands="all"), "xsv": Spec(short="o", writes=("o", "output")),
    "base64": _ENCODER, "base32": _ENCODER, "basenc": _ENCODER,
    "pv": Spec(short="oLNBDFimw", long=("output", "name"), writes=("o", "output")),
    "scc": Spec(short="ofiMN", long=("output", "format", "format-multi"), writes=("o", "output")),
    "ss": Spec(short="DfNF", long=("diag", "family"), writes=("D", "diag")),
    "hwinfo": Spec(long=("log",), writes=("log",)),
    "units": Spec(short="Lfo", long=("log", "file"), writes=("L", "log")),
    "lshw": _READ, "fzf": _READ,
    "base58": _READ, "envsubst": _READ, "dot": Spec(short="oTGNE", writes=("o",)),
    "watchman": Spec(mutates="a watcher"),
    "man": Spec(short="PHECLMsST", long=("pager", "html", "config-file"),
                runs=("P", "pager", "H", "html")),
    "info": Spec(short="ofn", long=("output", "file", "node"), writes=("o", "output")),
    "ack": Spec(long=("pager", "type", "output"), runs=("pager",)),
    "ag": Spec(long=("pager", "depth"), runs=("pager",)),
    "dc": Spec(mutates="dc, which can run commands"),
}  # fmt: skip
"""Commands with writing operands or options."""

CHECKERS = names("""
    flake8 pyflakes pycodestyle pylint bandit vulture mypy pyright pyre ty shellcheck hadolint
    yamllint markdownlint actionlint semgrep codespell pydocstyle radon xenon jshint golangci-lint
    staticcheck tflint checkmake vale ansible-lint phpcs phpstan psalm
    """)
"""Linters and type checkers: they read sources; their output options are judged."""

OUTPUT_OPTIONS = names("""
    o out outfile out-file out-dir outdir output output-file output-dir output-directory output-path
    dest destination dest-dir destdir target target-dir target-directory prefix root rootdir
    install-dir install-root log log-file logfile report report-file junitxml junit-xml basetemp
    save save-to save-dir write-to export export-file dump dump-file cache-dir cachedir build-dir
    builddir dist-dir workdir work-dir chdir directory dir B cov-report-dir coverage-dir
    keyout keylogfile msgfile writerand html-report xml-report json-report artifacts-dir
    """)
"""Options of unknown programs whose value is taken for a written path."""
