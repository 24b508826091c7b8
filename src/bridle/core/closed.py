"""Checks fields with a closed set of values, in structs that a program builds by itself."""

from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from bridle.core.errors import WrongUse


def check_closed(struct: msgspec.Struct) -> None:
    """Raise `WrongUse` when a field whose type is a `Literal` holds another value.

    For `__post_init__`: msgspec checks types when it decodes, not when Python builds a struct.
    """
    for name, allowed in _closed_fields(type(struct)):
        value = getattr(struct, name)
        if value not in allowed:
            known = ", ".join(str(each) for each in allowed if each is not None)
            raise WrongUse(
                f"{type(struct).__name__}.{name} cannot be {value!r}", hint=f"it is one of: {known}"
            )


@lru_cache
def _closed_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The fields with a closed set of values, each with those values."""
    found = []
    for name, hint in get_type_hints(cls).items():
        parts = [hint] if get_origin(hint) is Literal else list(get_args(hint))
        if parts and all(get_origin(each) is Literal or each is type(None) for each in parts):
            values = [None if each is type(None) else get_args(each) for each in parts]
            found.append((name, tuple(v for each in values for v in (each or (None,)))))
    return tuple(found)
