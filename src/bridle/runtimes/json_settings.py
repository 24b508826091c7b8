"""Laying one object of settings over another, and hooks beside those that are there."""

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


def with_hooks(settings: Mapping[str, Any], entries: Mapping[str, list[Any]]) -> dict[str, Any]:
    """`settings` with `entries` in its `hooks`, by event, behind those that are there. What stands
    there but cannot be any gives way."""
    hooks = settings.get("hooks")
    whole: dict[str, Any] = dict(hooks) if isinstance(hooks, dict) else {}
    for event, added in entries.items():
        there = whole.get(event)
        whole[event] = [*(there if isinstance(there, list) else []), *added]
    return {**settings, "hooks": whole}
