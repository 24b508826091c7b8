"""Reading the options that only one runtime knows: a closed set, each checked before a start."""

import os
from typing import Any, TypeVar

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.options import RunOptions
from bridle.runtimes.supporting import forking_runtimes

T = TypeVar("T", bound=msgspec.Struct)


def read_provider_options(
    runtime: str,
    given: dict[str, Any],
    kind: type[T],
    *,
    lists: tuple[str, ...] = (),
    separator: str = os.pathsep,
) -> T:
    """`given` as a `kind`; `WrongUse` names the one that is wrong, and the nearest right name.

    Values may be texts, as the command line gives them: `true`, `3`, and for `lists` `dir1:dir2`.
    """
    known = kind.__struct_fields__
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise WrongUse(
                f"{runtime} has no provider option {name!r}; it has: {', '.join(known)}",
                hint=_nearest(name, known),
            )
        split = name in lists and isinstance(value, str)
        values[name] = value.split(separator) if split else value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise WrongUse(f"{runtime} provider option: {problem}") from None


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside its bounds."""
    if not least <= value <= most:
        raise WrongUse(f"provider option {name} must be between {least:g} and {most:g}")


def refuse_fork(runtime: str, options: RunOptions, fork: bool, reason: str) -> None:
    """Refuse to go on in a copy where there is none to be had. Never passed over, whatever may be
    ignored: the conversation that was to stay as it is would be gone on with."""
    if fork and options.resume is not None:
        others = forking_runtimes(runtime)
        raise UnsupportedOption(runtime, "provider option fork", others, reason=reason)


def _nearest(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else ""
