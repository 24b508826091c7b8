"""The settings that Claude Code is given by flag, to which guard and reports add their hooks."""

from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.runtimes.base import RunPlan


def without_settings(plan: RunPlan) -> tuple[str, RunPlan]:
    """The settings that the plan's arguments name (empty when they name none), and the plan without
    them: Claude takes that flag once."""
    argv = list(plan.spec.argv)
    for number, word in enumerate(argv[:-1]):
        if word == "--settings":
            given = argv[number + 1]
            del argv[number : number + 2]
            spec = msgspec.structs.replace(plan.spec, argv=tuple(argv))
            return given, msgspec.structs.replace(plan, spec=spec)
    return "", plan


def read_settings(given: str) -> dict[str, Any]:
    """Settings given by flag, as a file or as JSON; none when `given` is empty. Raises
    `GuardRefused` when they cannot be read."""
    if not given:
        return {}
    try:
        if given.lstrip().startswith("{"):
            return msgspec.json.decode(given, type=dict[str, Any])
        with open(given, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise GuardRefused(
            f"claude: cannot read the settings that go with the guard: {problem}"
        ) from None
