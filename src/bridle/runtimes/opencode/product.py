"""What OpenCode is: its facts, its versions, its tools, its errors and its own options."""

import signal
from typing import Annotated

import msgspec

from bridle.core.errors import (
    Aborted,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    ResumeRefused,
    Unavailable,
)
from bridle.core.features import Features
from bridle.process.spec import StopStep
from bridle.runtimes import routing
from bridle.runtimes.dialects import Dialect, Word
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import (
    Installation,
    find_executable,
    native_program,
    npm_installation,
)
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product, ToolTable


class OpenCodeDialect(Dialect, frozen=True, kw_only=True):
    """The facts about a version range of OpenCode that the adapter needs."""

    json_flags: tuple[str, ...]
    """Make `run` print one JSON object for each finished part, thinking included."""
    log_flags: tuple[str, ...]
    """Bring failed model calls to standard error. Without them a call that is repeated forever
    leaves no trace on either stream."""
    prompt_title_flag: str
    """Names a new session after its prompt; without it each session begins with an extra model
    call for a title."""
    fork_flag: str
    """With the id of a session: continue in a copy of it."""
    approve_flag: str
    """Grants every permission request. Without it `run` refuses each and ends; where it is empty,
    the version has no such flag."""
    harmless_tools: tuple[str, ...]
    """Tools that only read; those that an agent keeps if nobody can answer permission requests."""
    rejected_text: str
    """How the error of a tool begins whose permission request was refused."""
    rule_text: str
    """How the error of a tool begins that a rule forbids."""


_JSON = ("--format", "json", "--thinking")
_LOGS = ("--print-logs", "--log-level", "ERROR")
_HARMLESS = ("read", "glob", "grep", "list", "lsp", "skill", "todoread", "todowrite")
_REJECTED = "The user rejected permission"
_RULE = "The user has specified a rule which prevents"
_REFUSES = "calls that your own rules make it ask about are refused, with permission bypass too"


def _approve(flag: str) -> Word:
    return Word(flag, "approve_flag", _REFUSES, listed_by=("run", "--help"))


DIALECTS = (
    OpenCodeDialect(
        name="opencode-1.2",
        since=(1, 2, 11),
        seen=("1.3.2",),
        capture="v1.3.2/run.jsonl",
        json_flags=_JSON,
        log_flags=_LOGS,
        prompt_title_flag="--title=",
        fork_flag="--fork",
        approve_flag="",
        harmless_tools=_HARMLESS,
        rejected_text=_REJECTED,
        rule_text=_RULE,
        lost=(_REFUSES,),
    ),
    OpenCodeDialect(
        name="opencode-1.14",
        since=(1, 14),
        seen=("1.14.34", "1.17.11"),
        capture="v1.17.11/run.jsonl",
        json_flags=_JSON,
        log_flags=_LOGS,
        prompt_title_flag="--title=",
        fork_flag="--fork",
        approve_flag="--dangerously-skip-permissions",
        harmless_tools=_HARMLESS,
        rejected_text=_REJECTED,
        rule_text=_RULE,
        words=(_approve("--dangerously-skip-permissions"),),
    ),
    OpenCodeDialect(
        name="opencode-1.18",
        since=(1, 17, 18),
        seen=("1.18.33",),
        capture="run-write.jsonl",
        json_flags=_JSON,
        log_flags=_LOGS,
        prompt_title_flag="--title=",
        fork_flag="--fork",
        approve_flag="--auto",
        harmless_tools=_HARMLESS,
        rejected_text=_REJECTED,
        rule_text=_RULE,
        words=(_approve("--auto"),),
    ),
)

ALIASES = {
    "opus": "anthropic/claude-opus-4-6",
    "sonnet": "anthropic/claude-sonnet-4-6",
    "haiku": "anthropic/claude-haiku-4-5",
}
"""Short names of models; OpenCode itself knows none."""

APIS = {
    "openai-compatible": "@ai-sdk/openai-compatible",
    "openai": "@ai-sdk/openai",
    "anthropic": "@ai-sdk/anthropic",
}
"""Wire protocols that a caller's provider may speak, and OpenCode's package for each; all are part
of its binary."""

KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "google": "GOOGLE_GENERATIVE_AI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "groq": "GROQ_API_KEY",
    "cerebras": "CEREBRAS_API_KEY",
    "xai": "XAI_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "opencode": "OPENCODE_API_KEY",
}
"""Providers that OpenCode knows, and the variable that it reads each key from."""

_WRITING = ("write", "edit", "multiedit", "patch", "apply_patch")
"""One permission of OpenCode's covers all of these: none can be switched alone."""

TOOLS = ToolTable(
    neutral={
        "shell": ("bash",),
        "read_file": ("read",),
        "write_file": _WRITING,
        "edit_file": _WRITING,
        "search": ("glob", "grep", "list"),
        "web": ("webfetch", "websearch", "codesearch"),
        "subagent": ("task",),
    },
    native=(
        "batch",
        "lsp",
        "plan_enter",
        "plan_exit",
        "question",
        "skill",
        "todoread",
        "todowrite",
    ),
    mcp_tool="{server}_{tool}",
    mcp_server="{server}_*",
)

_UNKNOWN_MODEL = ErrorRow(
    Unavailable,
    ("modelnotfound", "model not found"),
    message="opencode does not know the model {model}",
    hint="see `opencode models` for those of the providers you are logged in to",
)

ERRORS = ErrorTable(
    login_hint="run `opencode auth login`, or set the provider's key variable",
    calls=(
        ErrorRow(ContextOverflow, tags=("ContextOverflowError", "MessageOutputLengthError")),
        ErrorRow(NotAuthenticated, tags=("ProviderAuthError",)),
        ErrorRow(Aborted, tags=("MessageAbortedError",)),
        msgspec.structs.replace(_UNKNOWN_MODEL, words=("modelnotfound",)),
    ),
    exits=(
        ErrorRow(ResumeRefused, ("session not found",), message="opencode has no such session"),
        # It prints its whole help for an unknown argument, and does not say which one.
        ErrorRow(
            ProtocolDrift,
            ("opencode run [",),
            message="opencode does not know one of its arguments",
        ),
        _UNKNOWN_MODEL,
        ErrorRow(
            Crashed,
            ("configuration is invalid", "configinvaliderror"),
            hint="repair opencode's configuration, or the settings of this run",
        ),
    ),
    complaint="last",
)


class OpenCodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `opencode` runtime."""

    max_retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    """How often OpenCode may repeat a failed model call before the run is stopped. It has no limit
    of its own."""
    retry_seconds: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 60.0
    """How long it may wait before it tries again; a service may ask it to wait for an hour."""
    agent: str | None = None
    """Which of its agents works: `build`, `plan`, or one of the user's."""
    variant: str | None = None
    """The model's variant, such as its reasoning effort."""
    title_call: bool = False
    """Let OpenCode ask the model for a title of a new session, instead of using the beginning of
    the prompt."""
    api: str = "openai-compatible"
    """Wire protocol of a provider that OpenCode does not know: see `APIS`."""
    plugins: bool = True
    """Load the user's and the project's plugins."""
    fork: bool = False
    """With `resume`: continue in a copy of the session, under a new id."""


def _find(name: str) -> Installation | None:
    """The installed OpenCode: the native binary, also if a script of npm's starts it."""
    found = find_executable(name)
    return None if found is None else npm_installation(native_binary(found), "opencode")


def native_binary(found: str) -> str:
    """The program behind an npm script, if `found` is one and the program is beside it.

    A program is not replaced: npm's own script chose the build that this processor can run.
    """
    try:
        with open(found, "rb") as file:
            if file.read(2) != b"#!":
                return found
    except OSError:
        return found
    return native_program(found, "opencode-{platform}/bin/opencode") or found


PRODUCT = Product(
    id="opencode",
    binary="opencode",
    find=_find,
    install_hint="npm install -g opencode-ai",
    dialects=DIALECTS,
    instruction_path="AGENTS.md",
    # OpenCode serves some models without a login, so a missing one need not mean trouble.
    credentials=Credentials(variables=tuple(KEY_VARIABLES.values()), otherwise="unknown"),
    routing=routing.OPENCODE,
    scripted_model="lab/scripted",
    options_type=OpenCodeOptions,
    tools=TOOLS,
    errors=ERRORS,
    refused={"interactive": ("images", "model_server")},
    stop=(
        # SIGTERM ends OpenCode and its running tool at once.
        StopStep(signal=signal.SIGTERM, grace=3.0),
        StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
    ),
    # In runs its text comes in whole blocks.
    features=Features(
        options=COMMON_OPTIONS
        | {
            "system_prompt",
            "max_turns",
            "allowed_tools",
            "denied_tools",
            "settings",
            "mcp_config",
            "images",
            "budget_usd",
            "resume",
        },
        interactive=True,
        thinking=True,
        message_usage=True,
        reports_cost=True,
        resume=True,
        follow_up=True,
        fork=True,
        retries=True,
        compact=True,
        drives=("print", "rpc"),
        asks=("rpc",),
        instruction_file="AGENTS.md",
    ),
)
