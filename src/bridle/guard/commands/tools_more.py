"""Compilers, databases and converters: rows and handlers for where they put their output."""

import itertools
import re

from bridle.guard.commands.options import read
from bridle.guard.commands.table import Spec
from bridle.guard.effects import Command, Deny, Effect, Mutates, Run, Shell, Write
from bridle.guard.values import Value, literal

MORE_SPECS: dict[str, Spec] = {
    "aria2c": Spec(short="doijlsxk", long=("dir", "out", "log", "input-file", "save-session"),
                   into=("d", "dir"), writes=("l", "log", "save-session"), mutates="downloads"),
    "pax": Spec(operands="last", short="fbsxotT", writes=("f",), mutates="pax"),
    "gpg": Spec(short="oruN", long=("output", "recipient", "local-user", "homedir",
                                    "passphrase-file"), writes=("o", "output"), mutates="gpg",
                unless=("list-keys", "list-secret-keys", "k", "K", "verify", "fingerprint")),
    "pg_dump": Spec(short="fdhpUntNTFj", long=("file", "dbname", "host", "port", "username",
                                               "table", "schema", "format"),
                    writes=("f", "file"), unless=("help", "version")),
    "mysqldump": Spec(short="rhPupT", long=("result-file", "tab", "host", "user", "log-error"),
                      writes=("r", "result-file", "log-error"), into=("T", "tab")),
    "crudini": Spec(operands="first", when=("set", "del", "merge"), flags=("set", "del", "merge")),
    "javac": Spec(short="dshg", long=("release", "class-path", "processor-path", "source-path"),
                  into=("d", "s", "h"), mutates="writes classes"),
    "lessc": Spec(operands="second", long=("include-path",)),
    "logrotate": Spec(short="slm", long=("state", "log", "mail"),
                      writes=("s", "state", "l", "log"), mutates="rotates logs"),
    "compgen": Spec(short="ACFGPSWXo", runs=("C",)),
    "tcpdump": Spec(short="wrisceWGC", writes=("w",), mutates="captures packets"),
    "sphinx-build": Spec(operands="second", mode="merge", short="bDAdcjwtN", into=("d",),
                         writes=("w",), mutates="builds documents"),
    "mkdocs": Spec(short="dft", long=("site-dir", "config-file", "theme"), into=("d", "site-dir"),
                   mutates="mkdocs"),
    "hugo": Spec(short="dsbct", long=("destination", "source", "cacheDir", "logFile"),
                 into=("d", "s", "destination", "source", "cacheDir"), writes=("logFile",),
                 mutates="hugo"),
    "jekyll": Spec(short="ds", long=("destination", "source"),
                   into=("d", "s", "destination", "source"), mutates="jekyll"),
    "pdftotext": Spec(operands="second", short="flrxyWH"),
    "pdftoppm": Spec(operands="second", short="flrxyWHo"),
    "ps2pdf": Spec(operands="second"), "wkhtmltopdf": Spec(operands="last"),
    "wkhtmltoimage": Spec(operands="last"), "qpdf": Spec(operands="last"),
    "rsvg-convert": Spec(short="owhf", long=("output",), writes=("o", "output")),
    "redis-cli": Spec(short="hpan", long=("rdb", "functions-rdb"), writes=("rdb", "functions-rdb"),
                      mutates="redis-cli"),
    "fuser": Spec(mutates="ends processes", mutates_when=("k", "kill"), short="nM"),
    "ctags": Spec(short="fIoL", writes=("f", "o"), unless=("x",), here="ctags"),
    "swc": Spec(short="doC", long=("out-dir", "out-file"), into=("d", "out-dir"),
                writes=("o", "out-file"), mutates="swc"),
    "stylua": Spec(operands="all", mode="merge", short="fg", unless=("c", "check"),
                   flags=("check",), mutates="rewrites sources"),
    "swiftformat": Spec(operands="all", mode="merge", unless=("lint", "dryrun"),
                        flags=("lint", "dryrun"), mutates="rewrites sources"),
    "ktlint": Spec(operands="all", mode="merge", when=("F", "format"), flags=("format",)),
    "google-java-format": Spec(operands="all", mode="merge", when=("i", "replace"),
                               flags=("replace",)),
    "comby": Spec(operands="all", mode="merge", when=("i", "in-place"), short="dfm",
                  long=("directory", "matcher"), flags=("in-place",)),
    "ast-grep": Spec(operands="all", mode="merge", when=("U", "update-all", "i", "interactive"),
                     short="prlc", long=("pattern", "rewrite", "lang", "config", "rule"),
                     flags=("update-all", "interactive")),
    "jscodeshift": Spec(operands="all", mode="merge", short="tp", unless=("d", "dry"),
                        long=("transform", "parser", "extensions"), flags=("dry",),
                        mutates="rewrites sources"),
    "2to3": Spec(operands="all", mode="merge", when=("w", "write"), short="fxo",
                 flags=("write",), into=("o",)),
    "codespell": Spec(operands="all", mode="merge", when=("w", "write-changes", "i"), short="LSI",
                      long=("ignore-words-list", "skip", "ignore-words"),
                      flags=("write-changes",)),
    "php-cs-fixer": Spec(operands="rest", mode="merge", unless=("dry-run",), flags=("dry-run",),
                         long=("config", "rules"), mutates="rewrites sources"),
    "phpcbf": Spec(operands="all", mode="merge", long=("standard",), mutates="rewrites sources"),
    "rector": Spec(operands="rest", mode="merge", unless=("n", "dry-run"), short="c",
                   flags=("dry-run",), mutates="rewrites sources"),
    "mkpasswd": Spec(), "xclip": Spec(), "xsel": Spec(),
}  # fmt: skip
"""Rows beside those of `table.SPECS`."""

_COMPILER_OUTPUTS = ("-o", "-MF", "-MJ", "--out-dir", "-aux-info", "-dumpdir", "--output",
                     "-odir", "-hidir", "-outputdir", "-J", "-Fo", "--emit-path")  # fmt: skip


def compiler(command: Command) -> list[Effect]:
    """A compiler or linker: its output options, single-dashed words among them; else here."""
    texts = [a.text for a in command.args]
    if texts and all(t in ("--version", "-V", "-v", "--help", "-vV", "-dumpversion",
                           "-dumpmachine") for t in texts):  # fmt: skip
        return []
    effects: list[Effect] = []
    args = list(command.args)
    while args:
        arg = args.pop(0)
        name, equals, _ = arg.lead.partition("=")
        if equals and (name in _COMPILER_OUTPUTS or name.endswith(("-dir", "-path", "-file"))):
            if name.startswith(("-f", "--out", "-dump", "--output")):
                effects.append(Write(arg.after(len(name) + 1), "merge"))
        elif arg.text in _COMPILER_OUTPUTS and args:
            effects.append(Write(args.pop(0), "merge"))
        elif re.match(r"-(o|MF|MJ)(?=[./~\w])", arg.lead) and not arg.lead.startswith("-oc"):
            effects.append(Write(arg.after(3 if arg.lead.startswith("-M") else 2), "merge"))
    return effects or [Write(literal("."), "merge")]


_JAR_FILE = re.compile(r"-?[ctxuvfme0PMi]*f[ctxuvfme0PMi]*\Z")


def jar(command: Command) -> list[Effect]:
    """jar: t lists; x extracts here or to -C; c and u write the archive."""
    args = list(command.args)
    letters = (args[0].text or "") if args else ""
    long = {a.lead.partition("=")[0] for a in args}
    if letters.lstrip("-").startswith("t") or "--list" in long or not args:
        return []
    places = [b for a, b in itertools.pairwise(args) if a.text in ("-C", "--dir")]
    if letters.lstrip("-").startswith("x") or "--extract" in long:
        return [Write(place, "merge") for place in places or [literal(".")]]
    files = args[1:2] if _JAR_FILE.match(letters) else []
    for number, arg in enumerate(args):
        if arg.text in ("-f", "--file"):
            files = args[number + 1 : number + 2]
        elif arg.lead.startswith("--file="):
            files = [arg.after(7)]
    return [Write(file) for file in files] or [Write(literal("."), "merge")]


_SQL_READS = re.compile(
    r"\s*(?:(?:select|explain|with\b(?!.*\b(?:insert|update|delete|replace)\b)"
    r"|pragma\s+[\w.]+\s*+(?:\([^)]*\))?+\s*+)(?=[\s;(*]|\Z|(?<=\s))[^;]*+"
    r"|\.(?:schema|tables|indexes|indices|databases|headers?|mode|width|nullvalue|dump|fullschema"
    r"|timer|show|help|stats|quit|exit|separator|limit|print|echo)\b[^\n;]*+\s*+)\Z",
    re.IGNORECASE | re.DOTALL,
)
_SQL_ACTS = re.compile(r"\b(?:writefile|load_extension|edit|readfile)\s*\(", re.IGNORECASE)
_SQL_FILES = re.compile(
    r"(?m)^[ \t]*\.(?:output|once|backup|save|clone|log|open|excel|trace|recover|session)"
    r"\s+(?:-\w+\s+)*(?:main\s+)?['\"]?([^\s'\"]+)"
)
_SQL_WRITEFILE = re.compile(r"\bwritefile\s*\(\s*'([^']*)'", re.IGNORECASE)
_SQL_ATTACH = re.compile(r"\battach\s+(?:database\s+)?'([^']*)'", re.IGNORECASE)
_SQL_VACUUM = re.compile(r"\bvacuum\s+(?:\w+\s+)?into\s+'([^']*)'", re.IGNORECASE)
_SQL_SHELL = re.compile(r"(?m)^[ \t]*\.(?:shell|system|sh)\s+(.*)$")


def sqlite(command: Command) -> list[Effect]:
    """sqlite3: queries read; other statements change the file; dot commands write and run."""
    options = read(
        command.args, short="", long=("cmd",), flags=("readonly", "json", "csv", "header"),
    )  # fmt: skip
    texts: list[str | None] = []
    operands = list(options.operands)
    words = [a.text for a in command.args]
    for flag in ("-cmd", "--cmd", "-init", "--init", "-separator", "-nullvalue", "-newline"):
        for number, word in enumerate(words[:-1]):
            if word == flag:
                value = command.args[number + 1]
                operands = [o for o in operands if o is not value]
                if "cmd" in flag:
                    texts.append(value.text)
    database = operands[:1]
    texts.extend(o.text for o in operands[1:])
    if command.piped:
        texts.append(command.stdin.script)
    readonly = any(w in ("-readonly", "--readonly") for w in words)
    asks = [w for w in words if w in ("-version", "--version", "-help", "--help")]
    if asks or not database:
        return []
    effects: list[Effect] = []
    for text in texts:
        for pattern in (_SQL_FILES, _SQL_WRITEFILE, _SQL_ATTACH, _SQL_VACUUM):
            effects.extend(
                Write(literal(m)) for m in pattern.findall(text or "") if m not in ("stdout", "off")
            )
        effects.extend(Shell(literal(m)) for m in _SQL_SHELL.findall(text or ""))
    reads = bool(texts) and all(t is not None and _only_reads(t) for t in texts)
    if effects or readonly or reads:
        return effects
    return [Write(database[0])]


def _only_reads(text: str) -> bool:
    if _SQL_ACTS.search(text):
        return False
    return all(_SQL_READS.match(part) for part in text.split(";") if part.strip())


def debugger(command: Command) -> list[Effect]:
    """gdb and lldb: commands by option; one that runs a shell is judged as shell text."""
    words = [a.text for a in command.args]
    if words in (["--version"], ["--help"], ["-v"]):
        return []
    effects: list[Effect] = [Mutates(f"{command.name} runs a program")]
    for number, word in enumerate(words[:-1]):
        if word in ("-ex", "--ex", "-iex", "-eval-command", "--eval-command", "-o", "-O"):
            text = words[number + 1]
            if text is None:
                effects.append(Deny("command-unresolved", f"a command for {command.name}"))
                continue
            match = re.match(r"\s*(?:platform\s+)?(?:shell|!|pipe|make)\s*(.*)", text, re.DOTALL)
            if match:
                effects.append(Shell(literal(match[1])))
    return effects


def pager(command: Command) -> list[Effect]:
    """less: `+COMMAND` is typed into it, and may run or write something."""
    from bridle.guard.commands.registry import by_spec
    from bridle.guard.commands.table import SPECS

    effects = by_spec(command, SPECS["less"])
    for arg in command.args:
        typed = (arg.text or "").lstrip("+") if arg.lead.startswith("+") else ""
        if typed[:1] in ("!", "#"):
            effects.append(Shell(literal(typed[1:])))
        elif typed[:1] in ("|", "s", "v"):
            effects.append(Mutates("a command typed into less"))
    return effects


def host_name(command: Command) -> list[Effect]:
    """hostname: with an operand it sets the machine's name."""
    options = read(command.args, short="F", long=("file",))
    if options.operands or options.has("F", "file", "b", "boot"):
        return [Deny("system", "hostname changes the machine outside the worktree")]
    return []


_OPENSSL_READS = frozenset({
    "version", "x509", "verify", "dgst", "sha1", "sha256", "sha512", "md5", "rand", "asn1parse",
    "crl", "ciphers", "list", "help", "pkey", "rsa", "ec", "req", "pkcs7", "errstr", "prime",
    "speed", "enc", "base64", "s_client",
})  # fmt: skip


def openssl(command: Command) -> list[Effect]:
    """openssl: what it prints is free; what its options name as output is written."""
    from bridle.guard.commands.programs import output_options

    words = [a.text or "" for a in command.args]
    writes = output_options(command.args)
    makes = any(w in ("-new", "-newkey", "-x509", "-CAcreateserial") for w in words)
    if words and words[0] in _OPENSSL_READS and not writes and not makes:
        return []
    return [Mutates(f"openssl {words[0] if words else ''}".strip()), *writes]


def bus(command: Command) -> list[Effect]:
    """D-Bus tools: a service on the other side acts outside of the session."""
    words = [a.text for a in command.args if not a.lead.startswith("-")]
    if not words or words[0] in ("list", "status", "tree", "introspect", "help", "monitor"):
        return []
    return [Deny("sandbox-escape", f"{command.name} makes a service act outside this session")]


_RELEASES: dict[str, frozenset[str]] = {
    "goreleaser": frozenset({"release", "publish", "continue"}),
    "vsce": frozenset({"publish", "unpublish"}),
    "ovsx": frozenset({"publish"}),
    "changeset": frozenset({"publish"}),
    "release-it": frozenset(),
    "semantic-release": frozenset(),
    "np": frozenset(),
    "git-cz": frozenset({"push"}),
    "bumpversion": frozenset({"push"}),
}


def release(command: Command) -> list[Effect]:
    """Tools that publish a release: refused, unless asked for something else or a dry run."""
    words = [a.text or "" for a in command.args]
    acts = _RELEASES[command.name]
    dry = any(w in ("--dry-run", "--snapshot", "--help", "--version", "-d") for w in words)
    plain = [w for w in words if not w.startswith("-")]
    if dry or (acts and not (plain and plain[0] in acts)):
        return [] if words in (["--help"], ["--version"]) else [Mutates(f"{command.name}")]
    return [Deny("publish", f"{command.name} publishes a release")]


def watch(command: Command) -> list[Effect]:
    """watch: its words together are a shell text, unless -x is given."""
    options = read(
        command.args, short="nq", long=("interval", "equexit"), optional="d",
        flags=("exec", "differences", "beep", "errexit", "chgexit", "no-title", "color"),
        permute=False,
    )  # fmt: skip
    if not options.operands:
        return []
    if options.has("x", "exec"):
        return [Run(tuple(options.operands), functions=False)]
    return [Shell(_words(options.operands))]


def _words(values: list[Value]) -> Value:
    from bridle.guard.values import join

    return join([p for n, v in enumerate(values) for p in ([" "] if n else []) + list(v.parts)])


RELEASES = frozenset(_RELEASES)
