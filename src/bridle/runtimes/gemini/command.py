"""The calls of Gemini CLI: words, environment, settings, and a home with the settings of a process.

Gemini reads the system's settings only from a file that root owns, in folders that root owns. So a
run gets a private home, whose settings are the user's with the run's over them; everything else in
it is a link to the user's file, and Bridle changes nothing of the user's. A conversation over ACP
and a session of a person get such a home only if an option needs it: otherwise they work in the
user's home, where what they write lasts.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core import structs
from bridle.core.errors import ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.files import make_private_dir, state_dir, write_private
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.acp.product import AcpCommand
from bridle.runtimes.gemini.product import PRODUCT, GeminiOptions
from bridle.runtimes.options import (
    McpServer,
    added_instructions,
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

HOME = PRODUCT.home_variable
SYSTEM_SETTINGS = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
SYSTEM_DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
TRUSTED_FOLDERS = "GEMINI_CLI_TRUSTED_FOLDERS_PATH"
TRUST = "GEMINI_CLI_TRUST_WORKSPACE"
"""Trusts the whole folder: its hooks and settings take effect."""
SYSTEM_PROMPT = "GEMINI_SYSTEM_MD"
KEY = PRODUCT.key_variable
ADDRESS = "GOOGLE_GEMINI_BASE_URL"
NO_RELAUNCH = "GEMINI_CLI_NO_RELAUNCH"
"""Keeps Gemini in the process that was started; otherwise it restarts itself as a child, and
signals to the first process do nothing."""


def build(launch: Launch, env: Mapping[str, str]) -> Command:
    """The call of Gemini in `launch.mode`, for a process that gets `env`."""
    options, own, dialect = launch.options, launch.own, launch.dialect
    model = ("-m", options.model) if options.model else ()
    if launch.mode == "live":
        if options.model_server is not None:
            model = ("-m", options.model or PRODUCT.scripted_model)
            return AcpCommand(words=(*_file_flags(launch), *model))
        return AcpCommand(words=_file_flags(launch))
    if launch.mode == "print":
        model = ("-m", options.model or dialect.default_model)
        return Command(words=(dialect.trust_flag, *model, f"--prompt={options.prompt}"))
    approval = dialect.bypass_mode if options.permission_mode == "bypass" else dialect.ask_mode
    approval_flags = ("--approval-mode", own.approval_mode or approval)
    if launch.mode != "run":
        # The question about trust would stop a session that nobody watches.
        trust = (dialect.trust_flag,) if launch.mode == "spawn" else ()
        resume = ("--resume", options.resume) if options.resume else ()
        prompt = (f"--prompt-interactive={options.prompt}",) if options.prompt else ()
        return Command(words=(*trust, *approval_flags, *model, *resume, *options.raw_args, *prompt))
    if not model and not _names_model(env):
        model = ("-m", dialect.default_model)
    native = options.resume or (launch.session_id if dialect.session_flag else None)
    named = ("--resume" if options.resume else dialect.session_flag, native) if native else ()
    return Command(
        words=(
            *dialect.stream_flags,
            *(() if own.trust_project else (dialect.trust_flag,)),
            *approval_flags,
            *model,
            *named,
            *_file_flags(launch),
            *options.raw_args,
        ),
        stdin=options.prompt.encode(errors="surrogateescape"),
        watch_stderr=True,
        native_session_id=native,
    )


def _file_flags(launch: Launch) -> tuple[str, ...]:
    """Write what goes by file; returns the flags that name the files."""
    options = launch.options
    flags: tuple[str, ...] = ()
    added = added_instructions(options)
    if added:
        path = launch.write(os.path.join("instructions", PRODUCT.instruction_path), added)
        flags += ("--include-directories", os.path.dirname(path))
    if options.denied_tools:
        flags += ("--policy", launch.write("deny.toml", _deny_policy(options.denied_tools)))
    return flags


def environment(launch: Launch) -> Environment:
    """The user's variables, routed to the model service, and a home for changed settings."""
    options, own, mode = launch.options, launch.own, launch.mode
    server, child = options.model_server, dict(launch.env)
    routed: dict[str, str] = {}
    if mode == "run":
        # Named by the conversation: its messages name files in the home that is made there.
        launch.folder(options.resume or launch.session_id)
    if server is not None:
        child = _server_env(launch.env, server, launch.folder())
    elif options.provider is not None:
        routed = _routing(options.provider, {**launch.env, **options.env})
    if options.account_dir is not None:
        routed[HOME] = account_folder(options.account_dir)
    child |= routed
    if mode != "interactive":
        child[NO_RELAUNCH] = "true"
    if mode == "run":
        child |= _whole_output(launch, child)
    if options.system_prompt is not None:
        child[SYSTEM_PROMPT] = launch.write("system.md", options.system_prompt)
    if mode != "live" and own.trust_project:
        child[TRUST] = "true"
    if mode == "live" and server is not None:
        _keep_settings(child, _server_settings(own.max_retries))
    if mode == "run" and options.resume is not None and not launch.dialect.refuses_resume:
        _check_resume(options.resume, {**child, **options.env})
    final: dict[str, str] = {}
    if mode == "run" or _changes_settings(options, routed):
        final = _changed_home(launch, {**child, **options.env}, routed)
    key = server.api_key if server else routed.get(KEY)
    return Environment(child, (key,) if key else (), final)


def _check_resume(wanted: str, env: Mapping[str, str]) -> None:
    """Refuse a conversation that does not exist: the model would be asked without it."""
    from bridle.runtimes.gemini.transcript import find_session  # only resumed runs need it

    if find_session(config_dir(env), wanted) is None:
        raise ResumeRefused(f"gemini has no conversation {wanted}", runtime=PRODUCT.id)


def _changes_settings(options: RunOptions, routed: Mapping[str, str]) -> bool:
    return bool(
        ADDRESS in routed
        or options.settings
        or options.allowed_tools
        or options.append_system_prompt
        or options.append_system_prompt_file
        or "max_retries" in options.provider_options
    )


def _changed_home(
    launch: Launch, env: Mapping[str, str], routed: Mapping[str, str]
) -> dict[str, str]:
    """The variables that lead to a home with the settings of this process over the user's."""
    options = launch.options
    if launch.mode == "live":
        # The protocol carries the MCP servers.
        options = msgspec.structs.replace(options, mcp_config=None)
    wanted = _run_settings(
        options,
        max_retries=launch.own.max_retries,
        routed=options.model_server is not None or ADDRESS in routed,
    )
    asked = "max_retries" in options.provider_options
    free = frozenset() if asked else frozenset({"general.maxAttempts"})
    _refuse_overruled(wanted, launch.cwd, env, free=free)
    return make_home(launch.folder(), _laid_over(user_settings(env), wanted), env)


def provider_env(provider: Provider, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that route any call of Gemini to `provider`.

    An address also needs a setting, so this makes a home with it in Bridle's state folder; no key
    is written there.
    """
    routed = _routing(provider, env)
    if ADDRESS not in routed:
        return routed
    if env.get("HOME") != os.environ.get("HOME"):
        # The caller moved the home; the variable still names the old one.
        env = {name: value for name, value in env.items() if name != HOME}
    wanted = _run_settings(
        RunOptions(prompt=""), max_retries=GeminiOptions().max_retries, routed=True
    )
    settings = _laid_over(user_settings(env), wanted)
    return routed | make_home(os.path.join(state_dir(env), PRODUCT.id), settings, env)


def _routing(provider: Provider, env: Mapping[str, str]) -> dict[str, str]:
    """The address and the key of `provider`; `NotAuthenticated` if the key is missing."""
    routed: dict[str, str] = {}
    if provider.base_url is not None:
        routed[ADDRESS] = provider.base_url
    key = provider_key(provider, env, PRODUCT.id)
    if key is not None:
        routed[KEY] = key
    return routed


def _server_env(env: Mapping[str, str], server: ModelServer, folder: str) -> dict[str, str]:
    """`env` routed to a scripted model, with a new home below `folder`.

    Gemini writes reports about failed calls to the temporary folder, so that is private too.
    """
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith(("GEMINI_", "GOOGLE_")) and name not in PROXIES
    }
    home, temporary = os.path.join(folder, "account"), os.path.join(folder, "tmp")
    for path in (home, temporary):
        os.mkdir(path, 0o700)
    return {
        **kept,
        HOME: home,
        "TMPDIR": temporary,
        ADDRESS: server.url.rstrip("/"),
        KEY: server.api_key,
        SYSTEM_SETTINGS: os.path.join(folder, "no-settings.json"),
        SYSTEM_DEFAULTS: os.path.join(folder, "no-defaults.json"),
        **NO_PROXY,
    }


_FLUSH = "for (const s of [process.stdout, process.stderr]) s._handle?.setBlocking?.(true);\n"


def _whole_output(launch: Launch, env: Mapping[str, str]) -> dict[str, str]:
    """A variable that makes Node write all of its output.

    Gemini exits without waiting for it: whatever does not fit into the pipe at that moment is lost,
    the `result` line too if a line before it is long.
    """
    script = launch.write("flush.cjs", _FLUSH)
    return {"NODE_OPTIONS": f'{env.get("NODE_OPTIONS", "")} --require="{script}"'.strip()}


# -- settings -------------------------------------------------------------------------------------

_ETC_SETTINGS = "/etc/gemini-cli/settings.json"
_SETTINGS = "settings.json"
_ADDED_UP = frozenset(
    {
        "advanced.excludedEnvVars",
        "context.fileFiltering.customIgnoreFilePaths",
        "context.includeDirectories",
        "extensions.disabled",
        "extensions.workspacesWithMigrationNudge",
        "hooksConfig.disabled",
        "skills.disabled",
        "tools.exclude",
    }
)
"""Lists to which each settings file adds, as do all lists of hooks."""
_API_KEY_LOGIN: dict[str, Any] = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
"""Without it, a provider's address makes Gemini choose a login that it then refuses."""
_OFF: dict[str, Any] = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def config_dir(env: Mapping[str, str]) -> str:
    """The `.gemini` folder that `env` leads to."""
    return os.path.join(PRODUCT.home_in(env), ".gemini")


def user_config_dir(env: Mapping[str, str]) -> str:
    """The user's `.gemini` folder, also if `env` leads to the home of a process."""
    folder = config_dir(env)
    link = os.path.join(os.path.dirname(folder), _USER)
    return os.readlink(link) if os.path.islink(link) else folder


def user_settings(env: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the home that `env` leads to; see `_read_settings`."""
    return _read_settings(os.path.join(config_dir(env), _SETTINGS))


def _names_model(env: Mapping[str, str]) -> bool:
    """Whether the variables or the settings that `env` leads to name a model."""
    if env.get("GEMINI_MODEL"):
        return True
    model = user_settings(env).get("model")
    return isinstance(model, dict) and bool(model.get("name"))


_STRINGS_AND_COMMENTS = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def _read_settings(path: str) -> dict[str, Any]:
    """A file of Gemini's, which may contain comments; empty if there is none. `WrongUse` for one
    that Gemini would not start with either."""
    if not os.path.exists(path):
        return {}
    text = readable_file(path, "file of Gemini's settings").decode(errors="replace")
    bare = _STRINGS_AND_COMMENTS.sub(lambda at: at[0] if at[0][0] == '"' else " ", text)
    try:
        return structs.decode(bare, dict[str, Any])
    except msgspec.MsgspecError as problem:
        raise WrongUse(f"{path} contains no settings: {problem}", hint="repair the file") from None


def _run_settings(options: RunOptions, *, max_retries: int, routed: bool) -> dict[str, Any]:
    """What this process changes in the user's settings."""
    settings: dict[str, Any] = {"general": {"maxAttempts": max_retries + 1}}
    if routed:
        settings = merged(settings, _API_KEY_LOGIN)
    if options.model_server is not None:
        settings = merged(settings, _OFF)
    if options.append_system_prompt or options.append_system_prompt_file:
        settings = merged(settings, {"context": {"loadMemoryFromIncludeDirectories": True}})
    if options.allowed_tools:
        settings = merged(settings, {"tools": {"core": list(options.allowed_tools)}})
    if options.mcp_config is not None:
        servers = {name: _mcp(name, s) for name, s in read_servers(options.mcp_config).items()}
        settings = merged(settings, {"mcpServers": servers})
    if options.settings is not None:
        settings = merged(settings, json_object(options.settings, "settings"))
    return settings


def _laid_over(
    base: Mapping[str, Any], changes: Mapping[str, Any], at: tuple[str, ...] = ()
) -> dict[str, Any]:
    """`base` with `changes` over it, as Gemini lays one file of settings over another."""
    result = dict(base)
    for name, value in changes.items():
        old, here = result.get(name), (*at, name)
        if isinstance(old, dict) and isinstance(value, dict) and at != ("mcpServers",):
            result[name] = _laid_over(old, value, here)
        elif isinstance(old, list) and isinstance(value, list) and _adds_up(here):
            result[name] = [*old, *(each for each in value if each not in old)]
        else:
            result[name] = value
    return result


def _adds_up(at: tuple[str, ...]) -> bool:
    return at[0] == "hooks" or ".".join(at) in _ADDED_UP


def settings_above(cwd: str, env: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files that Gemini lays over a user's settings, with their content: the folder's own, if
    the folder is trusted, and the administrator's."""
    system = env.get(SYSTEM_SETTINGS) or _ETC_SETTINGS
    held = _read_settings(system)
    own = os.path.join(cwd, ".gemini", _SETTINGS)
    if os.path.exists(own) and is_trusted(cwd, env, _laid_over(user_settings(env), held)):
        yield own, _read_settings(own)
    if held:
        yield system, held


def _refuse_overruled(
    wanted: Mapping[str, Any], cwd: str, env: Mapping[str, str], *, free: frozenset[str]
) -> None:
    """Raise `WrongUse` if a file with precedence over the run's settings contradicts them, except
    for the settings named in `free`."""
    for path, settings in settings_above(cwd, env):
        for name in _overruled(wanted, settings):
            if name not in free:
                raise WrongUse(
                    f"{path} sets {name}, and in Gemini that file wins over this run's settings",
                    hint="remove it from the file, or leave the option out",
                )


def _overruled(
    wanted: Mapping[str, Any], above: Mapping[str, Any], at: tuple[str, ...] = ()
) -> Iterator[str]:
    for name in wanted.keys() & above.keys():
        mine, theirs, here = wanted[name], above[name], (*at, name)
        if isinstance(mine, dict) and isinstance(theirs, dict) and at != ("mcpServers",):
            yield from _overruled(mine, theirs, here)
        elif mine != theirs and not _adds_up(here):
            yield ".".join(here)


def is_trusted(folder: str, env: Mapping[str, str], settings: Mapping[str, Any]) -> bool:
    """Whether Gemini lets the settings of `folder` take effect: because of a variable, because
    `settings` need no trust, or by the longest entry about it in the user's list."""
    if env.get("GEMINI_RESTRICTED_MODE") == "true" or env.get(TRUST) == "false":
        return False
    if env.get(TRUST) == "true" or _needs_no_trust(settings):
        return True
    path = env.get(TRUSTED_FOLDERS) or os.path.join(config_dir(env), "trustedFolders.json")
    root = os.path.realpath(folder)
    longest, trusted = -1, False
    for place, level in _read_settings(path).items():
        rule = os.path.realpath(os.path.dirname(place) if level == "TRUST_PARENT" else place)
        inside = root == rule or root.startswith(rule.rstrip("/") + "/")
        # Gemini compares the lengths of the entries as written, not resolved.
        if inside and len(place) > longest:
            longest, trusted = len(place), str(level).startswith("TRUST")
    return trusted


def _needs_no_trust(settings: Mapping[str, Any]) -> bool:
    security = settings.get("security")
    trust = security.get("folderTrust") if isinstance(security, dict) else None
    return isinstance(trust, dict) and trust.get("enabled") is False


def _mcp(name: str, server: McpServer) -> dict[str, Any]:
    if server.url is None:
        entry = {"command": server.command, "args": server.args, "env": server.env}
        return entry | ({"cwd": server.cwd} if server.cwd else {})
    if server.type not in (None, "http", "sse"):
        raise UnsupportedOption("gemini", "mcp_config", [], reason=f"{name} is {server.type}")
    address = "url" if server.type == "sse" else "httpUrl"
    return {address: server.url, "headers": server.headers}


def _deny_policy(names: tuple[str, ...]) -> str:
    """A policy that takes tools away from the model, in every mode."""
    for name in names:
        if not name or not set(name) <= _NAME_CHARACTERS:
            raise WrongUse(f"{name!r} is not a tool's name", hint="such as: run_shell_command")
    return "".join(
        f'[[rule]]\ntoolName = "{name}"\ndecision = "deny"\npriority = 900\n\n' for name in names
    )


_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:*")


def _server_settings(max_retries: int) -> dict[str, Any]:
    """The settings of a home in which Gemini knows only a scripted model."""
    return {
        **_API_KEY_LOGIN,
        **_OFF,
        "general": {**_OFF["general"], "maxAttempts": max_retries + 1},
    }


def _keep_settings(env: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Write settings into the home that `env` leads to, unless it already has some."""
    home, folder = os.path.split(config_dir(env))
    name = os.path.join(folder, _SETTINGS)
    if not os.path.exists(os.path.join(home, name)):
        write_private(home, name, msgspec.json.encode(settings))


# -- a private home -------------------------------------------------------------------------------

_USER = ".user"
"""In a private home: a link to the user's `.gemini`."""
_FOLDERS = ("tmp", "history")
"""Folders that Gemini always makes: sessions, and copies of files that it changed."""
_WRITTEN = (
    "GEMINI.md",
    "a2a-oauth-tokens.json",
    "gemini-credentials.json",
    "google_accounts.json",
    "installation_id",
    "mcp-oauth-tokens.json",
    "oauth_creds.json",
    "state.json",
    "trusted_hooks.json",
)
"""Files that Gemini writes in place, so that writing through a dangling link makes them."""
_PASSING = (".lock", ".tmp")
"""Endings of files that exist for a moment; Gemini would wait for a linked lock."""
_BESIDE = (".agents", ".env")
"""What Gemini reads of its home beside its folder."""


def make_home(parent: str, settings: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    """A home below `parent` with `settings`, and links to the home that `env` leads to for
    everything else; returns the variables that lead to it. An existing one is updated.

    What Gemini writes reaches the user's folder through the links. Only what it replaces by
    renaming does not: its list of projects, of which each project's folder contains a copy, and its
    list of trusted folders, which a variable therefore names.
    """
    user, home = config_dir(env), os.path.join(parent, "home")
    folder = os.path.join(home, ".gemini")
    try:
        for path in (*(os.path.join(user, name) for name in _FOLDERS), folder):
            make_private_dir(path)
        for name in {*os.listdir(user), *_WRITTEN} - {_SETTINGS}:
            if not name.endswith(_PASSING):
                _link(os.path.join(user, name), os.path.join(folder, name))
        for name in _BESIDE:
            beside = os.path.join(os.path.dirname(user), name)
            if os.path.exists(beside):
                _link(beside, os.path.join(home, name))
        _link(user, os.path.join(home, _USER))
        write_private(folder, _SETTINGS, msgspec.json.encode(settings))
    except OSError as problem:
        raise WrongUse(f"cannot make a private home for gemini: {problem}") from None
    trusted = env.get(TRUSTED_FOLDERS) or os.path.join(user, "trustedFolders.json")
    return {HOME: home, TRUSTED_FOLDERS: trusted}


def write_settings(env: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Replace the settings of the private home that `env` leads to."""
    write_private(config_dir(env), _SETTINGS, msgspec.json.encode(settings))


def _link(target: str, path: str) -> None:
    if os.path.islink(path) and os.readlink(path) != target:
        os.unlink(path)
    if not os.path.lexists(path):
        os.symlink(target, path)


# -- a sandbox ------------------------------------------------------------------------------------

_OBEYED: dict[str, str | None] = {
    "settings.json": "{}\n",
    "trustedFolders.json": "{}\n",
    "extensions": None,
    "policies": None,
    "commands": None,
    "skills": None,
    "agents": None,
    "hooks": None,
}
"""What Gemini runs or obeys of its folder, with the content of an empty one; None is a folder."""
_READ = ("GEMINI.md", ".env", "oauth_creds.json", "google_accounts.json", "acknowledgments")
"""Files whose mere existence changes its behaviour, so they are never made."""


def sandbox_needs(env: Mapping[str, str]) -> "SandboxNeeds":
    """Its folders, in which it replaces a list of projects, except for what it obeys."""
    from bridle.sandbox import SandboxNeeds

    folder, own = user_config_dir(env), config_dir(env)
    make_private_dir(folder)
    held = _OBEYED | {name: "" for name in _READ if os.path.exists(os.path.join(folder, name))}
    protected: dict[str, str | None] = {
        os.path.join(folder, name): text for name, text in held.items()
    }
    # What Gemini obeys now, the guard's hooks included; the links beside it lead to the above.
    protected[os.path.join(own, _SETTINGS)] = "{}\n"
    return SandboxNeeds(writable=(folder, own), protected=protected)
