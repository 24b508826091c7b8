"""The facts of Codex, as data: how it is found, what each version takes, and what it can do."""

import os
import signal
from typing import Any

import msgspec

from bridle.core.errors import (
    AgentError,
    Billing,
    ContextOverflow,
    NotAuthenticated,
    Overloaded,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
)
from bridle.core.features import Features
from bridle.process.spec import StopStep
from bridle.runtimes import routing
from bridle.runtimes.dialects import Dialect, Word, version_numbers
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    npm_platform,
    package_version,
    remembered_version,
)
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product, ToolTable
from bridle.runtimes.retries import LONGEST_PAUSE


class CodexDialect(Dialect, frozen=True, kw_only=True):
    """A range of versions of Codex. A flag or feature that a version does not know ends it (exit 1
    or 2), so each is named here and nowhere else."""

    disabled_features: tuple[str, ...]
    """Features that are switched off in every run: endless retries, marketplace downloads."""
    sandbox_probe: tuple[str, ...]
    """Arguments that run `true` in the CLI's own sandbox; exit 0 shows that it works here."""
    usage_records: bool
    """Whether transcripts hold a `token_usage_record` for each model call."""
    daemon: bool
    """Whether the terminal interface starts a shared daemon unless `--no-daemon` is given."""
    inline_instructions: bool
    """Whether `-c instructions=` replaces the base prompt; a file does so in every version."""
    mcp_approval: bool
    """Whether a server's entry can approve the calls of its tools in advance. Where it cannot,
    only tools that declare themselves read-only run, unless the sandbox is off."""
    tells_message_ids: bool
    """Whether the app-server gives back our own id with a message that the model reads."""
    late_command_ends: bool
    """Whether the app-server may report the end of a quick command after that of its turn."""
    shares_socket: bool
    """Whether the app-server can listen on a Unix socket, and the terminal interface join it."""
    exec_fork: bool
    """Whether `codex exec` can continue in a copy of a thread; every app-server can."""
    hooks: bool
    """Whether hooks can hold a tool call back."""
    unjudged_features: tuple[str, ...] = ()
    """Features that a guarded run goes without, because no hook sees what is done with them: text
    typed into a running terminal."""
    path_dir: str
    """Folder beside the binary with helper programs (`rg`), which its npm launcher puts
    on PATH; empty where the binary finds them by itself."""
    log_filter: str = ""
    """What to add to its log so that failed model calls show; empty where its own pauses between
    tries are short, since it ignores the pause that the service asks for."""
    model_migrations: tuple[tuple[str, str], ...] = ()
    """Models for which the terminal interface offers a successor in a dialog at its start, where
    Enter changes the model; if they are named in advance, the dialog does not appear."""


_FEATURES = ("features", "list")
WORDS = (
    Word(
        "unbounded_connection_retries",
        "disabled_features",
        "a model service that cannot be reached may be tried for ever",
        listed_by=_FEATURES,
    ),
    Word("plugins", "disabled_features", listed_by=_FEATURES),
    # The feature that `--no-daemon` switches off came with the flag.
    Word("daemon_auto_start", "daemon", listed_by=_FEATURES),
    Word("hooks", "hooks", listed_by=_FEATURES, guard=True),
    Word("unified_exec", "unjudged_features", listed_by=_FEATURES, guard=True),
    Word("unified_exec_tty", "unjudged_features", listed_by=_FEATURES, guard=True),
)
"""What a version between or beyond those that were run may not know."""

_OLDEST = CodexDialect(
    name="codex-0.120",
    since=(0, 110),
    seen=("0.110.0", "0.120.0"),
    capture="0.120.0/exec/success_shell.jsonl",
    words=WORDS,
    disabled_features=("plugins",),
    sandbox_probe=("sandbox", "linux", "--", "true"),
    usage_records=False,
    daemon=False,
    inline_instructions=False,
    mcp_approval=False,
    tells_message_ids=False,
    late_command_ends=True,
    shares_socket=False,
    exec_fork=False,
    hooks=False,
    path_dir="path",
    model_migrations=(("gpt-5.3-codex", "gpt-5.4"),),
)


def _since(before: CodexDialect, version: str, **changes: Any) -> CodexDialect:
    """The row of the versions from `version` on, which differ in `changes` from those before."""
    fields = {
        "name": f"codex-{version.rpartition('.')[0]}",
        "since": version_numbers(version),
        "seen": (version,),
        "capture": f"{version}/exec/tools.jsonl",
    }
    return msgspec.structs.replace(before, **(fields | changes))


_MCP = _since(_OLDEST, "0.122.0", mcp_approval=True)
_HOOKS = _since(
    _MCP,
    "0.129.0",
    inline_instructions=True,
    hooks=True,
    # Typed text has no switch of its own yet: the tool that takes it goes as a whole.
    unjudged_features=("unified_exec",),
)
_SOCKET = _since(_HOOKS, "0.131.0", seen=("0.131.0", "0.133.0"), shares_socket=True)
_SANDBOX = _since(_SOCKET, "0.134.0", sandbox_probe=("sandbox", "--", "true"), path_dir="")
_IDS = _since(_SANDBOX, "0.136.0", seen=("0.136.0", "0.142.0", "0.145.0"), tells_message_ids=True)
_RETRIES = _since(
    _IDS,
    "0.148.0",
    disabled_features=("unbounded_connection_retries", "plugins"),
    exec_fork=True,
    log_filter="codex_otel.trace_safe=trace",
)
_USAGE = _since(_RETRIES, "0.153.0", usage_records=True)
_TYPED = _since(_USAGE, "0.154.0", unjudged_features=("unified_exec_tty",))
_DAEMON = _since(
    _TYPED,
    "0.156.0",
    name="codex-0.166",
    seen=("0.156.0", "0.162.0", "0.166.0", "0.169.0"),
    capture="0.166.0/exec/success_shell.jsonl",
    daemon=True,
    late_command_ends=False,
    model_migrations=(
        ("gpt-5.5", "gpt-6-sol"),
        ("gpt-5.6-luna", "gpt-6-luna"),
        ("gpt-5.6-sol", "gpt-6-sol"),
        ("gpt-5.6-terra", "gpt-6-sol"),
    ),
)
DIALECTS = (
    *(_OLDEST, _MCP, _HOOKS, _SOCKET, _SANDBOX, _IDS),
    *(_RETRIES, _USAGE, _TYPED, _DAEMON),
)

SHELLS = ("exec_command", "write_stdin", "shell_command", "shell", "local_shell")
SEARCHES = ("web_search",)
TOOLS = ToolTable(
    # It reads, searches and lists files with its shell, and `apply_patch` has no switch.
    neutral={
        "shell": SHELLS,
        "read_file": None,
        "write_file": None,
        "edit_file": None,
        "search": None,
        "web": SEARCHES,
        "subagent": None,
    },
    fixed=("apply_patch", "spawn_agent", "update_plan", "view_image"),
)


class CodexOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `codex` runtime."""

    max_retries: int = 3
    """How often a failing model call is tried again, where Bridle names the provider."""
    retry_seconds: float = LONGEST_PAUSE
    """Longest pause before a failing model call is tried again; a service may ask for hours."""
    effort: str | None = None
    """Reasoning effort, in Codex's own words (`low`, `medium`, `high`, ...)."""
    network_access: bool = False
    """Open the network to commands inside the workspace-write sandbox."""
    git_write: bool = True
    """Let the agent commit: its git folders become writable in workspace-write."""
    add_dirs: tuple[str, ...] = ()
    """More folders that may be written in workspace-write."""
    output_schema: str | None = None
    """A JSON Schema file that the final answer must fit."""
    profile: str | None = None
    """A profile of the user's Codex configuration."""
    shared_socket: bool = False
    """In a live session: serve it on a socket, so that a person can join with Codex's own terminal
    interface."""
    fork: bool = False
    """With `resume`: continue in a copy of the thread, under a new id."""


PACKAGE = "@openai/codex"
_TRIPLES = {
    "linux-x64": "x86_64-unknown-linux-musl",
    "linux-arm64": "aarch64-unknown-linux-musl",
    "darwin-x64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}


def _find(name: str) -> Installation | None:
    """The CLI that `name` means, None when there is none.

    npm puts a Node script in front of the native program. The script costs a tenth of a second and
    42 MB, and killing it leaves the program running. So the program itself is started, and the
    script only where the program cannot be found.
    """
    found = find_executable(name)
    if found is None:
        return None
    binary = _native(found) or found
    version = package_version(binary, PACKAGE) or package_version(found, PACKAGE)
    if version is None:
        version = remembered_version(binary, lambda: ask_version((binary,)))
    else:
        version = version.removesuffix(f"-{npm_platform()}")
    return Installation(binary=binary, version=version)


def _native(launcher: str) -> str | None:
    """The program that npm's launcher would start; None when `launcher` is something else."""
    real = os.path.realpath(launcher)
    if not real.endswith(".js"):
        return None
    package = os.path.dirname(os.path.dirname(real))
    platform = npm_platform()
    homes = (
        os.path.join(os.path.dirname(package), f"codex-{platform}"),
        os.path.join(package, "node_modules", "@openai", f"codex-{platform}"),
        package,
    )
    for home in homes:
        for folder in ("bin", "codex"):
            candidate = os.path.join(home, "vendor", _TRIPLES[platform], folder, "codex")
            if os.access(candidate, os.X_OK):
                return candidate
    return None


_NO_MODEL = "check the service's address and whether it serves the model {model}"
_LOGIN = (
    "missing environment variable",
    "not logged in",
    "log in again",
    "sign in again",
    "access token could not be refreshed",
    "codex login",
)


def _told(
    error: type[AgentError], *words: str, hint: str = "", message: str = "{text}"
) -> ErrorRow:
    """A failed call that Codex describes without a status."""
    return ErrorRow(error, words, statuses=(0,), hint=hint, message=message)


def _named(error: type[AgentError], *tags: str) -> ErrorRow:
    """A failed call by the app-server's `codexErrorInfo`, where the text has no status."""
    return ErrorRow(error, tags=tags, statuses=(0,))


ERRORS = ErrorTable(
    calls=(
        _told(NotAuthenticated, *_LOGIN),
        _told(Billing, "quota exceeded"),
        _told(RateLimited, "usage limit", "rate limit"),
        _told(ContextOverflow, "context window", "reason: max_output_tokens"),
        _told(
            Unavailable,
            # The one status whose number Codex replaces by words.
            "high demand",
            hint="try again later",
            message="the model service failed (500): {text}",
        ),
        ErrorRow(Unavailable, statuses=(404,), hint=_NO_MODEL),
        # A 404 without its number: "The model … does not exist or you do not have access to it."
        _told(Unavailable, "does not exist or you do not have access", hint=_NO_MODEL),
        _named(ContextOverflow, "contextWindowExceeded"),
        _named(RateLimited, "usageLimitExceeded", "rateLimitExceeded"),
        _named(Overloaded, "serverOverloaded", "flexUnavailable", "policyCapacityUnavailable"),
        _named(NotAuthenticated, "unauthorized"),
    ),
    exits=(
        ErrorRow(ResumeRefused, ("no rollout found", "thread/resume")),
        ErrorRow(NotAuthenticated, _LOGIN),
        ErrorRow(ProtocolDrift, statuses=(2,), message="codex refused its arguments: {text}"),
        ErrorRow(
            ProtocolDrift,
            statuses=(0,),
            message="codex exited 0 but printed nothing that Bridle knows",
        ),
    ),
    noise=("Reading ",),
    complaint="last",
    crash="codex did not start: {text}",
    crash_hint="fix what it names; its configuration is config.toml in CODEX_HOME",
)
"""Codex's stream has texts and no codes; the words are those of the captures."""

PRODUCT = Product(
    id="codex",
    binary="codex",
    find=_find,
    spawns_found=True,
    key_variable="CODEX_API_KEY",
    install_hint="npm install -g @openai/codex",
    dialects=DIALECTS,
    instruction_path="AGENTS.md",
    home_variable="CODEX_HOME",
    home=".codex",
    credentials=Credentials(
        variables=("CODEX_API_KEY",),
        files=("auth.json",),
        # A user's own provider may need no login, and a login may be in a key ring.
        words={"config.toml": ("model_provider", "credentials_store")},
    ),
    routing=routing.CODEX,
    scripted_model="gpt-5.5",
    options_type=CodexOptions,
    list_options=("add_dirs",),
    tools=TOOLS,
    errors=ERRORS,
    refused={
        "tmux": ("mcp_config", "images"),
        "interactive": ("model_server", "mcp_config"),
    },
    stop=(
        # SIGINT ends the running command too; SIGTERM would leave it behind.
        StopStep(signal=signal.SIGINT, grace=3.0),
        StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
    ),
    confines_itself=True,
    worktree_hooks="it runs only hooks whose hash is in your own configuration",
    features=Features(
        options=COMMON_OPTIONS
        | {"system_prompt", "settings", "mcp_config", "images", "resume", "denied_tools"},
        interactive=True,
        thinking=True,
        retries=True,
        limit_end=True,
        output_schema=True,
        resume=True,
        fork=True,
        steer=True,
        follow_up=True,
        abort=True,
        compaction=True,
        compact=True,
        drives=("print", "rpc", "tmux"),
        asks=("rpc", "tmux"),
        instruction_file="AGENTS.md",
    ),
)
