"""What GitHub's Copilot CLI is: its facts, versions, tools, options and errors."""

import signal
from typing import Literal

import msgspec

from bridle.core.errors import (
    Billing,
    ContextOverflow,
    NotAuthenticated,
    NotInstalled,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
)
from bridle.core.features import Features
from bridle.process.spec import StopStep
from bridle.runtimes import routing
from bridle.runtimes.dialects import Dialect, Word
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import Installation, find_native_cli
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product, ToolTable


class CopilotDialect(Dialect, frozen=True, kw_only=True):
    """One version range of Copilot. A flag that it does not know ends it (exit 1 or 2)."""

    ready_marks: tuple[str, ...]
    """Texts that are all on the terminal when it waits for a prompt."""
    session_flag: str = "--session-id"
    """Chooses the id of a new conversation; where it is empty, only the end of a run names it."""
    usage_flag: str = "--usage-output-file"
    """Names the file for the tokens of a run; where it is empty, only the transcript has them."""
    trust_flag: str = "--trust-folder"
    image_flag: str = "--attachment"
    plugin_flag: str = "--plugin-dir"
    """Gives it the hooks of the guard."""
    idles: bool = True
    """Says by `assistant.idle` that a turn is over; otherwise the last model call's end does."""


_NO_ID = "the id of a conversation is known only at the end of a run, and there is no drive tmux"
_NO_USAGE_FILE = "tokens are read from its transcript, which has none for a run that was killed"
_NO_TRUST = "the option trust_folder is refused, and a guard in drive tmux"
_NO_IMAGES = "images are refused"
_SESSION = Word("--session-id", "session_flag", _NO_ID)
_USAGE = Word("--usage-output-file", "usage_flag", _NO_USAGE_FILE)
_TRUST = Word("--trust-folder", "trust_flag", _NO_TRUST)
_IMAGES = Word("--attachment", "image_flag", _NO_IMAGES)
_PLUGIN = Word("--plugin-dir", "plugin_flag", guard=True)
_READY = ("❯", "/ commands")

DIALECTS = (
    CopilotDialect(
        name="copilot-1.0.11",
        since=(1, 0, 11),
        seen=("1.0.12", "1.0.24"),
        capture="v1.0.24/run.jsonl",
        ready_marks=_READY,
        session_flag="",
        usage_flag="",
        trust_flag="",
        image_flag="",
        idles=False,
        lost=(_NO_ID, _NO_USAGE_FILE, _NO_TRUST, _NO_IMAGES),
        words=(_PLUGIN,),
    ),
    CopilotDialect(
        name="copilot-1.0.41",
        since=(1, 0, 41),
        seen=("1.0.50",),
        capture="v1.0.50/run.jsonl",
        ready_marks=_READY,
        session_flag="",
        usage_flag="",
        trust_flag="",
        idles=False,
        lost=(_NO_ID, _NO_USAGE_FILE, _NO_TRUST),
        words=(_IMAGES, _PLUGIN),
    ),
    CopilotDialect(
        name="copilot-1.0.55",
        since=(1, 0, 55),
        seen=("1.0.60", "1.0.78"),
        capture="v1.0.78/run.jsonl",
        ready_marks=_READY,
        usage_flag="",
        trust_flag="",
        idles=False,
        lost=(_NO_USAGE_FILE, _NO_TRUST),
        words=(_SESSION, _IMAGES, _PLUGIN),
    ),
    CopilotDialect(
        name="copilot-1.0.81",
        since=(1, 0, 81),
        seen=("1.0.102",),
        capture="headless-write.jsonl",
        ready_marks=_READY,
        words=(_SESSION, _USAGE, _TRUST, _IMAGES, _PLUGIN),
    ),
)
"""Before 1.0.11, no model service can be chosen by variables (1.0.6 asks for GitHub's login), so
nothing could be tried.

Traps of 1.0: exit 0 after a refused tool and after SIGTERM; a signal kills the npm launcher and
leaves the native program running; a newer version that was downloaded before runs in place of the
installed one unless updates are off."""

TOOLS = ToolTable(
    neutral={
        "shell": ("bash", "read_bash", "write_bash", "stop_bash", "list_bash", "async_bash"),
        "read_file": ("view", "show_file"),
        "write_file": ("create",),
        "edit_file": ("edit", "str_replace_editor", "apply_patch"),
        "search": ("grep", "glob", "rg"),
        "web": ("web_fetch", "web_search"),
        "subagent": ("task", "read_agent", "list_agents", "write_agent"),
    },
    native=(
        *("ask_user", "exit_plan_mode", "fetch_copilot_cli_documentation", "report_intent"),
        *("session_store_sql", "skill", "sql", "store_memory", "update_todo", "write", "url"),
    ),
    # These rules hold for agents that it starts itself, too.
    denied_too={"shell": ("shell",), "web": ("url",)},
    rules=frozenset({"shell", "write", "url", "read", "memory"}),
    mcp_tool="{server}-{tool}",
)
"""`shell`, `write` and `url` are kinds of permission, not tools."""


class CopilotOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `copilot` runtime."""

    max_retries: int = 3
    """How often a failed model call is retried; Copilot's own limit is five."""
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """The model's reasoning effort."""
    agent: str | None = None
    """A custom agent of the user or of the project."""
    add_dirs: tuple[str, ...] = ()
    """Folders beside the working directory that tools may touch."""
    preapproved_tools: tuple[str, ...] = ()
    """Permission rules (`shell(git:*)`, `write`) that need no permission."""
    trust_folder: bool = False
    """Run the project's own hooks, skills and MCP servers."""
    all_paths: bool = False
    """Let tools touch any path of the machine; otherwise the folder, `add_dirs` and the temporary
    folder."""
    all_urls: bool = False
    """Let tools fetch any address."""
    provider_type: Literal["openai", "azure", "anthropic"] = "openai"
    """What a provider with a base address speaks."""
    wire_api: Literal["completions", "responses"] = "completions"
    """Which of OpenAI's protocols such a provider speaks."""


TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")
"""Variables that hold a GitHub token, in the order in which Copilot looks."""
BASE_URL = "COPILOT_PROVIDER_BASE_URL"
INSTRUCTION_PATH = ".github/copilot-instructions.md"
_INSTALL = "npm install -g @github/copilot"

_ERRORS = ErrorTable(
    login_hint=(
        "start `copilot` and use /login, or set COPILOT_GITHUB_TOKEN; with a provider of your own,"
        " check its key"
    ),
    calls=(
        ErrorRow(Billing, tags=("quota", "billing")),
        ErrorRow(NotAuthenticated, tags=("authentication", "authorization"), statuses=(0,)),
        ErrorRow(ContextOverflow, tags=("context",), statuses=(0,)),
    ),
    exits=(
        ErrorRow(NotAuthenticated, ("no authentication information", "/login")),
        ErrorRow(
            ResumeRefused,
            (
                "no session, task, or name matched",
                *(("session", "not found"), ("session", "already in use")),
            ),
        ),
        ErrorRow(
            NotInstalled, ("no platform package found",), hint=f"install it with `{_INSTALL}`"
        ),
        ErrorRow(Unavailable, ("require an explicit model",), hint="name the model with --model"),
        ErrorRow(
            ProtocolDrift,
            ("unexpected argument", "unknown option", "usage:"),
            hint="this version does not know the flag; see its --help",
        ),
        ErrorRow(
            Unavailable,
            (("model", "not available"), ("model", "not found")),
            hint="choose another model with --model",
        ),
        ErrorRow(RateLimited, ("rate limit",)),
    ),
)


def _find(name: str) -> Installation | None:
    """The native program behind npm's launcher."""
    return find_native_cli(name, "@github/copilot-{platform}/copilot", "@github/copilot")


_PROMPTS = ("append_system_prompt", "append_system_prompt_file")

PRODUCT = Product(
    id="copilot",
    binary="copilot",
    find=_find,
    key_variable=TOKENS[0],
    install_hint=_INSTALL,
    dialects=DIALECTS,
    instruction_path=INSTRUCTION_PATH,
    home_variable="COPILOT_HOME",
    home=".copilot",
    # A key ring may hold the login of a home that exists.
    credentials=Credentials(variables=(*TOKENS, BASE_URL), doubtful=(".",)),
    routing=routing.COPILOT,
    options_type=CopilotOptions,
    list_options=("add_dirs",),
    tools=TOOLS,
    errors=_ERRORS,
    refused={
        "tmux": ("max_turns", "images"),
        "interactive": ("max_turns", "images", "mcp_config", "model_server", *_PROMPTS),
        "spawn": ("system_prompt", *_PROMPTS),
    },
    stop=(
        # SIGTERM ends the turn and its tools; the exit status is then 0.
        StopStep(signal=signal.SIGTERM, grace=4.0),
        StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
    ),
    worktree_hooks="it skips a repository's hooks where the folder is not trusted",
    features=Features(
        options=COMMON_OPTIONS
        | {"max_turns", "allowed_tools", "denied_tools", "mcp_config", "images", "resume"},
        interactive=True,
        streaming=True,
        thinking=True,
        retries=True,
        resume=True,
        follow_up=True,
        abort=True,
        compaction=True,
        drives=("print", "rpc", "tmux"),
        asks=("rpc", "tmux"),
        instruction_file=INSTRUCTION_PATH,
    ),
)
