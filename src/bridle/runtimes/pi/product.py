"""What Pi is: its facts, its versions, its tools, its services and its own options."""

import os
import signal
from collections.abc import Mapping

import msgspec

from bridle.core.errors import (
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
)
from bridle.core.features import Features
from bridle.core.files import home_dir
from bridle.process.spec import StopStep
from bridle.runtimes import routing
from bridle.runtimes.dialects import Dialect, Word
from bridle.runtimes.errors import ErrorRow, ErrorTable
from bridle.runtimes.install import Installation, find_npm_cli
from bridle.runtimes.product import COMMON_OPTIONS, Credentials, Product, ToolTable


class PiDialect(Dialect, frozen=True, kw_only=True):
    """The facts about a version range of Pi that the adapter needs."""

    settles: bool
    """Says by `agent_settled` that nothing more follows. Where it does not, `agent_end` may be
    followed by a retry or a compaction, and only the end of the process closes a turn."""
    session_id_flag: bool
    """Takes `--session-id`, so that Bridle can choose the conversation's id."""
    trust_flags: bool
    """Asks whether a project's own extensions may run (`--approve`, `--no-approve`). Where it does
    not ask, it runs them."""
    deny_flag: bool
    """Takes `--exclude-tools`."""
    end_of_options: bool
    """Takes `--` before a prompt that looks like an option."""
    key_from_variable: str
    """How `apiKey` in models.json names an environment variable, as a format of its name."""
    thinking_levels: tuple[str, ...]
    mcp: bool
    """Connects to the MCP servers of mcp.json in its configuration folder."""
    clears_queue: bool
    """Has a command that empties its message queue (`clear_queue`, rpc)."""
    saves_model: bool
    """Writes a model that is chosen over rpc into settings.json, for all sessions to come."""
    override_file: bool
    """Reads `AGENTS.override.md` in place of `AGENTS.md`."""
    retries: bool = True
    """Reports that a failed model call is made again; otherwise it is repeated silently."""


_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")

_APPROVE = "a project's own extensions run without a question"
_NO_ID = "Pi chooses the id of a conversation"
_NO_RETRIES = "calls that are made again are not reported"
_WORDS = (
    Word("--session-id", "session_id_flag", _NO_ID),
    Word("--no-approve", "trust_flags", _APPROVE),
    Word("--exclude-tools", "deny_flag"),
)

DIALECTS = (
    PiDialect(
        name="pi-0.49",
        since=(0, 49),
        seen=("0.49.3",),
        capture="json-overflow-0.49.3.jsonl",
        settles=False,
        session_id_flag=False,
        trust_flags=False,
        deny_flag=False,
        end_of_options=False,
        key_from_variable="{}",
        thinking_levels=_LEVELS,
        mcp=False,
        clears_queue=False,
        saves_model=True,
        override_file=False,
        retries=False,
        lost=(_NO_RETRIES,),
    ),
    PiDialect(
        name="pi-0.74",
        since=(0, 66),
        seen=("0.74.2",),
        capture="json-tool-0.74.2.jsonl",
        settles=False,
        session_id_flag=False,
        trust_flags=False,
        deny_flag=False,
        end_of_options=False,
        key_from_variable="{}",
        thinking_levels=_LEVELS,
        mcp=False,
        clears_queue=False,
        saves_model=True,
        override_file=False,
    ),
    PiDialect(
        name="pi-0.82",
        since=(0, 75),
        seen=("0.85.1",),
        capture="json-tool-0.85.1.jsonl",
        settles=False,
        session_id_flag=True,
        trust_flags=True,
        deny_flag=True,
        end_of_options=False,
        key_from_variable="{}",
        thinking_levels=_LEVELS,
        mcp=False,
        clears_queue=False,
        saves_model=True,
        override_file=False,
        words=_WORDS,
    ),
    PiDialect(
        name="pi-1.5",
        since=(1, 5),
        seen=("1.5.0",),
        capture="json-tool-1.5.0.jsonl",
        settles=True,
        session_id_flag=True,
        trust_flags=True,
        deny_flag=True,
        end_of_options=True,
        key_from_variable="${{{}}}",
        thinking_levels=(*_LEVELS, "max"),
        mcp=True,
        clears_queue=True,
        saves_model=False,
        override_file=True,
        words=_WORDS,
    ),
)

TOOLS = ToolTable(
    neutral={
        "shell": ("bash",),
        "read_file": ("read",),
        "write_file": ("write",),
        "edit_file": ("edit",),
        "search": ("grep", "find", "ls"),
        "web": (),
        "subagent": (),
    },
    mcp_tool="mcp__{server}__{tool}",
)
DEFAULT_TOOLS = ("read", "bash", "edit", "write")
"""Tools that are on when nothing else is said (seen in requests of both versions)."""

ALIASES = {
    "opus": "claude-opus-4-6",
    "sonnet": "claude-sonnet-4-6",
    "haiku": "claude-haiku-4-5",
}
"""Short names and their models; all three are in the catalogues of both versions. Pi's own matching
of short names differs between versions, so Bridle does not use it."""
DEFAULT_PROVIDER = "anthropic"
KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "zai": ("ZAI_API_KEY",),
    "minimax": ("MINIMAX_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "amazon-bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
}
"""Built-in providers and the variables their keys are read from; the first is the one to set."""
ALL_KEY_VARIABLES = tuple(name for names in KEY_VARIABLES.values() for name in names)
APIS = ("anthropic-messages", "openai-completions", "openai-responses")
"""Wire protocols that a provider of the caller's own may speak."""

SESSION_DIR_VARIABLE = "PI_CODING_AGENT_SESSION_DIR"


class PiOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`provider_options` of the `pi` runtime."""

    thinking: str | None = None
    """Thinking level. Unset: what the model's suffix or the user's settings say, else Pi's own."""
    max_retries: int | None = None
    """How often Pi makes a failed model call again. Unset: the user's settings, else 3."""
    trust_project: bool = False
    """Let the project's own `.pi` folder (settings, extensions, prompts) take effect."""
    api: str | None = None
    """Wire protocol of a provider given with a base address."""
    fork: bool = False
    """With `resume`: continue in a copy of the conversation, under a new id."""


ERRORS = ErrorTable(
    login_hint=(
        "set the provider's key variable (such as ANTHROPIC_API_KEY), or start `pi` and use /login"
    ),
    calls=(
        ErrorRow(RateLimited, ("retry delay",), statuses=(0,)),
        ErrorRow(
            Unavailable,
            ("refused to complete",),
            statuses=(0,),
            hint="the model declined; phrase the request differently",
        ),
    ),
    exits=(
        ErrorRow(NotAuthenticated, ("no api key found", "no models available", "/login")),
        ErrorRow(ResumeRefused, ("no session found", "session working directory does not exist")),
        ErrorRow(ProtocolDrift, ("unknown option", "unknown flag", "requires --")),
        ErrorRow(
            Unavailable,
            (("not found", "model"), ("not found", "provider")),
            hint="Pi knows no model {model}; see `pi --list-models`",
        ),
        ErrorRow(Crashed, ("failed to load extension",), hint="repair or remove that extension"),
        ErrorRow(
            Crashed,
            ("err_unknown_builtin_module", "syntaxerror"),
            hint="Pi 1.5 needs Node 22.19 or newer, Pi 0.74 Node 20.6 or newer",
        ),
    ),
    noise=("Warning:",),
)


def _find(name: str) -> Installation | None:
    """The installed Pi, a script for Node: there is no native binary behind it."""
    return find_npm_cli(name, "@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")


PRODUCT = Product(
    id="pi",
    binary="pi",
    find=_find,
    install_hint="npm install -g @earendil-works/pi-coding-agent",
    key_variable="ANTHROPIC_API_KEY",
    dialects=DIALECTS,
    instruction_path="AGENTS.md",
    home_variable="PI_CODING_AGENT_DIR",
    home=".pi/agent",
    credentials=Credentials(
        variables=ALL_KEY_VARIABLES,
        filled=("auth.json",),
        doubtful=("models.json",),
        suffix="_API_KEY",
    ),
    routing=routing.PI,
    provider_path="",
    scripted_model="lab/scripted",
    options_type=PiOptions,
    tools=TOOLS,
    errors=ERRORS,
    refused={"tmux": ("images",)},
    stop=(
        # SIGTERM ends Pi and its tools (exit 143). SIGINT and SIGKILL leave tools running, in
        # sessions of their own; the holder finds those by the session's mark.
        StopStep(signal=signal.SIGTERM, grace=5.0),
        StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
    ),
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
        streaming=True,
        thinking=True,
        message_usage=True,
        reports_cost=True,
        retries=True,
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


def agent_dir(env: Mapping[str, str]) -> str:
    """The configuration folder of a Pi that gets `env`; Pi expands `~` in the variable."""
    folder = PRODUCT.home_in(env)
    return os.path.abspath(home_dir(env) + folder[1:] if folder.startswith("~/") else folder)
