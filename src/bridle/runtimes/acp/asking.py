"""What a permission request is about, in terms that the guard can judge.

The protocol has no names of tools and need not tell their arguments. An agent that tells both
beside it is judged by these; else its kind of call, the paths it names and, where its row says so,
the title it shows must do. What is not told is said to be not told, and then only what changes
nothing is allowed.
"""

import re
from typing import Any

from bridle.runtimes.acp import wire
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.acp.updates import Tool
from bridle.turns.guard_contract import UNSEEN, WireCall

_CHANGES = ("edit", "delete", "move")
_FOLDER = re.compile(r"\[in ([^][()]+)\]")
_HERE = "[current working directory "


def wire_call(agent: AcpAgent, tool: Tool, name: str, asked: wire.Update, cwd: str) -> WireCall:
    """The call that `asked` is about; `tool` is what is known of it, under the name `name`."""
    own = asked.raw_input if isinstance(asked.raw_input, dict) else {}
    known = tool.args if isinstance(tool.args, dict) and not agent.late_input else {}
    args: dict[str, Any] = {**known, **own}
    told = bool(args)
    kind = asked.kind or tool.kind
    paths = _paths(asked)
    if kind in _CHANGES and paths:
        named = args.get("path")
        args["path"] = [*paths, named] if isinstance(named, str) else paths
        told = True
    if kind == "execute" and not told and agent.title_is_command and tool.title:
        args, told = _command(tool.title, wire.text_of(asked.content)), True
    if not told:
        args = {UNSEEN: True}
    return WireCall(tool_call_id=tool.id, tool_name=name, args=args, cwd=cwd)


def _command(title: str, explanation: str) -> dict[str, Any]:
    """A command that is told as a title, with a text that begins with the folder it runs in."""
    if not explanation or explanation.startswith(_HERE):
        return {"command": title}
    folder = _FOLDER.match(explanation)
    if folder is None:
        return {UNSEEN: True}
    return {"command": title, "dir_path": folder.group(1)}


def _paths(asked: wire.Update) -> list[str]:
    """The files that the request names."""
    parts = [each for each in (asked.locations, asked.content) if isinstance(each, list)]
    found = [entry.get("path") for part in parts for entry in part if isinstance(entry, dict)]
    return list(dict.fromkeys(path for path in found if isinstance(path, str)))
