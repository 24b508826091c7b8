"""Which service a run's model comes from, and which of the user's variables must not reach it.

One table says which variables route each product: addresses, clouds, keys, headers, names of
default models. With another provider none of them reaches the agent, whichever product it is: they
share client libraries that read each other's variables, and a foreign model sees the environment of
its tools. `routed` is called for every run and session before its adapter plans it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.runtimes.product import RoutingFacts

if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter


_KEYS_OF_SERVICES = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "CEREBRAS_API_KEY"),
    *("COHERE_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GEMINI_API_KEY"),
    *("GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "OPENAI_API_KEY"),
    *("OPENROUTER_API_KEY", "TOGETHER_API_KEY", "XAI_API_KEY", "ZAI_API_KEY", "MINIMAX_API_KEY"),
    *("AZURE_OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
)
"""Keys that agents for many services look for."""

CLAUDE = RoutingFacts(
    vendors=("anthropic",),
    addresses=(
        *("ANTHROPIC_BASE_URL", "ANTHROPIC_UNIX_SOCKET", "CLAUDE_CODE_USE_BEDROCK"),
        *("CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    ),
    names=("AWS_BEARER_TOKEN_BEDROCK", "CLAUDE_CODE_SUBAGENT_MODEL"),
    prefixes=("ANTHROPIC_", "CLAUDE_CODE_USE_", "CLAUDE_CODE_OAUTH_", "CLAUDE_CODE_SKIP_"),
)
CODEX = RoutingFacts(
    vendors=("openai",),
    addresses=("OPENAI_BASE_URL",),
    names=("CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "AZURE_OPENAI_API_KEY"),
    prefixes=("OPENAI_",),
)
GEMINI = RoutingFacts(
    vendors=("google", "gemini"),
    addresses=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI"),
    names=(
        *("GEMINI_API_KEY", "GEMINI_API_KEY_AUTH_MECHANISM", "GEMINI_CLI_CUSTOM_HEADERS"),
        *("GEMINI_MODEL", "GOOGLE_API_KEY", "GOOGLE_CLOUD_ACCESS_TOKEN"),
    ),
    prefixes=("GOOGLE_GENAI_",),
)
COPILOT = RoutingFacts(
    addresses=("COPILOT_PROVIDER_BASE_URL",),
    # GH_TOKEN and GITHUB_TOKEN stay: `git` and `gh` of the agent use them, and a named provider
    # gets only its own key.
    names=("COPILOT_GITHUB_TOKEN", "COPILOT_MODEL"),
    prefixes=("COPILOT_PROVIDER_",),
)
CLINE = RoutingFacts(names=("CLINE_API_KEY", "CLINE_MODEL", "CLINE_PROVIDER", *_KEYS_OF_SERVICES))
PI = RoutingFacts(names=_KEYS_OF_SERVICES)
OPENCODE = RoutingFacts(names=("OPENCODE_API_KEY", *_KEYS_OF_SERVICES))
AIDER = RoutingFacts(
    addresses=("OPENAI_API_BASE", "ANTHROPIC_API_BASE"),
    names=("AIDER_API_KEY", "AIDER_MODEL", "AIDER_WEAK_MODEL", *_KEYS_OF_SERVICES),
    prefixes=("AIDER_OPENAI_", "AIDER_ANTHROPIC_", "OPENAI_", "ANTHROPIC_"),
)

PRODUCTS = (CLAUDE, CODEX, GEMINI, COPILOT, CLINE, PI, OPENCODE, AIDER)

PROXIES = frozenset(
    name for word in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") for name in (word, word.lower())
)
"""Variables that would send calls to a model on loopback to a proxy."""
NO_PROXY = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1")
"""Variables that keep calls to loopback away from any proxy."""


class NamedProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A service that models are served from, known by name without any configuration."""

    addresses: Mapping[str, str]
    """By the vendor whose protocol is spoken there."""
    key: str
    """The variable that holds the key."""
    small_model: str | None = None
    """What to use where the agent would ask for its small, fast model; the model itself if None."""


PROVIDERS: dict[str, NamedProvider] = {
    "minimax": NamedProvider(
        addresses={"anthropic": "https://api.minimax.io/anthropic"}, key="MINIMAX_API_KEY"
    ),
    "minimax-portal": NamedProvider(
        addresses={"anthropic": "https://api.minimax.io/anthropic"}, key="MINIMAX_OAUTH_TOKEN"
    ),
    "zai": NamedProvider(
        addresses={"anthropic": "https://api.z.ai/api/anthropic"},
        key="ZAI_API_KEY",
        small_model="glm-4.5-air",
    ),
    "openrouter": NamedProvider(
        addresses={
            "anthropic": "https://openrouter.ai/api",
            "openai": "https://openrouter.ai/api/v1",
        },
        key="OPENROUTER_API_KEY",
    ),
}
"""What `NAME/MODEL` means to an agent of one vendor, unless the configuration says otherwise."""

CLAUDE_MODELS = (
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
)
"""Variables that name the models which Claude asks for by itself."""
_SMALL = CLAUDE_MODELS[2:]

_MODELS = {
    "anthropic": ("claude", "opus", "sonnet", "haiku"),
    "openai": ("gpt-", "o1", "o3", "o4", "codex", "chatgpt"),
    "google": ("gemini",),
    "others": ("glm-", "minimax", "kimi", "deepseek", "qwen", "grok", "mistral", "llama"),
}
"""Prefixes of model names, by maker."""


class Routed(NamedTuple):
    """A run as its adapter must plan it."""

    options: RunOptions
    env: dict[str, str]
    warnings: tuple[str, ...]


def routed(runtime: "Adapter", options: RunOptions, env: Mapping[str, str]) -> Routed:
    """`options` with the model's service decided, and `env` without what must not reach it.

    Raises `WrongUse` for a service that is not configured, and `NotAuthenticated` when the variable
    that holds its key is not set.
    """
    facts = runtime.routing_facts()
    around = {**env, **options.env}
    warnings: tuple[str, ...] = ()
    if options.model_server is None and options.provider is None:
        elsewhere = any(around.get(name) for name in facts.addresses)
        options = _by_prefix(runtime, facts, options, elsewhere=elsewhere)
        if options.provider is None and not elsewhere:
            warnings = _foreign_model(runtime, facts, options.model)
    elif options.model is not None and options.provider is None:
        options = msgspec.structs.replace(options, model=without_vendor(facts, options.model))
    provider = options.provider
    if provider is None or options.model_server is not None:
        return Routed(options, dict(env), warnings)
    from bridle.runtimes.options import provider_key

    provider_key(provider, around, runtime.id)
    if provider.base_url is None:
        return Routed(options, dict(env), warnings)
    kept = {
        name: value
        for name, value in env.items()
        if name == provider.auth_token_env
        or not any(each.holds(name) for each in (facts, *PRODUCTS))
    }
    return Routed(options, kept, warnings)


def without_vendor(facts: RoutingFacts, model: str) -> str:
    """`model` without the prefix of the agent's own maker."""
    prefix, slash, rest = model.partition("/")
    return rest if slash and prefix in facts.vendors else model


def _by_prefix(
    runtime: "Adapter", facts: RoutingFacts, options: RunOptions, *, elsewhere: bool
) -> RunOptions:
    """`options` with the service that a prefix of the model names; `elsewhere`: the user routes the
    agent to another service, which has its own model names."""
    if not facts.vendors or not options.model:
        return options
    bare = without_vendor(facts, options.model)
    if bare != options.model:
        return msgspec.structs.replace(options, model=bare)
    prefix, slash, rest = options.model.partition("/")
    known = {each for other in _all_vendors() for each in other} | PROVIDERS.keys()
    if not slash or elsewhere or prefix not in known:
        return options
    named = PROVIDERS.get(prefix)
    address = named.addresses.get(facts.vendors[0]) if named is not None else None
    if named is None or address is None:
        raise WrongUse(
            f"{runtime.id} does not know provider {prefix} of model {options.model}",
            hint=f"configure providers.{prefix}, or name a model of {facts.vendors[0]}",
        )
    small = dict.fromkeys(_SMALL, named.small_model) if named.small_model else {}
    return msgspec.structs.replace(
        options,
        model=rest,
        provider=Provider(base_url=address, auth_token_env=named.key),
        env={**{name: value for name, value in small.items() if value}, **options.env},
    )


def _all_vendors() -> tuple[tuple[str, ...], ...]:
    return (CLAUDE.vendors, CODEX.vendors, GEMINI.vendors)


def _foreign_model(runtime: "Adapter", facts: RoutingFacts, model: str | None) -> tuple[str, ...]:
    """A warning if `model` comes from another maker than the agent."""
    if model is None or not facts.vendors:
        return ()
    for vendor, starts in _MODELS.items():
        if model.lower().startswith(starts) and vendor not in facts.vendors:
            return (
                f"{runtime.id}: {model} is not a model of {facts.vendors[0]}, and no provider is "
                "named that serves it",
            )
    return ()
