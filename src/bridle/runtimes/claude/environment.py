"""The environment Claude Code is started in."""

import contextlib
import os
from collections.abc import Mapping

import msgspec

from bridle.core.files import write_new
from bridle.core.options import ModelServer, Provider
from bridle.runtimes.options import provider_key
from bridle.runtimes.routing import CLAUDE, CLAUDE_MODELS, NO_PROXY, PROXIES

CONFIG_HOME = "CLAUDE_CONFIG_DIR"
RETRIES = "CLAUDE_CODE_MAX_RETRIES"
SANDBOXED = "IS_SANDBOX"
"""The variable by which whoever runs this says that the machine is itself a sandbox."""

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
"""Set for the tools of a Claude session; an agent started by such a tool is no part of it."""

_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")

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
    """Variables that lead Claude to `provider`; `NotAuthenticated` when its key is not there.

    A service of somebody else's gets the key as a bearer token, Anthropic's own as its API key;
    the other variable is emptied, since Claude would send both. What Claude asks for by itself
    is `model` there, too.
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


def server_env(env: Mapping[str, str], server: ModelServer, config_home: str) -> dict[str, str]:
    """`env` led to a scripted model, with a configuration home of its own and nothing else."""
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
    """Make `folder` a configuration home that asks no first-start questions; files that are there
    already stay as they are."""
    state = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [api_key[-20:]], "rejected": []},
        "projects": {cwd: {"hasTrustDialogAccepted": True}},
    }
    _write_new(os.path.join(folder, ".claude.json"), state)
    _write_new(os.path.join(folder, "settings.json"), {"skipDangerousModePermissionPrompt": True})


def _write_new(path: str, data: object) -> None:
    with contextlib.suppress(FileExistsError):
        write_new(path, msgspec.json.encode(data))


def config_home(env: Mapping[str, str]) -> str:
    """Claude's configuration home under `env`."""
    return env.get(CONFIG_HOME) or os.path.join(
        env.get("HOME") or os.path.expanduser("~"), ".claude"
    )


def has_credentials(env: Mapping[str, str]) -> str:
    """`present`, `missing` or `unknown`, by what exists; no login is read.

    A settings or state file may hold a key or name a helper, so its presence leaves it open, and
    so does the macOS keychain.
    """
    import sys

    home = config_home(env)
    if any(env.get(name) for name in (*_CREDENTIALS, *_CLOUDS)):
        return "present"
    if os.path.exists(os.path.join(home, ".credentials.json")):
        return "present"
    state = home if env.get(CONFIG_HOME) else os.path.dirname(home)
    doubtful = (os.path.join(home, "settings.json"), os.path.join(state, ".claude.json"))
    if sys.platform == "darwin" or any(os.path.exists(path) for path in doubtful):
        return "unknown"
    return "missing"
