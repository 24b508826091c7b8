"""Profiles: other systems' names for the variables that Bridle gives an agent.

Bridle reads only its own names (`BRIDLE_…`). With a profile switched on, an agent finds the same
values under the names that another system's tools look for.
"""

from collections.abc import Mapping

from bridle.core.errors import ConfigError

_ALIASES: dict[str, dict[str, str]] = {
    "gastown": {
        "GT_SESSION_ID": "BRIDLE_SESSION_ID",
        "GT_ROLE": "BRIDLE_CAPABILITY",
        "GT_RIG": "BRIDLE_PROJECT",
        "GT_POLECAT": "BRIDLE_AGENT_NAME",
        "BD_ACTOR": "BRIDLE_ACTOR",
        "GT_WORKDIR": "BRIDLE_WORKTREE_PATH",
    },
    "overstory": {
        "OVERSTORY_AGENT_NAME": "BRIDLE_AGENT_NAME",
        "OVERSTORY_WORKTREE_PATH": "BRIDLE_WORKTREE_PATH",
    },
    "forge": {},
}
"""By profile: the other system's name, and ours. `forge` only reads a variable of its own."""

PROFILES = tuple(_ALIASES)
"""The profiles there are."""


def aliases(profile: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of another system that say what `variables`, under our names, say.

    What is not set here is not set there. Raises `ConfigError` for a profile nobody knows.
    """
    check_profile(profile)
    return {
        theirs: variables[ours] for theirs, ours in _ALIASES[profile].items() if ours in variables
    }


def check_profile(profile: str, where: str = "") -> None:
    """Refuse a profile that nobody knows; `where` says where it was named."""
    if profile not in _ALIASES:
        lead = f"{where}: " if where else ""
        raise ConfigError(f"{lead}unknown profile {profile}", hint=f"known: {', '.join(PROFILES)}")


def profiles_in(text: str) -> tuple[str, ...]:
    """The names in a list that is written with commas or spaces."""
    return tuple(text.replace(",", " ").split())
