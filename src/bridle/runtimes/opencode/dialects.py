"""What each known version of OpenCode accepts and prints: data, with a capture for each row."""

from bridle.runtimes.dialects import Dialect
from bridle.runtimes.product import ToolTable


class OpenCodeDialect(Dialect, frozen=True, kw_only=True):
    """The facts about a version range of OpenCode that the adapter needs."""

    json_flags: tuple[str, ...]
    """Make `run` print one JSON object for each finished part, thinking included."""
    log_flags: tuple[str, ...]
    """Bring failed model calls to standard error. Without them a call that is tried again for ever
    leaves no trace on either stream."""
    prompt_title_flag: str
    """Names a new session after its prompt; without it each session begins with an extra model
    call for a title."""
    fork_flag: str
    """Beside the id of a session: go on in a copy of it."""
    approve_flag: str
    """Turns permission questions into permissions. Without it `run` refuses each and ends."""
    harmless_tools: tuple[str, ...]
    """Tools that only look; the ones that an agent keeps when nobody is there to be asked."""
    rejected_text: str
    """How the error of a tool begins whose permission question was refused."""
    rule_text: str
    """How the error of a tool begins that a rule forbids."""


DIALECTS = (
    OpenCodeDialect(
        name="opencode-1.18",
        since=(1, 18),
        seen=("1.18.33",),
        capture="run-write.jsonl",
        json_flags=("--format", "json", "--thinking"),
        log_flags=("--print-logs", "--log-level", "ERROR"),
        prompt_title_flag="--title=",
        fork_flag="--fork",
        approve_flag="--auto",
        harmless_tools=("read", "glob", "grep", "list", "lsp", "skill", "todoread", "todowrite"),
        rejected_text="The user rejected permission",
        rule_text="The user has specified a rule which prevents",
    ),
)

ALIASES = {
    "opus": "anthropic/claude-opus-4-6",
    "sonnet": "anthropic/claude-sonnet-4-6",
    "haiku": "anthropic/claude-haiku-4-5",
}
"""Short names and the model each stands for; OpenCode itself knows none."""

APIS = {
    "openai-compatible": "@ai-sdk/openai-compatible",
    "openai": "@ai-sdk/openai",
    "anthropic": "@ai-sdk/anthropic",
}
"""Wire protocols that a provider of the caller's own may speak, and OpenCode's package for each;
all are part of its binary."""

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
"""Providers OpenCode knows by itself, and the variable it reads each one's key from."""

_WRITING = ("write", "edit", "multiedit", "patch", "apply_patch")
"""One permission of OpenCode's covers all of these: none is switched alone."""

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
