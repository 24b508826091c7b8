"""Prices: the shipped table against the package it is made from, names, tiers, the user's own."""

import random
from datetime import UTC, datetime

import genai_prices
import pytest
from genai_prices.data import providers
from scripts import generate_prices

import bridle
from bridle.usage.prices import PriceList, Prices, Tiers

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def test_the_shipped_table_is_made_from_the_locked_package() -> None:
    assert generate_prices.TARGET.read_text() == generate_prices.text()


def test_every_listed_model_costs_what_the_package_says() -> None:
    """Claude-style usage has cached tokens beside the input; the package counts them inside."""
    chance = random.Random(1)
    ours = PriceList()
    compared = 0
    for provider in providers:
        if provider.id not in ("anthropic", "openai", "google", "deepseek", "x-ai", "mistral"):
            continue
        for model in provider.models:
            name = model.id
            fresh, output = chance.randrange(1, 300_000), chance.randrange(1, 9000)
            read, short, hour = (chance.randrange(0, 90_000) for _ in range(3))
            theirs = genai_prices.Usage(
                input_tokens=fresh + read + short + hour,
                output_tokens=output,
                cache_read_tokens=read,
                cache_write_tokens=short + hour,
                cache_write_1h_tokens=hour,
            )
            try:
                wanted = genai_prices.calc_price(
                    theirs, name, provider_id=provider.id, genai_request_timestamp=NOW
                )
            except (LookupError, ValueError):
                continue
            price = wanted.model_price
            known = price.input_mtok is not None or price.output_mtok is not None
            found = ours.at(f"{provider.id}/{name}", NOW.timestamp())
            if not known or found is None:
                continue
            total = sum(float(getattr(wanted, part)) for part in ("input_price", "output_price"))
            cost = found.cost(fresh, output, read, short + hour, hour)
            assert cost == pytest.approx(total), name
            compared += 1
    assert compared > 150


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("anthropic/claude-opus-4-8", "claude-opus-4-8"),
        ("claude-opus-4-8[1m]", "claude-opus-4-8"),
        ("openrouter/anthropic/claude-opus-4-8", "claude-opus-4-8"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4-20250514"),
        ("CLAUDE-OPUS-4-8", "claude-opus-4-8"),
        ("my-gateway/gpt-5", "gpt-5"),
        ("openai/gpt-5", "gpt-5"),
        ("sonnet", "claude-sonnet-5-5"),
    ],
)
def test_prefixes_and_marks_do_not_hide_a_model(name: str, same_as: str) -> None:
    usage = bridle.Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=500)
    cost = bridle.usage.price(name, usage, at=NOW.timestamp())
    assert cost is not None
    assert cost == bridle.usage.price(same_as, usage, at=NOW.timestamp())


@pytest.mark.parametrize("name", ["", "scripted", "lab/scripted", "no-such-model-9"])
def test_an_unknown_model_has_no_price(name: str) -> None:
    assert bridle.usage.price(name, bridle.Usage(input_tokens=1)) is None


def test_both_kinds_of_cache_writes_have_their_price() -> None:
    usage = bridle.Usage(cache_write_tokens=1_000_000)
    assert bridle.usage.price("claude-opus-4-8", usage) == pytest.approx(6.25)
    hour = bridle.usage.price("claude-opus-4-8", usage, cache_write_1h_tokens=1_000_000)
    assert hour == pytest.approx(10.0)


def test_a_tier_applies_to_the_whole_request() -> None:
    tiered = Prices(input=Tiers(3.0, ((200_000, 6.0),)), output=15.0)
    assert tiered.cost(200_000) == pytest.approx(0.6)
    assert tiered.cost(200_001) == pytest.approx(200_001 * 6 / 1e6)
    assert tiered.cost(1000, cache_read_tokens=200_000) == pytest.approx(201_000 * 6 / 1e6)


def test_your_own_price_wins() -> None:
    own = {"scripted": Prices(input=2.0, output=4.0), "gpt-5": Prices(input=0.0, output=0.0)}
    usage = bridle.Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    assert bridle.usage.price("lab/scripted", usage, prices=own) == pytest.approx(6.0)
    assert bridle.usage.price("openai/gpt-5", usage, prices=own) == 0.0


def test_a_price_applies_from_its_day_on() -> None:
    rows = (Prices(input=1.0), Prices(input=2.0, since="2026-06-01"))
    listed = PriceList()
    listed._known["changing"] = rows
    before, after = datetime(2026, 5, 31, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)
    assert listed.at("changing", before.timestamp()) == rows[0]
    assert listed.at("changing", after.timestamp()) == rows[1]
    assert listed.flat("changing") is None
