"""What each known version of Pi accepts and prints: data, with the capture that proves a row."""

from bridle.runtimes.contract import Adapter
from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.product import ToolTable


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
    """Can be told to forget messages that it has queued (`clear_queue`, rpc)."""
    saves_model: bool
    """Writes a model that is chosen over rpc into settings.json, for all sessions to come."""
    override_file: bool
    """Reads `AGENTS.override.md` in place of `AGENTS.md`."""


DEFAULT_TOOLS = ("read", "bash", "edit", "write")
"""Tools that are on when nothing else is said (seen in requests of both versions)."""

_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")

DIALECTS = (
    PiDialect(
        name="pi-0.74",
        since=(0, 73),
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
    ),
)

ALIASES = {
    "opus": "claude-opus-4-6",
    "sonnet": "claude-sonnet-4-6",
    "haiku": "claude-haiku-4-5",
}
"""Short names and the model each stands for; all three are in the catalogues of both versions.
Pi's own matching of short names differs between versions, so it is never relied on."""

DEFAULT_PROVIDER = "anthropic"

SESSION_DIR_VARIABLE = "PI_CODING_AGENT_SESSION_DIR"
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

APIS = ("anthropic-messages", "openai-completions", "openai-responses")
"""Wire protocols that a provider of the caller's own may speak."""

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


def pi_dialect(version: str | None) -> tuple[PiDialect, bool, str]:
    """The dialect of `version`, whether that version was ever run, and a warning if not."""
    return choose_dialect("pi", DIALECTS, version)


def installed_dialect(adapter: Adapter) -> PiDialect:
    """The dialect of the installed version; the newest if none is installed."""
    found = adapter.find()
    return pi_dialect(found.version if found else None)[0]
