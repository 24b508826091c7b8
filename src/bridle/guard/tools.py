"""Native tool names of all runtimes, and what each tool does.

The Agent Client Protocol has kinds of calls instead of tool names; they are in the table as names.
One table: a tool's name to a neutral action and the fields that decide. Names are looked up as the
runtime sends them; some runtimes share a name, and then share the action too.
"""

import re
from typing import Literal

import msgspec

from bridle.guard.shell.values import names

Action = Literal[
    "read", "write", "patch", "shell", "typed", "team", "interactive", "editor", "batch",
    "schedule", "foreign",
]  # fmt: skip
"""`read` changes nothing; `write` changes files named by `paths`; `patch` those its text names;
`shell` runs a command; `typed` types into a running shell; `editor` writes unless its action only
views; `batch` holds other calls; the rest are refused."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """What one tool does."""

    action: Action
    paths: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    """Fields that hold the command, typed text or patch."""


_FILE = ("file_path", "path", "filePath", "filepath", "notebook_path", "target_file", "filename",
         "absolute_path")  # fmt: skip
_READ = Tool(action="read")
_WRITE = Tool(action="write", paths=_FILE)
_SHELL = Tool(action="shell", text=("command", "cmd", "commands", "script"))
_PATCH = Tool(action="patch", text=("input", "patchText", "patch", "command", "diff", "content"))
_TEAM = Tool(action="team")
_HUMAN = Tool(action="interactive")
_MOVE = Tool(
    action="write",
    paths=("source", "destination", "old_path", "new_path", "oldPath", "newPath", "from", "to",
           "path", "source_path", "destination_path"),
)  # fmt: skip

_COPY = Tool(
    action="write", paths=("destination", "new_path", "newPath", "to", "destination_path", "target")
)
"""The source of a copy is only read."""

TOOLS: dict[str, Tool] = {}


def _add(tool: Tool, names: str) -> None:
    for name in names.split():
        TOOLS[name] = tool


# Tools whose names do not promise to read (`only_reads`) but which change no file; and the kinds of
# the Agent Client Protocol, whose arguments may not be known.
_add(
    _READ,
    """
    NotebookRead TodoRead WebFetch WebSearch ToolSearch CronList web_fetch google_web_search
    cli_help web_search tool_search
    LS TodoWrite BashOutput ExitPlanMode ReportFindings Skill SlashCommand LSP StructuredOutput
    ScheduleWakeup PushNotification
    ls codesearch webfetch websearch todowrite todoread skill lsp invalid plan_exit
    write_todos exit_plan_mode activate_skill complete_task update_topic
    tracker_create_task tracker_update_task tracker_get_task tracker_list_tasks
    tracker_add_dependency tracker_visualize
    report_intent update_todo session_store_sql sql
    update_plan create_goal update_goal
    skills attempt_completion submit_and_exit access_mcp_resource load_mcp_documentation
    terminal/output terminal/release terminal/kill KillShell KillBash stop_bash kill_shell
    read search fetch think
    """,
)
_add(
    _WRITE,
    """
    Write Edit MultiEdit NotebookEdit
    write edit multiedit
    write_file replace edit_file create_file delete_file create_directory insert_edit_into_file
    create
    write_to_file replace_in_file insert_content search_and_replace new_rule
    fs/write_text_file
    delete
    """,
)
_add(_MOVE, "move_file rename_file move rename")
_add(_COPY, "copy_file copy")
_add(
    _SHELL,
    """
    Bash Monitor
    bash shell
    run_shell_command
    async_bash local_shell
    shell_command exec_command container.exec unified_exec user_shell
    run_commands execute_command run_command terminal/create run_terminal_cmd
    execute
    """,
)
_add(
    Tool(action="typed", text=("chars", "input", "text", "data", "keys")),
    "write_stdin write_bash write_powershell send_keys",
)
_add(_PATCH, "apply_patch patch applypatch")
_add(
    Tool(action="editor", paths=("path", "file_path"), text=("command",)),
    "str_replace_editor str_replace_based_edit_tool editor",
)
_add(Tool(action="batch", text=("tool_calls", "calls", "invocations")), "batch parallel "
     "multi_tool_use.parallel")  # fmt: skip
# Beside these, every name with a word of `_TEAM_WORDS`.
_add(
    _TEAM,
    """
    SendMessage Workflow RemoteTrigger send_input send_message followup_task codebase_investigator
    generalist new_task
    """,
)
_TEAM_WORDS = names("agent agents subagent subagents team teammate")
_add(
    _HUMAN,
    """
    AskUserQuestion EnterPlanMode EnterWorktree ExitWorktree
    request_user_input request_permissions
    ask_user enter_plan_mode
    ask_question ask_followup_question plan_mode_respond question plan_enter
    """,
)
_add(Tool(action="schedule"), "CronCreate CronDelete save_memory store_memory")  # fmt: skip
_add(Tool(action="foreign"), "PowerShell powershell write_powershell")

READING_VERBS = names("""
    read get list search find query fetch view show describe browse lookup inspect stat check count
    explain status diff log logs blame grep glob tree info help ping echo say resolve compare
    summarize analyze preview snapshot navigate screenshot wait
    """)
"""Words in an unknown tool's name that promise to change nothing."""

CHANGING_VERBS = names("""
    write create delete remove update set add put push commit move rename edit insert run exec
    execute eval send post publish upload install click type fill press drag drop apply patch merge
    close open start stop kill restart reset clear append replace save import call invoke mark
    toggle enable disable submit approve reject assign archive restore sync trigger deploy build
    cancel schedule register subscribe convert generate export download switch checkout fork clone
    rebase revert stash tag grant revoke share invite lock unlock pin unpin change modify fix
    """)
"""Words that rule out this promise, whatever the name ends in."""

_CHANGES_LAST = names("write remove delete append execute insert replace edit save rename modify")
"""Verbs at the end of a name that begins with a noun or a reading word: `log_append`."""
_CHANGES_NEXT = {
    "search": names("replace"), "find": names("replace"), "read": names("write modify"),
    "status": names("update set"), "log": names("write append clear"),
    "resolve": names("conflict conflicts merge thread"),
}  # fmt: skip
"""Second words that make a name with a reading first word mean a change."""

PATH_FIELDS = names("""
    path file_path filepath filename file absolute_path target_file notebook_path destination dest
    source output output_path outputpath directory dir folder paths files old_path new_path target
    out outfile out_file save_path savepath
    """)
COMMAND_FIELDS = names(
    "command cmd commands script shell shell_command bash exec args argv program code"
)
CWD_FIELDS = ("cwd", "workdir", "dir_path", "directory", "working_directory", "workingDirectory")


def lookup(name: str) -> Tool | None:
    """The tool of this native name; MCP spellings map to a file tool of the same name. None for a
    tool that is judged by its name and arguments."""
    tool = TOOLS.get(name)
    if tool is not None:
        return tool
    tail = mcp_tail(name)
    if tail is None:
        words = _words(name)
        return _TEAM if words[0] == "task" or _TEAM_WORDS.intersection(words) else None
    found = TOOLS.get(tail)
    if found is not None and found.action in ("write", "read", "shell", "patch", "editor"):
        return found
    return None


def mcp_tail(name: str) -> str | None:
    """The tool's own name in `mcp__server__tool`, `mcp.server.tool` or `server/tool`."""
    if name.startswith("mcp__"):
        return name.split("__", 2)[-1]
    for separator in ("__", "/", ".", ":"):
        if separator in name:
            return name.rsplit(separator, 1)[-1]
    return None


def only_reads(name: str) -> bool:
    """Whether a tool's own name promises to change nothing.

    By its first word; a name of an MCP server, whose tools often begin with the thing they are
    about (`git_status`), also by its last, unless another word means a change.
    """
    tail = mcp_tail(name)
    words = _words(tail or name)
    for joint in ("and", "or"):
        if joint in words and CHANGING_VERBS.intersection(words[words.index(joint) :]):
            return False
    if words[1:] and (words[-1] in _CHANGES_LAST or words[1] in _CHANGES_NEXT.get(words[0], ())):
        return False
    if words[0] in READING_VERBS:
        return True
    if tail is None or CHANGING_VERBS.intersection(words):
        return False
    return words[-1] in READING_VERBS


def name_words(name: str) -> list[str]:
    """All words of a tool's name in order, including its server's."""
    return _words(name.replace("/", "_").replace(".", "_").replace(":", "_"))


def words_of(name: str) -> frozenset[str]:
    """All words of a tool's name as a set."""
    return frozenset(name_words(name))


_CAMEL = re.compile(r"(?<=[^A-Z_\- ])(?=[A-Z])")


def _words(tail: str) -> list[str]:
    """The words of a name in snake, kebab or camel case, in lower case."""
    parted = _CAMEL.sub(" ", tail)
    return [word.lower() for word in re.split(r"[_\- ]", parted) if word] or [""]


# --- the files that a patch changes: in Codex's `*** Begin Patch` form, or a unified diff --------

_HEADERS = (
    ("*** Add File: ", False),
    ("*** Update File: ", False),
    ("*** Delete File: ", True),
    ("*** Move to: ", False),
    ("*** Move File: ", True),
)


def patch_paths(text: str) -> list[tuple[str, bool]]:
    """Each path the patch names, with whether the file is removed there.

    An added or removed line (`+`, `-`) that looks like a header is content. Spaces before a header
    do not hide it: the real parser trims them. Unified diffs are read by their file lines.
    """
    found: list[tuple[str, bool]] = []
    envelope = "*** Begin Patch" in text
    for line in text.splitlines():
        stripped = line.strip() if line[:1] not in ("+", "-") else ""
        for header, gone in _HEADERS:
            if stripped.startswith(header):
                path = stripped[len(header) :].strip()
                found.append((path, gone))
        if not envelope and line.startswith(("+++ ", "--- ")):
            path = line[4:].split("\t")[0].strip()
            if path != "/dev/null":
                found.append((path[2:] if path[:2] in ("a/", "b/") else path, False))
    return found


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMES = ("--- ", "+++ ", "rename from ", "rename to ", "copy to ")


def diff_paths(text: str, strip: int | None) -> list[str]:
    """The paths that a unified diff changes, without their first `strip` components; None keeps
    only the last one, as patch does by default. Lines of a hunk are content, whatever they look
    like.
    """
    found: dict[str, None] = {}
    old = new = 0
    for line in text.splitlines():
        if old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            continue
        hunk = _HUNK.match(line)
        if hunk is not None:
            old, new = (int(n) if n is not None else 1 for n in hunk.groups())
            continue
        name = next((n for n in _NAMES if line.startswith(n)), None)
        if name is None:
            continue
        path = line[len(name) :].split("\t")[0].strip().strip('"')
        if path == "/dev/null":
            continue
        # Each run of slashes ends a component, the one at the start too.
        parts = re.sub(r"/+", "/", path).split("/")
        cut = strip if name[0] in "-+" else max((strip or 0) - 1, 0)
        found["/".join(parts[-1:] if cut is None else parts[cut:]) or path] = None
    return list(found)
