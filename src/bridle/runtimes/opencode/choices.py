"""What a caller may choose for OpenCode: its own options, the model, and what they become in its
configuration. Nothing is written: the configuration of a run goes by environment variable."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.files import write_private
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.json_settings import merged
from bridle.runtimes.mcp_servers import McpServer, read_servers
from bridle.runtimes.opencode.dialects import ALIASES, APIS, KEY_VARIABLES
from bridle.runtimes.options import json_object
from bridle.runtimes.provider_options import check_range, read_provider_options
from bridle.runtimes.user_files import readable_file

CONFIG_VARIABLE = "OPENCODE_CONFIG_CONTENT"
KEY_VARIABLE = "BRIDLE_PROVIDER_KEY"
"""Holds a provider's key; the configuration only names it."""
DEFAULT_AGENT = "build"
SCRIPTED_PROVIDER = "scripted"
OTHER_PROVIDER = "bridle"
"""What a provider that the caller describes is called, where the model's name has no prefix."""


class OpenCodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `opencode` runtime."""

    max_retries: int = 3
    """How often OpenCode may make a failed model call again before the run is stopped. Its own
    number is endless."""
    retry_seconds: float = 60.0
    """How long it may wait before it tries again; a service may ask it to wait for an hour."""
    agent: str | None = None
    """Which of its agents works: `build`, `plan`, or one of the user's."""
    variant: str | None = None
    """The model's variant, such as its reasoning effort."""
    title_call: bool = False
    """Let OpenCode ask the model for a title of a new session; else the prompt's beginning is."""
    api: str = "openai-compatible"
    """Wire protocol of a provider that OpenCode does not know: see `APIS`."""
    plugins: bool = True
    """Load the user's and the project's plugins."""
    fork: bool = False
    """With `resume`: go on in a copy of the session, under a new id."""


def read_options(given: dict[str, Any]) -> OpenCodeOptions:
    """`given`, checked; `WrongUse` names what is unknown or wrong."""
    options = read_provider_options("opencode", given, OpenCodeOptions)
    check_range("max_retries", options.max_retries, 0, 100)
    check_range("retry_seconds", options.retry_seconds, 1, 86400)
    if options.api not in APIS:
        raise WrongUse(
            f"provider option api cannot be {options.api}", hint=f"one of: {', '.join(APIS)}"
        )
    return options


def full_model(name: str | None, *, scripted: bool) -> str | None:
    """A model name as `provider/id`, the only form that OpenCode takes."""
    if name is None:
        return f"{SCRIPTED_PROVIDER}/model" if scripted else None
    name = ALIASES.get(name, name)
    if "/" in name:
        return name
    if scripted:
        return f"{SCRIPTED_PROVIDER}/{name}"
    raise WrongUse(
        f"opencode needs the provider's name before the model {name}",
        hint=f"such as anthropic/{name}; see `opencode models`",
    )


def provider_model(name: str | None) -> str | None:
    """The name of a model of a provider that the caller describes, with a prefix in any case."""
    return f"{OTHER_PROVIDER}/{name}" if name and "/" not in name else name


def run_config(
    options: RunOptions,
    own: OpenCodeOptions,
    model: str | None,
    folder: str | None,
    harmless: tuple[str, ...] = (),
    *,
    names_model: bool = False,
) -> dict[str, Any]:
    """What this run changes in OpenCode's configuration. `folder` is private, for long texts.

    `harmless` are the tools that stay where nobody can be asked for permission; empty where
    somebody can. With `names_model` the configuration names the model of a provider, because no
    argument does.
    """
    config: dict[str, Any] = {}
    if options.model_server is not None:
        config = server_config(options.model_server, model or "")
    elif options.provider is not None:
        config = provider_config(options.provider, model, own.api)
        if names_model:
            config |= _named_model(config["provider"], model or "")
    if options.system_prompt is not None:
        config["agent"] = {own.agent or DEFAULT_AGENT: {"prompt": options.system_prompt}}
    if harmless and options.permission_mode == "ask":
        config["permission"] = {"*": "deny", **dict.fromkeys(harmless, "allow")}
    elif options.permission_mode == "ask":
        # It never asks by itself.
        config["permission"] = dict.fromkeys(("edit", "bash", "webfetch"), "ask")
    files = _instruction_files(options, folder)
    if files:
        config["instructions"] = files
    tools = {"*": False} if options.allowed_tools else {}
    tools |= dict.fromkeys(options.allowed_tools, True)
    tools |= dict.fromkeys(options.denied_tools, False)
    if tools:
        config["tools"] = tools
        if not harmless and "permission" in config:
            config["permission"] = _still_asked(config["permission"], options)
    if options.mcp_config is not None:
        config["mcp"] = {
            name: _mcp(name, s) for name, s in read_servers(options.mcp_config).items()
        }
    if options.settings is not None:
        config = merged(config, json_object(options.settings, "settings"))
    return config


def _still_asked(rules: dict[str, str], options: RunOptions) -> dict[str, str]:
    """`rules` without those about tools that are switched off: a rule to ask about a tool would
    switch it on again. The rule about `edit` holds `write` too."""
    off = {*options.denied_tools, *(("edit",) if "write" in options.denied_tools else ())}
    allowed = options.allowed_tools
    return {
        name: rule
        for name, rule in rules.items()
        if name not in off and (not allowed or name in allowed)
    }


def _instruction_files(options: RunOptions, folder: str | None) -> list[str]:
    files = []
    if options.append_system_prompt:
        assert folder is not None
        files.append(write_private(folder, "instructions.md", options.append_system_prompt))
    if options.append_system_prompt_file is not None:
        readable_file(options.append_system_prompt_file, "system prompt")
        files.append(os.path.abspath(os.path.expanduser(options.append_system_prompt_file)))
    return files


def _mcp(name: str, server: McpServer) -> dict[str, Any]:
    if server.url is not None:
        if server.type == "sse":
            raise UnsupportedOption("opencode", "mcp_config", [], reason=f"{name} uses sse")
        return {"type": "remote", "url": server.url, "headers": server.headers, "enabled": True}
    if server.cwd is not None:
        raise UnsupportedOption("opencode", "mcp_config", [], reason=f"{name} has a cwd")
    return {
        "type": "local",
        "command": [server.command, *server.args],
        "environment": server.env,
        "enabled": True,
    }


def provider_config(provider: Provider, model: str | None, api: str) -> dict[str, Any]:
    """What routes `model` to `provider`; a key is only named, by the variable that holds it."""
    if model is None:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    name, _, model_id = model.partition("/")
    entry: dict[str, Any] = {"options": {}}
    if provider.base_url is not None:
        entry["options"]["baseURL"] = provider.base_url
    if provider.auth_token_env is not None:
        entry["options"]["apiKey"] = f"{{env:{KEY_VARIABLE}}}"
    if name not in KEY_VARIABLES:
        if provider.base_url is None:
            raise WrongUse(
                f"opencode does not know where provider {name} is", hint="give it a base address"
            )
        entry["npm"] = APIS[api]
        entry["models"] = {model_id: {}}
    return {"provider": {name: entry}}


def _named_model(providers: dict[str, Any], model: str) -> dict[str, Any]:
    """What makes `model` the one that OpenCode uses, and lets it take images."""
    name, _, model_id = model.partition("/")
    entry = {**providers[name], "models": {model_id: dict(_WITH_IMAGES)}}
    return {"provider": {name: entry}, "model": model, "small_model": model}


_WITH_IMAGES: dict[str, Any] = {
    "attachment": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
}
"""OpenCode sends no images to a model unless its entry says that it takes them."""


def server_config(server: ModelServer, model: str) -> dict[str, Any]:
    """What points OpenCode at the scripted model, and at nothing else."""
    name, _, model_id = model.partition("/")
    return {
        "autoupdate": False,
        "share": "disabled",
        "model": model,
        "small_model": model,
        "enabled_providers": [name],
        "provider": {
            name: {
                "npm": APIS["openai-compatible"],
                "name": "Scripted model",
                "options": {
                    "baseURL": f"{server.url.rstrip('/')}/v1",
                    "apiKey": f"{{env:{KEY_VARIABLE}}}",
                },
                "models": {
                    model_id: {
                        "name": model_id,
                        **_WITH_IMAGES,
                        "limit": {"context": 128000, "output": 8192},
                    }
                },
            }
        },
    }


def config_variable(env: Mapping[str, str], config: dict[str, Any]) -> dict[str, str]:
    """The variable that carries `config`, over what the user already says by it."""
    if not config:
        return {}
    given = env.get(CONFIG_VARIABLE)
    if given:
        try:
            config = merged(msgspec.json.decode(given, type=dict[str, Any]), config)
        except msgspec.MsgspecError as problem:
            raise WrongUse(f"the variable {CONFIG_VARIABLE} is no JSON object: {problem}") from None
    return {CONFIG_VARIABLE: msgspec.json.encode(config).decode()}
