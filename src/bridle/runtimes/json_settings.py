"""Laying one object of settings over another."""

from collections.abc import Mapping
from typing import Any


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` over it, objects inside objects likewise."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            result[name] = merged(old, value)
        else:
            result[name] = value
    return result
