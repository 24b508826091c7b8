"""Leading each agent to a model service without touching a file of the user's.

Two ways: a scripted model, with a private home in which nothing of the user's is read, and a
provider that the caller names, with the user's own home. Keys go by environment or into the private
home, never into an argument.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.runtimes.routing import CLAUDE_MODELS, PROXIES

KEY_VARIABLE = "BRIDLE_MODEL_KEY"
DEFAULT_MODEL = "scripted"
_NO_PROXY = {"NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The service to use."""

    url: str | None
    """Base address without `/v1`; None leaves it where the agent has it."""
    api: str | None = None
    """The same with the path that OpenAI's protocols have (`/v1`)."""
    key: str | None
    model: str | None
    max_retries: int
    home: str | None = None
    """A private home, when nothing of the user's is to be used."""
    scratch: str = ""
    """A folder of this process alone, when a private home is used."""
    cwd: str = ""
    account: str = ""
    """The user's own configuration home, when that is used."""
    ask: bool = True
    """Whether the agent is to ask before it acts."""
    env: dict[str, str] = {}
    """The environment it is started in, where that tells which settings of the user's are used."""
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    """Its own names of the tools that it is limited to, and of those that it must not have."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is started with to reach a service."""

    env: dict[str, str] = {}
    drop: tuple[str, ...] = ()
    """Variables of the user's that would lead elsewhere."""
    flags: tuple[str, ...] = ()
    files: dict[str, bytes] = {}
    """Files of the private home, by their path below it; one that is there stays as it is."""
    scratch_files: dict[str, bytes] = {}
    """Files of the scratch folder, by name."""


def _copilot(to: Target) -> Route:
    env: dict[str, str] = {}
    if to.url is not None:
        env = {
            "COPILOT_PROVIDER_BASE_URL": to.api or to.url,
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_WIRE_API": "completions",
            "COPILOT_MODEL": to.model or DEFAULT_MODEL,
        }
    if to.key is not None:
        env["COPILOT_PROVIDER_API_KEY"] = to.key
    if to.home is not None:
        env |= {
            "COPILOT_HOME": to.home,
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            # A scripted model has no window; Copilot would take 128000 tokens for it.
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "10000000",
        }
    own = ("COPILOT_PROVIDER_API_KEY_COMMAND", "COPILOT_PROVIDER_BEARER_TOKEN")
    tokens = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_ALLOW_ALL")
    drop = own + (tokens if to.home else ()) if to.url else ()
    return Route(env=env, drop=drop)


def _opencode(to: Target) -> Route:
    config: dict[str, Any] = {}
    if to.ask:
        # It never asks by itself.
        config["permission"] = {"edit": "ask", "bash": "ask", "webfetch": "ask"}
    tools = {"*": False} if to.allowed else {}
    tools |= {**dict.fromkeys(to.allowed, True), **dict.fromkeys(to.denied, False)}
    if tools:
        config["tools"] = tools
        # A rule to ask about a tool would bring it back; `write` is held by that of `edit`.
        gone = {*to.denied, *(("edit",) if "write" in to.denied else ())}
        config["permission"] = {
            name: rule
            for name, rule in config.get("permission", {}).items()
            if name not in gone and (not to.allowed or name in to.allowed)
        }
    if to.url is not None:
        name = to.model or DEFAULT_MODEL
        # It sends no images to a model of which it does not know that it takes them.
        entry = {
            "name": name,
            "limit": {"context": 200_000, "output": 32_000},
            "attachment": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
        }
        options: dict[str, Any] = {"baseURL": to.api or to.url}
        if to.key is not None:
            options["apiKey"] = f"{{env:{KEY_VARIABLE}}}"
        config |= {
            "provider": {
                "bridle": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Bridle",
                    "options": options,
                    "models": {name: entry},
                }
            },
            "model": f"bridle/{name}",
            "small_model": f"bridle/{name}",
        }
    env: dict[str, str] = {KEY_VARIABLE: to.key} if to.key else {}
    if to.home is not None:
        config |= {"enabled_providers": ["bridle"], "autoupdate": False, "share": "disabled"}
        for name in ("CONFIG", "DATA", "STATE", "CACHE"):
            env[f"XDG_{name}_HOME"] = os.path.join(to.home, name.lower())
        env |= {
            "OPENCODE_TEST_HOME": os.path.join(to.home, "home"),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            # Else it fetches its plugin kit from the registry at every first start.
            "NPM_CONFIG_OFFLINE": "true",
            "npm_config_cache": os.path.join(to.home, "npm"),
        }
    if config:
        env["OPENCODE_CONFIG_CONTENT"] = msgspec.json.encode(config).decode()
    return Route(env=env, drop=("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR") if to.home else ())


def _gemini(to: Target) -> Route:
    if to.url is None or to.home is None:
        return Route()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": to.max_retries + 1},
    }
    return Route(
        env={
            "GEMINI_CLI_HOME": to.home,
            "GEMINI_API_KEY": to.key or "none",
            "GOOGLE_GEMINI_BASE_URL": to.url,
        },
        drop=("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT"),
        flags=("-m", to.model or "gemini-2.5-flash"),
        files={".gemini/settings.json": msgspec.json.encode(settings)},
    )


def _cline(to: Target) -> Route:
    if to.url is None or to.home is None:
        return Route()
    provider = "openai-compatible"
    settings = {
        "provider": provider,
        "apiKey": to.key,
        "model": to.model or DEFAULT_MODEL,
        "baseUrl": to.api or to.url,
    }
    saved = {
        "version": 1,
        "lastUsedProvider": provider,
        "modes": {},
        "providers": {
            provider: {
                "settings": settings,
                "updatedAt": "2026-01-01T00:00:00.000Z",
                "tokenSource": "manual",
            }
        },
    }
    return Route(
        env={
            "CLINE_DIR": to.home,
            "CLINE_DATA_DIR": os.path.join(to.home, "data"),
            "CLINE_PROVIDER_SETTINGS_PATH": os.path.join(to.scratch, "providers.json"),
            "CLINE_API_KEY": to.key or "none",
            "CLINE_PROVIDER": provider,
            "CLINE_MODEL": to.model or DEFAULT_MODEL,
        },
        # Not in the home: that may be kept, and the next process may have another service.
        scratch_files={"providers.json": msgspec.json.encode(saved)},
    )


def _claude(to: Target) -> Route:
    env = {"CLAUDE_CODE_MAX_RETRIES": str(to.max_retries)}
    if to.url is not None:
        env["ANTHROPIC_BASE_URL"] = to.url
        if to.model and to.home is None:
            env |= {name: to.model for name in CLAUDE_MODELS if name not in to.env}
    if to.key is not None:
        # The other variable is emptied, since Claude would send both.
        foreign = to.url is not None and to.home is None
        used, unused = ("AUTH_TOKEN", "API_KEY") if foreign else ("API_KEY", "AUTH_TOKEN")
        env |= {f"ANTHROPIC_{used}": to.key, f"ANTHROPIC_{unused}": ""}
    if to.home is not None:
        env |= {
            "CLAUDE_CONFIG_DIR": to.home,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
    clouds = ("BEDROCK", "VERTEX", "FOUNDRY")
    drop = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_MODEL")
    return Route(
        env=env,
        drop=(*drop, *(f"CLAUDE_CODE_USE_{cloud}" for cloud in clouds)) if to.home else drop[:2],
    )


def _codex(to: Target) -> Route:
    from bridle.core.git import find_git
    from bridle.runtimes.codex_trust import trust_flags
    from bridle.runtimes.toml import toml_string

    env: dict[str, str] = {}
    # Otherwise it notes its trust in the folder in the user's own file.
    flags = trust_flags(to.cwd, find_git(to.cwd), to.account) if to.cwd else []
    if to.url is not None:
        service = {"name": "bridle", "base_url": to.api or to.url, "wire_api": "responses"}
        if to.key:
            service["env_key"] = KEY_VARIABLE
            env[KEY_VARIABLE] = to.key
        pairs = [f"{name}={toml_string(value)}" for name, value in service.items()]
        pairs += [f"{kind}_max_retries={to.max_retries}" for kind in ("request", "stream")]
        flags += ["-c", 'model_provider="bridle"']
        flags += ["-c", f"model_providers.bridle={{{', '.join(pairs)}}}"]
    elif to.key is not None:
        env["CODEX_API_KEY"] = to.key
    if to.home is not None:
        env["CODEX_HOME"] = to.home
        flags += ["-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false"]
        flags += ["-c", f"model={toml_string(to.model or 'gpt-5.5')}"]
    drop = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY") if to.home else ()
    return Route(env=env, drop=drop, flags=tuple(flags))


ROUTES: dict[str, Callable[[Target], Route]] = {
    "claude": _claude,
    "cline": _cline,
    "codex": _codex,
    "copilot": _copilot,
    "gemini": _gemini,
    "opencode": _opencode,
}
"""The ways to a service by the row's `routing`."""


def route(name: str, to: Target) -> Route:
    """What leads the agent with the routing `name` to `to`."""
    found = ROUTES[name](to) if name else Route()
    if to.home is None:
        return found
    return msgspec.structs.replace(
        found, env={**_NO_PROXY, **found.env}, drop=(*PROXIES, *found.drop)
    )
