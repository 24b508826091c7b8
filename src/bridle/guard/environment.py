"""Variables that change what commands do."""

import re

from bridle.guard.effects import Deny, Effect, Mutates, Write, hook
from bridle.guard.names import names
from bridle.guard.values import Value

RUNS = names("""
    GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_PAGER PAGER MANPAGER SYSTEMD_PAGER EDITOR VISUAL
    GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS SSH_ASKPASS GIT_PROXY_COMMAND LESSOPEN LESSCLOSE
    BROWSER PROMPT_COMMAND FCEDIT SUDO_ASKPASS RIPGREP_PRE RSYNC_RSH CVS_RSH SVN_SSH BAT_PAGER
    DELTA_PAGER PSQL_EDITOR VIMINIT EXINIT
    """)
"""Variables whose value is run as a command."""

LOADS = names("""
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH PATH BASH_ENV ENV
    PYTHONSTARTUP PYTHONHOME PERL5OPT PERL5LIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS
    PYTEST_ADDOPTS PYTEST_PLUGINS GCONV_PATH SHELLOPTS BASHOPTS GIT_EXEC_PATH GIT_TEMPLATE_DIR
    ZDOTDIR PYTHONBREAKPOINT AWKPATH AWKLIBPATH LUA_INIT INPUTRC TERMINFO CDPATH
    """)
"""Variables that put other code under the name of a known command."""

WRITTEN = names("""
    HISTFILE SSLKEYLOGFILE MALLOC_TRACE LD_DEBUG_OUTPUT LD_PROFILE_OUTPUT NODE_V8_COVERAGE
    NODE_REDIRECT_WARNINGS NODE_REPL_HISTORY COVERAGE_FILE LLVM_PROFILE_FILE GCOV_PREFIX
    PYTHONPYCACHEPREFIX CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_INSTALL_ROOT GOBIN GOCOVERDIR
    PIP_TARGET PIP_PREFIX PIP_LOG NPM_CONFIG_PREFIX DESTDIR INSTALL_ROOT LESSHISTFILE
    """)
"""Variables whose value is a path that programs write to."""

_TRACES = re.compile(r"GIT_TRACE\w*|GIT_TR2_\w*")
_GUARD = "BRIDLE_"


def check_variable(name: str, value: Value, implements: bool) -> list[Effect]:
    """Effects of giving the variable this value."""
    if name in RUNS:
        text = value.text
        if text in ("", "cat", "less", "true", ":", "more", "less -R", "false"):
            return []
        return [hook(value)]
    if name.upper() in WRITTEN and value.text not in ("", "-"):
        return [Write(value, "merge")]
    if _TRACES.fullmatch(name) and (value.text is None or value.text.startswith(("/", "af_unix:"))):
        # Anything but a path is a switch, or a stream that is open already.
        return [Write(value)]
    if name in ("PS4", "PS1", "PS0", "PS2"):
        shown = value.show()
        if "$(" in shown or "`" in shown:
            return [Deny("command-unresolved", f"{name} runs a command")]
        return []
    if name in LOADS or name.startswith("BASH_FUNC_"):
        if name == "CDPATH" and value.text not in ("", "."):
            return [Deny("command-unresolved", "CDPATH changes where cd leads")]
        if name in ("BASH_ENV", "ENV", "ZDOTDIR") and (
            value.text is None or value.text.startswith(("/dev/fd/", "/proc/"))
        ):
            return [Deny("command-unresolved", f"{name} runs a file only known at run time")]
        if name == "GIT_EXEC_PATH":
            return [Deny("command-unresolved", "git with other programs behind its subcommands")]
        return [] if implements else [Mutates(f"{name} changes what commands do")]
    if name == "NODE_OPTIONS" and not implements:
        shown = value.show()
        risky = any(w in shown for w in ("-r", "--require", "--import", "--loader", "<"))
        return [Mutates("NODE_OPTIONS loads code")] if risky else []
    if name.startswith(_GUARD):
        return [Deny("path-protected", f"{name} tells the guard who you are")]
    return []
