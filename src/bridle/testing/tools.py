"""Translates tool calls from their neutral names to the tools that a request offers.

Tool names come from a table of known ones, in order of preference; argument names are read from
the schema that the request offers, so a renamed argument needs no change here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from bridle.testing import patches
from bridle.testing.script import NEUTRAL_TOOLS, ToolCall
from bridle.testing.tool_arguments import fill, single_command
from bridle.testing.wire.base import NativeCall, OfferedTool

_SHELLS = (
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "container.exec",
    "local_shell",
    "run_shell_command",
    "run_commands",
    "execute_command",
    "run_in_terminal",
    "run_command",
)
_CODEX_SHELLS = ("exec_command", "shell_command", "shell", "container.exec", "local_shell")
_NAMES: dict[str, tuple[str, ...]] = {
    "shell": _SHELLS,
    "read_file": ("Read", "read", "read_file", "view", "read_files", "str_replace_editor"),
    "write_file": (
        "Write",
        "write",
        "write_file",
        "create",
        "write_to_file",
        "create_file",
        "editor",
        "str_replace_editor",
    ),
    "edit_file": (
        "Edit",
        "edit",
        "replace",
        "edit_file",
        "str_replace",
        "replace_in_file",
        "editor",
        "str_replace_editor",
    ),
}
_NEEDED: dict[str, tuple[str, ...]] = {
    "shell": ("command",),
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "edit_file": ("path", "old", "new"),
}


class UntranslatableError(Exception):
    """None of the offered tools can do what the script asks for."""

    def __init__(self, wanted: str, offered: Sequence[OfferedTool]) -> None:
        self.wanted = wanted
        self.offered = tuple(tool.name for tool in offered)
        listed = ", ".join(self.offered) or "no tools at all"
        super().__init__(
            f"the script calls the tool {wanted!r}, but no tool in the request fits it; "
            f"offered: {listed}"
        )


def translate(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall:
    """Return the call in terms of the offered tools.

    Raises `UntranslatableError` when no tool fits.
    """
    native = _neutral(call, offered) if _is_neutral(call) else _by_own_name(call, offered)
    if native is None:
        raise UntranslatableError(call.name, offered)
    return native


def _is_neutral(call: ToolCall) -> bool:
    """Whether the call is neutral; a neutral name with other arguments is a native tool's."""
    if call.name not in NEUTRAL_TOOLS:
        return False
    needed = _NEEDED[call.name]
    return set(call.args) == set(needed) and all(isinstance(call.args[key], str) for key in needed)


def _by_own_name(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall | None:
    for tool in offered:
        if tool.name == call.name:
            return _native(tool, call.args)
    code = _code_tool(offered)
    if code is not None and f" {call.name}(" in code.description:
        text = call.args.get("input")
        argument = text if set(call.args) == {"input"} else call.args
        return _custom(code, patches.code_mode_call(call.name, argument))
    return NativeCall(name=call.name, args=call.args) if call.unchecked else None


def _native(tool: OfferedTool, args: dict[str, Any]) -> NativeCall:
    if tool.kind == "custom":
        return _custom(tool, str(args.get("input", "")))
    return NativeCall(name=tool.name, kind=tool.kind, args=args, namespace=tool.namespace)


def _custom(tool: OfferedTool, text: str) -> NativeCall:
    return NativeCall(name=tool.name, kind="custom", text=text, namespace=tool.namespace)


def _neutral(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall | None:
    """Try the ways to do a neutral call, best first."""
    ways: tuple[Callable[[ToolCall, Sequence[OfferedTool]], NativeCall | None], ...] = (
        _by_table,
        _by_schema,
        _by_code,
        _by_patch_tool,
        _by_shell,
    )
    for way in ways:
        native = way(call, offered)
        if native is not None:
            return native
    return None


def _by_table(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall | None:
    """Use a tool known by name, if its schema takes the arguments."""
    named = {tool.name: tool for tool in reversed(offered)}
    for name in _NAMES[call.name]:
        tool = named.get(name)
        native = _filled(call, tool) if tool is not None else None
        if native is not None:
            return native
    return None


def _by_schema(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall | None:
    """Use an unknown tool whose name and arguments both match."""
    words = {"shell": ("shell", "bash", "command", "terminal"), "read_file": ("read",)}
    words |= {"write_file": ("write", "create"), "edit_file": ("edit", "replace")}
    for tool in offered:
        if any(word in tool.name.lower() for word in words[call.name]):
            native = _filled(call, tool)
            if native is not None:
                return native
    return None


def _filled(call: ToolCall, tool: OfferedTool) -> NativeCall | None:
    if tool.kind == "local_shell":
        command = ["bash", "-lc", call.args.get("command", "")]
        action = {"type": "exec", "command": command, "env": {}}
        return NativeCall(name=tool.name, kind=tool.kind, args=action)
    if tool.kind != "function":
        return None
    args = fill(call.name, call.args, tool.schema)
    if args is None:
        return None
    return NativeCall(name=tool.name, args=args, namespace=tool.namespace)


def _code_tool(offered: Sequence[OfferedTool]) -> OfferedTool | None:
    """Find Codex's code mode: one tool that runs JavaScript with the others nested in it."""
    for tool in offered:
        if tool.kind == "custom" and tool.name == "exec" and "tools." in tool.description:
            return tool
    return None


def _by_code(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall | None:
    code = _code_tool(offered)
    if code is None:
        return None
    patch = _patch(call)
    if patch is not None and "apply_patch(" in code.description:
        return _custom(code, patches.code_mode_call("apply_patch", patch))
    command = _command(call)
    if command is None:
        return None
    return _custom(code, patches.code_mode_call("exec_command", {"cmd": command}))


def _by_patch_tool(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall | None:
    patch = _patch(call)
    tool = next((tool for tool in offered if tool.name == "apply_patch"), None)
    if patch is None or tool is None:
        return None
    if tool.kind == "custom":
        return _custom(tool, patch)
    args = single_command(patch, tool.schema)
    return NativeCall(name=tool.name, args=args) if args is not None else None


def _by_shell(call: ToolCall, offered: Sequence[OfferedTool]) -> NativeCall | None:
    """Use a shell: Codex's shells know `apply_patch`, others only plain commands."""
    shell = next((tool for tool in offered if tool.name in _SHELLS), None)
    if shell is None or call.name == "shell":
        return None
    patch = _patch(call)
    if patch is not None and shell.name in _CODEX_SHELLS:
        command: str | None = patches.patch_command(patch)
    else:
        command = _command(call)
    if command is None:
        return None
    return _filled(ToolCall(name="shell", args={"command": command}), shell)


def _patch(call: ToolCall) -> str | None:
    args = call.args
    if call.name == "write_file" and patches.can_be_added(args["content"]):
        return patches.add_file_patch(args["path"], args["content"])
    if call.name == "edit_file":
        return patches.edit_file_patch(args["path"], args["old"], args["new"])
    return None


def _command(call: ToolCall) -> str | None:
    args = call.args
    if call.name == "shell":
        return str(args["command"])
    if call.name == "read_file":
        return patches.read_command(args["path"])
    if call.name == "write_file":
        return patches.write_command(args["path"], args["content"])
    return None
