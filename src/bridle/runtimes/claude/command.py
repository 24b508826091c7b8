"""How Claude Code is called: arguments, environment, files and settings, from Bridle's options.

Nothing secret and nothing large goes on the command line: prompts go by stdin, JSON texts that a
caller gave go into private files.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused, UnsupportedOption, WrongUse
from bridle.core.files import write_new
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.core.redaction import secrets_in
from bridle.runtimes.claude.product import PRODUCT, ClaudeOptions
from bridle.runtimes.options import merged, provider_key, readable_file
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import Command, Environment, Launch, account_folder
from bridle.runtimes.product import Service, ServicePieces
from bridle.runtimes.routing import CLAUDE, CLAUDE_MODELS, NO_PROXY, PROXIES

_STREAM_FLAGS = (
    "--print",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
)
_LIVE_FLAGS = ("--replay-user-messages",)
"""Echoes each message when the model receives it."""
_ASK_ON_STDIO = ("--permission-prompt-tool", "stdio")
_LARGE = 16 * 1024
"""Texts longer than this go by file."""


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of Claude Code in `launch.mode`, for a process that gets `env`."""
    if launch.mode == "print":
        return Command(words=tuple(_one_shot_words(launch.options, env)))
    _check_root(launch.options.permission_mode, env)
    if launch.mode == "spawn":
        return Command(words=tuple(_spawn_words(launch)))
    options, own, dialect = launch.options, launch.own, launch.dialect
    flags = _common_flags(launch, env)
    copied = options.resume is None or own.fork
    native = launch.session_id if copied else options.resume
    facts = {"home": PRODUCT.home_in(env), "session": native}
    if launch.mode in ("tmux", "interactive"):
        if launch.mode == "tmux" and copied:
            flags += ["--session-id", launch.session_id]
        # The mode is last: some flags before it take any number of words.
        words = [*flags, *options.raw_args, "--permission-mode", _mode(launch)]
        if launch.mode == "interactive" and options.prompt:
            dashed = options.prompt.startswith("-")
            words += ["--", options.prompt] if dashed else [options.prompt]
        return Command(words=tuple(words), native_session_id=native, wire=facts)
    live = launch.mode == "live"
    words = [*_STREAM_FLAGS, *(_LIVE_FLAGS if live else ()), *flags, *_headless_flags(options, own)]
    words += ["--session-id", launch.session_id] if copied else []
    words += ["--permission-mode", _mode(launch)]
    asks = options.permission_mode != "bypass"
    words += _ASK_ON_STDIO if asks else ()
    return Command(
        words=(*words, *options.raw_args),
        stdin=None if live else user_line(options.prompt, options.images),
        keep_stdin=live or asks or dialect.drops_output_at_exit,
        native_session_id=native,
        wire=facts,
    )


def _one_shot_words(options: RunOptions, env: Mapping[str, str]) -> list[str]:
    words = ["--print", *(["--model", options.model] if options.model else [])]
    words += one_shot_settings(env) if env.get("ANTHROPIC_BASE_URL") else []
    return [*words, "--", options.prompt]


def _spawn_words(launch: Launch) -> list[str]:
    options = launch.options
    words = ["--model", options.model or "", "--permission-mode", _mode(launch)]
    for flag, value in (
        ("--system-prompt", options.system_prompt),
        ("--append-system-prompt", options.append_system_prompt),
        ("--append-system-prompt-file", options.append_system_prompt_file),
    ):
        words += [flag, value] if value is not None else []
    return [*words, "--", options.prompt] if options.prompt else words


def _mode(launch: Launch) -> str:
    bypass = launch.options.permission_mode == "bypass"
    return "bypassPermissions" if bypass else launch.dialect.default_mode


def _check_root(permission: str, env: Mapping[str, str]) -> None:
    if permission == "bypass" and os.geteuid() == 0 and env.get(SANDBOXED) != "1":
        raise WrongUse(
            "claude refuses to bypass permissions for the root user",
            hint=f"run as another user, or set {SANDBOXED}=1 if this machine is itself a sandbox",
        )


def _common_flags(launch: Launch, env: Mapping[str, str]) -> list[str]:
    """The flags that a headless run and a terminal session share."""
    options, own = launch.options, launch.own
    flags: list[str] = []
    if options.model is not None:
        flags += ["--model", options.model]
    flags += _prompt_flags(launch)
    flags += _settings_flags(launch, env)
    flags += _tool_flags(launch)
    if own.fallback_model is not None:
        flags += ["--fallback-model", own.fallback_model]
    if own.effort is not None:
        flags += ["--effort", own.effort]
    if own.setting_sources is not None:
        flags += ["--setting-sources", own.setting_sources]
    if own.add_dirs:
        flags += ["--add-dir", *own.add_dirs]
    if options.resume is not None:
        flags += ["--resume", options.resume]
        flags += ["--fork-session"] if own.fork else []
    return flags


def _settings_flags(launch: Launch, env: Mapping[str, str]) -> list[str]:
    """The caller's settings, over those that isolate a model service of the caller's choice."""
    options, cwd = launch.options, launch.cwd
    isolating: dict[str, Any] = {}
    if options.model_server is not None:
        isolating = without_own_routing(env, cwd, None, keep="ANTHROPIC_API_KEY")
    elif options.provider is not None and options.provider.base_url is not None:
        isolating = without_own_routing(env, cwd, options.provider.auth_token_env)
    if options.settings is None:
        return ["--settings", msgspec.json.encode(isolating).decode()] if isolating else []
    given = _json_file(options.settings, "settings", launch)
    if not isolating:
        return ["--settings", given]
    with open(given, "rb") as file:
        whole = merged(isolating, structs.decode(file.read(), dict[str, Any]))
    text = msgspec.json.encode(whole).decode()
    return ["--settings", launch.write("isolated-settings.json", text)]


def _headless_flags(options: RunOptions, own: ClaudeOptions) -> list[str]:
    """The flags of a headless run alone: limits, and what is kept of it."""
    flags: list[str] = []
    if options.max_turns is not None:
        flags += ["--max-turns", str(options.max_turns)]
    if options.budget_usd is not None:
        flags += ["--max-budget-usd", f"{options.budget_usd:.6f}"]
    if options.output_schema is not None:
        flags += ["--json-schema", msgspec.json.encode(options.output_schema).decode()]
    if not own.persist_session:
        flags.append("--no-session-persistence")
    return flags


def _prompt_flags(launch: Launch) -> list[str]:
    options = launch.options
    flags: list[str] = []
    if options.system_prompt is not None:
        flags += _text_flag("--system-prompt", options.system_prompt, launch)
    # The CLI takes either the text or the file, so both together become one.
    added = [options.append_system_prompt] if options.append_system_prompt else []
    if options.append_system_prompt_file is not None:
        data = readable_file(options.append_system_prompt_file, "the system prompt file")
        added.append(data.decode(errors="replace"))
    if added:
        flags += _text_flag("--append-system-prompt", "\n\n".join(added), launch)
    return flags


def _text_flag(flag: str, text: str, launch: Launch) -> list[str]:
    if len(text) <= _LARGE and not text.startswith("-"):
        return [flag, text]
    return [f"{flag}-file", launch.write(f"{flag.strip('-')}.txt", text)]


def _json_file(given: str, what: str, launch: Launch) -> str:
    """A path to valid JSON; a text becomes a private file."""
    as_text = given.lstrip().startswith("{")
    data = given.encode() if as_text else readable_file(given, f"the {what} file")
    try:
        if not isinstance(msgspec.json.decode(data), dict):
            raise WrongUse(f"the {what} must be a JSON object")
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise WrongUse(f"the {what} are not valid JSON: {problem}") from None
    if as_text:
        # Not under a name that Claude reads by itself: the folder may be its configuration home.
        return launch.write(f"given-{what.replace(' ', '-')}.json", given)
    return os.path.abspath(os.path.expanduser(given))


def _tool_flags(launch: Launch) -> list[str]:
    options, own = launch.options, launch.own
    flags: list[str] = []
    denied = list(options.denied_tools)
    servers: list[str] = []
    if options.mcp_config is not None:
        path = _json_file(options.mcp_config, "MCP configuration", launch)
        servers = _servers(path)
        flags += ["--mcp-config", path, "--strict-mcp-config"]
    if options.allowed_tools:
        # `--tools` is what limits; `--allowedTools` only skips the permission request. It does not
        # apply to MCP tools, so servers that are not named are switched off completely.
        _check_names(options.allowed_tools, servers)
        builtin = [name for name in options.allowed_tools if not name.startswith("mcp__")]
        flags += ["--tools", ",".join(builtin)]
        denied += [
            f"mcp__{name}" for name in servers if f"mcp__{name}" not in options.allowed_tools
        ]
        if options.mcp_config is None:
            flags.append("--strict-mcp-config")
    if denied:
        flags += ["--disallowedTools", *denied]
    if own.preapproved_tools:
        flags += ["--allowedTools", *own.preapproved_tools]
    return flags


def _servers(path: str) -> list[str]:
    found = msgspec.json.decode(readable_file(path, "the MCP configuration file"))
    servers = found.get("mcpServers")
    if not isinstance(servers, dict):
        raise WrongUse(
            "the MCP configuration has no `mcpServers`",
            hint='write {"mcpServers": {"name": {"command": …}}}',
        )
    return list(servers)


def _check_names(names: tuple[str, ...], servers: list[str]) -> None:
    for name in names:
        if "(" in name or "," in name:
            raise UnsupportedOption(
                "claude",
                "allowed_tools",
                [],
                reason=f"{name} is a rule, not a tool; rules go to the preapproved_tools option",
            )
        if name.startswith("mcp__") and name[5:] not in servers:
            raise UnsupportedOption(
                "claude",
                "allowed_tools",
                [],
                reason=f"{name}: of MCP tools only whole servers of this run's mcp_config can be "
                "allowed, as mcp__SERVER",
            )


def environment(launch: Launch) -> Environment:
    """The user's variables, a home for a scripted model, and the way to the model service."""
    options, own = launch.options, launch.own
    base = own_session(launch.env)
    secrets: list[str] = []
    if options.account_dir is not None:
        base[CONFIG_HOME] = account_folder(options.account_dir)
    if options.model_server is not None:
        home = base[CONFIG_HOME] if options.account_dir is not None else launch.folder()
        seed_config_home(home, options.model_server.api_key, launch.cwd)
        base = server_env(base, options.model_server, home)
        secrets.append(options.model_server.api_key)
    elif options.provider is not None:
        base |= provider_env(options.provider, {**launch.env, **options.env}, options.model)
    if options.provider is not None and options.provider.auth_token_env is not None:
        secrets.append(launch.env.get(options.provider.auth_token_env, ""))
    if "max_retries" in options.provider_options or RETRIES not in base:
        base[RETRIES] = str(own.max_retries)
    return Environment(base, tuple(filter(None, secrets)))


CONFIG_HOME = PRODUCT.home_variable
RETRIES = "CLAUDE_CODE_MAX_RETRIES"
SANDBOXED = "IS_SANDBOX"
"""The variable that says that the machine is itself a sandbox."""

STATE_FOLDERS = (
    "projects",
    "todos",
    "tasks",
    "plans",
    "sessions",
    "file-history",
    "paste-cache",
    "debug",
    "cache",
    "statsig",
    "telemetry",
)
"""Folders of its configuration home that Claude writes for itself and runs nothing from."""
CODE_FOLDERS = ("shell-snapshots", "session-env")
"""Folders of it from which the shell calls of any session take code."""

_OF_OUTER_SESSION = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_SSE_PORT",
)
"""Set for the tools of a Claude session; an agent started by such a tool is not part of it."""

_QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def own_session(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without what ties it to a Claude session that Bridle may itself run in."""
    return {name: value for name, value in env.items() if name not in _OF_OUTER_SESSION}


def provider_env(
    provider: Provider, env: Mapping[str, str], model: str | None = None
) -> dict[str, str]:
    """Variables that route Claude to `provider`; `NotAuthenticated` when its key is missing.

    Another vendor's service gets the key as a bearer token, Anthropic's own as its API key; the
    other variable is emptied, since Claude would send both. Models that Claude chooses by itself
    are `model` there too.
    """
    routed: dict[str, str] = {}
    if provider.base_url is not None:
        routed["ANTHROPIC_BASE_URL"] = provider.base_url
        routed |= dict.fromkeys(CLAUDE_MODELS, model) if model else {}
    token = provider_key(provider, env, "claude")
    if token is not None:
        if provider.base_url is not None:
            routed |= {"ANTHROPIC_AUTH_TOKEN": token, "ANTHROPIC_API_KEY": ""}
        else:
            routed |= {"ANTHROPIC_API_KEY": token, "ANTHROPIC_AUTH_TOKEN": ""}
    return routed


def service_pieces(service: Service) -> ServicePieces:
    """Variables that route Claude to `service` when another program starts it."""
    env = {RETRIES: str(service.max_retries)}
    if service.url is not None:
        env["ANTHROPIC_BASE_URL"] = service.url
        if service.model and service.home is None:
            env |= {name: service.model for name in CLAUDE_MODELS if name not in service.env}
    if service.key is not None:
        # The other variable is emptied, since Claude would send both.
        foreign = service.url is not None and service.home is None
        used, unused = ("AUTH_TOKEN", "API_KEY") if foreign else ("API_KEY", "AUTH_TOKEN")
        env |= {f"ANTHROPIC_{used}": service.key, f"ANTHROPIC_{unused}": ""}
    drop: tuple[str, ...] = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")
    if service.home is not None:
        env |= {
            CONFIG_HOME: service.home,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        clouds = (f"CLAUDE_CODE_USE_{cloud}" for cloud in ("BEDROCK", "VERTEX", "FOUNDRY"))
        drop = (*drop, "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_MODEL", *clouds)
    return ServicePieces(env=env, drop=drop)


def server_env(env: Mapping[str, str], server: ModelServer, config_home: str) -> dict[str, str]:
    """`env` routed to a scripted model, with a separate configuration home and nothing else."""
    kept = {
        name: value for name, value in env.items() if not (CLAUDE.holds(name) or name in PROXIES)
    }
    return {
        **kept,
        **_QUIET,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": server.api_key,
        **NO_PROXY,
        SANDBOXED: "1",
        CONFIG_HOME: config_home,
    }


def seed_config_home(folder: str, api_key: str, cwd: str) -> None:
    """Make `folder` a configuration home that asks no first-start questions; existing files stay
    unchanged."""
    state = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [api_key[-20:]], "rejected": []},
        "projects": {cwd: {"hasTrustDialogAccepted": True}},
    }
    settings = {"skipDangerousModePermissionPrompt": True}
    for name, content in ((".claude.json", state), ("settings.json", settings)):
        with contextlib.suppress(FileExistsError):
            write_new(os.path.join(folder, name), msgspec.json.encode(content))


_TOKEN = "ANTHROPIC_AUTH_TOKEN"
_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
_HELPER = "apiKeyHelper"


def without_settings(plan: RunPlan) -> tuple[str, RunPlan]:
    """The settings that the plan's arguments name (empty when they name none), and the plan without
    them: Claude takes that flag once."""
    argv = list(plan.spec.argv)
    for number, word in enumerate(argv[:-1]):
        if word == "--settings":
            given = argv[number + 1]
            del argv[number : number + 2]
            spec = msgspec.structs.replace(plan.spec, argv=tuple(argv))
            return given, msgspec.structs.replace(plan, spec=spec)
    return "", plan


def read_settings(given: str) -> dict[str, Any]:
    """Settings given by flag, as a file or as JSON; none when `given` is empty. Raises
    `GuardRefused` when they cannot be read."""
    if not given:
        return {}
    try:
        if given.lstrip().startswith("{"):
            return structs.decode(given, dict[str, Any])
        with open(given, "rb") as file:
            return structs.decode(file.read(), dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise GuardRefused(
            f"claude: cannot read the settings that go with the guard: {problem}"
        ) from None


def without_own_routing(
    env: Mapping[str, str], cwd: str, key: str | None, *, keep: str = ""
) -> dict[str, Any]:
    """Settings that put `env`, in which Claude is started in `cwd`, before the user's and the
    project's settings wherever those name a model service; empty if none does.

    `key` is the variable of the service's key, `keep` one that stays as the settings have it. No
    secret is in what is returned, which may become an argument: if the settings contain a token,
    Claude gets the run's by a helper that prints the variable. Raises `WrongUse` if a secret of the
    run could not take precedence otherwise.
    """
    found: dict[str, str] = {}
    helper: str | None = None
    for path, settings in _settings_files(env, cwd):
        variables = settings.get("env")
        names = variables if isinstance(variables, dict) else {}
        found |= {name: path for name in names if CLAUDE.holds(name) and name != keep}
        helper = "" if settings.get(_HELPER) else helper
    values = {name: env.get(name, "") for name in found}
    if values.get(_TOKEN):
        if key is None or key in found:
            raise WrongUse(
                f"{found[_TOKEN]} sets {_TOKEN}, which would go to the model's provider",
                hint="remove it there, or name another variable for the provider's key",
            )
        values[_TOKEN] = ""
        from shlex import quote

        helper = f"printenv {quote(key)}"
    for name, value in values.items():
        if value and (name == _HEADERS or secrets_in({name: value})):
            raise WrongUse(
                f"{found[name]} sets {name}, and so does this run",
                hint="remove it from that file: Claude prefers it to the run's own",
            )
    return ({"env": values} if values else {}) | ({} if helper is None else {_HELPER: helper})


def one_shot_settings(routing: Mapping[str, str]) -> list[str]:
    """The flag that isolates a one-shot call, here, which `routing` sends to a provider."""
    token = routing.get(_TOKEN)
    key = next((name for name in routing if routing[name] == token and name != _TOKEN), None)
    places = {name: os.environ[name] for name in ("HOME", CONFIG_HOME) if name in os.environ}
    settings = without_own_routing({**places, **routing}, os.getcwd(), key)
    return ["--settings", msgspec.json.encode(settings).decode()] if settings else []


def _settings_files(env: Mapping[str, str], cwd: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings that Claude may read in `cwd`; like Claude, this skips unreadable ones."""
    folders = [PRODUCT.home_in(env)]
    folder = os.path.abspath(cwd)
    while True:
        folders.append(os.path.join(folder, ".claude"))
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            break
        folder = above
    for each in dict.fromkeys(folders):
        for name in ("settings.json", "settings.local.json"):
            path = os.path.join(each, name)
            try:
                with open(path, "rb") as file:
                    settings = structs.decode(file.read(), dict[str, Any])
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
                continue
            yield path, settings


# -- messages -------------------------------------------------------------------------------------


def user_line(text: str, images: tuple[str, ...] = (), message_id: str | None = None) -> bytes:
    """A message for the model. With an id it comes back under that id when it is taken, and is not
    taken if the conversation already contains it. Raises `WrongUse` for a file that cannot be read
    or is not an image."""
    blocks = [{"type": "text", "text": text}, *(_image_block(path) for path in images)]
    content = blocks if images else text
    line: dict[str, Any] = {"type": "user", "message": {"role": "user", "content": content}}
    if message_id is not None:
        line["uuid"] = message_id
    return msgspec.json.encode(line) + b"\n"


def _image_block(path: str) -> dict[str, Any]:
    from bridle.runtimes.options import image_data

    kind, text = image_data(path, "Claude")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": text}}
