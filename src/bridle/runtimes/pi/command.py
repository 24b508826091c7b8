"""The calls of Pi: words, environment, files and its configuration folder, from Bridle's options.

Pi takes its providers and settings from files only. A run that needs others gets a configuration
folder of its own, in which everything of the user's is linked, except the files that differ. Keys
go into the environment only, prompts by stdin, system prompts by private file.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core import structs
from bridle.core.errors import ResumeRefused, WrongUse
from bridle.core.files import make_private_dir, run_dir, state_dir, write_private
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.alternatives import refuse_fork
from bridle.runtimes.options import (
    check_images,
    check_range,
    json_object,
    merged,
    provider_key,
    readable_file,
)
from bridle.runtimes.pi.product import (
    ALIASES,
    ALL_KEY_VARIABLES,
    APIS,
    DEFAULT_PROVIDER,
    DEFAULT_TOOLS,
    KEY_VARIABLES,
    PRODUCT,
    SESSION_DIR_VARIABLE,
    PiDialect,
    PiOptions,
    agent_dir,
)
from bridle.runtimes.planner import Command, Environment, Launch
from bridle.runtimes.product import Mode
from bridle.runtimes.routing import PROXIES

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

HOME = PRODUCT.home_variable
KEY_VARIABLE = "BRIDLE_PROVIDER_KEY"
"""Holds the key of a provider that Pi does not know by itself; models.json only names it."""
_MODES = {"run": ("--mode", "json"), "live": ("--mode", "rpc")}
_SCRIPTED_MODEL = "sonnet"
"""The model of a run with a scripted model server that names none; Pi knows its price."""
_SCRIPTED_RETRIES = 3
_SCRIPTED_DELAY_MS = 250


# -- choices --------------------------------------------------------------------------------------


def check(options: RunOptions, own: PiOptions, dialect: PiDialect, mode: Mode) -> None:
    """Refuse values that this version does not know, and a copy in a terminal session."""
    for name, value, allowed in (
        ("thinking", own.thinking, dialect.thinking_levels),
        ("api", own.api, APIS),
    ):
        if value is not None and value not in allowed:
            raise WrongUse(
                f"provider option {name} cannot be {value}", hint=f"one of: {', '.join(allowed)}"
            )
    if own.max_retries is not None:
        check_range("max_retries", own.max_retries, 0, 100)
    if mode == "tmux":
        refuse_fork("pi", options, own.fork, "not in a terminal session")


def expand_model(name: str, section: Mapping[str, Any]) -> str:
    """A model name as `provider/id`, which is the only form that every version reads the same.

    `section` is `runtime.pi` of the configuration: its `modelMap` is looked at first, then the
    built-in aliases; a name without provider gets the section's `provider`, else `anthropic`. A
    thinking level after a colon stays.
    """
    bare, colon, level = name.partition(":") if "/" not in name else (name, "", "")
    mapped = (section.get("modelMap") or section.get("model_map") or {}).get(bare)
    provider = section.get("provider") or DEFAULT_PROVIDER
    full = str(mapped or ALIASES.get(bare, bare))
    if "/" not in full:
        full = f"{provider}/{full}"
    return f"{full}{colon}{level}"


def wanted_model(options: RunOptions, section: Mapping[str, Any]) -> str | None:
    """The model that `options` ask for, as `provider/id`; None leaves it to Pi."""
    name = options.model or (_SCRIPTED_MODEL if options.model_server else None)
    return expand_model(name, section) if name else None


# -- words ----------------------------------------------------------------------------------------


def build(launch: Launch, env: Mapping[str, str], section: Mapping[str, Any]) -> Command:
    """The call of Pi in `launch.mode`, for a process that gets `env`; `section` as in
    `expand_model`."""
    mode, options = launch.mode, launch.options
    model = wanted_model(options, section)
    chosen = ["--model", model] if model else []
    if mode == "print":
        words = ["--print", *chosen, *_prompt_words(launch)]
        return Command(words=tuple(words))
    if mode == "spawn":
        words = [*chosen, *_spawn_flags(launch), *_prompt_words(launch)]
        return Command(words=tuple(words))
    native, session = _session(launch)
    if options.append_system_prompt_file is not None:
        readable_file(options.append_system_prompt_file, "system prompt")
    images = _image_words(options.images) if mode in ("run", "interactive") else []
    words = [
        *(_MODES.get(mode, ())),
        *chosen,
        *_thinking_flags(launch),
        *session,
        *_trust_flags(launch),
        *_tool_flags(options, launch.dialect),
        *_file_flags(launch),
        *options.raw_args,
        *images,
    ]
    facts: dict[str, Any] = {}
    if mode == "live":
        fork = native is None and options.resume is not None
        facts = {"model": model, "names": dict(section), "fork": fork}
    elif mode == "tmux":
        import time

        from bridle.runtimes.pi.transcript import session_dir

        folder = session_dir(agent_dir(env), launch.cwd, env)
        facts = {"folder": folder, "session": native, "began": time.time() - 1.0}
    elif mode == "interactive":
        words += _prompt_words(launch)
    return Command(
        words=tuple(words),
        stdin=options.prompt.encode(errors="surrogateescape") if mode == "run" else None,
        keep_stdin=mode == "live",
        native_session_id=native,
        wire=facts,
    )


def _spawn_flags(launch: Launch) -> list[str]:
    """Where Pi would ask whether to trust the project, it gets the answer no: a stray Enter in that
    dialog would trust it for good."""
    options = launch.options
    flags = ["--no-approve"] if launch.dialect.trust_flags else []
    if options.permission_mode == "ask":
        from bridle.runtimes.pi.hooks import lasting_ask_extension

        flags += ["-e", lasting_ask_extension(launch.env)]
    for flag, text in (
        ("--system-prompt", options.system_prompt),
        ("--append-system-prompt", options.append_system_prompt),
        ("--append-system-prompt", options.append_system_prompt_file),
    ):
        flags += [flag, text] if text is not None else []
    return flags


def _prompt_words(launch: Launch) -> list[str]:
    """The words that carry the prompt, whatever it begins with.

    A leading `@` would name a file, and one version knows no `--`: a space before it helps.
    """
    prompt = launch.options.prompt
    if not prompt:
        return []
    if prompt[0] == "-" and launch.dialect.end_of_options:
        return ["--", prompt]
    return [f" {prompt}" if prompt[0] in ("-", "@") else prompt]


def _session(launch: Launch) -> tuple[str | None, list[str]]:
    """The conversation's id, where it is known before the start, and the flags that choose it."""
    options, cwd = launch.options, launch.cwd
    if options.resume is None:
        if launch.dialect.session_id_flag:
            return launch.session_id, ["--session-id", launch.session_id]
        return None, []
    from bridle.runtimes.pi.transcript import find_session, session_dir

    found, user_dir = None, _user_dir(launch)
    if user_dir is not None:
        folder = session_dir(user_dir, cwd, {**launch.env, **options.env})
        found = find_session(folder, options.resume)
    if found is None:
        raise ResumeRefused(
            f"pi has no conversation {options.resume} in {cwd}",
            hint="resume it in the folder where it began, by its whole id",
            runtime="pi",
        )
    path, header = found
    if os.path.realpath(header.cwd) != os.path.realpath(cwd):
        raise ResumeRefused(
            f"conversation {options.resume} belongs to {header.cwd}, not to {cwd}",
            hint="resume it in the folder where it began",
            runtime="pi",
        )
    # The file, not the id: Pi takes the beginning of an id for the whole, and asks on stdin
    # whether it may copy a conversation of another folder.
    return (None, ["--fork", path]) if launch.own.fork else (options.resume, ["--session", path])


def _thinking_flags(launch: Launch) -> list[str]:
    options, level = launch.options, launch.own.thinking
    if level is None and options.model_server is not None and ":" not in (options.model or ""):
        # The user's settings are out of reach there, and a script thinks when it says so.
        level = "off"
    return ["--thinking", level] if level else []


def _trust_flags(launch: Launch) -> list[str]:
    """Flags that keep a project's own code from running unless the caller trusts it.

    A version that knows of trust has flags for it. For one that does not, all discovery of
    extensions is off in a project that brings some; the user's own are then off too.
    """
    trusted = launch.own.trust_project
    if launch.dialect.trust_flags:
        return ["--approve"] if trusted else ["--no-approve"]
    folder = os.path.join(launch.cwd, ".pi")
    if trusted or not os.path.isdir(folder):
        return []
    launch.warnings.append(
        f"pi: this version cannot ignore {folder}: its extensions are off for this run (yours"
        " too), but its settings and system prompts take effect; trust_project=true loads all"
    )
    return ["--no-extensions"]


def _tool_flags(options: RunOptions, dialect: PiDialect) -> list[str]:
    """Flags that leave the agent the allowed tools, without the denied ones."""
    allowed = options.allowed_tools
    if options.denied_tools and not dialect.deny_flag:
        # This version has no list of what to leave out: say what stays.
        allowed = allowed or DEFAULT_TOOLS
        allowed = tuple(name for name in allowed if name not in options.denied_tools)
        return ["--tools", ",".join(allowed)] if allowed else ["--no-tools"]
    flags = ["--tools", ",".join(allowed)] if allowed else []
    if options.denied_tools:
        flags += ["--exclude-tools", ",".join(options.denied_tools)]
    return flags


def _file_flags(launch: Launch) -> list[str]:
    """Flags that name files of this run.

    System prompts go by file: an argument is limited in size, shows in the process list, and Pi
    reads a file if the text happens to name one.
    """
    options = launch.options
    flags: list[str] = []
    if options.permission_mode == "ask":
        from bridle.runtimes.pi.hooks import ASK_FILE, ask_extension

        flags += ["-e", launch.write(ASK_FILE, ask_extension(live=launch.mode == "live"))]
    for flag, text in (
        ("--system-prompt", options.system_prompt),
        ("--append-system-prompt", options.append_system_prompt),
    ):
        if text:
            flags += [flag, launch.write(f"{flag.strip('-')}.md", text)]
    if options.append_system_prompt_file is not None:
        path = os.path.abspath(os.path.expanduser(options.append_system_prompt_file))
        flags += ["--append-system-prompt", path]
    return flags


def _image_words(paths: tuple[str, ...]) -> list[str]:
    """Words that put images into the prompt; Pi would paste any other file into it as text."""
    check_images(paths, "Pi")
    return ["@" + os.path.abspath(os.path.expanduser(path)) for path in paths]


# -- environment ----------------------------------------------------------------------------------


class _Changes(msgspec.Struct, frozen=True, kw_only=True):
    """How the environment and the configuration folder of a run differ from the user's."""

    providers: dict[str, Any] = {}
    """Entries of `providers` in models.json."""
    settings: dict[str, Any] = {}
    mcp_servers: dict[str, Any] = {}
    """Entries of `mcpServers` in mcp.json."""
    env: dict[str, str] = {}
    dropped: tuple[str, ...] = ()
    """Variables that Pi must not get."""
    hide_login: bool = False
    """Leave out auth.json: Pi would send a saved login in place of the given key."""

    @property
    def needs_folder(self) -> bool:
        """Whether variables alone cannot bring these about."""
        return bool(self.providers or self.settings or self.mcp_servers or self.hide_login)


def environment(launch: Launch, section: Mapping[str, Any]) -> Environment:
    """The user's variables, and a configuration folder where the user's own does not fit."""
    changes, user_dir = _changes(launch, wanted_model(launch.options, section)), _user_dir(launch)
    final = {"PI_SKIP_VERSION_CHECK": "1", **changes.env}
    # Such a version saves a choice of model, which must not reach the user's own folder.
    saves = launch.mode == "live" and launch.dialect.saves_model
    if user_dir is None or changes.needs_folder or saves:
        final[HOME] = os.path.join(launch.folder(), "agent")
        os.mkdir(final[HOME], 0o700)
        _fill_home(final[HOME], user_dir, changes)
    elif launch.options.account_dir:
        final[HOME] = user_dir
    keys = (KEY_VARIABLE, *ALL_KEY_VARIABLES)
    return Environment(
        dict(launch.env),
        secrets=tuple(value for name, value in changes.env.items() if name in keys),
        final=final,
        dropped=frozenset(changes.dropped),
    )


def provider_env(
    provider: Provider, model: str | None, env: Mapping[str, str], dialect: PiDialect
) -> dict[str, str]:
    """Variables that lead Pi to `provider`; `model` is `provider/id`.

    Pi takes addresses from a file only, so an address makes a configuration folder that stays, the
    same for the same provider. It holds links to the user's and a models.json without a key.
    """
    changes = _provider_changes(provider, model, None, env, dialect)
    variables = {**dict.fromkeys(changes.dropped, ""), **changes.env}
    if changes.needs_folder:
        from hashlib import sha256

        user_dir = agent_dir(env)
        known = _encode([user_dir, changes.providers, changes.hide_login])
        folder = os.path.join(state_dir(env), "pi", sha256(known).hexdigest()[:16])
        _fill_home(make_private_dir(folder), user_dir, changes)
        variables[HOME] = folder
    return variables


def _changes(launch: Launch, model: str | None) -> _Changes:
    options, own, dialect = launch.options, launch.own, launch.dialect
    settings = json_object(options.settings, "settings") if options.settings else {}
    if options.model_server is not None:
        retries = _SCRIPTED_RETRIES if own.max_retries is None else own.max_retries
        changes = _server_changes(options.model_server, model or "", retries, dialect)
    else:
        changes = _Changes()
        if own.max_retries is not None:
            settings = merged(settings, _retry_settings(own.max_retries))
        if options.provider is not None:
            around = {**launch.env, **options.env}
            changes = _provider_changes(options.provider, model, own.api, around, dialect)
    return msgspec.structs.replace(
        changes,
        settings=merged(changes.settings, settings),
        mcp_servers=_mcp_servers(options.mcp_config) if options.mcp_config and dialect.mcp else {},
    )


def _retry_settings(max_retries: int) -> dict[str, Any]:
    return {"retry": {"enabled": max_retries > 0, "maxRetries": max_retries}}


def _mcp_servers(given: str) -> dict[str, Any]:
    """The caller's MCP servers. Pi would only let the model search for their tools, so each entry
    asks to declare them like all others, unless it says otherwise."""
    servers = json_object(given, "MCP configuration").get("mcpServers")
    if not isinstance(servers, dict) or not all(isinstance(one, dict) for one in servers.values()):
        raise WrongUse(
            "the MCP configuration names no servers", hint='it looks like {"mcpServers": {…}}'
        )
    return {name: {"exposure": "direct", **entry} for name, entry in servers.items()}


def _provider_changes(
    provider: Provider,
    model: str | None,
    api: str | None,
    env: Mapping[str, str],
    dialect: PiDialect,
) -> _Changes:
    """What routes `model` (`provider/id`) to `provider`.

    Contract: the key goes into the environment only; a saved login or another key of the user's
    is never sent to an address that was given with a key of its own.
    """
    if model is None:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    name, _, model_id = model.partition("/")
    known = KEY_VARIABLES.get(name)
    key = provider_key(provider, env, "pi")
    entry: dict[str, Any] = {"baseUrl": provider.base_url} if provider.base_url else {}
    if api is not None or known is None:
        if not provider.base_url:
            raise WrongUse(
                f"pi does not know where provider {name} is", hint="give it a base address"
            )
        entry["api"] = api or "anthropic-messages"
        entry["models"] = [{"id": _without_level(model_id)}]
    if key is None:
        return _Changes(providers={name: entry} if entry else {})
    if known is not None:
        return _Changes(
            providers={name: entry} if entry else {},
            env={known[0]: key},
            dropped=known[1:],
            hide_login=True,
        )
    entry["apiKey"] = dialect.key_from_variable.format(KEY_VARIABLE)
    return _Changes(providers={name: entry}, env={KEY_VARIABLE: key}, hide_login=True)


def _server_changes(
    server: ModelServer, model: str, max_retries: int, dialect: PiDialect
) -> _Changes:
    """What points every model at the scripted one, for a folder that holds nothing else."""
    url = server.url.rstrip("/")
    providers: dict[str, Any] = {
        "anthropic": {"baseUrl": url},
        "openai": {"baseUrl": f"{url}/v1"},
    }
    name, _, model_id = model.partition("/")
    if name not in providers:
        providers[name] = {
            "baseUrl": url,
            "api": "anthropic-messages",
            "apiKey": dialect.key_from_variable.format(KEY_VARIABLE),
            "models": [{"id": _without_level(model_id)}],
        }
    retry = _retry_settings(max_retries)
    retry["retry"] |= {
        "baseDelayMs": _SCRIPTED_DELAY_MS,
        "provider": {"maxRetries": 0, "maxRetryDelayMs": 2000},
    }
    return _Changes(
        providers=providers,
        settings=retry | {"enableInstallTelemetry": False, "quietStartup": True},
        env={
            "ANTHROPIC_API_KEY": server.api_key,
            "OPENAI_API_KEY": server.api_key,
            KEY_VARIABLE: server.api_key,
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
            "PI_TELEMETRY": "0",
        },
        dropped=(SESSION_DIR_VARIABLE, *ALL_KEY_VARIABLES, *PROXIES),
    )


def _without_level(model_id: str) -> str:
    return model_id.partition(":")[0]


# -- the configuration folder ---------------------------------------------------------------------


def _user_dir(launch: Launch) -> str | None:
    """The folder that the run's own is made of; None for a run with nothing of the user's."""
    options = launch.options
    if options.account_dir:
        return agent_dir({**launch.env, HOME: options.account_dir})
    return None if options.model_server is not None else agent_dir(launch.env)


def _fill_home(folder: str, user_dir: str | None, changes: _Changes) -> None:
    """Make `folder` a configuration folder: the user's by links, `changes` by files of its own."""
    own = {"models.json", "settings.json"}
    if changes.mcp_servers:
        own.add("mcp.json")
    if changes.hide_login:
        own.add("auth.json")
    if user_dir is not None:
        # Conversations stay the user's, whichever folder the agent was started with.
        make_private_dir(os.path.join(user_dir, "sessions"))
        for name in os.listdir(user_dir):
            target = os.path.join(folder, name)
            if name not in own and not os.path.lexists(target):
                os.symlink(os.path.join(user_dir, name), target)
    models = _read_object(user_dir, "models.json")
    providers = dict(models.get("providers") or {})
    for name, entry in changes.providers.items():
        providers[name] = {**(providers.get(name) or {}), **entry}
    if providers:
        write_private(folder, "models.json", _encode({**models, "providers": providers}))
    settings = merged(_read_object(user_dir, "settings.json"), changes.settings)
    if settings:
        write_private(folder, "settings.json", _encode(settings))
    if changes.mcp_servers:
        servers = merged(_read_object(user_dir, "mcp.json"), {"mcpServers": changes.mcp_servers})
        write_private(folder, "mcp.json", _encode(servers))


def _read_object(folder: str | None, name: str) -> dict[str, Any]:
    if folder is None:
        return {}
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            return structs.decode(file.read(), dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as problem:
        raise WrongUse(
            f"cannot read Pi's {path}: {problem}", hint="it must be a JSON object without comments"
        ) from None


def _encode(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


_OBEYED: dict[str, str | None] = {
    "settings.json": "{}\n",
    "models.json": '{"providers": {}}\n',
    "mcp.json": '{"mcpServers": {}}\n',
    "extensions": None,
    "skills": None,
    "prompts": None,
    "themes": None,
    "npm": None,
    "git": None,
    "bin": None,
}
"""What Pi runs or obeys in its folder, with the content of an empty one; None is a folder."""
_READ = ("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "SYSTEM.md", "APPEND_SYSTEM.md", "tools")
"""What changes Pi's behaviour by its existence, so Bridle never creates it."""


def sandbox_needs(env: Mapping[str, str], cwd: str) -> "SandboxNeeds":
    """What Pi must be able to write when it is started with `env`.

    It locks its login by a folder beside it, even to read it, so its whole folder is open except
    for what it obeys or runs. A folder of links, made for one run, is open by itself; what it
    links to of the user's is opened one by one.
    """
    from bridle.runtimes.pi.transcript import session_dir
    from bridle.sandbox import SandboxNeeds

    folder = agent_dir(env)
    conversations = os.path.realpath(session_dir(folder, cwd, env))
    if folder.startswith(os.path.join(run_dir(env), "")):
        login = os.path.join(folder, "auth.json")
        files = (os.path.realpath(login),) if os.path.islink(login) else ()
        return SandboxNeeds(writable=(conversations,), files=files)
    held = _OBEYED | {name: "" for name in _READ if os.path.exists(os.path.join(folder, name))}
    return SandboxNeeds(
        writable=(folder, conversations),
        protected={os.path.join(folder, name): text for name, text in held.items()},
    )
