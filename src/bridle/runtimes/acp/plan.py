"""What one session is to be opened with, in the protocol's own terms."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.options import RunOptions
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.install import find_executable
from bridle.runtimes.options import added_instructions
from bridle.runtimes.plan import RunPlan


class SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is said to the agent before and with the prompt."""

    cwd: str
    prompt: list[dict[str, Any]]
    """Content blocks."""
    mcp_servers: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}
    """`_meta` of `session/new`, where the agent takes options there."""
    resume: str | None = None
    fork: bool = False
    """Go on in a copy of `resume`, which stays as it is."""
    mode: str | None = None
    """Mode to set before the prompt."""
    model: str | None = None
    """Model to choose by the protocol; None where it is chosen at the start or left as it is."""
    start_timeout: float = 90.0
    silence_timeout: float | None = 180.0
    """None leaves that to the clocks of whoever drives."""


class AcpPlan(RunPlan, frozen=True, kw_only=True):
    """A run's plan together with its session's."""

    session: SessionPlan
    agent: AcpAgent


def prompt_blocks(options: RunOptions) -> list[dict[str, Any]]:
    """The prompt with its images, as content blocks."""
    return content_blocks(options.prompt, options.images)


def content_blocks(text: str, images: tuple[str, ...]) -> list[dict[str, Any]]:
    """A message as content blocks; `WrongUse` for a file that is no image."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for path in images:
        from bridle.runtimes.user_files import image_data

        kind, data = image_data(path)
        blocks.append({"type": "image", "mimeType": kind, "data": data})
    return blocks


def mcp_list(text_or_path: str) -> list[dict[str, Any]]:
    """MCP servers from the common shape to the protocol's list."""
    from bridle.runtimes.mcp_servers import read_servers

    servers: list[dict[str, Any]] = []
    for name, server in read_servers(text_or_path).items():
        if server.url is not None:
            kind = "sse" if server.type == "sse" else "http"
            headers = [{"name": key, "value": value} for key, value in server.headers.items()]
            servers.append({"type": kind, "name": name, "url": server.url, "headers": headers})
            continue
        variables = [{"name": key, "value": value} for key, value in server.env.items()]
        command = find_executable(server.command or "") or server.command
        servers.append({"name": name, "command": command, "args": server.args, "env": variables})
    return servers


def session_meta(options: RunOptions) -> dict[str, Any]:
    """`_meta` of a session for an agent that takes its system prompt and options there."""
    denied = {"disallowedTools": list(options.denied_tools)}
    return {
        **_system_meta(options),
        **({"claudeCode": {"options": denied}} if options.denied_tools else {}),
    }


def with_settings(session: SessionPlan, settings: Mapping[str, Any]) -> SessionPlan:
    """`session` with these settings of the product, as JSON in its `_meta`."""
    if not settings:
        return session
    options = session.meta.get("claudeCode", {}).get("options", {})
    text = msgspec.json.encode(settings).decode()
    meta = {**session.meta, "claudeCode": {"options": {**options, "settings": text}}}
    return msgspec.structs.replace(session, meta=meta)


def _system_meta(options: RunOptions) -> dict[str, Any]:
    added = added_instructions(options)
    if options.system_prompt is not None:
        return {"systemPrompt": "\n\n".join(filter(None, (options.system_prompt, added)))}
    return {"systemPrompt": {"append": added}} if added else {}
