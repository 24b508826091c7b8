"""The calls of Cline: words, environment, settings files, and what a sandbox must open.

Cline saves the provider and model of each run as the next default, and a key given by flag with
them. A run therefore gets private copies of its settings files, by variables that Cline has for
this. A login that renews itself is the exception: its new token must reach the user's own file, or
the next run is locked out.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core import structs
from bridle.core.errors import NotAuthenticated, WrongUse
from bridle.core.files import make_private_dir, state_dir, write_private
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.acp.product import AcpCommand
from bridle.runtimes.cline.product import DIALECTS, PRODUCT, ClineDialect, ClineOptions
from bridle.runtimes.cline.transcript import data_dir
from bridle.runtimes.dialects import choose_dialect
from bridle.runtimes.options import (
    McpServer,
    added_instructions,
    image_data,
    json_object,
    provider_key,
    read_servers,
)
from bridle.runtimes.planner import Command, Environment, Launch, account_folder
from bridle.runtimes.product import Login
from bridle.runtimes.routing import PROXIES

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

LOG = "cline.log"
"""The file of the private folder into which Cline logs a run."""
_LONGEST_ARGUMENT = 120_000
"""Bytes of one argument; Linux allows 131072."""


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of Cline in `launch.mode`, for a process that gets `env`."""
    options = launch.options
    if launch.mode == "print":
        return Command(words=tuple(_one_shot_words(options)))
    if launch.mode == "spawn":
        words = ["--tui", "--model", options.model or "", *_approval(options)]
        words += [f"--system={options.system_prompt}"] if options.system_prompt else []
        return Command(words=(*words, *_first_message(options)))
    if launch.mode == "live":
        # Cline ignores the MCP servers of the protocol; a settings file names them.
        named = options.model_server is not None or options.provider is not None
        return AcpCommand(words=(), model_chosen=named, mcp_chosen=True)
    words = [*_flags(launch), *options.raw_args]
    if launch.mode == "interactive":
        return Command(words=("--tui", *words, *_first_message(options)))
    prompt = f"{_image_words(launch)}{options.prompt}"
    return Command(
        words=("--json", *words, launch.dialect.bare_prompt),
        stdin=prompt.encode(errors="surrogateescape"),
    )


def check_length(options: RunOptions) -> None:
    """Refuse a system prompt that a command line cannot carry."""
    size = len((options.system_prompt or "").encode(errors="replace"))
    if size > _LONGEST_ARGUMENT:
        raise WrongUse(
            "the system prompt is too long for cline, which takes it on its command line",
            hint="give it as an added prompt (append_system_prompt), which goes by file",
        )


# -- words ----------------------------------------------------------------------------------------


def _one_shot_words(options: RunOptions) -> list[str]:
    """A prompt of one word gets a space after it: Cline would read it as a command."""
    prompt = options.prompt
    words = prompt if any(char.isspace() for char in prompt) else f"{prompt} "
    return [*(["--model", options.model] if options.model else []), "--", words]


def _first_message(options: RunOptions) -> list[str]:
    return ["--", options.prompt] if options.prompt.strip() else []


def _approval(options: RunOptions) -> list[str]:
    return ["--auto-approve", "true" if options.permission_mode == "bypass" else "false"]


def _flags(launch: Launch) -> list[str]:
    options, own = launch.options, launch.own
    named = options.provider is not None or options.model_server is not None
    flags = _approval(options)
    flags += [f"--provider={own.provider}"] if own.provider and not named else []
    flags += [f"--model={options.model}"] if options.model and not named else []
    flags += [f"--system={options.system_prompt}"] if options.system_prompt else []
    flags += [f"--thinking={own.thinking}"] if own.thinking else []
    flags += [f"--compaction={own.compaction}"] if own.compaction else []
    return [*flags, "--plan"] if own.plan else flags


def _image_words(launch: Launch) -> str:
    """The beginning of a prompt that brings images: Cline reads files that are mentioned.

    The files are copies with plain names: a path with a space cannot be mentioned.
    """
    if not launch.options.images:
        return ""
    import shutil

    words = []
    for number, path in enumerate(launch.options.images, 1):
        kind, _ = image_data(path, "cline")
        copy = os.path.join(launch.folder(), f"image-{number}.{kind.partition('/')[2]}")
        shutil.copyfile(os.path.expanduser(path), copy)
        words.append(f"@{copy}")
    return " ".join(words) + "\n\n"


# -- environment ----------------------------------------------------------------------------------

_RULES_VARIABLE = "OneDrive"
_RULES_FILE = os.path.join("Documents", "Cline", "Rules", "bridle.md")
"""Cline reads general rules below several document folders. This variable names one of them, so a
run can have rules in no folder of the user or the project."""
_SERVER_API = "anthropic"
"""For the scripted model: the one provider with which Cline reports cache writes and reasoning."""
_ACP_API = "openai-compatible"
"""What a scripted model speaks over ACP, where Cline counts tokens in its own files."""


def environment(launch: Launch) -> Environment:
    """The user's variables with the account, the model service and the run's settings files."""
    options = launch.options
    around = {**launch.env, **options.env}
    over_acp, run = launch.mode == "live", launch.mode == "run"
    base = {**launch.env, **process_env(_dialect(launch.installation.version))}
    if options.account_dir is not None:
        for name in ("CLINE_DATA_DIR", "CLINE_SESSION_DATA_DIR", _PROVIDERS[0]):
            base.pop(name, None)
        base[PRODUCT.home_variable] = account_folder(options.account_dir)
        if over_acp:
            base["CLINE_DATA_DIR"] = data_dir(base)
    key: str | None = None
    if options.model_server is not None:
        base, key = _server_env(launch, base, options.model_server), options.model_server.api_key
    elif options.provider is not None:
        own = ClineOptions() if over_acp else launch.own
        routed, key = _provider_files(launch.folder(), options.provider, options.model, own, around)
        base |= routed
        if over_acp:
            base |= _acp_env(_api(options.provider, own), key, options.model)
    elif run:
        _check_login({**base, **options.env})
        base |= _user_providers(launch, base)
    if options.settings is not None or options.denied_tools:
        base |= _write(launch.folder(), _GLOBAL, _global_settings(options, base))
    if options.mcp_config is not None:
        base |= _write(launch.folder(), _MCP, _mcp_settings(options.mcp_config, base))
    added = added_instructions(options)
    if added is not None:
        launch.write(_RULES_FILE, f"{added.rstrip()}\n")
        base[_RULES_VARIABLE] = launch.folder()
    if run:
        base |= {"CLINE_LOG_PATH": os.path.join(launch.folder(), LOG), "CLINE_LOG_LEVEL": "info"}
        base.pop("CLINE_LOG_ENABLED", None)
    return Environment(base, (key,) if key else ())


def process_env(dialect: ClineDialect) -> dict[str, str]:
    """Variables of every process: the work stays in it, and no update replaces its version."""
    variable, value = dialect.local_backend
    return {variable: value, "CLINE_NO_AUTO_UPDATE": "1"}


def login_in(env: Mapping[str, str]) -> Login:
    """Whether a provider is set up or a key is given; a provider may also read a key from a
    variable of its own."""
    if PRODUCT.login_in(env) == "present" or os.path.exists(_settings_file(env, *_PROVIDERS)):
        return "present"
    other = any(name.endswith("_API_KEY") and value for name, value in env.items())
    return "unknown" if other else "missing"


def provider_env(provider: Provider, model: str | None, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that route a process which somebody else starts to `provider`.

    Cline takes an address and a key from a settings file only, so there is one for each provider
    among the user's state (it holds the key; private).
    """
    from hashlib import sha256

    wanted = f"{provider.base_url} {provider.auth_token_env} {model}"
    name = sha256(wanted.encode()).hexdigest()[:16]
    folder = os.path.join(state_dir(env), "cline", name)
    make_private_dir(folder)
    return _provider_files(folder, provider, model, ClineOptions(), env)[0]


def _dialect(version: str | None) -> ClineDialect:
    """The dialect of the CLI; over ACP a launch has the protocol's."""
    return choose_dialect(PRODUCT.id, DIALECTS, version)[0]


def _check_login(env: Mapping[str, str]) -> None:
    """Without any provider, Cline asks a service of its makers for a minute before it fails."""
    if login_in(env) == "missing":
        raise NotAuthenticated(
            "cline has no provider set up", hint=PRODUCT.errors.login_hint, runtime="cline"
        )


def _server_env(launch: Launch, env: Mapping[str, str], server: ModelServer) -> dict[str, str]:
    """`env` routed to the scripted model, without anything that the user chose."""
    options, over_acp = launch.options, launch.mode == "live"
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith("CLINE_") and name not in PROXIES
    }
    folder = launch.folder()
    home = env["CLINE_DIR"] if options.account_dir is not None else os.path.join(folder, "home")
    api = _ACP_API if over_acp else _SERVER_API
    model = options.model or PRODUCT.scripted_model
    entry = _entry(api, f"{server.url.rstrip('/')}/v1", server.api_key, model)
    return {
        **kept,
        **process_env(_dialect(launch.installation.version)),
        "CLINE_DIR": home,
        "CLINE_DATA_DIR": os.path.join(home, "data"),
        **_write(folder, _PROVIDERS, _providers(api, entry)),
        **_write(folder, _GLOBAL, {"telemetryOptOut": True, "autoUpdateEnabled": False}),
        **(_acp_env(api, server.api_key, model) if over_acp else {}),
    }


def _acp_env(name: str, key: str | None, model: str | None) -> dict[str, str]:
    """The variables without which `cline --acp` demands a login, whatever the settings say."""
    return {
        "CLINE_API_KEY": key or "none",
        "CLINE_PROVIDER": name,
        "CLINE_MODEL": model or PRODUCT.scripted_model,
    }


def _api(provider: Provider, own: ClineOptions) -> str:
    """Cline's name for `provider`."""
    return own.api if provider.base_url else own.provider or own.api


# -- settings files -------------------------------------------------------------------------------

_PROVIDERS = ("CLINE_PROVIDER_SETTINGS_PATH", "providers.json")
_GLOBAL = ("CLINE_GLOBAL_SETTINGS_PATH", "global-settings.json")
_MCP = ("CLINE_MCP_SETTINGS_PATH", "cline_mcp_settings.json")


def _provider_files(
    folder: str, provider: Provider, model: str | None, own: ClineOptions, env: Mapping[str, str]
) -> tuple[dict[str, str], str | None]:
    """Settings that route to `provider` alone: the variables that name them, and the key."""
    key = provider_key(provider, env, "cline")
    if not model:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    name = _api(provider, own)
    entry = _entry(name, provider.base_url, key, model)
    # Without the user's entries: their keys must not go to an address of the caller.
    return _write(folder, _PROVIDERS, _providers(name, entry)), key


def _user_providers(launch: Launch, env: Mapping[str, str]) -> dict[str, str]:
    """A copy of the user's providers, unless a login there renews itself."""
    data = _read(_settings_file(env, *_PROVIDERS))
    if not _renews_itself(data):
        return _write(launch.folder(), _PROVIDERS, data)
    if launch.options.model or launch.own.provider:
        launch.warnings.append(
            "cline: keeps the model of this run as its next default, because its login renews"
            " itself in the same file"
        )
    return {}


def _global_settings(options: RunOptions, env: Mapping[str, str]) -> dict[str, Any]:
    """The user's general settings, overridden by those of the run."""
    changes = json_object(options.settings, "settings") if options.settings is not None else {}
    base = _read(_settings_file(env, *_GLOBAL))
    if options.denied_tools:
        off = [*base.get("disabledTools", []), *changes.get("disabledTools", [])]
        changes["disabledTools"] = [*off, *options.denied_tools]
    return {**base, **changes}


def _mcp_settings(given: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The user's MCP servers and those of the run, which win."""
    base = _read(_settings_file(env, *_MCP))
    ours = {name: _mcp_entry(server) for name, server in read_servers(given).items()}
    return {**base, "mcpServers": {**base.get("mcpServers", {}), **ours}}


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
    """Whether a provider is logged in by a token that is exchanged for a new one."""
    for entry in (data.get("providers") or {}).values():
        settings = entry.get("settings") if isinstance(entry, dict) else None
        if isinstance(settings, dict) and settings.get("auth"):
            return True
    return False


def _settings_file(env: Mapping[str, str], variable: str, name: str) -> str:
    return env.get(variable) or os.path.join(data_dir(env), "settings", name)


def _write(folder: str, place: tuple[str, str], data: dict[str, Any]) -> dict[str, str]:
    variable, name = place
    path = os.path.join("settings", name)
    return {variable: write_private(folder, path, msgspec.json.encode(data))}


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return structs.decode(file.read(), dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as problem:
        raise WrongUse(f"cannot read Cline's {path}: {problem}") from None


# -- sandbox --------------------------------------------------------------------------------------

_OBEYED = {
    os.path.join("settings", _MCP[1]): '{"mcpServers": {}}\n',
    os.path.join("settings", _GLOBAL[1]): "{}\n",
    "connectors": None,
}
"""What later sessions of the user obey or run, each with its empty content; None is a folder."""


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its data, except the settings. A login that renews itself stays open, or it would be lost;
    any other is used by a copy and is closed."""
    from bridle.sandbox import SandboxNeeds

    data = data_dir(env)
    make_private_dir(os.path.join(data, "settings"))
    held: dict[str, str | None] = {os.path.join(data, name): _OBEYED[name] for name in _OBEYED}
    login = os.path.join(data, "settings", _PROVIDERS[1])
    if env.get(_PROVIDERS[0], login) != login and os.path.exists(login):
        held[login] = ""
    return SandboxNeeds(writable=(data,), protected=held)
