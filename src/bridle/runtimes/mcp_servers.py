"""MCP servers of one run, in the common `mcpServers` shape."""

import msgspec

from bridle.core.errors import WrongUse
from bridle.runtimes.user_files import readable_file


class McpServer(msgspec.Struct, frozen=True):
    """One server as the common shape writes it."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    type: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}


class _Config(msgspec.Struct, frozen=True):
    mcp_servers: dict[str, McpServer] = msgspec.field(name="mcpServers")


def read_servers(text_or_path: str) -> dict[str, McpServer]:
    """The servers of `mcp_config`; `WrongUse` says what is wrong with it."""
    if text_or_path.lstrip().startswith("{"):
        data = text_or_path.encode()
    else:
        data = readable_file(text_or_path, "MCP config")
    try:
        servers = msgspec.json.decode(data, type=_Config).mcp_servers
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise WrongUse(f"MCP config: {problem}", hint='expected {"mcpServers": {…}}') from None
    for name, server in servers.items():
        if (server.command is None) == (server.url is None):
            raise WrongUse(f"MCP server {name!r} needs either command or url")
    return servers
