"""The words of a Copilot command line, and the private files that some of them name."""

import os

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.files import write_private
from bridle.core.options import RunOptions
from bridle.runtimes.copilot.provider_options import CopilotOptions
from bridle.runtimes.mcp_servers import McpServer, read_servers
from bridle.runtimes.user_files import image_data

INSTRUCTION_FILE = os.path.join(".github", "instructions", "bridle.instructions.md")
BYPASS = ("--allow-all-tools", "--allow-all-paths", "--allow-all-urls")
"""What lets Copilot act. The first flag alone still refuses paths outside the folder and addresses,
since it would have to ask about them."""
_EVERYWHERE = '---\napplyTo: "**"\n---\n'
_PERMISSION_KINDS = ("shell", "write", "url")


def permission_flags(options: RunOptions, own: CopilotOptions) -> list[str]:
    """What tools may do: everything under `bypass`; without it what is not preapproved is refused,
    because nobody can be asked."""
    bypass = options.permission_mode == "bypass"
    flags = [*BYPASS] if bypass else []
    flags += [f"--allow-tool={rule}" for rule in own.preapproved_tools]
    flags += ["--allow-all-paths"] if own.all_paths and not bypass else []
    flags += ["--allow-all-urls"] if own.all_urls and not bypass else []
    flags += ["--trust-folder"] if own.trust_folder else []
    for folder in own.add_dirs:
        if not os.path.isdir(os.path.expanduser(folder)):
            raise WrongUse(f"no such directory: {folder}")
        flags.append(f"--add-dir={os.path.abspath(os.path.expanduser(folder))}")
    return flags


def tool_flags(allowed: tuple[str, ...], denied: tuple[str, ...]) -> list[str]:
    """Which tools the model is shown, and which calls are refused."""
    flags = []
    for name in allowed:
        if "(" in name:
            raise WrongUse(
                f"{name!r} is a permission rule, not a tool's name",
                hint="give rules with the provider option preapproved_tools",
            )
        flags.append(f"--available-tools={name}")
    for name in denied:
        is_rule = "(" in name or name in _PERMISSION_KINDS
        flags.append(f"--{'deny-tool' if is_rule else 'excluded-tools'}={name}")
    return flags


def choice_flags(options: RunOptions, own: CopilotOptions) -> list[str]:
    """The model and how it is to work."""
    flags = []
    if options.model and options.provider is None and options.model_server is None:
        flags.append(f"--model={options.model}")
    if own.effort is not None:
        flags.append(f"--reasoning-effort={own.effort}")
    if own.agent is not None:
        flags.append(f"--agent={own.agent}")
    return flags


def image_flags(paths: tuple[str, ...]) -> list[str]:
    """Images that go with the prompt; `WrongUse` for a file that is none."""
    for path in paths:
        image_data(path, "copilot")
    return [f"--attachment={os.path.abspath(os.path.expanduser(path))}" for path in paths]


def write_instructions(folder: str, text: str) -> str:
    """A folder whose instruction file Copilot reads for every file of the project."""
    name = os.path.join("instructions", INSTRUCTION_FILE)
    write_private(folder, name, f"{_EVERYWHERE}{text.rstrip()}\n")
    return os.path.join(folder, "instructions")


def mcp_flags(given: str, folder: str) -> list[str]:
    """Flags that add the caller's MCP servers, by a private file: entries may hold keys."""
    servers = {name: _entry(server) for name, server in read_servers(given).items()}
    path = write_private(folder, "mcp.json", msgspec.json.encode({"mcpServers": servers}))
    return [f"--additional-mcp-config=@{path}"]


def _entry(server: McpServer) -> dict[str, object]:
    if server.url is not None:
        kind = "sse" if server.type == "sse" else "http"
        return {"type": kind, "url": server.url, "headers": server.headers, "tools": ["*"]}
    entry: dict[str, object] = {
        "type": "local",
        "command": server.command,
        "args": server.args,
        "env": server.env,
        "tools": ["*"],
    }
    return entry | ({"cwd": server.cwd} if server.cwd else {})
