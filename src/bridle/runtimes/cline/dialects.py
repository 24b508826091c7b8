"""What each known version of the Cline CLI accepts and prints: data, with its proof."""

from bridle.runtimes.dialects import Dialect
from bridle.runtimes.product import ToolTable


class ClineDialect(Dialect, frozen=True, kw_only=True):
    """One line of Cline."""

    local_backend: tuple[str, str]
    """Variable and value that keep the work in the process that was started. Without it a daemon
    is started that outlives every run and does the work in the environment of the first."""
    bare_prompt: str
    """The prompt argument that lets the real prompt come by stdin alone. One without any white
    space is refused as an unknown command, none at all as a missing prompt."""
    ready_marks: tuple[str, ...]
    """Texts of which one stands at the prompt of an idle terminal."""


DIALECTS = (
    ClineDialect(
        name="cline-3",
        since=(0, 0),
        seen=("3.0.65",),
        capture="headless-write.jsonl",
        local_backend=("CLINE_SESSION_BACKEND_MODE", "local"),
        bare_prompt=" ",
        ready_marks=("❯ What can I do for you?", "❯ Ask anything..."),
    ),
)
"""Traps of this line: exit 0 after an aborted run, a refused tool and SIGTERM; `--id` does not
resume a headless run; each run writes its provider and model into the user's settings."""

_WRITING = ("editor", "apply_patch", "write_to_file", "replace_in_file")
"""Which of them a model is offered depends on the model; each both creates and changes files."""

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
