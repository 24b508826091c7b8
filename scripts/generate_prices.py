#!/usr/bin/env python3
"""Write the shipped price table, `src/bridle/usage/prices.json`, from the package genai-prices.

genai-prices costs half a second of processor time and 100 MB of memory to load, more than a report
over half a gigabyte of transcripts. Its data (MIT license) is therefore kept here as JSON, with the
token prices only. A test checks that both give the same prices.
"""

import json
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import data, types

TARGET = Path(__file__).parents[1] / "src" / "bridle" / "usage" / "prices.json"
KEYS = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
}
CLAUSES = {
    "starts_with": "starts",
    "ends_with": "ends",
    "contains": "contains",
    "regex": "regex",
    "equals": "equals",
}


def clause(found: Any) -> dict[str, Any] | None:
    """A match clause as JSON."""
    if found is None:
        return None
    if isinstance(found, types.ClauseOr):
        return {"any": [clause(each) for each in found.or_]}
    if isinstance(found, types.ClauseAnd):
        return {"all": [clause(each) for each in found.and_]}
    for name, short in CLAUSES.items():
        if hasattr(found, name):
            return {short: getattr(found, name).lower() if name != "regex" else found.regex}
    raise ValueError(f"unknown clause {found!r}")


def rate(found: Any) -> Any:
    """A price: a number, or the base and the tiers."""
    if isinstance(found, Decimal):
        return float(found)
    return {
        "base": float(found.base),
        "tiers": [[tier.start, float(tier.price)] for tier in found.tiers],
    }


def prices(found: types.ModelPrice) -> dict[str, Any]:
    """The token prices of a model."""
    values = {short: getattr(found, key) for key, short in KEYS.items()}
    return {short: rate(value) for short, value in values.items() if value is not None}


def conditions(model: types.ModelInfo) -> list[dict[str, Any]]:
    """All prices of a model, each with when it applies; the last that applies counts."""
    if isinstance(model.prices, types.ModelPrice):
        return [prices(model.prices)]
    rows = []
    for each in model.prices:
        row = prices(each.prices)
        limit = each.constraint
        if isinstance(limit, types.StartDateConstraint):
            row["since"] = limit.start_date.isoformat()
        elif limit is not None:
            row["hours"] = [
                types._utc_timetz(limit.start_time).strftime("%H:%M:%S"),
                types._utc_timetz(limit.end_time).strftime("%H:%M:%S"),
            ]
        rows.append(row)
    return rows


def table() -> dict[str, Any]:
    """The whole table."""
    providers = []
    for provider in data.providers:
        models = [
            {"match": clause(model.match), "prices": conditions(model)}
            for model in provider.models
            if any("input" in row or "output" in row for row in conditions(model))
        ]
        providers.append(
            {
                "id": provider.id,
                "named": clause(provider.provider_match),
                "match": clause(provider.model_match),
                "fallback": provider.fallback_model_providers or [],
                "models": models,
            }
        )
    return {"source": f"genai-prices {version('genai-prices')}", "providers": providers}


def text() -> str:
    """The file's content: a line for each provider, so that changes can be read."""
    found = table()
    lines = [json.dumps(each, separators=(",", ":")) for each in found["providers"]]
    return (
        f'{{"source":{json.dumps(found["source"])},"providers":[\n' + ",\n".join(lines) + "\n]}\n"
    )


if __name__ == "__main__":
    TARGET.write_text(text())
    print(f"{TARGET}: {TARGET.stat().st_size // 1024} KiB")
