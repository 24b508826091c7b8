"""What the Cline CLI is: its facts, versions, tools, options and errors."""

import signal
from typing import Literal

import msgspec

from bridle.core.errors import (
    Aborted,
    BudgetExceeded,
    ContextOverflow,
    Crashed,
    GuardRefused,
    NotAuthenticated,
    NotInstalled,
    ProtocolDrift,
)
from bridle.core.features import Features
from bridle.process.spec import StopStep
from bridle.runtimes import routing
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import Installation, find_native_cli
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product, ToolTable


class ClineDialect(Dialect, frozen=True, kw_only=True):
    """One version range of Cline."""

    local_backend: tuple[str, str]
    """Variable and value that keep the work in the process that was started. Without it Cline
    starts a daemon that outlives every run and works in the environment of the first."""
    bare_prompt: str
    """The prompt argument with which the real prompt comes by stdin alone. An argument without
    white space is refused as an unknown command, a missing one as a missing prompt."""
    ready_marks: tuple[str, ...]
    """Texts of which one is at the prompt of an idle terminal."""
    added_rules: bool = True
    """Reads rules from a folder that a variable names; otherwise nothing can be added to the system
    prompt of one run."""


_READY = ("❯ What can I do for you?", "❯ Ask anything...")
_LOCAL = ("CLINE_SESSION_BACKEND_MODE", "local")

DIALECTS = (
    ClineDialect(
        name="cline-3.0.57",
        since=(3,),
        seen=("3.0.57",),
        capture="v3.0.57/run.jsonl",
        local_backend=_LOCAL,
        bare_prompt=" ",
        ready_marks=_READY,
        added_rules=False,
    ),
    ClineDialect(
        name="cline-3",
        since=(3, 0, 64),
        seen=("3.0.65",),
        capture="headless-write.jsonl",
        local_backend=_LOCAL,
        bare_prompt=" ",
        ready_marks=_READY,
    ),
)
"""Traps of 3: exit 0 after an aborted run, a refused tool and SIGTERM; `--id` does not resume a
headless run; each run writes its provider and model into the user's settings."""

_WRITING = ("editor", "apply_patch", "write_to_file", "replace_in_file")
"""Which of them a model gets depends on the model; each both creates and changes files."""

TOOLS = ToolTable(
    neutral={
        "shell": ("run_commands", "execute_command"),
        "read_file": ("read_files", "read_file"),
        "write_file": _WRITING,
        "edit_file": _WRITING,
        "search": ("search_codebase", "search_files", "list_files", "list_code_definition_names"),
        "web": ("fetch_web_content", "web_search"),
        "subagent": (
            *("spawn_agent", "use_subagents", "team_spawn_teammate", "team_task"),
            "team_run_task",
        ),
    },
    native=(
        *("ask_question", "ask_followup_question", "attempt_completion", "new_task", "skills"),
        *("submit_and_exit", "team_attach_outcome_fragment", "team_await_runs", "team_broadcast"),
        *("team_cancel_run", "team_cleanup", "team_create_outcome", "team_finalize_outcome"),
        *("team_list_outcomes", "team_list_runs", "team_mission_log", "team_read_mailbox"),
        *("team_review_outcome_fragment", "team_send_message", "team_shutdown_teammate"),
        "team_status",
    ),
    mcp_tool="{server}__{tool}",
)


class ClineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `cline` runtime."""

    provider: str | None = None
    """Which of the providers that Cline knows serves the model; by default the last used."""
    api: Literal["openai-compatible", "anthropic", "openai-native"] = "openai-compatible"
    """What a provider with a base address speaks, by Cline's name for it."""
    thinking: Literal["none", "low", "medium", "high", "xhigh"] | None = None
    """The model's reasoning effort."""
    compaction: Literal["agentic", "basic", "off"] | None = None
    """How the conversation is shortened when it grows too long."""
    plan: bool = False
    """Plan only: nothing is changed."""


_INSTALL = "npm install -g cline"

_ERRORS = ErrorTable(
    login_hint="log in with `cline auth`, or give a provider and its key",
    calls=(
        ErrorRow(ContextOverflow, tags=("context_window_exceeded",)),
        ErrorRow(NotAuthenticated, tags=("auth",), statuses=(0,)),
    ),
    exits=(
        ErrorRow(
            ProtocolDrift,
            ("unknown option", "invalid ", "json output mode"),
            hint="this version does not know the flag; see its --help",
        ),
        ErrorRow(
            NotInstalled,
            ("could not find the cline cli binary",),
            hint=f"install it with `{_INSTALL}`",
        ),
        ErrorRow(NotAuthenticated, ("api key", "cline auth", "log in")),
    ),
)

ENDS = ErrorTable(
    calls=(
        ErrorRow(Aborted, tags=("aborted",), message="the agent's work was aborted"),
        ErrorRow(
            BudgetExceeded,
            tags=("max_iterations", "max_turns"),
            message="cline reached its own limit of model calls",
        ),
        ErrorRow(
            ContextOverflow,
            tags=("max_tokens", "length"),
            message="the answer was cut at the model's output limit",
        ),
        # The only other client of a run in its own process is a hook of the project or the user.
        ErrorRow(
            GuardRefused,
            tags=("external_abort",),
            message="a hook ended the run: {text}",
            hint="look at the hooks in .clinerules/hooks",
        ),
        ErrorRow(Crashed, message="cline ended its work for {text}"),
    ),
)
"""Why a run ended that did not complete, by its finish reason."""


def _find(name: str) -> Installation | None:
    """The native program behind npm's launcher."""
    return find_native_cli(name, "@cline/cli-{platform}/bin/cline", "@cline/cli", "cline")


_PROMPTS = ("append_system_prompt", "append_system_prompt_file")

PRODUCT = Product(
    id="cline",
    binary="cline",
    find=_find,
    key_variable="CLINE_API_KEY",
    install_hint=_INSTALL,
    dialects=DIALECTS,
    instruction_path="AGENTS.md",
    home_variable="CLINE_DIR",
    home=".cline",
    credentials=Credentials(variables=("CLINE_API_KEY",)),
    routing=routing.CLINE,
    options_type=ClineOptions,
    tools=TOOLS,
    errors=_ERRORS,
    refused={
        "interactive": (
            *("max_turns", "images", "model_server", *_PROMPTS, "provider", "settings"),
            *("denied_tools", "mcp_config", "budget_usd"),
        ),
        "spawn": _PROMPTS,
    },
    stop=(
        # SIGTERM ends the run with a closing line; SIGINT ends the process without a word.
        StopStep(signal=signal.SIGTERM, grace=2.5),
        StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
    ),
    features=Features(
        options=COMMON_OPTIONS
        | {"system_prompt", "max_turns", "denied_tools", "settings", "mcp_config", "images"}
        | {"budget_usd"},
        interactive=True,
        streaming=True,
        thinking=True,
        message_usage=True,
        reports_cost=True,
        abort=True,
        compaction=True,
        drives=("print", "rpc"),
        asks=("rpc",),
        instruction_file="AGENTS.md",
    ),
)
