"""The calls of Copilot: words, environment, private files, and what a sandbox must open.

The prompt of a run goes by stdin; keys go by variables and private files, never by arguments.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.errors import ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.files import in_home, make_private_dir
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.acp.product import AcpCommand
from bridle.runtimes.copilot.product import BASE_URL, PRODUCT, TOKENS, CopilotOptions
from bridle.runtimes.copilot.transcript import events_path
from bridle.runtimes.options import (
    McpServer,
    added_instructions,
    check_images,
    provider_key,
    read_servers,
)
from bridle.runtimes.planner import Command, Environment, Launch, account_folder
from bridle.runtimes.routing import PROXIES

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

INSTRUCTION_FILE = os.path.join(".github", "instructions", "bridle.instructions.md")
USAGE_FILE = "usage.json"
"""The file of the private folder in which Copilot sums up the tokens of a run."""

_BYPASS = ("--allow-all-tools", "--allow-all-paths", "--allow-all-urls")
"""The first flag alone still refuses paths outside the folder and addresses, since Copilot would
have to ask about them."""
_PERMISSION_KINDS = ("shell", "write", "url")
_EVERYWHERE = '---\napplyTo: "**"\n---\n'


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of Copilot in `launch.mode`, for a process that gets `env`."""
    options = launch.options
    if launch.mode == "print":
        return Command(words=tuple(_one_shot_words(options)))
    if launch.mode == "spawn":
        words = ["--model", options.model or "", *_bypass(options)]
        return Command(words=(*words, *_first_message(options)))
    if launch.mode == "live":
        # Copilot ignores the MCP servers of the protocol.
        words = [*_tool_flags(options), *_mcp_flags(launch)]
        return AcpCommand(words=tuple(words), mcp_chosen=True)
    words = [*_choice_flags(launch), "--no-auto-update", *_permission_flags(launch)]
    words += [*_tool_flags(options), *_mcp_flags(launch)]
    if launch.mode == "run":
        words += [*_image_flags(launch), "--output-format=json", "--no-color"]
        if launch.dialect.usage_flag:
            path = os.path.join(launch.folder(), USAGE_FILE)
            words.append(f"{launch.dialect.usage_flag}={path}")
    native = options.resume
    if options.resume is not None:
        words.append(f"--resume={options.resume}")
    elif launch.mode != "interactive":
        native = launch.session_id if launch.dialect.session_flag else None
        words += [f"{launch.dialect.session_flag}={native}"] if native else []
    words += options.raw_args
    words += _first_message(options) if launch.mode == "interactive" else ()
    run = launch.mode == "run"
    return Command(
        words=tuple(words),
        stdin=options.prompt.encode(errors="surrogateescape") if run else None,
        native_session_id=native,
        wire={"home": PRODUCT.home_in(env), "session": native},
    )


# -- words ----------------------------------------------------------------------------------------


def _one_shot_words(options: RunOptions) -> list[str]:
    prompt = options.prompt
    words = [f"--prompt={prompt}"] if prompt.startswith("-") else ["-p", prompt]
    return [*words, "--allow-all-tools", *(["--model", options.model] if options.model else [])]


def _first_message(options: RunOptions) -> list[str]:
    return [f"--interactive={options.prompt}"] if options.prompt.strip() else []


def _bypass(options: RunOptions) -> tuple[str, ...]:
    return _BYPASS if options.permission_mode == "bypass" else ()


def _choice_flags(launch: Launch) -> list[str]:
    """The model, its effort and the custom agent."""
    options, own = launch.options, launch.own
    flags = []
    if options.model and options.provider is None and options.model_server is None:
        flags.append(f"--model={options.model}")
    if own.effort is not None:
        flags.append(f"--reasoning-effort={own.effort}")
    if own.agent is not None:
        flags.append(f"--agent={own.agent}")
    return flags


def _permission_flags(launch: Launch) -> list[str]:
    """What tools may do: everything under `bypass`; otherwise Copilot asks, and in a run, where
    nobody answers, refuses what is not preapproved."""
    own, bypass = launch.own, _bypass(launch.options)
    flags = [*bypass, *(f"--allow-tool={rule}" for rule in own.preapproved_tools)]
    flags += ["--allow-all-paths"] if own.all_paths and not bypass else []
    flags += ["--allow-all-urls"] if own.all_urls and not bypass else []
    if own.trust_folder:
        flags.append(_known(launch, launch.dialect.trust_flag, "trust_folder"))
    for folder in own.add_dirs:
        path = os.path.abspath(os.path.expanduser(folder))
        if not os.path.isdir(path):
            raise WrongUse(f"no such directory: {folder}")
        flags.append(f"--add-dir={path}")
    return flags


def _tool_flags(options: RunOptions) -> list[str]:
    """Which tools the model gets, and which calls are refused."""
    flags = []
    for name in options.allowed_tools:
        if "(" in name:
            raise WrongUse(
                f"{name!r} is a permission rule, not a tool's name",
                hint="give rules with the provider option preapproved_tools",
            )
        flags.append(f"--available-tools={name}")
    for name in options.denied_tools:
        is_rule = "(" in name or name in _PERMISSION_KINDS
        flags.append(f"--{'deny-tool' if is_rule else 'excluded-tools'}={name}")
    return flags


def _image_flags(launch: Launch) -> list[str]:
    paths = launch.options.images
    check_images(paths, "copilot")
    flag = _known(launch, launch.dialect.image_flag, "images") if paths else ""
    return [f"{flag}={os.path.abspath(os.path.expanduser(path))}" for path in paths]


def _known(launch: Launch, flag: str, option: str) -> str:
    """`flag`, which implements `option`; refuses the option where this version has no such flag."""
    if not flag:
        version = launch.installation.version or "unknown"
        raise UnsupportedOption(
            launch.runtime,
            option,
            [],
            reason=f"version {version} has no flag for it",
            ignorable=False,
        )
    return flag


def _mcp_flags(launch: Launch) -> list[str]:
    """The caller's MCP servers, by a private file: entries may hold keys."""
    if not launch.options.mcp_config:
        return []
    servers = read_servers(launch.options.mcp_config)
    entries = {name: _mcp_entry(server) for name, server in servers.items()}
    path = launch.write("mcp.json", msgspec.json.encode({"mcpServers": entries}))
    return [f"--additional-mcp-config=@{path}"]


def _mcp_entry(server: McpServer) -> dict[str, object]:
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


# -- environment ----------------------------------------------------------------------------------

_ALLOW_ALL = "COPILOT_ALLOW_ALL"
_INSTRUCTION_DIRS = "COPILOT_CUSTOM_INSTRUCTIONS_DIRS"
_CACHES = ("COPILOT_CACHE_HOME", "COPILOT_PKG_CACHE_HOME")
"""Where Copilot unpacks itself (235 MB) before its first run. Every run keeps them: they hold
nothing that the user chose, and unpacking again takes seconds."""
_QUIET = {"COPILOT_AUTO_UPDATE": "false"}
"""For every process: an update runs another version than the one whose dialect is used."""
_NO_WINDOW = "10000000"
"""A scripted model has no window; Copilot would assume 128000 tokens and refuse more."""
_KEY = "COPILOT_PROVIDER_API_KEY"
_TOKEN = "COPILOT_PROVIDER_BEARER_TOKEN"
_FOREIGN = (_TOKEN, "COPILOT_PROVIDER_API_KEY_COMMAND", "COPILOT_PROVIDER_HEADERS")
"""Variables that would send a key of the user to a provider that the caller named."""
_SECRETS = (_KEY, _TOKEN, *TOKENS)


def environment(launch: Launch) -> Environment:
    """The user's variables with the account, the model service and the added instructions."""
    options, env = launch.options, launch.env
    over_acp = launch.mode == "live"
    base = dict(env)
    if options.account_dir is not None:
        base[PRODUCT.home_variable] = account_folder(options.account_dir)
    if options.permission_mode == "ask":
        base.pop(_ALLOW_ALL, None)
    if options.resume is not None and not over_acp:
        _check_resume(options, base)
    if options.model_server is not None:
        base = _server_env(base, options.model_server, options.model, _server_home(launch, base))
    elif options.provider is not None:
        own = CopilotOptions() if over_acp else launch.own
        around = {**env, **options.env}
        base |= provider_env(options.provider, options.model, around, own)
        base = {name: value for name, value in base.items() if value}
    if over_acp and options.model:
        base["COPILOT_MODEL"] = options.model
    added = added_instructions(options)
    if added is not None:
        place = _write_instructions(launch, added)
        others = base.get(_INSTRUCTION_DIRS)
        base[_INSTRUCTION_DIRS] = f"{others},{place}" if others else place
    base |= _QUIET
    around = {**base, **options.env}
    return Environment(base, tuple(around[name] for name in _SECRETS if around.get(name)))


def provider_env(
    provider: Provider,
    model: str | None,
    env: Mapping[str, str],
    own: CopilotOptions | None = None,
) -> dict[str, str]:
    """Variables that route Copilot to `provider`; an empty value removes a variable of the user.

    Contract: a key of the user for another service is never sent to an address of the caller.
    """
    key = provider_key(provider, env, "copilot")
    if provider.base_url is None:
        return {TOKENS[0]: key} if key else {}
    if not model:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    own = own or CopilotOptions()
    return {
        **dict.fromkeys(_FOREIGN, ""),
        BASE_URL: provider.base_url,
        "COPILOT_PROVIDER_TYPE": own.provider_type,
        "COPILOT_PROVIDER_WIRE_API": own.wire_api,
        _KEY: key or "",
        "COPILOT_MODEL": model,
    }


def unreachable_model(env: Mapping[str, str], home: str) -> dict[str, str]:
    """`env` with another home, no route to a model and no key."""
    kept = {
        name: value
        for name, value in env.items()
        if name not in TOKENS and not name.startswith("COPILOT_PROVIDER_")
    }
    return {
        **kept,
        PRODUCT.home_variable: home,
        BASE_URL: "http://127.0.0.1:9/v1",
        _KEY: "none",
        "COPILOT_MODEL": "none",
        "COPILOT_OFFLINE": "true",
    }


def _check_resume(options: RunOptions, env: Mapping[str, str]) -> None:
    """Refuse all but the whole id of an existing conversation: Copilot also accepts the beginning
    of an id, or a name."""
    wanted = options.resume or ""
    known = events_path(PRODUCT.home_in(env), os.path.basename(wanted))
    if (
        (options.model_server is not None and options.account_dir is None)
        or os.path.basename(wanted) != wanted
        or not os.path.isfile(known)
    ):
        raise ResumeRefused(f"copilot has no conversation {wanted}", runtime="copilot")


def _server_home(launch: Launch, env: Mapping[str, str]) -> str:
    if launch.options.account_dir is not None:
        return env[PRODUCT.home_variable]
    home = os.path.join(launch.folder(), "home")
    os.mkdir(home, 0o700)
    return home


def _server_env(
    env: Mapping[str, str], server: ModelServer, model: str | None, home: str
) -> dict[str, str]:
    """`env` routed to the scripted model, without anything that the user chose."""
    kept = {
        name: value
        for name, value in env.items()
        if name in _CACHES or not (name.startswith("COPILOT_") or name in TOKENS or name in PROXIES)
    }
    return {
        **kept,
        PRODUCT.home_variable: home,
        BASE_URL: f"{server.url.rstrip('/')}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_WIRE_API": "completions",
        _KEY: server.api_key,
        "COPILOT_MODEL": model or PRODUCT.scripted_model,
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": _NO_WINDOW,
        "COPILOT_OFFLINE": "true",
    }


def _write_instructions(launch: Launch, text: str) -> str:
    """A folder whose instruction file Copilot reads for every file of the project."""
    folder = os.path.join(launch.folder(), "instructions")
    if "," in folder:
        raise WrongUse(f"copilot cannot read instructions below a path with a comma: {folder}")
    name = os.path.join("instructions", INSTRUCTION_FILE)
    launch.write(name, f"{_EVERYWHERE}{text.rstrip()}\n")
    return folder


# -- sandbox --------------------------------------------------------------------------------------

_OBEYED: dict[str, str | None] = {
    "settings.json": "{}\n",
    # It insists on recording its first launch where the file has no date of one.
    "config.json": '{"firstLaunchAt": "2026-01-01T00:00:00.000Z"}\n',
    "mcp-config.json": '{"mcpServers": {}}\n',
    "hooks": None,
    "agents": None,
    "skills": None,
    "extensions": None,
    "plugins": None,
    "installed-plugins": None,
}
"""What Copilot runs or obeys of its home, each with its empty content; None is a folder."""
_READ = ("copilot-instructions.md", "lsp-config.json", "permissions-config.json", "instructions")
"""What changes its behaviour by existing, so Bridle never creates it."""


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its home, with databases and locks side by side, except what it obeys; and its cache.

    Copilot unpacks itself into the cache and runs from there, so what is unpacked is closed. Before
    the first time, a run gets a cache of its own and unpacks for itself alone.
    """
    from bridle.sandbox import SandboxNeeds

    folder, cache = PRODUCT.home_in(env), in_home(".cache/copilot", env)
    for place in (folder, cache):
        make_private_dir(place)
    held = _OBEYED | {name: "" for name in _READ if os.path.exists(os.path.join(folder, name))}
    protected = {os.path.join(folder, name): text for name, text in held.items()}
    if any(env.get(name) for name in _CACHES):
        return SandboxNeeds(writable=(folder,), protected=protected)
    code = os.path.join(cache, "pkg")
    if not os.path.isdir(code):
        return SandboxNeeds(writable=(folder,), own=(cache,), protected=protected)
    return SandboxNeeds(writable=(folder, cache), protected={**protected, code: None})
