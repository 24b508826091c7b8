"""Settings as JSON objects: those a caller gives, and laying one over another."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.runtimes.base import readable_file


def json_object(given: str, what: str) -> dict[str, Any]:
    """An object that the caller gave as JSON text or as a file; `WrongUse` says what is wrong."""
    data = given.encode() if given.lstrip().startswith("{") else readable_file(given, what)
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise WrongUse(f"the {what} is not a JSON object: {problem}") from None


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
