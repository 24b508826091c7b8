"""The runtime's own options: a closed set, each checked before anything starts."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import WrongUse

NAMES = ("script", "conversation", "cost_per_turn", "max_retries", "behave")
BEHAVIOURS = (
    "garbage",
    "half-lines",
    "long-line",
    "die-mid-line",
    "never-answer",
    "ignore-sigterm",
    "flood-stderr",
    "no-result",
    "exit",
    "stamp",
)
_WITH_NUMBER = ("long-line", "flood-stderr", "exit")
SCRIPT_VARIABLE = "BRIDLE_SCRIPT"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The runtime's own options of one run."""

    script: Any = None
    """A file's path, a script's text, or a list of turns; None plays the built-in one."""
    conversation: str | None = None
    cost_per_turn: float | None = None
    max_retries: int = 3
    aids: tuple[str, ...] = ()


def read_settings(
    options: Mapping[str, Any], configured: Mapping[str, Any], env: Mapping[str, str]
) -> Settings:
    """Read provider options over the configuration's own section; `WrongUse` for a wrong one.

    Values may be texts, as a command line gives them. Without a `script`, the variable
    `BRIDLE_SCRIPT` names one.
    """
    values = {**configured, **options}
    for name in values:
        if name not in NAMES:
            from difflib import get_close_matches

            near = get_close_matches(name, NAMES, n=1)
            raise WrongUse(
                f"runtime scripted has no provider option {name!r}",
                hint=f"did you mean {near[0]}?" if near else f"it has: {', '.join(NAMES)}",
            )
    script = values.get("script")
    if script is None:
        script = env.get(SCRIPT_VARIABLE) or None
    cost = values.get("cost_per_turn")
    conversation = values.get("conversation")
    return Settings(
        script=script,
        conversation=None if conversation is None else str(conversation),
        cost_per_turn=None if cost is None else _number("cost_per_turn", cost),
        max_retries=int(_number("max_retries", values.get("max_retries", 3), most=20)),
        aids=_behaviours(values.get("behave", ())),
    )


def _number(name: str, value: Any, *, most: float = 1e6) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= most:
        raise WrongUse(f"provider option {name} must be a number from 0 to {most:g}: {value!r}")
    return number


def _behaviours(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise WrongUse("provider option behave must be a list of names")
    chosen = []
    for each in names:
        name, colon, number = str(each).strip().partition(":")
        if name not in BEHAVIOURS:
            raise WrongUse(
                f"the scripted agent has no behaviour {name!r}",
                hint=f"it has: {', '.join(BEHAVIOURS)}",
            )
        if colon and (name not in _WITH_NUMBER or not number.isdigit()):
            raise WrongUse(f"wrong number in behaviour {each!r}")
        if name == "exit" and not colon:
            raise WrongUse("behaviour exit needs a number, as in exit:3")
        chosen.append(f"{name}{colon}{number}")
    return tuple(chosen)
