"""Variables that change what commands do."""

import re

from bridle.guard.commands.given_paths import given_variable
from bridle.guard.effects import Deny, Effect, Mutates, hook
from bridle.guard.shell.values import Value
from bridle.guard.tables import names

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
"""Variables that put other code, or other settings, under the name of a known command."""

_SEARCHED = names("PYTHONPATH NODE_PATH CLASSPATH GEM_PATH")
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
"""Variables of the environment or of the shell: to set them is enough, without `export`."""
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
    """A role that reads sets what changes the form of an output; a gate gets other values too."""
    if _HARMLESS.fullmatch(name) or (_TRACES.fullmatch(name) and _is_switch(value)):
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
    if name in _SEARCHED:
        places = (value.text if value.text is not None else "/<unknown>").split(":")
        return [Mutates(f"{name}={place}", Value((place,))) for place in places if place]
    if not exported:
        return []
    if _CODE_LIKE.fullmatch(name):
        return [refusal]
    plain = value.text is not None and re.fullmatch(r"[\w.,%+@-]*", value.text)
    return [] if plain else [Mutates(f"the variable {name}")]


def _is_switch(value: Value) -> bool:
    """Whether a trace goes to a stream that is open already."""
    return value.text is not None and re.fullmatch(r"\w*", value.text) is not None
