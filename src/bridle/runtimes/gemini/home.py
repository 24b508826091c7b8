"""Gemini's settings: where the user's are, and those of one run, which go on top of them.

Gemini reads a file of the system's after the user's and the project's own, and takes its path from
a variable. So a run gets a private copy of that file with its own wishes in it, and nothing of the
user's is touched.

Gemini skips that file, with a warning, unless root owns it and every folder above it and nobody
else can write them (0.61.0). A run on a scripted model, whose home is not the user's, therefore
gets its settings there. In any other run, what only settings can do is refused where they would be
skipped.
"""

import os
import stat
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.runtimes.given import json_object, provider_key
from bridle.runtimes.json_settings import merged
from bridle.runtimes.mcp_servers import McpServer, read_servers
from bridle.runtimes.private import write_private
from bridle.runtimes.routing import PROXIES

HOME_VARIABLE = "GEMINI_CLI_HOME"
SYSTEM_SETTINGS = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
SYSTEM_DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
SYSTEM_PROMPT = "GEMINI_SYSTEM_MD"
KEY_VARIABLE = "GEMINI_API_KEY"
URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
NO_RELAUNCH = "GEMINI_CLI_NO_RELAUNCH"
"""Keeps Gemini in the process that was started; else it starts itself again as a child, and
signals to the first process do nothing."""

_ETC_SETTINGS = "/etc/gemini-cli/settings.json"
_KEY_LOGIN = "gemini-api-key"
_API_KEY_LOGIN: dict[str, Any] = {"security": {"auth": {"selectedType": _KEY_LOGIN}}}
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


def names_model(env: Mapping[str, str]) -> bool:
    """Whether the user's own variables or settings name a model."""
    return bool(env.get("GEMINI_MODEL")) or bool(_user_settings(env).model.name)


def uses_key_login(env: Mapping[str, str]) -> bool:
    """Whether the user's own settings choose the login by API key."""
    return _user_settings(env).security.auth.selectedType == _KEY_LOGIN


def _user_settings(env: Mapping[str, str]) -> "_Settings":
    try:
        with open(os.path.join(config_dir(env), "settings.json"), "rb") as file:
            return msgspec.json.decode(file.read(), type=_Settings)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return _Settings()


class _Model(msgspec.Struct, frozen=True):
    name: str = ""


class _Auth(msgspec.Struct, frozen=True):
    selectedType: str = ""


class _Security(msgspec.Struct, frozen=True):
    auth: _Auth = _Auth()


class _Settings(msgspec.Struct, frozen=True):
    model: _Model = _Model()
    security: _Security = _Security()


def run_settings(
    options: RunOptions, env: Mapping[str, str], *, max_retries: int, routed: bool
) -> dict[str, Any]:
    """The settings that stand above all others in this run."""
    settings = {} if options.model_server is not None else _system_settings(env)
    settings = merged(settings, {"general": {"maxAttempts": max_retries + 1}})
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


def _system_settings(env: Mapping[str, str]) -> dict[str, Any]:
    """What an administrator of this machine set; it stays in force."""
    path = env.get(SYSTEM_SETTINGS) or _ETC_SETTINGS
    return json_object(path, "system settings") if os.path.exists(path) else {}


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


def write_settings(folder: str, settings: dict[str, Any]) -> dict[str, str]:
    """Write the run's settings; returns the variable that leads to them."""
    return {SYSTEM_SETTINGS: write_private(folder, "settings.json", msgspec.json.encode(settings))}


def write_home_settings(folder: str, home: str, settings: dict[str, Any]) -> dict[str, str] | None:
    """Write the run's settings as those of the home's user; returns the variable that keeps the
    system's own file out, or None, with nothing written, where the user has settings."""
    config = os.path.join(home, ".gemini")
    mark = os.path.join(config, _OURS)
    if os.path.exists(os.path.join(config, "settings.json")) and not os.path.exists(mark):
        return None
    os.makedirs(config, mode=0o700, exist_ok=True)
    write_private(config, _OURS, "")
    write_private(config, "settings.json", msgspec.json.encode(settings))
    return {SYSTEM_SETTINGS: os.path.join(folder, _NO_SETTINGS)}


def has_home_settings(env: Mapping[str, str]) -> bool:
    """Whether a run's settings stand in its home."""
    return os.path.basename(env.get(SYSTEM_SETTINGS, "")) == _NO_SETTINGS


def why_skipped(path: str) -> str:
    """Why Gemini does not read a file as the system's settings; empty when it does."""
    checked: list[str] = []
    for start in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        while start not in checked:
            checked.append(start)
            start = os.path.dirname(start)
    for each in checked:
        for seen in (os.lstat(each), os.stat(each)):
            if seen.st_uid != 0:
                return f"{each} does not belong to root"
            if seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(seen.st_mode):
                return f"others than root can write {each}"
    return ""


_NO_SETTINGS = "no-settings.json"
"""A file that does not exist."""
_OURS = "settings-by-bridle"
"""Beside settings that Bridle wrote: the next turn may replace them."""


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
    home, temporary = os.path.join(folder, "home"), os.path.join(folder, "tmp")
    for path in (home, temporary):
        os.mkdir(path, 0o700)
    return {
        **kept,
        HOME_VARIABLE: home,
        "TMPDIR": temporary,
        URL_VARIABLE: url.rstrip("/"),
        KEY_VARIABLE: key,
        SYSTEM_DEFAULTS: os.path.join(folder, "no-defaults.json"),
        "NO_PROXY": "127.0.0.1,localhost",
    }
