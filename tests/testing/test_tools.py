"""Neutral tool calls become calls of the tools that are offered."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.testing.patches import write_command
from bridle.testing.script import ToolCall
from bridle.testing.tools import UntranslatableError, translate
from bridle.testing.wire.base import NativeCall, OfferedTool

TEXT = {"type": "string"}


def tool(name: str, required: str = "", optional: str = "", **shapes: Any) -> OfferedTool:
    names = [*required.split(), *optional.split()]
    properties = {each: shapes.get(each, TEXT) for each in names}
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return OfferedTool(name=name, schema=schema)


def custom(name: str, description: str = "") -> OfferedTool:
    return OfferedTool(name=name, kind="custom", description=description)


SHELL = ToolCall(name="shell", args={"command": "ls -l"})
READ = ToolCall(name="read_file", args={"path": "a.txt"})
WRITE = ToolCall(name="write_file", args={"path": "d/a.txt", "content": "x\ny\n"})
EDIT = ToolCall(name="edit_file", args={"path": "a.txt", "old": "x\n", "new": "z\n"})

EDITS = {
    "type": "array",
    "items": {"type": "object", "properties": {"oldText": TEXT, "newText": TEXT}},
}
CLAUDE = [
    tool("Bash", "command", "timeout description"),
    tool("Edit", "file_path old_string new_string", "replace_all"),
    tool("Read", "file_path", "offset limit"),
    tool("Write", "file_path content"),
]
PI = [
    tool("read", "path", "offset limit"),
    tool("bash", "command", "timeout"),
    tool("edit", "path edits", edits=EDITS),
    tool("write", "path content"),
]
OPENCODE = [
    tool("bash", "command description", "timeout workdir"),
    tool("edit", "filePath oldString newString", "replaceAll"),
    tool("read", "filePath"),
    tool("write", "content filePath"),
]
GEMINI = [
    tool("run_shell_command", "command", "description is_background"),
    tool("read_file", "file_path"),
    tool("write_file", "file_path content"),
    tool("replace", "file_path instruction old_string new_string"),
]
COPILOT = [
    tool("bash", "command description", "mode"),
    tool("view", "path", "view_range"),
    tool("create", "path file_text"),
    tool("edit", "path old_str new_str"),
]
CLINE = [
    tool("run_commands", "commands", commands={"type": "array", "items": TEXT}),
    tool("read_files", "files", files={"type": "array", "items": {"properties": {"path": TEXT}}}),
    tool("editor", "path new_text", "old_text insert_line"),
]
ALL_IN_ONE = [
    tool("bash", "command"),
    tool(
        "str_replace_editor",
        "command path",
        "file_text old_str new_str",
        command={"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
    ),
]

TABLE: list[tuple[list[OfferedTool], ToolCall, str, dict[str, Any]]] = [
    (CLAUDE, SHELL, "Bash", {"command": "ls -l"}),
    (CLAUDE, READ, "Read", {"file_path": "a.txt"}),
    (CLAUDE, WRITE, "Write", {"file_path": "d/a.txt", "content": "x\ny\n"}),
    (CLAUDE, EDIT, "Edit", {"file_path": "a.txt", "old_string": "x\n", "new_string": "z\n"}),
    (PI, SHELL, "bash", {"command": "ls -l"}),
    (PI, READ, "read", {"path": "a.txt"}),
    (PI, WRITE, "write", {"path": "d/a.txt", "content": "x\ny\n"}),
    (PI, EDIT, "edit", {"path": "a.txt", "edits": [{"oldText": "x\n", "newText": "z\n"}]}),
    (OPENCODE, SHELL, "bash", {"command": "ls -l", "description": "A scripted call."}),
    (OPENCODE, READ, "read", {"filePath": "a.txt"}),
    (OPENCODE, WRITE, "write", {"filePath": "d/a.txt", "content": "x\ny\n"}),
    (OPENCODE, EDIT, "edit", {"filePath": "a.txt", "oldString": "x\n", "newString": "z\n"}),
    (GEMINI, SHELL, "run_shell_command", {"command": "ls -l"}),
    (GEMINI, READ, "read_file", {"file_path": "a.txt"}),
    (GEMINI, WRITE, "write_file", {"file_path": "d/a.txt", "content": "x\ny\n"}),
    (
        GEMINI,
        EDIT,
        "replace",
        {"file_path": "a.txt", "old_string": "x\n", "new_string": "z\n", "instruction": ""},
    ),
    (COPILOT, SHELL, "bash", {"command": "ls -l", "description": "A scripted call."}),
    (COPILOT, READ, "view", {"path": "a.txt"}),
    (COPILOT, WRITE, "create", {"path": "d/a.txt", "file_text": "x\ny\n"}),
    (COPILOT, EDIT, "edit", {"path": "a.txt", "old_str": "x\n", "new_str": "z\n"}),
    (CLINE, SHELL, "run_commands", {"commands": ["ls -l"]}),
    (CLINE, READ, "read_files", {"files": [{"path": "a.txt"}]}),
    (CLINE, WRITE, "editor", {"path": "d/a.txt", "new_text": "x\ny\n"}),
    (CLINE, EDIT, "editor", {"path": "a.txt", "old_text": "x\n", "new_text": "z\n"}),
    (ALL_IN_ONE, READ, "str_replace_editor", {"command": "view", "path": "a.txt"}),
    (
        ALL_IN_ONE,
        WRITE,
        "str_replace_editor",
        {"command": "create", "path": "d/a.txt", "file_text": "x\ny\n"},
    ),
    (
        ALL_IN_ONE,
        EDIT,
        "str_replace_editor",
        {"command": "str_replace", "path": "a.txt", "old_str": "x\n", "new_str": "z\n"},
    ),
]


@pytest.mark.parametrize(("offered", "call", "name", "args"), TABLE)
def test_known_agents(
    offered: list[OfferedTool], call: ToolCall, name: str, args: dict[str, Any]
) -> None:
    assert translate(call, offered) == NativeCall(name=name, args=args)


ADD = "*** Begin Patch\n*** Add File: d/a.txt\n+x\n+y\n*** End Patch\n"
UPDATE = "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+z\n*** End Patch\n"
EXEC = tool("exec_command", "cmd", "login workdir")


def test_codex_shells() -> None:
    assert translate(SHELL, [EXEC]).args == {"cmd": "ls -l"}
    vector = tool("shell", "command", command={"type": "array", "items": TEXT})
    assert translate(SHELL, [vector]).args == {"command": ["bash", "-lc", "ls -l"]}
    assert translate(SHELL, [tool("shell_command", "command")]).args == {"command": "ls -l"}
    local = translate(SHELL, [OfferedTool(name="local_shell", kind="local_shell")])
    assert local.kind == "local_shell"
    assert local.args["command"] == ["bash", "-lc", "ls -l"]


def test_codex_patches_as_a_custom_tool() -> None:
    offered = [EXEC, tool("write_stdin", "session_id"), custom("apply_patch")]
    assert translate(WRITE, offered) == NativeCall(name="apply_patch", kind="custom", text=ADD)
    assert translate(EDIT, offered).text == UPDATE
    assert translate(READ, offered).args == {"cmd": "cat a.txt"}


def test_codex_patches_as_a_function() -> None:
    offered = [EXEC, tool("apply_patch", "input")]
    assert translate(WRITE, offered) == NativeCall(name="apply_patch", args={"input": ADD})


def test_codex_patches_through_the_shell() -> None:
    command = translate(EDIT, [EXEC]).args["cmd"]
    assert command == f"apply_patch <<'EOF'\n{UPDATE}EOF\n"


def test_a_content_no_patch_can_make_is_written_by_the_shell() -> None:
    call = ToolCall(name="write_file", args={"path": "a.txt", "content": "no newline"})
    native = translate(call, [EXEC, custom("apply_patch")])
    assert native.args == {"cmd": "printf %s 'no newline' > a.txt"}


CODE = custom("exec", "Run code: `await tools.exec_command(...)`\n{ apply_patch(input: string)")


def test_code_mode() -> None:
    offered = [OfferedTool(name="wait"), CODE]
    shell = translate(SHELL, offered)
    assert shell == NativeCall(
        name="exec", kind="custom", text='text(await tools.exec_command({"cmd": "ls -l"}));\n'
    )
    assert translate(WRITE, offered).text.startswith('text(await tools.apply_patch("*** Begin')
    native = ToolCall(name="apply_patch", args={"input": "P"})
    assert translate(native, offered).text == 'text(await tools.apply_patch("P"));\n'


def test_a_tool_of_unknown_name_is_found_by_its_schema() -> None:
    assert translate(SHELL, [tool("my_terminal", "cmd")]).args == {"cmd": "ls -l"}
    offered = [tool("create_goal", "objective"), tool("file_writer_v2", "path contents")]
    assert translate(WRITE, offered).name == "file_writer_v2"


def test_required_arguments_get_harmless_values() -> None:
    shapes: dict[str, Any] = {
        "is_background": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["sync", "async"]},
        "wait": {"type": "integer", "minimum": 5},
        "names": {"type": ["null", "array"]},
        "level": {"type": "string", "default": "low"},
    }
    offered = tool("bash", "command is_background mode wait names level", **shapes)
    assert translate(SHELL, [offered]).args == {
        "command": "ls -l",
        "is_background": False,
        "mode": "sync",
        "wait": 5,
        "names": [],
        "level": "low",
    }


def test_a_required_limit_of_time_is_generous() -> None:
    shapes: dict[str, Any] = {
        "timeout": {"type": "number", "description": "Timeout in seconds"},
        "timeout_ms": {"type": "integer", "minimum": 1},
        "yield_timeout": {"type": "number", "description": "In milliseconds", "maximum": 120_000},
    }
    offered = tool("bash", "command timeout timeout_ms yield_timeout", **shapes)
    assert translate(SHELL, [offered]).args == {
        "command": "ls -l",
        "timeout": 600,
        "timeout_ms": 600_000,
        "yield_timeout": 120_000,
    }


def test_a_native_name_is_passed_through() -> None:
    call = ToolCall(name="Grep", args={"pattern": "x"})
    assert translate(call, [tool("Grep", "pattern")]) == NativeCall(
        name="Grep", args={"pattern": "x"}
    )
    with_own_args = ToolCall(name="shell", args={"command": ["ls"]})
    assert translate(with_own_args, [tool("shell", "command")]).args == {"command": ["ls"]}
    with pytest.raises(UntranslatableError, match=r"'Grep'.*offered: bash"):
        translate(call, [tool("bash", "command")])
    unchecked = ToolCall(name="Grep", args={"pattern": "x"}, unchecked=True)
    assert translate(unchecked, []).name == "Grep"


@pytest.mark.parametrize("call", [SHELL, READ, WRITE, EDIT])
def test_what_nothing_fits_is_an_error(call: ToolCall) -> None:
    with pytest.raises(UntranslatableError, match="no tools at all"):
        translate(call, [])
    with pytest.raises(UntranslatableError, match="offered: WebSearch"):
        translate(call, [tool("WebSearch", "query")])


def test_an_edit_needs_more_than_a_plain_shell() -> None:
    with pytest.raises(UntranslatableError):
        translate(EDIT, [tool("bash", "command")])
    assert "cat > " in translate(WRITE, [tool("bash", "command")]).args["command"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=60))
def test_the_shell_writes_exactly_the_content(content: str) -> None:
    command = write_command("x", content)
    script = f'cd "$(mktemp -d)" && {command}\ncat x; rm -r "$PWD"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == content


def test_a_folder_is_made_for_a_new_file(tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", write_command("a b/c/d.txt", "EOF\nx\n")], cwd=tmp_path, check=True)
    assert (tmp_path / "a b/c/d.txt").read_text() == "EOF\nx\n"
