"""Routes the products behind bridges to a model service, without touching a file of the user's.

There are two cases: a scripted model, with a private home that holds nothing of the user's, and a
provider that the caller names, with the user's own home. Keys go into the environment, never into
an argument.
"""

from collections.abc import Callable

import msgspec

from bridle.runtimes.routing import CLAUDE_MODELS, NO_PROXY, PROXIES

KEY_VARIABLE = "BRIDLE_MODEL_KEY"
DEFAULT_MODEL = "scripted"


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
    cwd: str = ""
    account: str = ""
    """The user's own configuration home, when that is used."""
    env: dict[str, str] = {}
    """The environment it is started in, where that tells which settings of the user's are used."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is started with to reach a service."""

    env: dict[str, str] = {}
    drop: tuple[str, ...] = ()
    """Variables of the user's that would lead elsewhere."""
    flags: tuple[str, ...] = ()


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


ROUTES: dict[str, Callable[[Target], Route]] = {"claude": _claude, "codex": _codex}
"""By the product behind the bridge."""


def route(product: str, to: Target) -> Route:
    """What leads the bridge to `product` to the service `to`."""
    found = ROUTES[product](to) if product else Route()
    if to.home is None:
        return found
    return msgspec.structs.replace(
        found, env={**NO_PROXY, **found.env}, drop=(*PROXIES, *found.drop)
    )
