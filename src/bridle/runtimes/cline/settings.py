"""The settings files of one run: private copies, because every run of Cline writes into them.

Cline saves the provider and model of each run as the next default, and a key given by flag with
them. A run therefore gets copies, by variables that Cline has for this. A login that renews itself
is the exception: its new token must reach the user's own file, or the next run is locked out.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.files import write_private
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.cline.provider_options import ClineOptions
from bridle.runtimes.cline.transcript import settings_file
from bridle.runtimes.mcp_servers import McpServer, read_servers
from bridle.runtimes.options import json_object, provider_key

PROVIDERS = ("CLINE_PROVIDER_SETTINGS_PATH", "providers.json")
GLOBAL = ("CLINE_GLOBAL_SETTINGS_PATH", "global-settings.json")
MCP = ("CLINE_MCP_SETTINGS_PATH", "cline_mcp_settings.json")
SCRIPTED_MODEL = "scripted"
_SERVER_API = "anthropic"
"""For the scripted model: the one provider by which Cline tells cache writes and reasoning."""
ACP_API = "openai-compatible"
"""What a scripted model speaks over ACP, where Cline counts tokens in its own files."""


def acp_env(name: str, key: str | None, model: str | None) -> dict[str, str]:
    """The variables without which `cline --acp` demands a login, whatever the settings say."""
    return {
        "CLINE_API_KEY": key or "none",
        "CLINE_PROVIDER": name,
        "CLINE_MODEL": model or SCRIPTED_MODEL,
    }


def write_server_settings(
    folder: str, server: ModelServer, model: str | None, api: str = _SERVER_API
) -> dict[str, str]:
    """Settings that point at the scripted model and nowhere else; the variables that name them."""
    url = f"{server.url.rstrip('/')}/v1"
    entry = _entry(api, url, server.api_key, model or SCRIPTED_MODEL)
    return {
        **_write(folder, PROVIDERS, _providers(api, entry)),
        **_write(folder, GLOBAL, {"telemetryOptOut": True, "autoUpdateEnabled": False}),
    }


def write_provider_settings(
    folder: str, provider: Provider, model: str | None, own: ClineOptions, env: Mapping[str, str]
) -> tuple[dict[str, str], str | None]:
    """Settings that route to `provider` alone, the variables that name them, and the key."""
    key = provider_key(provider, env, "cline")
    if not model:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    name = own.api if provider.base_url else own.provider or own.api
    entry = _entry(name, provider.base_url, key, model)
    # Nothing of the user's entries: a key of theirs must not go to an address that was given.
    return _write(folder, PROVIDERS, _providers(name, entry)), key


def copy_user_settings(folder: str, env: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """A copy of the user's providers for one run, and whether it was made; see above."""
    data = _read(settings_file(env, *PROVIDERS))
    if _renews_itself(data):
        return {}, False
    return _write(folder, PROVIDERS, data), True


def write_global_settings(
    folder: str, options: RunOptions, env: Mapping[str, str]
) -> dict[str, str]:
    """The user's general settings with those of the run over them."""
    changes: dict[str, Any] = {}
    if options.settings is not None:
        changes |= json_object(options.settings, "settings")
    base = _read(settings_file(env, *GLOBAL))
    if options.denied_tools:
        off = [*base.get("disabledTools", []), *changes.get("disabledTools", [])]
        changes["disabledTools"] = [*off, *options.denied_tools]
    return _write(folder, GLOBAL, {**base, **changes})


def write_mcp_settings(folder: str, given: str, env: Mapping[str, str]) -> dict[str, str]:
    """The user's MCP servers and those of the run, which win."""
    base = _read(settings_file(env, *MCP))
    ours = {name: _mcp_entry(server) for name, server in read_servers(given).items()}
    return _write(folder, MCP, {**base, "mcpServers": {**base.get("mcpServers", {}), **ours}})


def _mcp_entry(server: McpServer) -> dict[str, Any]:
    if server.url is not None:
        kind = "sse" if server.type == "sse" else "streamableHttp"
        return {"type": kind, "url": server.url, "headers": server.headers}
    entry = {"command": server.command, "args": server.args, "env": server.env}
    return entry | ({"cwd": server.cwd} if server.cwd else {})


def _entry(name: str, url: str | None, key: str | None, model: str) -> dict[str, Any]:
    settings = {"provider": name, "apiKey": key, "model": model, "baseUrl": url}
    return {
        "settings": {field: value for field, value in settings.items() if value},
        "updatedAt": "2026-01-01T00:00:00.000Z",
        "tokenSource": "manual",
    }


def _providers(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: entry}}


def _renews_itself(data: dict[str, Any]) -> bool:
    """Whether any provider is logged in by a token that is exchanged for a new one."""
    for entry in (data.get("providers") or {}).values():
        settings = entry.get("settings") if isinstance(entry, dict) else None
        if isinstance(settings, dict) and settings.get("auth"):
            return True
    return False


def _write(folder: str, place: tuple[str, str], data: dict[str, Any]) -> dict[str, str]:
    variable, name = place
    path = os.path.join("settings", name)
    return {variable: write_private(folder, path, msgspec.json.encode(data))}


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as problem:
        raise WrongUse(f"cannot read Cline's {path}: {problem}") from None
