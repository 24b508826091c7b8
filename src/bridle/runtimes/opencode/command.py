"""The calls of OpenCode: words, environment and configuration, from Bridle's options.

The configuration of a process goes by an environment variable, over the user's; only long texts
become private files.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core import structs
from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.files import in_home, make_private_dir
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.acp.product import AcpCommand
from bridle.runtimes.opencode.product import (
    ALIASES,
    APIS,
    KEY_VARIABLES,
    PRODUCT,
    OpenCodeOptions,
)
from bridle.runtimes.options import (
    McpServer,
    check_images,
    json_object,
    merged,
    provider_key,
    read_servers,
    readable_file,
)
from bridle.runtimes.planner import Command, Environment, Launch, account_folder
from bridle.runtimes.routing import NO_PROXY, PROXIES

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

CONFIG = "OPENCODE_CONFIG_CONTENT"
"""The variable that carries the configuration of a process."""
PURE = "OPENCODE_PURE"
"""The variable that keeps plugins out."""
_KEY = "BRIDLE_PROVIDER_KEY"
"""The variable with a provider's key; the configuration only names it."""
_DEFAULT_AGENT = "build"
_SCRIPTED_PROVIDER = "scripted"
_OTHER_PROVIDER = "bridle"
"""The name of a provider that the caller describes, if the model's name has no prefix."""


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of OpenCode in `launch.mode`."""
    options, own, dialect = launch.options, launch.own, launch.dialect
    if launch.mode == "live":
        # With the user's own providers the protocol chooses the model.
        routed = options.model_server is not None or options.provider is not None
        return AcpCommand(words=(), model_chosen=routed)
    model = full_model(options)
    if launch.mode == "print":
        # OpenCode joins the words of a prompt by blanks, and puts quotes around a word with one.
        words = ["run", *(["-m", model] if model else []), "--", *options.prompt.split(" ")]
        return Command(words=tuple(words))
    if launch.mode != "run":
        words = ["--model", model] if model else []
        words += ["--session", options.resume] if options.resume else []
        words += ["--agent", own.agent] if own.agent else []
        words += [dialect.approve_flag] if launch.mode == "spawn" and dialect.approve_flag else []
        words += options.raw_args
        words += [f"--prompt={options.prompt}"] if options.prompt else []
        return Command(words=tuple(words))
    words = ["run", *dialect.json_flags, *dialect.log_flags, *_run_flags(launch, model)]
    return Command(
        words=(*words, *options.raw_args),
        stdin=options.prompt.encode(errors="surrogateescape"),
        watch_stderr=True,
        native_session_id=None if own.fork else options.resume,
    )


def _run_flags(launch: Launch, model: str | None) -> list[str]:
    options, own, dialect = launch.options, launch.own, launch.dialect
    flags = ["-m", model] if model is not None else []
    if options.resume is not None:
        flags += ["-s", options.resume, *((dialect.fork_flag,) if own.fork else ())]
    elif not own.title_call:
        flags.append(dialect.prompt_title_flag)
    if own.agent is not None:
        flags += ["--agent", own.agent]
    if own.variant is not None:
        flags += ["--variant", own.variant]
    if options.permission_mode == "bypass" and dialect.approve_flag:
        flags.append(dialect.approve_flag)
    check_images(options.images, PRODUCT.id)
    flags += [f"--file={os.path.abspath(os.path.expanduser(path))}" for path in options.images]
    return flags


def full_model(options: RunOptions) -> str | None:
    """The model as `provider/id`, the only form that OpenCode takes; None leaves it to OpenCode."""
    scripted = options.model_server is not None
    if options.model is None:
        return f"{_SCRIPTED_PROVIDER}/model" if scripted else None
    name = ALIASES.get(options.model, options.model)
    if "/" in name:
        return name
    if scripted or options.provider is not None:
        return f"{_SCRIPTED_PROVIDER if scripted else _OTHER_PROVIDER}/{name}"
    raise WrongUse(
        f"opencode needs the provider's name before the model {name}",
        hint=f"such as anthropic/{name}; see `opencode models`",
    )


# -- environment ----------------------------------------------------------------------------------


def environment(launch: Launch) -> Environment:
    """The user's variables, the configuration of this process, and a home for a scripted model."""
    options, server = launch.options, launch.options.model_server
    base, key = dict(launch.env), None
    if server is not None:
        base, key = _server_env(launch.env), server.api_key
    elif options.provider is not None:
        key = provider_key(options.provider, {**launch.env, **options.env}, launch.runtime)
    if options.account_dir is not None:
        base |= _own_folders(account_folder(options.account_dir))
    elif server is not None:
        base |= _own_folders(launch.folder())
    own = OpenCodeOptions() if launch.mode == "live" else launch.own
    base["OPENCODE_DISABLE_AUTOUPDATE"] = "1"
    if not own.plugins or server is not None:
        base[PURE] = "1"
    # The configuration includes what the caller's options say by the same variable.
    final = _config_variable({**base, **options.env}, _config(launch, own))
    if key is not None:
        final[_KEY] = key
    return Environment(base, (key,) if key else (), final)


def provider_env(provider: Provider, model: str | None, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that route OpenCode to `provider`; no file is written."""
    name = full_model(RunOptions(prompt="", model=model, provider=provider))
    key = provider_key(provider, env, PRODUCT.id)
    routed = _config_variable(env, _provider_config(provider, name, OpenCodeOptions().api))
    return {**routed, **({_KEY: key} if key else {})}


def _own_folders(home: str) -> dict[str, str]:
    """Variables that put all of OpenCode's folders below `home`. HOME stays: the agent's tools are
    the user's."""
    return {
        **{
            f"XDG_{name}_HOME": os.path.join(home, name.lower())
            for name in ("CONFIG", "DATA", "CACHE", "STATE")
        },
        "OPENCODE_TEST_HOME": os.path.join(home, "home"),
    }


def _server_env(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with nothing of the user's OpenCode in it.

    Packages are not fetched: OpenCode gets its plugin kit from the registry at every first start
    otherwise.
    """
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith("OPENCODE") and name not in PROXIES
    }
    return {
        **kept,
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_CLAUDE_CODE": "1",
        "NPM_CONFIG_OFFLINE": "true",
        **NO_PROXY,
    }


def _config_variable(env: Mapping[str, str], config: dict[str, Any]) -> dict[str, str]:
    """The variable that carries `config`, over what `env` already says by it."""
    if not config:
        return {}
    given = env.get(CONFIG)
    if given:
        try:
            config = merged(structs.decode(given, dict[str, Any]), config)
        except msgspec.MsgspecError as problem:
            raise WrongUse(f"the variable {CONFIG} is not a JSON object: {problem}") from None
    return {CONFIG: msgspec.json.encode(config).decode()}


# -- configuration --------------------------------------------------------------------------------


def _config(launch: Launch, own: OpenCodeOptions) -> dict[str, Any]:
    """What this process changes in OpenCode's configuration."""
    options, live = launch.options, launch.mode == "live"
    config: dict[str, Any] = {}
    if options.model_server is not None:
        config = _server_config(options.model_server, full_model(options) or "")
    elif options.provider is not None:
        model = full_model(options)
        config = _provider_config(options.provider, model, own.api)
        if live:
            # No argument names the model over the protocol.
            config |= _named_model(config["provider"], model or "")
    if options.system_prompt is not None:
        config["agent"] = {own.agent or _DEFAULT_AGENT: {"prompt": options.system_prompt}}
    # In a run nobody answers permission requests.
    harmless = launch.dialect.harmless_tools if launch.mode == "run" else ()
    if harmless and options.permission_mode == "ask":
        config["permission"] = {"*": "deny", **dict.fromkeys(harmless, "allow")}
    elif options.permission_mode == "ask":
        # It never asks by itself.
        config["permission"] = dict.fromkeys(("edit", "bash", "webfetch"), "ask")
    files = _instruction_files(launch)
    if files:
        config["instructions"] = files
    tools = {"*": False} if options.allowed_tools else {}
    tools |= dict.fromkeys(options.allowed_tools, True)
    tools |= dict.fromkeys(options.denied_tools, False)
    if tools:
        config["tools"] = tools
        if not harmless and "permission" in config:
            config["permission"] = _still_asked(config["permission"], options)
    if options.mcp_config is not None and not live:
        # The protocol carries the MCP servers itself.
        config["mcp"] = {
            name: _mcp(name, server) for name, server in read_servers(options.mcp_config).items()
        }
    if options.settings is not None:
        config = merged(config, json_object(options.settings, "settings"))
    return config


def _still_asked(rules: dict[str, str], options: RunOptions) -> dict[str, str]:
    """`rules` without those about tools that are switched off: a rule to ask about a tool would
    switch it on again. The rule about `edit` covers `write` too."""
    off = {*options.denied_tools, *(("edit",) if "write" in options.denied_tools else ())}
    allowed = options.allowed_tools
    return {
        name: rule
        for name, rule in rules.items()
        if name not in off and (not allowed or name in allowed)
    }


def _instruction_files(launch: Launch) -> list[str]:
    options = launch.options
    files = []
    if options.append_system_prompt:
        files.append(launch.write("instructions.md", options.append_system_prompt))
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


def _provider_config(provider: Provider, model: str | None, api: str) -> dict[str, Any]:
    """What routes `model` to `provider`; it only names the variable of the key."""
    if model is None:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    name, _, model_id = model.partition("/")
    entry: dict[str, Any] = {"options": {}}
    if provider.base_url is not None:
        entry["options"]["baseURL"] = provider.base_url
    if provider.auth_token_env is not None:
        entry["options"]["apiKey"] = f"{{env:{_KEY}}}"
    if name not in KEY_VARIABLES:
        if provider.base_url is None:
            raise WrongUse(
                f"opencode does not know where provider {name} is", hint="give it a base address"
            )
        entry["npm"] = APIS[api]
        entry["models"] = {model_id: {}}
    return {"provider": {name: entry}}


def _named_model(providers: dict[str, Any], model: str) -> dict[str, Any]:
    """What makes OpenCode use `model`, and send images to it."""
    name, _, model_id = model.partition("/")
    entry = {**providers[name], "models": {model_id: dict(_WITH_IMAGES)}}
    return {"provider": {name: entry}, "model": model, "small_model": model}


_WITH_IMAGES: dict[str, Any] = {
    "attachment": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
}
"""OpenCode sends images to a model only if its entry says that it takes them."""


def _server_config(server: ModelServer, model: str) -> dict[str, Any]:
    """What routes OpenCode to the scripted model, and to nothing else."""
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
                    "apiKey": f"{{env:{_KEY}}}",
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


# -- a sandbox ------------------------------------------------------------------------------------

_OPEN = (".local/share/opencode", ".local/state/opencode", ".cache/opencode")
_RUN = ("bin", "packages", "node_modules")
"""Programs and plugins in its cache, which every session of the user runs."""
_IGNORED = "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore\n"


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its conversations, with the login beside them, and its cache except for what it runs from
    there.

    Its configuration stays closed. OpenCode writes a list of ignored files there if it is missing,
    and exits if it cannot; so Bridle makes the list.
    """
    from bridle.sandbox import SandboxNeeds

    config, cache = in_home(".config/opencode", env), in_home(".cache/opencode", env)
    for folder in (config, cache):
        make_private_dir(folder)
    held: dict[str, str | None] = {os.path.join(cache, name): None for name in _RUN}
    held[os.path.join(config, ".gitignore")] = _IGNORED
    return SandboxNeeds(writable=tuple(in_home(path, env) for path in _OPEN), protected=held)
