"""Gemini's settings: where the user's are, and a home with those of one run.

Gemini reads the system's settings only from a file that root owns, in folders that root owns. So a
run gets a home of its own, whose settings are the user's with the run's over them; all else in it
are links to what the user has, and nothing of the user's is touched.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.files import make_private_dir, write_private
from bridle.core.options import Provider, RunOptions
from bridle.runtimes.json_settings import merged
from bridle.runtimes.mcp_servers import McpServer, read_servers
from bridle.runtimes.options import json_object, provider_key
from bridle.runtimes.routing import NO_PROXY, PROXIES
from bridle.runtimes.user_files import readable_file

HOME_VARIABLE = "GEMINI_CLI_HOME"
SYSTEM_SETTINGS = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
SYSTEM_DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
TRUSTED_FOLDERS = "GEMINI_CLI_TRUSTED_FOLDERS_PATH"
TRUST = "GEMINI_CLI_TRUST_WORKSPACE"
"""Trusts the folder whole: its hooks and settings take effect."""
SYSTEM_PROMPT = "GEMINI_SYSTEM_MD"
KEY_VARIABLE = "GEMINI_API_KEY"
URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
NO_RELAUNCH = "GEMINI_CLI_NO_RELAUNCH"
"""Keeps Gemini in the process that was started; else it starts itself again as a child, and
signals to the first process do nothing."""

_ETC_SETTINGS = "/etc/gemini-cli/settings.json"
_SETTINGS = "settings.json"
_USER = ".user"
"""In a run's home: a link to the user's `.gemini`."""
_FOLDERS = ("tmp", "history")
"""What Gemini always makes in its folder: sessions, and copies of files that it changed."""
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
"""Files that Gemini writes in place, so that a link to one that is missing makes it."""
_PASSING = (".lock", ".tmp")
"""Endings of what Gemini makes there for a moment; a link to a lock would be waited for."""
_BESIDE = (".agents", ".env")
"""What Gemini reads of its home beside its folder."""
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
"""Lists to which each file of settings adds; all lists of hooks are such, too."""
_API_KEY_LOGIN: dict[str, Any] = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
"""Without it, an address of one's own makes Gemini choose a login that it then refuses."""
_OFF: dict[str, Any] = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def config_dir(env: Mapping[str, str]) -> str:
    """The user's `.gemini` folder."""
    home = env.get(HOME_VARIABLE) or env.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".gemini")


def user_config_dir(env: Mapping[str, str]) -> str:
    """The user's `.gemini` folder, also where `env` leads to a run's home."""
    folder = config_dir(env)
    link = os.path.join(os.path.dirname(folder), _USER)
    return os.readlink(link) if os.path.islink(link) else folder


def names_model(env: Mapping[str, str]) -> bool:
    """Whether the variables or the settings that `env` leads to name a model."""
    if env.get("GEMINI_MODEL"):
        return True
    model = user_settings(env).get("model")
    return isinstance(model, dict) and bool(model.get("name"))


def user_settings(env: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the home that `env` leads to; see `read_settings`."""
    return read_settings(os.path.join(config_dir(env), _SETTINGS))


_STRINGS_AND_COMMENTS = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def read_settings(path: str) -> dict[str, Any]:
    """A file of Gemini's, which may hold comments; empty when there is none. `WrongUse` for one
    that Gemini would not start with either."""
    if not os.path.exists(path):
        return {}
    text = readable_file(path, "file of Gemini's settings").decode(errors="replace")
    bare = _STRINGS_AND_COMMENTS.sub(lambda at: at[0] if at[0][0] == '"' else " ", text)
    try:
        return msgspec.json.decode(bare, type=dict[str, Any])
    except msgspec.MsgspecError as problem:
        raise WrongUse(f"{path} holds no settings: {problem}", hint="repair the file") from None


def run_settings(options: RunOptions, *, max_retries: int, routed: bool) -> dict[str, Any]:
    """What this run wants to be otherwise than in the user's settings."""
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


def laid_over(
    base: Mapping[str, Any], changes: Mapping[str, Any], at: tuple[str, ...] = ()
) -> dict[str, Any]:
    """`base` with `changes` over it, as Gemini lays one file of settings over another."""
    result = dict(base)
    for name, value in changes.items():
        old, here = result.get(name), (*at, name)
        if isinstance(old, dict) and isinstance(value, dict) and at != ("mcpServers",):
            result[name] = laid_over(old, value, here)
        elif isinstance(old, list) and isinstance(value, list) and _adds_up(here):
            result[name] = [*old, *(each for each in value if each not in old)]
        else:
            result[name] = value
    return result


def _adds_up(at: tuple[str, ...]) -> bool:
    return at[0] == "hooks" or ".".join(at) in _ADDED_UP


def settings_above(cwd: str, env: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files that Gemini lays over a user's settings, with what they say: the folder's own, if
    the folder is trusted, and the administrator's."""
    system = env.get(SYSTEM_SETTINGS) or _ETC_SETTINGS
    held = read_settings(system)
    own = os.path.join(cwd, ".gemini", _SETTINGS)
    if os.path.exists(own) and is_trusted(cwd, env, laid_over(user_settings(env), held)):
        yield own, read_settings(own)
    if held:
        yield system, held


def refuse_overruled(
    wanted: Mapping[str, Any], cwd: str, env: Mapping[str, str], *, free: frozenset[str]
) -> None:
    """Raise `WrongUse` when a file that stands above the run's settings says otherwise than these,
    but for the settings named in `free`."""
    for path, settings in settings_above(cwd, env):
        for name in _overruled(wanted, settings):
            if name not in free:
                raise WrongUse(
                    f"{path} sets {name}, and Gemini lets that file decide against this run",
                    hint="take it out of the file, or leave the option out",
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
    """Whether Gemini lets the settings of `folder` take effect: by a variable, because `settings`
    ask for no trust, or by the longest entry about it in the user's list."""
    if env.get("GEMINI_RESTRICTED_MODE") == "true" or env.get(TRUST) == "false":
        return False
    if env.get(TRUST) == "true" or _asks_no_trust(settings):
        return True
    path = env.get(TRUSTED_FOLDERS) or os.path.join(config_dir(env), "trustedFolders.json")
    root = os.path.realpath(folder)
    longest, trusted = -1, False
    for place, level in read_settings(path).items():
        rule = os.path.realpath(os.path.dirname(place) if level == "TRUST_PARENT" else place)
        inside = root == rule or root.startswith(rule.rstrip("/") + "/")
        # The longest as it is written, not as it resolves: so Gemini measures.
        if inside and len(place) > longest:
            longest, trusted = len(place), str(level).startswith("TRUST")
    return trusted


def _asks_no_trust(settings: Mapping[str, Any]) -> bool:
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


def deny_policy(names: tuple[str, ...]) -> str:
    """A policy that takes tools away from the model; it holds in every mode."""
    for name in names:
        if not name or not set(name) <= _NAME_CHARACTERS:
            raise WrongUse(f"{name!r} is not a tool's name", hint="such as: run_shell_command")
    return "".join(
        f'[[rule]]\ntoolName = "{name}"\ndecision = "deny"\npriority = 900\n\n' for name in names
    )


_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:*")


def server_settings(max_retries: int) -> dict[str, Any]:
    """The settings of a home in which Gemini knows nothing but a scripted model."""
    return {
        **_API_KEY_LOGIN,
        **_OFF,
        "general": {**_OFF["general"], "maxAttempts": max_retries + 1},
    }


def keep_settings(env: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Write settings into the home that `env` leads to, unless it has some."""
    home, folder = os.path.split(config_dir(env))
    name = os.path.join(folder, _SETTINGS)
    if not os.path.exists(os.path.join(home, name)):
        write_private(home, name, msgspec.json.encode(settings))


def make_home(parent: str, settings: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    """A home below `parent` with `settings`, and for all else the one that `env` leads to; returns
    the variables that lead to it. One that is there is brought up to date.

    What Gemini writes reaches the user's folder through the links. Only what it replaces by
    renaming stays behind: its list of projects, of which each project's folder holds a copy. The
    list of trusted folders is therefore named by a variable.
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
        raise WrongUse(f"gemini cannot be given a home: {problem}") from None
    trusted = env.get(TRUSTED_FOLDERS) or os.path.join(user, "trustedFolders.json")
    return {HOME_VARIABLE: home, TRUSTED_FOLDERS: trusted}


def write_settings(env: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Replace the settings of the run's home that `env` leads to."""
    write_private(config_dir(env), _SETTINGS, msgspec.json.encode(settings))


def _link(target: str, path: str) -> None:
    if os.path.islink(path) and os.readlink(path) != target:
        os.unlink(path)
    if not os.path.lexists(path):
        os.symlink(target, path)


_FLUSH = "for (const s of [process.stdout, process.stderr]) s._handle?.setBlocking?.(true);\n"


def whole_output(folder: str, env: Mapping[str, str]) -> dict[str, str]:
    """A variable that makes Node write all of its output.

    Gemini exits without waiting for it: whatever does not fit into the pipe at that moment is lost,
    the `result` line too when a line before it is long.
    """
    script = write_private(folder, "flush.cjs", _FLUSH)
    return {"NODE_OPTIONS": f'{env.get("NODE_OPTIONS", "")} --require="{script}"'.strip()}


def provider_env(provider: Provider, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that lead Gemini to `provider`; `NotAuthenticated` when its key is not there."""
    routed: dict[str, str] = {}
    if provider.base_url is not None:
        routed[URL_VARIABLE] = provider.base_url
    key = provider_key(provider, env, "gemini")
    if key is not None:
        routed[KEY_VARIABLE] = key
    return routed


def server_env(env: Mapping[str, str], url: str, key: str, folder: str) -> dict[str, str]:
    """`env` led to a scripted model, with a home of its own below `folder`.

    Reports that Gemini writes about failed calls go to the temporary folder, so that is private
    too.
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
        HOME_VARIABLE: home,
        "TMPDIR": temporary,
        URL_VARIABLE: url.rstrip("/"),
        KEY_VARIABLE: key,
        SYSTEM_SETTINGS: os.path.join(folder, "no-settings.json"),
        SYSTEM_DEFAULTS: os.path.join(folder, "no-defaults.json"),
        **NO_PROXY,
    }
