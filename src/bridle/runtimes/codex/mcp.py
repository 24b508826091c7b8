"""MCP servers of one run, from the common `mcpServers` shape to Codex's `-c` flags.

Secrets stay out of the command line: a server's environment goes into a private script that
starts it, a header's value into a variable of Codex's own environment.
"""

import os
from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.redaction import secrets_in
from bridle.runtimes import mcp_servers
from bridle.runtimes.mcp_servers import McpServer
from bridle.runtimes.toml import toml_value

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class McpPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the servers need: flags, variables, and files to be written before the start."""

    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Path below the run's private folder -> text of the script there."""
    secrets: tuple[str, ...] = ()
    """Values that must not be shown."""


def read_servers(text_or_path: str) -> dict[str, McpServer]:
    """The servers of `mcp_config`; `WrongUse` says what is wrong with it."""
    servers = mcp_servers.read_servers(text_or_path)
    for name, server in servers.items():
        _check(name, server)
    return servers


def _check(name: str, server: McpServer) -> None:
    if not name or not _NAME.issuperset(name):
        raise WrongUse(f"MCP server {name!r}: codex takes letters, digits, - and _ as a name")
    if server.type == "sse":
        raise UnsupportedOption("codex", "mcp_config", [], reason=f"{name} uses sse transport")
    for key in server.env:
        if not (key.isascii() and key.isidentifier()):
            raise WrongUse(f"MCP server {name!r}: {key!r} is not the name of a variable")


def plan_servers(servers: dict[str, McpServer], folder: str, *, approve: bool) -> McpPlan:
    """Flags for `servers`; `folder` is the private folder that their scripts will be in.

    Without `approve` Codex refuses every call of them, since `exec` has nobody to ask.
    """
    flags: list[str] = []
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    for name, server in servers.items():
        entry: dict[str, Any] = {}
        if server.url is not None:
            entry["url"] = server.url
            entry["env_http_headers"] = _headers(name, server, env)
        elif server.env:
            script = os.path.join(folder, f"mcp-{name}.sh")
            files[script] = _script(server)
            entry |= {"command": "/bin/sh", "args": [script]}
        else:
            entry |= {"command": server.command, "args": server.args}
        if server.cwd:
            entry["cwd"] = server.cwd
        if approve:
            entry["default_tools_approval_mode"] = "approve"
        value = toml_value({k: v for k, v in entry.items() if v}, f"mcpServers.{name}")
        flags += ["-c", f"mcp_servers.{name}={value}"]
    hidden = [
        *env.values(),
        *(value for each in servers.values() for value in secrets_in(each.env)),
    ]
    return McpPlan(flags=tuple(flags), env=env, files=files, secrets=tuple(hidden))


def _headers(name: str, server: McpServer, env: dict[str, str]) -> dict[str, str]:
    variables = {}
    for number, (header, value) in enumerate(server.headers.items()):
        variable = f"BRIDLE_MCP_{name.upper().replace('-', '_')}_{number}"
        env[variable] = value
        variables[header] = variable
    return variables


def _script(server: McpServer) -> str:
    from shlex import quote

    lines = [f"export {key}={quote(value)}" for key, value in server.env.items()]
    words = " ".join(quote(word) for word in (server.command or "", *server.args))
    return "\n".join([*lines, f"exec {words}", ""])
