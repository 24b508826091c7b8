"""The environment Copilot runs in: whose home, which model service, which key."""

from collections.abc import Mapping

from bridle.core.errors import WrongUse
from bridle.core.options import ModelServer, Provider
from bridle.runtimes.copilot.provider_options import CopilotOptions
from bridle.runtimes.copilot.transcript import HOME_VARIABLE
from bridle.runtimes.options import provider_key
from bridle.runtimes.routing import PROXIES

INSTRUCTION_DIRS = "COPILOT_CUSTOM_INSTRUCTIONS_DIRS"
ALLOW_ALL = "COPILOT_ALLOW_ALL"
TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")
SCRIPTED_MODEL = "scripted"
CACHES = ("COPILOT_CACHE_HOME", "COPILOT_PKG_CACHE_HOME")
"""Where Copilot unpacks itself (235 MB) before its first run; kept for every run, since it holds
nothing of the user's choices and would take seconds to make again."""
QUIET = {"COPILOT_AUTO_UPDATE": "false"}
"""Off in every run: an update runs another version than the one whose dialect is spoken."""

BASE_URL = "COPILOT_PROVIDER_BASE_URL"
_KEY = "COPILOT_PROVIDER_API_KEY"
_KEYS = (
    _KEY,
    "COPILOT_PROVIDER_API_KEY_COMMAND",
    "COPILOT_PROVIDER_BEARER_TOKEN",
    "COPILOT_PROVIDER_HEADERS",
)
SECRET = (_KEY, "COPILOT_PROVIDER_BEARER_TOKEN", *TOKENS)
"""Variables that hold a key."""


def server_env(
    env: Mapping[str, str], server: ModelServer, model: str | None, home: str
) -> dict[str, str]:
    """`env` with everything pointed at the scripted model, and nothing of the user's choices."""
    kept = {
        name: value
        for name, value in env.items()
        if name in CACHES or not (name.startswith("COPILOT_") or name in TOKENS or name in PROXIES)
    }
    return {
        **kept,
        HOME_VARIABLE: home,
        BASE_URL: f"{server.url.rstrip('/')}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_WIRE_API": "completions",
        _KEY: server.api_key,
        "COPILOT_MODEL": model or SCRIPTED_MODEL,
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": _NO_WINDOW,
        "COPILOT_OFFLINE": "true",
    }


_NO_WINDOW = "10000000"
"""A scripted model has no window; Copilot would take 128000 tokens for it and refuse more."""


def provider_env(
    provider: Provider, model: str | None, env: Mapping[str, str], own: CopilotOptions
) -> dict[str, str]:
    """Variables that route Copilot to `provider`; an empty one takes a value of the user's away.

    Contract: a key of the user's for another service is never sent to an address that was given.
    """
    key = provider_key(provider, env, "copilot")
    if provider.base_url is None:
        return {TOKENS[0]: key} if key else {}
    if not model:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    return {
        **dict.fromkeys(_KEYS, ""),
        BASE_URL: provider.base_url,
        "COPILOT_PROVIDER_TYPE": own.provider_type,
        "COPILOT_PROVIDER_WIRE_API": own.wire_api,
        _KEY: key or "",
        "COPILOT_MODEL": model,
    }
