"""What each known version of the Copilot CLI accepts and prints: data, with its proof."""

from bridle.runtimes.dialects import Dialect
from bridle.runtimes.product import ToolTable


class CopilotDialect(Dialect, frozen=True, kw_only=True):
    """One line of Copilot. What it does not know is fatal to it (exit 1 or 2)."""

    usage_file: bool
    """Whether `--usage-output-file` writes the tokens, which no line of the wire tells."""
    ready_marks: tuple[str, ...]
    """Texts that all stand on the terminal when it waits for a prompt."""


DIALECTS = (
    CopilotDialect(
        name="copilot-1.0",
        since=(0, 0),
        seen=("1.0.102",),
        capture="headless-write.jsonl",
        usage_file=True,
        ready_marks=("❯", "/ commands"),
    ),
)
"""Traps of this line: exit 0 after a refused tool and after SIGTERM; the npm launcher dies of a
signal and leaves the native program running; a newer version that was downloaded before runs in
place of the installed one unless updates are off."""

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
    # Holds for agents that it starts itself, too.
    denied_too={"shell": ("shell",), "web": ("url",)},
    rules=frozenset({"shell", "write", "url", "read", "memory"}),
    mcp_tool="{server}-{tool}",
)
"""`shell`, `write` and `url` are kinds of permission, not tools."""
