"""A configuration becomes the options of a run in one place."""

import pytest

from bridle.config import Config, apply_config
from bridle.config.schema import (
    AdapterSection,
    BudgetSection,
    ModelSection,
    ProviderSection,
    RuntimeSection,
)
from bridle.core.errors import WrongUse
from bridle.core.options import ModelServer, Provider, RunOptions

SERVER = ModelServer(url="http://127.0.0.1:1", api_key="k")
CONFIG = Config(
    runtime=RuntimeSection(adapters={"pi": AdapterSection(model="fast")}),
    models={
        "fast": "small-1",
        "big": "hub/large-1",
        "long": ModelSection(model="m", provider="hub", env={"A": "model"}),
        "lost": ModelSection(model="m", provider="nowhere"),
    },
    providers={"hub": ProviderSection(base_url="http://hub", auth_token_env="HUB", env={"A": "p"})},
    budgets=BudgetSection(run_usd=2.0, run_seconds=30.0),
)


def applied(runtime: str = "claude", config: Config = CONFIG, **options: object) -> RunOptions:
    return apply_config(RunOptions(prompt="p", **options), config, runtime)  # type: ignore[arg-type]


def test_an_alias_becomes_the_model() -> None:
    assert applied(model="fast").model == "small-1"
    assert applied(model="other/x").model == "other/x"


def test_a_provider_prefix_routes_to_the_provider() -> None:
    for name in ("big", "hub/large-1"):
        options = applied(model=name)
        assert options.model == "large-1"
        assert options.provider == Provider(base_url="http://hub", auth_token_env="HUB")
        assert options.env == {"A": "p"}


def test_the_callers_own_words_win() -> None:
    own = Provider(base_url="http://mine")
    options = applied(model="long", env={"A": "caller"}, provider=own, timeout=5.0, budget_usd=1.0)
    assert options.env == {"A": "caller"}
    assert options.provider == own
    assert (options.timeout, options.budget_usd) == (5.0, 1.0)


def test_models_own_variables_beat_the_providers() -> None:
    assert applied(model="long").env == {"A": "model"}


def test_budgets_are_defaults() -> None:
    options = applied()
    assert (options.timeout, options.budget_usd) == (30.0, 2.0)


def test_the_model_of_runs_that_name_none() -> None:
    assert applied("claude").model is None
    assert applied("pi").model == "small-1"
    assert applied("pi", Config(model="env-1")).model == "env-1"


def test_an_unknown_provider_is_refused_by_name() -> None:
    with pytest.raises(WrongUse, match="provider nowhere is not configured"):
        applied(model="lost")


def test_the_model_server_comes_from_the_environment() -> None:
    config = Config(model_server=SERVER)
    assert applied(config=config).model_server == SERVER
    own = ModelServer(url="http://127.0.0.1:2", api_key="o")
    assert applied(config=config, model_server=own).model_server == own
