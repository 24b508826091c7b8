"""Where a model is served: isolation of foreign providers, prefixes, named providers, warnings."""

import pytest

from bridle.core.errors import NotAuthenticated, WrongUse
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions
from bridle.runtimes.product import RoutingFacts
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.runtimes.routing import PROVIDERS, PROXIES, Routed, routed

FOREIGN = Provider(base_url="https://gateway.example", auth_token_env="GATEWAY_KEY")
PRODUCTS = [n for n in available_runtimes() if get_adapter(n).routing_facts() != RoutingFacts()]


def route(runtime: str, around: dict[str, str] | None = None, /, **options: object) -> Routed:
    """What `routed` makes of the options of a run."""
    wanted = RunOptions(prompt="x", **options)  # type: ignore[arg-type]
    return routed(
        get_adapter(runtime), wanted, {"GATEWAY_KEY": "k", "HOME": "/h", **(around or {})}
    )


@pytest.mark.parametrize(
    ("runtime", "own"),
    [
        (
            "claude",
            "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN ANTHROPIC_BASE_URL "
            "ANTHROPIC_CUSTOM_HEADERS CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX "
            "CLAUDE_CODE_USE_FOUNDRY ANTHROPIC_SMALL_FAST_MODEL ANTHROPIC_MODEL "
            "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        ),
        ("claude-acp", "CLAUDE_CODE_OAUTH_TOKEN ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_API_KEY"),
        ("codex", "OPENAI_API_KEY OPENAI_BASE_URL CODEX_API_KEY OPENAI_ORGANIZATION"),
        ("codex-acp", "OPENAI_API_KEY CODEX_API_KEY"),
        ("gemini", "GEMINI_API_KEY GOOGLE_API_KEY GOOGLE_GEMINI_BASE_URL GEMINI_MODEL"),
        ("copilot", "COPILOT_PROVIDER_HEADERS COPILOT_PROVIDER_BEARER_TOKEN COPILOT_MODEL"),
        ("cline", "CLINE_API_KEY CLINE_PROVIDER ANTHROPIC_API_KEY"),
        ("pi", "ANTHROPIC_API_KEY OPENAI_API_KEY GEMINI_API_KEY"),
        ("opencode", "OPENCODE_API_KEY ANTHROPIC_API_KEY"),
        ("aider", "OPENAI_API_KEY AIDER_OPENAI_API_BASE ANTHROPIC_API_BASE"),
    ],
)
def test_nothing_of_the_users_own_reaches_a_foreign_provider(runtime: str, own: str) -> None:
    users = dict.fromkeys(own.split(), "mine")
    made = route(runtime, users, provider=FOREIGN, model="big")
    assert made.env == {"GATEWAY_KEY": "k", "HOME": "/h"}
    assert set(own.split()) <= route(runtime, users, model=None).env.keys(), "without a provider"


@pytest.mark.parametrize("runtime", [*PRODUCTS, "scripted"])
def test_variables_of_every_other_product_are_kept_back_too(runtime: str) -> None:
    # The OpenAI and Anthropic clients inside other products read these and send them as headers.
    own = (
        "OPENAI_ORG_ID OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_API_KEY "
        "ANTHROPIC_BASE_URL CLAUDE_CODE_OAUTH_TOKEN CODEX_API_KEY GEMINI_API_KEY "
        "GOOGLE_CLOUD_ACCESS_TOKEN COPILOT_GITHUB_TOKEN OPENROUTER_API_KEY AIDER_MODEL"
    )
    users = dict.fromkeys(own.split(), "mine")
    made = route(runtime, users, provider=FOREIGN, model="big")
    assert made.env == {"GATEWAY_KEY": "k", "HOME": "/h"}


def test_a_key_under_a_name_of_the_products_own_stays() -> None:
    provider = Provider(base_url="https://gateway.example", auth_token_env="ANTHROPIC_API_KEY")
    made = route("claude", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "u"}, provider=provider)
    assert made.env["ANTHROPIC_API_KEY"] == "k"
    assert "ANTHROPIC_BASE_URL" not in made.env


@pytest.mark.parametrize("runtime", [*PRODUCTS, "scripted"])
def test_a_key_that_is_not_set_is_no_login(runtime: str) -> None:
    provider = Provider(base_url="https://gateway.example", auth_token_env="NO_SUCH_KEY")
    with pytest.raises(NotAuthenticated, match="NO_SUCH_KEY") as refusal:
        route(runtime, provider=provider, model="big")
    assert (refusal.value.exit_code, refusal.value.runtime) == (5, runtime)
    agent = get_adapter(runtime)
    if "provider" not in agent.features.options and runtime != "scripted":
        return
    model = ResolvedModel(model="anthropic/big", provider=provider)
    with pytest.raises(NotAuthenticated, match="NO_SUCH_KEY"):
        agent.build_env(model)


@pytest.mark.parametrize(
    ("runtime", "model", "bare"),
    [
        ("claude", "anthropic/claude-sonnet-4-6", "claude-sonnet-4-6"),
        ("claude-acp", "anthropic/claude-sonnet-4-6", "claude-sonnet-4-6"),
        ("codex", "openai/gpt-5.5", "gpt-5.5"),
        ("gemini", "google/gemini-2.5-pro", "gemini-2.5-pro"),
        ("pi", "anthropic/claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"),
        ("claude", "my-org/tuned", "my-org/tuned"),
    ],
)
def test_the_prefix_of_the_agents_own_maker_is_taken_off(
    runtime: str, model: str, bare: str
) -> None:
    assert route(runtime, model=model).options.model == bare
    server = ModelServer(url="http://127.0.0.1:9", api_key="k")
    assert route(runtime, model=model, model_server=server).options.model == bare


def test_a_foreign_prefix_is_refused_where_nobody_serves_it() -> None:
    with pytest.raises(WrongUse, match="provider openai"):
        route("claude", model="openai/gpt-5.5")
    with pytest.raises(WrongUse, match="provider zai"):
        route("codex", model="zai/glm-4.6")
    own = {"ANTHROPIC_BASE_URL": "https://mine.example"}
    assert route("claude", own, model="openai/gpt-5.5").options.model == "openai/gpt-5.5"


@pytest.mark.parametrize("name", PROVIDERS)
def test_each_named_provider_leads_claude_there_with_its_own_key_alone(name: str) -> None:
    key = PROVIDERS[name].key
    users = {key: "theirs", "ANTHROPIC_API_KEY": "mine", "ANTHROPIC_CUSTOM_HEADERS": "mine"}
    made = route("claude", users, model=f"{name}/some/model")
    assert made.options.model == "some/model"
    assert made.options.provider == Provider(
        base_url=PROVIDERS[name].addresses["anthropic"], auth_token_env=key
    )
    assert "mine" not in made.env.values()
    assert made.env[key] == "theirs"
    with pytest.raises(NotAuthenticated, match=key):
        route("claude", model=f"{name}/some/model")


def test_a_small_model_of_a_named_provider() -> None:
    made = route("claude", {"ZAI_API_KEY": "k"}, model="zai/glm-4.6")
    assert made.options.env["ANTHROPIC_SMALL_FAST_MODEL"] == "glm-4.5-air"
    own = {"ANTHROPIC_SMALL_FAST_MODEL": "mine"}
    made = route("claude", {"ZAI_API_KEY": "k"}, model="zai/glm-4.6", env=own)
    assert made.options.env["ANTHROPIC_SMALL_FAST_MODEL"] == "mine"


@pytest.mark.parametrize(
    ("runtime", "model", "warned"),
    [
        ("claude", "gpt-5.5", True),
        ("claude", "glm-4.6", True),
        ("claude", "sonnet", False),
        ("claude", "some-new-model", False),
        ("codex", "claude-opus-5", True),
        ("codex", "gpt-5.5", False),
        ("gemini", "o3", True),
        ("pi", "gpt-5.5", False),
    ],
)
def test_a_model_of_another_maker_is_warned_of(runtime: str, model: str, warned: bool) -> None:
    assert bool(route(runtime, model=model).warnings) == warned
    assert not route(runtime, model=model, provider=FOREIGN).warnings


def test_proxies_are_listed_whole() -> None:
    assert len(PROXIES) == 6
    assert {"ALL_PROXY", "all_proxy"} <= PROXIES
