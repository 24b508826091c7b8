"""The arguments of a tool call, fitted to the JSON Schema of an offered tool."""

from typing import Any

_NAMES: dict[str, tuple[str, ...]] = {
    "command": ("command", "cmd", "commands", "script", "command_line"),
    "path": (
        "file_path",
        "filePath",
        "path",
        "absolute_path",
        "absolutePath",
        "target_file",
        "filename",
        "file",
        "files",
        "paths",
    ),
    "content": ("content", "contents", "file_text", "fileText", "new_text", "text", "body"),
    "old": ("old_string", "oldString", "old_str", "old_text", "oldText", "old", "search"),
    "new": ("new_string", "newString", "new_str", "new_text", "newText", "new", "replace"),
}
_ACTIONS: dict[str, tuple[str, ...]] = {
    "read_file": ("view", "read"),
    "write_file": ("create", "write"),
    "edit_file": ("str_replace", "edit", "replace"),
}


def fill(tool: str, args: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return arguments for a tool with this schema, or None if they do not fit.

    Required arguments that the script does not give get a harmless value of their type.
    """
    properties = _properties(schema)
    filled: dict[str, Any] = {}
    action = _action(tool, properties)
    if action is not None:
        filled[action[0]] = action[1]
    for role, value in args.items():
        name = _name_for(role, properties, taken=filled)
        if name is not None:
            filled[name] = _shaped(role, name, value, properties[name])
        elif role not in ("old", "new") or not _edit_list(args, properties, filled):
            return None
    for name in _required(schema):
        if name not in filled:
            filled[name] = _harmless(name, properties.get(name, {}))
    return filled


def single_command(text: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return arguments for a tool that takes just one string, under any name."""
    names = _required(schema) or list(_properties(schema))
    return {names[0]: text} if names else None


def _properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: each if isinstance(each, dict) else {} for name, each in found.items()}


def _required(schema: dict[str, Any]) -> list[str]:
    names = schema.get("required")
    return [str(name) for name in names] if isinstance(names, list) else []


def _type(shape: dict[str, Any]) -> str:
    kind = shape.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "")
    for key in ("anyOf", "oneOf"):
        if not kind and isinstance(shape.get(key), list):
            kind = next((_type(each) for each in shape[key] if isinstance(each, dict)), "")
    return str(kind or "").lower()


def _action(tool: str, properties: dict[str, dict[str, Any]]) -> tuple[str, str] | None:
    """Find the argument that names the action of an all-in-one editor."""
    choices = properties.get("command", {}).get("enum")
    if not isinstance(choices, list):
        return None
    for action in _ACTIONS.get(tool, ()):
        if action in choices:
            return "command", action
    return None


def _name_for(
    role: str, properties: dict[str, dict[str, Any]], *, taken: dict[str, Any]
) -> str | None:
    for name in _NAMES.get(role, ()):
        if name in properties and name not in taken:
            return name
    return None


def _shaped(role: str, name: str, value: Any, shape: dict[str, Any]) -> Any:
    """Put text into the form of its argument: a string or a list."""
    if _type(shape) != "array":
        return value
    item = shape.get("items")
    item = item if isinstance(item, dict) else {}
    inner = _properties(item)
    if inner:
        inner_name = _name_for(role, inner, taken={})
        return [value] if inner_name is None else [{inner_name: value}]
    # A list named `command` is an argument vector; one named `commands` holds whole commands.
    return ["bash", "-lc", value] if name == "command" else [value]


def _edit_list(
    args: dict[str, Any], properties: dict[str, dict[str, Any]], filled: dict[str, Any]
) -> bool:
    """Fit `old` and `new` into a list of edits; true if there is one."""
    for name in ("edits", "replacements"):
        items = properties.get(name, {}).get("items")
        inner = _properties(items) if isinstance(items, dict) else {}
        old, new = _name_for("old", inner, taken={}), _name_for("new", inner, taken={})
        if old is not None and new is not None:
            filled[name] = [{old: args["old"], new: args["new"]}]
            return True
    return False


def _harmless(name: str, shape: dict[str, Any]) -> Any:
    choices = shape.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    if "default" in shape:
        return shape["default"]
    values: dict[str, Any] = {"boolean": False, "array": [], "object": {}, "null": None}
    kind = _type(shape)
    if kind in ("integer", "number"):
        return _patience(name, shape) if "timeout" in name.lower() else shape.get("minimum", 1)
    if kind in values:
        return values[kind]
    return "A scripted call." if name in ("description", "explanation", "reason") else ""


_PATIENCE = 600
"""Seconds. A script's command ends by itself, not by a limit that the script does not set."""


def _patience(name: str, shape: dict[str, Any]) -> Any:
    """A generous limit for an argument that must be given; no more than the schema allows."""
    words = f"{name} {shape.get('description', '')}".lower()
    in_ms = "milli" in words or "(ms" in words or name.lower().endswith("ms")
    most = shape.get("maximum", float("inf"))
    return min(_PATIENCE * (1000 if in_ms else 1), most)
