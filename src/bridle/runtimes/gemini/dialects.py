"""What each known version of Gemini CLI accepts and prints: data, with a capture for each row."""

from bridle.runtimes.dialects import Dialect
from bridle.runtimes.product import ToolTable


class GeminiDialect(Dialect, frozen=True, kw_only=True):
    """The facts about a version range of Gemini CLI that the adapter needs."""

    stream_flags: tuple[str, ...]
    trust_flag: str
    """Lets it work in a folder nobody trusted, without running what the folder brings along.
    Without it, it exits 55 there."""
    approval_modes: tuple[str, ...]
    ask_mode: str
    """Mode in which tools that need permission are not offered to the model at all, since nobody
    is there to be asked."""
    bypass_mode: str
    default_model: str
    """Named where neither the caller nor the user's settings name one: without a name each prompt
    costs an extra call that chooses a model."""
    prompt_limit: int
    """Bytes of standard input that are read; the rest is cut off with a warning."""
    exits: tuple[tuple[int, str], ...]
    """Exit statuses of a run that never began, and the kind of error each stands for."""


DIALECTS = (
    GeminiDialect(
        name="gemini-0.61",
        since=(0, 61),
        seen=("0.61.0",),
        capture="headless-write.jsonl",
        stream_flags=("-o", "stream-json"),
        trust_flag="--skip-trust",
        approval_modes=("default", "auto_edit", "yolo", "plan"),
        ask_mode="default",
        bypass_mode="yolo",
        default_model="gemini-2.5-pro",
        prompt_limit=8 * 1024 * 1024,
        exits=(
            (41, "not_authenticated"),
            (42, "resume_refused"),
            (53, "budget_exceeded"),
            (130, "aborted"),
        ),
    ),
)

CREDENTIALS = (
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_ACCESS_TOKEN",
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
