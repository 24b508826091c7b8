"""Reading the options that only one runtime knows (`provider_options`): a closed set for each."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from bridle.core.errors import WrongUse

S = TypeVar("S", bound=msgspec.Struct)


def read_own_options(runtime: str, given: Mapping[str, Any], kind: type[S]) -> S:
    """`given` as a `kind`; `WrongUse` names what is unknown, with the nearest name, or wrong.

    Values may be texts, as a command line gives them.
    """
    names = kind.__struct_fields__
    for name in given:
        if name not in names:
            raise WrongUse(f"{runtime} has no provider option {name}", hint=nearest(name, names))
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as problem:
        raise WrongUse(f"wrong provider option for {runtime}: {problem}") from None


def check_range(name: str, value: float | None, least: float, most: float) -> None:
    """Refuse a number outside its bounds."""
    if value is not None and not least <= value <= most:
        raise WrongUse(f"provider option {name} must be between {least:g} and {most:g}")


def nearest(name: str, names: tuple[str, ...]) -> str:
    """A hint that leads from a wrong name to a right one."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"known ones: {', '.join(names)}"
