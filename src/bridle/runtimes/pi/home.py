"""Pi's configuration folder: where it is, and making one that leaves the user's untouched.

Pi takes its providers and settings from files only. A run that needs others gets a folder of its
own in which everything of the user's is linked, except the files that differ.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.files import make_private_dir, state_dir, write_private
from bridle.core.options import ModelServer, Provider
from bridle.runtimes.json_settings import merged
from bridle.runtimes.options import provider_key
from bridle.runtimes.pi.dialects import KEY_VARIABLES, SESSION_DIR_VARIABLE, PiDialect
from bridle.runtimes.routing import PROXIES

if TYPE_CHECKING:
    from bridle.sandbox import SandboxNeeds

DIR_VARIABLE = "PI_CODING_AGENT_DIR"
KEY_VARIABLE = "BRIDLE_PROVIDER_KEY"
"""Holds the key of a provider that Pi does not know by itself; models.json only names it."""

SCRIPTED_RETRY_DELAY_MS = 250


def agent_dir(env: Mapping[str, str], account_dir: str | None = None) -> str:
    """The user's own folder, or the one the caller chose instead."""
    chosen = account_dir or env.get(DIR_VARIABLE)
    home = env.get("HOME") or os.path.expanduser("~")
    if not chosen:
        return os.path.join(home, ".pi", "agent")
    return os.path.abspath(home + chosen[1:] if chosen.startswith("~/") else chosen)


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """How a private folder differs from the user's."""

    providers: dict[str, Any] = {}
    """Entries of `providers` in models.json."""
    settings: dict[str, Any] = {}
    mcp_servers: dict[str, Any] = {}
    """Entries of `mcpServers` in mcp.json."""
    env: dict[str, str] = {}
    drop_env: tuple[str, ...] = ()
    hide_login: bool = False
    """Leave out auth.json: a saved login would be sent in place of the key that was given."""

    @property
    def needs_folder(self) -> bool:
        """Whether variables alone cannot bring these about."""
        return bool(self.providers or self.settings or self.mcp_servers or self.hide_login)


def retry_settings(max_retries: int) -> dict[str, Any]:
    """Settings that bound how often a failed model call is made again."""
    return {"retry": {"enabled": max_retries > 0, "maxRetries": max_retries}}


def provider_changes(
    provider: Provider,
    model: str | None,
    api: str | None,
    env: Mapping[str, str],
    dialect: PiDialect,
) -> Changes:
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
        return Changes(providers={name: entry} if entry else {})
    if known is not None:
        return Changes(
            providers={name: entry} if entry else {},
            env={known[0]: key},
            drop_env=known[1:],
            hide_login=True,
        )
    entry["apiKey"] = dialect.key_from_variable.format(KEY_VARIABLE)
    return Changes(providers={name: entry}, env={KEY_VARIABLE: key}, hide_login=True)


def _without_level(model_id: str) -> str:
    return model_id.partition(":")[0]


def server_changes(
    server: ModelServer, model: str, max_retries: int, dialect: PiDialect
) -> Changes:
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
    retry = retry_settings(max_retries)
    retry["retry"] |= {
        "baseDelayMs": SCRIPTED_RETRY_DELAY_MS,
        "provider": {"maxRetries": 0, "maxRetryDelayMs": 2000},
    }
    return Changes(
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
        drop_env=(
            SESSION_DIR_VARIABLE,
            *(name for names in KEY_VARIABLES.values() for name in names),
            *PROXIES,
        ),
    )


def fill_home(folder: str, user_dir: str | None, changes: Changes) -> None:
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
            return msgspec.json.decode(file.read(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as problem:
        raise WrongUse(
            f"cannot read Pi's {path}: {problem}", hint="it must be a JSON object without comments"
        ) from None


def _encode(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def lasting_home(env: Mapping[str, str], changes: Changes) -> str:
    """A configuration folder for sessions that outlive this call; the same for the same changes.

    It holds links and addresses, never a key.
    """
    from hashlib import sha256

    user_dir = agent_dir(env)
    name = sha256(_encode([user_dir, changes.providers, changes.hide_login])).hexdigest()[:16]
    folder = os.path.join(state_dir(env), "pi", name)
    make_private_dir(folder)
    fill_home(folder, user_dir, changes)
    return folder


_RUN: dict[str, str | None] = {
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
"""What Pi runs, or takes commands from, of its folder, and how each is when it is empty."""
_READ = ("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "SYSTEM.md", "APPEND_SYSTEM.md", "tools")
"""What changes its behaviour by being there, so it is never made."""


def sandbox_needs(env: Mapping[str, str], cwd: str) -> "SandboxNeeds":
    """What Pi must be able to write when it is started with `env`.

    It locks its login by a folder beside it, even to read it, so its whole folder is opened but
    for what it obeys or runs. A folder of links, made for one run, is open by itself; what it
    links to of the user's is opened one by one.
    """
    from bridle.runtimes.pi.transcript import session_dir
    from bridle.sandbox import SandboxNeeds

    folder = agent_dir(env)
    conversations = os.path.realpath(session_dir(folder, cwd, env))
    if folder.startswith(os.path.join(state_dir(env), "run", "")):
        login = os.path.join(folder, "auth.json")
        files = (os.path.realpath(login),) if os.path.islink(login) else ()
        return SandboxNeeds(writable=(conversations,), files=files)
    held = _RUN | {name: "" for name in _READ if os.path.exists(os.path.join(folder, name))}
    return SandboxNeeds(
        writable=(folder, conversations),
        protected={os.path.join(folder, name): text for name, text in held.items()},
    )
