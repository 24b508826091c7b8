"""What Claude Code is: its facts, its versions, its tools and its own options."""

import os
import signal
import sys
from typing import Literal

import msgspec

from bridle.core.errors import (
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
from bridle.runtimes.dialects import Dialect, version_numbers
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import (
    Installation,
    ask_version,
    find_executable,
    package_version,
    remembered_version,
)
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product, ToolTable


class ClaudeDialect(Dialect, frozen=True, kw_only=True):
    """Facts about a version range that the adapter or its documentation needs."""

    default_mode: str
    """Word for "ask before acting" that every version in the range takes."""
    known_models: frozenset[str]
    """Models that have a price, where the wire does not say so itself (see `pricing`)."""
    reads_agents_md: bool
    """Whether AGENTS.md is read when there is no CLAUDE.md."""
    drops_output_at_exit: bool
    """Whether it exits, once its input has ended, before a long last line was read. Its input is
    then kept open until the result has arrived."""
    blocks_when_hook_dies: bool
    """Whether a hook with `onFailure: block` that is killed, or late, stops the tool."""
    hidden_flags: frozenset[str]
    """Flags that it takes but leaves out of its help."""
    names_calls: bool = True
    """Names the call in what a hook gets. Without that no verdict can be matched with a call, so
    there is no guard."""
    retries: bool = True
    """Reports that a failed model call is made again (`api_retry`)."""


_NAMED = (
    "3-haiku 3-opus 3-sonnet 3-5-haiku 3-5-sonnet 3-7-sonnet haiku-4-5 opus-4 opus-4-0 opus-4-1 "
    "opus-4-5 opus-4-6 opus-4-7 opus-4-8 sonnet-4 sonnet-4-0 sonnet-4-5 sonnet-4-6 sonnet-5"
)
_HIDDEN = frozenset({"--max-turns", "--system-prompt-file", "--append-system-prompt-file"})

_NO_RETRIES = "calls that are made again are not reported"

DIALECTS = (
    ClaudeDialect(
        name="claude-2.0",
        since=(2, 0, 36),
        seen=("2.0.36",),
        capture="v2.0.36/error_529.jsonl",
        default_mode="default",
        known_models=frozenset(f"claude-{name}" for name in _NAMED.split()),
        reads_agents_md=False,
        drops_output_at_exit=True,
        blocks_when_hook_dies=False,
        hidden_flags=_HIDDEN | {"--permission-prompt-tool"},
        names_calls=False,
        retries=False,
        lost=(_NO_RETRIES, "it cannot be guarded"),
    ),
    ClaudeDialect(
        name="claude-2.0.44",
        since=(2, 0, 44),
        seen=("2.1.76",),
        capture="v2.1.76/talk.jsonl",
        default_mode="default",
        known_models=frozenset(f"claude-{name}" for name in _NAMED.split()),
        reads_agents_md=False,
        drops_output_at_exit=True,
        blocks_when_hook_dies=False,
        hidden_flags=_HIDDEN | {"--permission-prompt-tool"},
        retries=False,
        lost=(_NO_RETRIES,),
    ),
    ClaudeDialect(
        name="claude-2.1",
        since=(2, 1, 77),
        seen=("2.1.197",),
        capture="stream/partial_messages.jsonl",
        default_mode="default",
        known_models=frozenset(f"claude-{name}" for name in _NAMED.split()),
        reads_agents_md=False,
        drops_output_at_exit=True,
        blocks_when_hook_dies=False,
        hidden_flags=_HIDDEN | {"--permission-prompt-tool"},
    ),
    ClaudeDialect(
        name="claude-2.1.325",
        since=(2, 1, 325),
        seen=("2.1.325",),
        capture="v2.1.325/success_tool.jsonl",
        default_mode="default",
        known_models=frozenset(),
        reads_agents_md=True,
        drops_output_at_exit=False,
        blocks_when_hook_dies=True,
        hidden_flags=_HIDDEN,
    ),
)
"""Traps of 2.1.197: a failed model call ends in subtype success with `is_error` true; a cut
stream is tried again without streaming, and `result.usage` is then zero; SIGTERM, SIGHUP and
SIGKILL orphan the running shell tool, SIGINT cleans up; a custom model is priced like the
default Opus; a last line of more than a pipe holds is cut off when its input has ended.

Traps of 2.1.325: `result` has its type in the middle of the line; sub-agents run in the
background, so there are two results; `modelUsage` of a resumed conversation includes the
processes before; a cut stream is closed with `message_stop`, then tried again as a new message;
a shell command that begins with a long sleep is refused by the tool itself."""

TOOLS = ToolTable(
    neutral={
        "shell": ("Bash", "BashOutput", "KillShell", "Monitor", "PowerShell"),
        "read_file": ("Read", "NotebookRead"),
        "write_file": ("Write",),
        "edit_file": ("Edit", "MultiEdit", "NotebookEdit"),
        "search": ("Glob", "Grep", "LS"),
        "web": ("WebFetch", "WebSearch"),
        "subagent": ("Agent", "Task", "Workflow"),
    },
    native=(
        *("AskUserQuestion", "CronCreate", "CronDelete", "CronList", "EnterPlanMode"),
        *("EnterWorktree", "ExitPlanMode", "ExitWorktree", "KillBash", "LSP", "ListAgents"),
        *("ListMcpResourcesTool", "PushNotification", "ReadMcpResourceTool", "RemoteTrigger"),
        *("ReportFindings", "ScheduleWakeup", "SendMessage", "Skill", "SlashCommand"),
        *("StructuredOutput", "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop"),
        *("TaskUpdate", "TeamCreate", "TeamDelete", "TodoRead", "TodoWrite", "ToolSearch"),
    ),
    rules=frozenset(
        ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "NotebookEdit", "WebFetch", "WebSearch")
    )
    | frozenset(("Agent", "Task", "Skill", "SlashCommand", "PowerShell", "Monitor")),
    mcp_tool="mcp__{server}__{tool}",
    mcp_server="mcp__{server}",
)
"""A session lists some of them only while another is off: `Glob` and `Grep` without `Bash`."""


_CHECK_MODEL = "check the model name: {model}"
PACKAGE = "@anthropic-ai/claude-code"
DEFAULT_RETRIES = 3
"""Claude's own default of ten takes three minutes to report a wrong key."""


class ClaudeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`provider_options` of the `claude` runtime."""

    max_retries: int = DEFAULT_RETRIES
    """How often the CLI tries a failed model call again."""
    fallback_model: str | None = None
    """Model to use while the wanted one is overloaded."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """How hard the model thinks."""
    add_dirs: tuple[str, ...] = ()
    """Further folders that tools may touch."""
    preapproved_tools: tuple[str, ...] = ()
    """Tools or rules (`Bash(git *)`) that need no permission; other tools stay available."""
    setting_sources: str | None = None
    """Which settings are read: a list of `user`, `project`, `local` with commas, or empty."""
    persist_session: bool = True
    """Keep a transcript, which resuming needs."""
    fork: bool = False
    """With `resume`: continue in a copy of the conversation, under a new id."""


ERRORS = ErrorTable(
    login_hint="log in with `claude` (then /login), or set ANTHROPIC_API_KEY",
    calls=(
        ErrorRow(Unavailable, tags=("model_not_found",), hint=_CHECK_MODEL),
        ErrorRow(Unavailable, statuses=(404,), hint=_CHECK_MODEL),
        ErrorRow(NotAuthenticated, tags=("authentication_failed",)),
        ErrorRow(NotAuthenticated, statuses=(401, 403)),
        # The words of versions that report neither tag nor status.
        ErrorRow(NotAuthenticated, ("invalid api key ·",), statuses=(0,)),
        ErrorRow(Billing, tags=("billing_error",)),
        ErrorRow(
            ContextOverflow,
            tags=("max_output_tokens",),
            hint="ask for less at once, or raise the output limit",
        ),
        # Some versions call every call that may be made again a rate limit.
        ErrorRow(Overloaded, statuses=(529,)),
        ErrorRow(RateLimited, tags=("rate_limit",)),
        ErrorRow(RateLimited, statuses=(429,)),
        ErrorRow(Overloaded, tags=("overloaded",)),
    ),
    exits=(
        ErrorRow(ResumeRefused, ("no conversation found", "already in use")),
        ErrorRow(NotAuthenticated, ("not logged in", "/login", "invalid api key")),
        ErrorRow(
            ProtocolDrift,
            ("unknown option",),
            hint="this version does not know the flag; see its --help",
        ),
    ),
)


def _find(name: str) -> Installation | None:
    """The CLI that `name` means, None when there is none.

    npm puts a launcher or a copy of the native binary on PATH, the native installer a link whose
    target is named by its version; in each case the native binary is what is started.
    """
    found = find_executable(name)
    if found is None:
        return None
    binary = _native(found)
    version = package_version(binary, PACKAGE) or _version_in_name(binary)
    if version is None:
        version = remembered_version(binary, lambda: ask_version((binary,)))
    return Installation(binary=binary, version=version)


def _native(found: str) -> str:
    """The native binary behind a script launcher of the npm package; else `found` itself."""
    try:
        with open(found, "rb") as file:
            is_script = file.read(2) == b"#!"
    except OSError:
        return found
    if not is_script:
        return found
    folder = os.path.dirname(os.path.realpath(found))
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    for _ in range(4):
        folder, inner = os.path.split(folder)
        for suffix in ("", "-musl"):
            native = os.path.join(folder, f"{inner}-{sys.platform}-{machine}{suffix}", "claude")
            if inner.startswith("claude-code") and os.access(native, os.X_OK):
                return native
    return found


def _version_in_name(binary: str) -> str | None:
    name = os.path.basename(os.path.realpath(binary))
    return name if len(version_numbers(name)) >= 3 else None


_OPTIONS = COMMON_OPTIONS | {
    "system_prompt",
    "max_turns",
    "allowed_tools",
    "denied_tools",
    "settings",
    "mcp_config",
    "images",
    "budget_usd",
    "resume",
}

PRODUCT = Product(
    id="claude",
    binary="claude",
    find=_find,
    key_variable="ANTHROPIC_API_KEY",
    install_hint="npm install -g @anthropic-ai/claude-code",
    dialects=DIALECTS,
    instruction_path=".claude/CLAUDE.md",
    home_variable="CLAUDE_CONFIG_DIR",
    home=".claude",
    credentials=Credentials(
        variables=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
        ),
        files=(".credentials.json",),
        # A settings or state file may hold a key or name a helper program.
        doubtful=("settings.json", ".claude.json", "../.claude.json"),
        # A keychain may hold the login.
        otherwise="unknown" if sys.platform == "darwin" else "missing",
    ),
    routing=routing.CLAUDE,
    provider_path="",
    scripted_model="claude-sonnet-4-5",
    options_type=ClaudeOptions,
    list_options=("add_dirs", "preapproved_tools"),
    list_separator=",",
    tools=TOOLS,
    errors=ERRORS,
    refused={
        "tmux": ("max_turns", "budget_usd", "images"),
        "interactive": ("max_turns", "budget_usd", "images", "model_server"),
    },
    stop=(
        # SIGINT is the one signal on which every version ends its running tool as well.
        StopStep(signal=signal.SIGINT, grace=4.0),
        StopStep(signal=signal.SIGTERM, grace=2.0),
        StopStep(signal=signal.SIGKILL, grace=1.0, to="group"),
    ),
    features=Features(
        options=_OPTIONS,
        interactive=True,
        streaming=True,
        thinking=True,
        message_usage=True,
        reports_cost=True,
        retries=True,
        output_schema=True,
        resume=True,
        fork=True,
        steer=True,
        follow_up=True,
        abort=True,
        compaction=True,
        compact=True,
        drives=("print", "rpc", "tmux"),
        asks=("print", "rpc", "tmux"),
        instruction_file=".claude/CLAUDE.md",
    ),
)
