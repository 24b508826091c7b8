"""What Gemini CLI is: its facts, its versions, its tools, its errors and its own options."""

import signal
from typing import Annotated

import msgspec

from bridle.core.errors import (
    BudgetExceeded,
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
)
from bridle.core.features import Features
from bridle.process.spec import StopStep
from bridle.runtimes import routing
from bridle.runtimes.dialects import Dialect, Word
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import Installation, find_npm_cli
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product, ToolTable


class GeminiDialect(Dialect, frozen=True, kw_only=True):
    """Facts about a version range of Gemini CLI that the adapter needs."""

    stream_flags: tuple[str, ...]
    trust_flag: str
    """Lets it work in a folder that nobody trusted, without running what the folder brings along.
    Without it, it exits 55 there; versions for which it is empty do not ask about trust unless the
    user's settings say so."""
    approval_modes: tuple[str, ...]
    ask_mode: str
    """Mode in which a headless run does not offer tools that need permission to the model."""
    bypass_mode: str
    default_model: str
    """Used if neither the caller nor the user's settings name a model: without a name each prompt
    costs an extra call that chooses one."""
    session_flag: str
    """Chooses the id of a new conversation; where it is empty, the first line of a run names it."""
    refuses_resume: bool
    """Refuses to resume a conversation that it does not have; otherwise it begins a new one."""
    prompt_limit: int
    """Bytes of standard input that it reads; it cuts off the rest with a warning."""


_NO_ID = "the id of a conversation is known only when it has begun"
_APPROVAL = ("default", "auto_edit", "yolo", "plan")

DIALECTS = (
    GeminiDialect(
        name="gemini-0.40",
        since=(0, 40),
        seen=("0.40.1",),
        capture="v0.40.1/run.jsonl",
        stream_flags=("-o", "stream-json"),
        trust_flag="--skip-trust",
        approval_modes=_APPROVAL,
        ask_mode="default",
        bypass_mode="yolo",
        default_model="gemini-2.5-pro",
        session_flag="",
        refuses_resume=False,
        prompt_limit=8 * 1024 * 1024,
        lost=(_NO_ID,),
    ),
    GeminiDialect(
        name="gemini-0.41",
        since=(0, 41),
        seen=("0.41.0",),
        capture="v0.41.0/run.jsonl",
        stream_flags=("-o", "stream-json"),
        trust_flag="--skip-trust",
        approval_modes=_APPROVAL,
        ask_mode="default",
        bypass_mode="yolo",
        default_model="gemini-2.5-pro",
        session_flag="--session-id",
        refuses_resume=False,
        prompt_limit=8 * 1024 * 1024,
        words=(Word("--session-id", "session_flag", _NO_ID),),
    ),
    GeminiDialect(
        name="gemini-0.61",
        since=(0, 61),
        seen=("0.61.0",),
        capture="headless-write.jsonl",
        stream_flags=("-o", "stream-json"),
        trust_flag="--skip-trust",
        approval_modes=_APPROVAL,
        ask_mode="default",
        bypass_mode="yolo",
        default_model="gemini-2.5-pro",
        session_flag="--session-id",
        refuses_resume=True,
        prompt_limit=8 * 1024 * 1024,
        words=(Word("--session-id", "session_flag", _NO_ID),),
    ),
)

TOOLS = ToolTable(
    neutral={
        "shell": ("run_shell_command", "list_background_processes", "read_background_output"),
        "read_file": ("read_file", "read_many_files"),
        "write_file": ("write_file",),
        "edit_file": ("replace",),
        "search": ("grep_search", "search_file_content", "glob", "list_directory"),
        "web": ("web_fetch", "google_web_search"),
        "subagent": ("invoke_agent", "delegate_to_agent", "codebase_investigator", "generalist"),
    },
    native=(
        *("activate_skill", "ask_user", "cli_help", "complete_task", "enter_plan_mode"),
        *("exit_plan_mode", "get_internal_docs", "save_memory", "update_topic", "write_todos"),
        *("tracker_add_dependency", "tracker_create_task", "tracker_get_task"),
        *("tracker_list_tasks", "tracker_update_task", "tracker_visualize"),
    ),
    rules=frozenset({"run_shell_command"}),
    mcp_tool="mcp_{server}_{tool}",
    mcp_server="mcp_{server}_*",
)

SKIPPED_SETTINGS = "Security Warning: Skipping"
"""How the warning about a settings file begins that Gemini does not read."""

ERRORS = ErrorTable(
    login_hint="set GEMINI_API_KEY, or start `gemini` and choose a login",
    calls=(
        # With a status, the status decides.
        ErrorRow(RateLimited, ("exhausted", "quota"), statuses=(0,)),
    ),
    exits=(
        ErrorRow(NotAuthenticated, statuses=(41,)),
        ErrorRow(ResumeRefused, statuses=(42,)),
        ErrorRow(BudgetExceeded, statuses=(53,)),
        ErrorRow(ProtocolDrift, ("unknown argument", "invalid values")),
        ErrorRow(
            Crashed,
            statuses=(55,),
            hint="the folder is not trusted; see the option trust_project",
        ),
        ErrorRow(
            Crashed, statuses=(52,), hint="repair Gemini's settings, or the settings of this run"
        ),
    ),
    noise=(
        *("Warning:", SKIPPED_SETTINGS, "YOLO mode", "Ripgrep is not available", "[STARTUP]"),
        "at ",
    ),
)


class GeminiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `gemini` runtime."""

    max_retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    """How often Gemini repeats a failed model call; its own default is nine."""
    retry_seconds: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 60.0
    """Longest pause before a retry; a service may ask for minutes."""
    approval_mode: str | None = None
    """Gemini's own mode (`auto_edit`, `plan`, …) in place of what `permission_mode` says."""
    trust_project: bool = False
    """Let the folder's own settings and hooks take effect."""


def _find(name: str) -> Installation | None:
    """The installed Gemini: a script for Node, with no native binary behind it."""
    return find_npm_cli(name, "@google/gemini-cli")


PRODUCT = Product(
    id="gemini",
    binary="gemini",
    find=_find,
    install_hint="npm install -g @google/gemini-cli",
    key_variable="GEMINI_API_KEY",
    dialects=DIALECTS,
    instruction_path="GEMINI.md",
    home_variable="GEMINI_CLI_HOME",
    credentials=Credentials(
        variables=(
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
            "GOOGLE_CLOUD_ACCESS_TOKEN",
        ),
        files=(".gemini/oauth_creds.json",),
        doubtful=(".gemini/settings.json", ".gemini/.env"),
    ),
    routing=routing.GEMINI,
    provider_path="",
    scripted_model=DIALECTS[-1].default_model,
    options_type=GeminiOptions,
    tools=TOOLS,
    errors=ERRORS,
    refused={
        "interactive": ("settings", "mcp_config", "denied_tools", "allowed_tools", "model_server")
    },
    stop=(
        # To the group, in case Gemini restarted itself as a child, which does not get the first
        # process's signals. Tools run in their own groups; the session's mark finds them.
        StopStep(signal=signal.SIGTERM, grace=3.0, to="group"),
        StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
    ),
    # A run shows no thoughts; no mode reports a cost.
    features=Features(
        options=COMMON_OPTIONS
        | {
            "system_prompt",
            "max_turns",
            "allowed_tools",
            "denied_tools",
            "settings",
            "mcp_config",
            "resume",
        },
        interactive=True,
        streaming=True,
        resume=True,
        follow_up=True,
        retries=True,
        drives=("print", "rpc"),
        asks=("rpc",),
        instruction_file="GEMINI.md",
    ),
)
