"""What programs are given: paths in words, option values, lists and variables; and variables that
change what commands do.

Only for a few programs is it known what they do with a path. One rule applies to all others: a
program that is not a known reader may get only paths inside the worktree, in any form. URLs are not
paths, and neither is text that is longer than a path.
"""

import os
import re

from bridle.guard.effects import Command, Deny, Effect, Given, Mutates, Write, hook
from bridle.guard.shell.values import Hole, Value, literal, names

_MOST_WORDS = 2000
_LONGEST = 1 << 16
_LONGEST_NAME = 64

_URL = re.compile(r"(?<![A-Za-z0-9+.-])(?!file:|sqlite)[A-Za-z][A-Za-z0-9+.-]*://[^\s'\",;|]*")
_LOCAL_URL = re.compile(r"(?:file:(?://(?=/|[^/]))?|sqlite[\w+.]*:(?:///?)?)(?=[/~.])")
_PATH = re.compile(
    r"""(?:\A|(?<=[=:,;@|\s'"(\[{<>`&]))
        ((?:/|~|\.\.(?=/|\Z|[,;:\s'"]))[^=:,;|\s'"()\[\]{}<>`&]*
         |[^=:,;@|\s'"()\[\]{}<>`&/]+(?:/[^=:,;@|\s'"()\[\]{}<>`&/]+)*?/\.\.(?:/[^=:,;|\s'"]*|(?![^\s=:,;'"])))""",
    re.VERBOSE,
)
_JOINED = re.compile(
    r"-{1,2}([A-Za-z][A-Za-z0-9]{0,9}?)[:=]?((?:/|~/|(?:\./)*\.\.(?:/|\Z)).*)\Z", re.DOTALL
)
"""`-o/path`: a value that follows its letter directly."""
_FEW_LETTERS = 4
_OPTION_LIST = re.compile(r"(?:[\w.-]+=|-D[\w.]+=)?['\"]?-{1,2}[A-Za-z]")
"""The beginning of a text that is a list of options, not prose."""
_SEARCHED = re.compile(r"-(?:[ILF]|isystem|iquote|Wl,-rpath|D\w+=\\*['\"]).*", re.DOTALL)
"""Options of compilers that name folders to search, or define a text."""

_ACTS = re.compile(
    r"copy|writ|into|attach|export|sav|out|dump|creat|delet|remov|unlink|mkdir|touch|open|move|renam"
    r"|install|\b(?:rm|mv|cp|ln|tee|dd|to)\b|>|\\(?:o|g|gx|w|s)\s",
    re.IGNORECASE,
)
"""Words in a text that does more than read."""

_OUTPUT = re.compile(
    r"(?:.*[-_])?(?:out|output|outfile|outdir|dest|destdir|destination|log-?file|junit-?xml"
    r"|basetemp|\w*profile|html-report|xml-report)(?:[-_]?(?:dir|directory|file|path|folder|root))?"
    r"|(?:report|cache|coverage|artifacts?|snapshot|install|target|build|data)"
    r"[-_]?(?:dir|directory|file|path|folder)",
    re.IGNORECASE,
)
"""Long options whose value is a place to write to."""

_PATTERNS = names("""
    grep testNamePattern test-name-pattern filter match pattern regex regexp query sql user-agent
    header base-href public-url base-path url-prefix route endpoint exclude ignore ignore-pattern
    """)
TEXTS = _PATTERNS | names("""
    m message title body description subject author comment note text reason label prompt
    """)
"""Options whose value is a pattern or a route, or else text: a bare path is no text."""
_BARE = re.compile(r"(?:/|~|\.\.)\S*")

_COMPILER = re.compile(
    r"(?:.*-)?(?:gcc|cc|g\+\+|clang|clang\+\+|c\+\+|ld|rustc|nvcc|swiftc|ghc|protoc)"
)
"""Programs whose -I and -L name folders to search."""

_INPUTS = names("""
    isystem iquote idirafter sysroot isysroot include-dir cp classpath class-path jar config
    config-file rcfile requirement requirements constraint cacert capath cert ca-file ca-bundle
    python interpreter schema template baseline ignore-path ignore-file env-file find-links
    """)
"""Options whose value is only read."""

_PREFIX = re.compile(r"(?:prefix|PREFIX|\w*(?<!DEST)(?:dir|DIR))=")
_LOOKUP_LIKE = re.compile(
    r"D?\w+_(?:COMPILER|EXECUTABLE|TOOLCHAIN_FILE|INCLUDE_DIRS?|LIBRARY|LIBRARIES)|DOPENSSL_ROOT_DIR"
)
"""Settings of builds that name what is found elsewhere."""

_SHORT_INPUTS = {"pip": "rc", "psql": "f", "make": "f", "awk": "f"}
"""The same for letters, which mean something else to each program."""

_LOOKUPS = names("""
    PATH MANPATH CDPATH PYTHONPATH NODE_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH LIBRARY_PATH CPATH
    PKG_CONFIG_PATH CLASSPATH CMAKE_PREFIX_PATH PERL5LIB RUBYLIB JAVA_HOME GOROOT SHELL CC CXX AR LD
    NM PYTHON PYTHON3 NODE PYTHONHOME SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE
    NODE_EXTRA_CA_CERTS CURL_CA_BUNDLE PIP_CERT TERMINFO TZ NVM_DIR GOOGLE_APPLICATION_CREDENTIALS
    OPENSSL_DIR OPENSSL_CONF CHROME_BIN CHROME_PATH PWD OLDPWD LD_PRELOAD UV_PYTHON
    DBUS_SESSION_BUS_ADDRESS DISPLAY GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR
    GIT_OBJECT_DIRECTORY GIT_CONFIG_VALUE_0 SSH_AUTH_SOCK BASH_ENV ENV ZDOTDIR GIT_EXEC_PATH
    """)
"""Variables that name where programs, libraries and certificates are found; and those of git and
of shells, which have their own rules."""

_PROGRAM = re.compile(r"(?:/usr|/usr/local)?/s?bin/[\w.+-]+")
_PLACE = re.compile(r"\w*(?:DIR|HOME|CACHE|PREFIX|TARGET|LOG|DEST\w*|OUT\w*)|GIT_TRACE\w*")
"""Names of variables whose value is a place that programs write to."""

_DEFAULTS = {
    "HOME": "", "GOPATH": "/go", "CARGO_HOME": "/.cargo", "RUSTUP_HOME": "/.rustup",
    "NVM_DIR": "/.nvm", "PYENV_ROOT": "/.pyenv", "RBENV_ROOT": "/.rbenv", "BUN_INSTALL": "/.bun",
    "SDKMAN_DIR": "/.sdkman", "VOLTA_HOME": "/.volta", "DENO_INSTALL": "/.deno",
    "PNPM_HOME": "/.local/share/pnpm", "KUBECONFIG": "/.kube/config",
    "PIP_CACHE_DIR": "/.cache/pip", "npm_config_cache": "/.npm",
    "XDG_CONFIG_HOME": "/.config", "XDG_CACHE_HOME": "/.cache", "XDG_DATA_HOME": "/.local/share",
}  # fmt: skip
"""Variables of the home directory, and the place there that they name anyway."""


def given(command: Command, words: tuple[Value, ...]) -> list[Effect]:
    """The paths among the arguments of a program that may write to them."""
    effects: list[Effect] = []
    option = ""
    if len(words) > _MOST_WORDS or any(word.size > _LONGEST for word in words):
        return [Deny("shell-unparsed", f"{command.name} has more arguments than can be judged")]
    staged = any(
        word.lead.startswith("DESTDIR=") and word.after(8).show().strip("/'\"") for word in words
    )
    for word in words:
        lead = word.lead
        if staged and _PREFIX.match(lead):
            # It is relative to DESTDIR.
            continue
        name, value, before, option = "", word, option, ""
        if lead[:1] == "-" and len(lead) > 1:
            name, equals, _ = lead.lstrip("-").partition("=")
            if equals:
                value = word.after(lead.index("=") + 1)
            else:
                option = name
        elif before:
            name = before
        output = 1 < len(name) < _LONGEST_NAME and _OUTPUT.fullmatch(name) is not None
        if not option and value.open_start and (output or name == "o"):
            effects.append(Deny("path-unresolved", f"{command.name} writes to {value.show()}"))
        elif not option and output:
            if not set("=:,") & set(value.show()) and not value.holds("any"):
                effects.append(Write(value, "merge"))
                continue
        elif _is_read(name, value, command.name):
            continue
        effects.extend(Given(path, command.name) for path in paths_in(word, command.directories))
    return effects


def _is_read(name: str, value: Value, program: str) -> bool:
    """Whether an option of this name only reads its value, or takes it for text."""
    if not name:
        return value.lead.partition("=")[0] in _LOOKUPS
    if name in TEXTS:
        return name in _PATTERNS or _BARE.fullmatch(value.lead) is None
    if name.startswith("with-") or "rpath" in name:
        return True
    if name in _INPUTS or name in _SHORT_INPUTS.get(program, ()):
        return not set("=,") & set(value.lead)
    compiles = _COMPILER.fullmatch(program) is not None
    found = name.removeprefix("D") in _LOOKUPS or _LOOKUP_LIKE.fullmatch(name) is not None
    return found or (compiles and name[0] in "IL")


def given_variable(name: str, value: Value, home: str) -> list[Effect]:
    """The paths in a variable that programs see."""
    if name in _LOOKUPS or name.startswith("GIT_CONFIG_VALUE_"):
        return []
    if value.text is not None and value.text == home + _DEFAULTS.get(name, "\0"):
        return []
    if _PROGRAM.fullmatch(value.text or "") and os.path.isfile(value.text or ""):
        return []
    if value.open_start and _PLACE.fullmatch(name):
        return [Deny("path-unresolved", f"{name} names a place only known at run time")]
    if name.endswith("FLAGS") and value.text is not None:
        kept = (word for word in value.text.split() if not _SEARCHED.fullmatch(word))
        value = literal(" ".join(kept))
    return [Given(path, f"{name}=") for path in paths_in(value, ())]


def paths_in(value: Value, directories: tuple[str | None, ...]) -> list[Value]:
    """The parts of a word that are paths which may lead out of the current directory."""
    if not value.parts or value.parts[0] == Hole("scratch"):
        return []
    shown = "".join(_stand_in(part) for part in value.parts)
    spaced = any(c.isspace() for c in shown)
    if spaced and _OPTION_LIST.match(shown):
        listed = [w.strip("'\"") for w in shown.split()]
        kept = [Value((w,)) for w in listed if w and not _SEARCHED.fullmatch(w)]
        return [path for word in kept for path in paths_in(word, directories)]
    if spaced and _ACTS.search(shown) is None:
        # A text, or code in an unknown language: it only reads.
        return []
    paths: list[str] = []
    if "/" in shown or ".." in shown or "~" in shown:
        shown = _LOCAL_URL.sub(" ", _URL.sub(" ", shown))
        joined = _JOINED.match(shown)
        if joined is not None and len(joined[1]) > _FEW_LETTERS and joined[2][0] == "/":
            # `-Lbuild/lib` is a letter and a folder of the worktree.
            parents = "/".join(joined[2].split("/")[:3])
            joined = joined if joined[2].count("/") > 1 and os.path.isdir(parents) else None
        found = [joined[2]] if joined is not None else [m[1] for m in _PATH.finditer(shown)]
        paths = [path for path in map(_known, found) if path and _may_lead_out(path)]
    if not spaced and not paths:
        # A relative path may go through a link of the worktree.
        for piece in re.split(r"[=:,;@]", shown):
            piece = piece.lstrip("-")[1:] if piece[:1] == "-" else piece
            known = "\1" not in piece and piece[:1] not in ("/", "~")
            if known and ("/" in piece or _is_link(piece, directories)):
                paths.append(piece)
    return [literal(path) for path in paths if path.strip(" /")]


def _stand_in(part: str | Hole) -> str:
    if isinstance(part, str):
        return part
    return "\1" if part.kind in ("any", "name", "scratch") else "x"


def _known(path: str) -> str:
    """The folder before the first part that is only known at run time."""
    if "\1" not in path:
        return path
    return path[: path.index("\1")].rpartition("/")[0]


def _may_lead_out(path: str) -> bool:
    if path[0] == "/":
        # A route or a pattern begins like a path, but no folder of the machine is named like it.
        first = path.split("/")[1]
        return bool(first) and os.path.isdir("/" + first)
    return path[0] != "~" or path[1:2] in ("", "/") or path[1:2].isalpha()


def _is_link(name: str, directories: tuple[str | None, ...]) -> bool:
    if not name or len(name) > 255 or "\0" in name:
        return False
    return any(d is not None and os.path.islink(os.path.join(d, name)) for d in directories)


# --- variables that change what commands do ----------------------------------------------------

RUNS = names("""
    GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_PAGER PAGER MANPAGER SYSTEMD_PAGER EDITOR VISUAL
    GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS SSH_ASKPASS GIT_PROXY_COMMAND LESSOPEN LESSCLOSE
    BROWSER PROMPT_COMMAND FCEDIT SUDO_ASKPASS RIPGREP_PRE RSYNC_RSH CVS_RSH SVN_SSH BAT_PAGER
    DELTA_PAGER PSQL_EDITOR PSQL_PAGER VIMINIT EXINIT GH_PAGER GH_EDITOR GH_BROWSER KUBE_EDITOR
    GIT_SSH_VARIANT MANOPT MANROFFOPT
    """)
"""Variables whose value is run as a command."""

_HARMLESS_COMMANDS = frozenset(
    ("", "cat", "less", "true", ":", "more", "less -R", "less -FRX", "false")
)

LOADS = names("""
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH PATH BASH_ENV ENV
    PYTHONSTARTUP PYTHONHOME PERL5OPT PERL5LIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS
    PYTEST_ADDOPTS PYTEST_PLUGINS GCONV_PATH SHELLOPTS BASHOPTS GIT_EXEC_PATH GIT_TEMPLATE_DIR
    ZDOTDIR PYTHONBREAKPOINT AWKPATH AWKLIBPATH LUA_INIT INPUTRC TERMINFO CDPATH NODE_OPTIONS HOME
    TAR_OPTIONS MAKEFLAGS GREP_OPTIONS JAVA_OPTS MAVEN_OPTS GRADLE_OPTS LESSKEY LESSKEYIN LESSEDIT
    RIPGREP_CONFIG_PATH ACKRC BAT_CONFIG_PATH BAT_OPTS FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS SHELL
    CURL_HOME WGETRC PIP_CONFIG_FILE RUSTC_WRAPPER RUSTC CARGO_BUILD_RUSTC GOFLAGS GOTOOLDIR
    PYTHONINSPECT PYTHONUSERBASE PYTHONPLATLIBDIR PERL5DB PERL5SHELL MANPATH TEXINPUTS HISTFILE
    TMPDIR TMP TEMP
    """)
"""Variables that make a known command run other code or use other settings."""

_CODE_FOLDERS = names("PYTHONPATH NODE_PATH CLASSPATH GEM_PATH")
"""Variables that name folders of code: a quality gate may use those of the worktree."""

_CODE_LIKE = re.compile(
    r"(?:LD|DYLD|XDG|BASH|PERL5?|RUBY|JAVA|NPM_CONFIG|npm_config|YARN|PIP|UV|LESS|BAT|FZF)_\w*"
    r"|\w*(?:_OPTIONS|OPTS|_FLAGS|PAGER|EDITOR|_COMMAND|_CMD|PATH|_HOME|_CONFIG|_CONFIG_\w+|RC"
    r"|_INIT|STARTUP|PRELOAD|BROWSER|ASKPASS|_SSH|_RSH|_PLUGINS?|_PROGRAM|_PREFIX|_WRAPPER)"
)
"""Names of variables that are mostly read as settings."""

_HARMLESS = re.compile(
    r"LC_\w+|LANG|LANGUAGE|TZ|TERM|COLUMNS|LINES|NO_COLOR|(?:FORCE|CLI)_?COLOR\w*|CI|DEBUG|IFS"
    r"|GIT_(?:DIR|WORK_TREE|OPTIONAL_LOCKS|TERMINAL_PROMPT|AUTHOR_\w+|COMMITTER_\w+|\w+_PATHSPECS"
    r"|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|FLUSH|ADVICE|NO_REPLACE_OBJECTS)"
    r"|PYTHON(?:DONTWRITEBYTECODE|UNBUFFERED|HASHSEED|IOENCODING|UTF8|WARNINGS|NOUSERSITE)"
    r"|NODE_ENV|RUST_(?:BACKTRACE|LOG)|\w+_COLORS?|MANWIDTH|POSIXLY_CORRECT|BLOCK_?SIZE|OLDPWD|PWD"
)
"""Variables that change how something is shown or found, and nothing else."""

_GOFLAGS = r"(?:-(?:count=\d+|race|v|short|mod=(?:vendor|readonly|mod))\s*)*"
_TRACES = re.compile(r"GIT_TRACE\w*|GIT_TR2_\w*")
_RUNNING_OPTION = re.compile(r"-[\w-]{0,40}(?:exec|eval|command|program|action)\w*=")
_OWN = frozenset({"HOME", "TMPDIR", "TMP", "TEMP", "HISTFILE"})
"""Variables of the environment or of the shell: setting them is enough, without `export`."""
_GUARD = "BRIDLE_"


def check_variable(
    name: str, value: Value, home: str, *, implements: bool, exported: bool
) -> list[Effect]:
    """Effects of giving the variable this value; `exported` when programs see it."""
    if name.startswith(_GUARD):
        return [Deny("path-protected", f"{name} tells the guard who you are")]
    if name in ("PS4", "PS1", "PS0", "PS2"):
        shown = value.show()
        runs = "$(" in shown or "`" in shown
        return [Deny("command-unresolved", f"{name} runs a command")] if runs else []
    if name == "CDPATH" and value.text not in ("", "."):
        return [Deny("command-unresolved", "CDPATH changes where cd leads")]
    if name in ("BASH_ENV", "ENV", "ZDOTDIR") and (
        value.text is None or value.text.startswith(("/dev/fd/", "/proc/"))
    ):
        return [Deny("command-unresolved", f"{name} runs a file only known at run time")]
    if name == "GIT_EXEC_PATH":
        return [Deny("command-unresolved", "git with other programs behind its subcommands")]
    if name in RUNS and value.text in _HARMLESS_COMMANDS:
        return []
    if name == "GIT_ALLOW_PROTOCOL" and re.search(r"\b(?:ext|fd)\b", value.show()):
        return [Deny("command-unresolved", "git with a command as a remote")]
    if name.endswith(("OPTIONS", "OPTS", "FLAGS")) and _RUNNING_OPTION.search(value.show()):
        return [Deny("command-unresolved", f"{name} holds an option that runs something")]
    if not implements:
        return _for_readers(name, value, exported)
    if name in RUNS:
        return [hook(value)]
    if exported or name in _OWN or name.startswith("XDG_"):
        return given_variable(name, value, home)
    return []


def _for_readers(name: str, value: Value, exported: bool) -> list[Effect]:
    """A read-only role may set variables that change the form of output; a gate also gets other
    values."""
    # A trace may go to a stream that is open already.
    switch = value.text is not None and re.fullmatch(r"\w*", value.text)
    if _HARMLESS.fullmatch(name) or (_TRACES.fullmatch(name) and switch):
        return []
    if name == "LESS" and re.fullmatch(r"-?[FRXSNiIMQqnw]*", value.text or "+"):
        return []
    if name == "GOFLAGS" and re.fullmatch(_GOFLAGS, value.text or "+"):
        return []
    if name in ("HISTFILE", "TMPDIR") and value.text in ("", "/dev/null"):
        return []
    refusal = Deny("program-role", f"the variable {name} changes what commands do")
    if name in RUNS or name in LOADS or name.startswith(("GIT_", "LD_", "DYLD_", "BASH_FUNC_")):
        return [refusal]
    if name in _CODE_FOLDERS:
        places = (value.text if value.text is not None else "/<unknown>").split(":")
        return [Mutates(f"{name}={place}", Value((place,))) for place in places if place]
    if not exported:
        return []
    if _CODE_LIKE.fullmatch(name):
        return [refusal]
    plain = value.text is not None and re.fullmatch(r"[\w.,%+@-]*", value.text)
    return [] if plain else [Mutates(f"the variable {name}")]
