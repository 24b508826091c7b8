"""What each version range of Claude Code accepts and prints, with a capture for each row."""

from bridle.runtimes.dialects import Dialect
from bridle.runtimes.product import ToolTable


class ClaudeDialect(Dialect, frozen=True, kw_only=True):
    """Facts about a version range that the adapter or its documentation needs."""

    default_mode: str
    """Word for "ask before acting" that every version in the range takes."""
    known_models: frozenset[str]
    """Models that have a price, where the wire does not say so itself (see `pricing`)."""
    reads_agents_md: bool
    """Whether AGENTS.md is read when there is no CLAUDE.md."""
    drops_output_at_exit: bool
    """Whether it leaves, once its input has ended, without waiting until a long last line was
    read. Its input is then kept open until the result is there."""
    blocks_when_hook_dies: bool
    """Whether a hook with `onFailure: block` that is killed, or late, stops the tool."""
    hidden_flags: frozenset[str]
    """Flags that it takes but leaves out of its help."""


_NAMED = (
    "3-haiku 3-opus 3-sonnet 3-5-haiku 3-5-sonnet 3-7-sonnet haiku-4-5 opus-4 opus-4-0 opus-4-1 "
    "opus-4-5 opus-4-6 opus-4-7 opus-4-8 sonnet-4 sonnet-4-0 sonnet-4-5 sonnet-4-6 sonnet-5"
)
_HIDDEN = frozenset({"--max-turns", "--system-prompt-file", "--append-system-prompt-file"})

CLAUDE_DIALECTS = (
    ClaudeDialect(
        name="claude-2.1",
        since=(2, 1, 0),
        seen=("2.1.197",),
        capture="stream/partial_messages.jsonl",
        default_mode="default",
        known_models=frozenset(f"claude-{name}" for name in _NAMED.split()),
        reads_agents_md=False,
        drops_output_at_exit=True,
        blocks_when_hook_dies=False,
        hidden_flags=_HIDDEN | {"--permission-prompt-tool"},
    ),
    ClaudeDialect(
        name="claude-2.1.325",
        since=(2, 1, 325),
        seen=("2.1.325",),
        capture="v2.1.325/success_tool.jsonl",
        default_mode="default",
        known_models=frozenset(),
        reads_agents_md=True,
        drops_output_at_exit=False,
        blocks_when_hook_dies=True,
        hidden_flags=_HIDDEN,
    ),
)
"""Traps of 2.1.197: a failed model call ends in subtype success with `is_error` true; a cut
stream is tried again without streaming, and `result.usage` is then zero; SIGTERM, SIGHUP and
SIGKILL orphan the running shell tool, SIGINT cleans up; a custom model is priced like the
default Opus; a last line of more than a pipe holds is cut off when its input has ended.

Traps of 2.1.325: `result` has its type in the middle of the line; sub-agents run in the
background, so there are two results; `modelUsage` of a resumed conversation includes the
processes before; a cut stream is closed with `message_stop`, then tried again as a new message;
a shell command that begins with a long sleep is refused by the tool itself."""

TOOLS = ToolTable(
    neutral={
        "shell": ("Bash", "BashOutput", "KillShell", "Monitor", "PowerShell"),
        "read_file": ("Read", "NotebookRead"),
        "write_file": ("Write",),
        "edit_file": ("Edit", "MultiEdit", "NotebookEdit"),
        "search": ("Glob", "Grep", "LS"),
        "web": ("WebFetch", "WebSearch"),
        "subagent": ("Agent", "Task", "Workflow"),
    },
    native=(
        *("AskUserQuestion", "CronCreate", "CronDelete", "CronList", "EnterPlanMode"),
        *("EnterWorktree", "ExitPlanMode", "ExitWorktree", "KillBash", "LSP", "ListAgents"),
        *("ListMcpResourcesTool", "PushNotification", "ReadMcpResourceTool", "RemoteTrigger"),
        *("ReportFindings", "ScheduleWakeup", "SendMessage", "Skill", "SlashCommand"),
        *("StructuredOutput", "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop"),
        *("TaskUpdate", "TeamCreate", "TeamDelete", "TodoRead", "TodoWrite", "ToolSearch"),
    ),
    rules=frozenset(
        ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "NotebookEdit", "WebFetch", "WebSearch")
    )
    | frozenset(("Agent", "Task", "Skill", "SlashCommand", "PowerShell", "Monitor")),
    mcp_tool="mcp__{server}__{tool}",
    mcp_server="mcp__{server}",
)
"""A session lists some of them only while another is off: `Glob` and `Grep` without `Bash`."""
