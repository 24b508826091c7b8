"""Profiles: other systems' names for the variables that Bridle gives an agent.

Bridle reads only its own names (`BRIDLE_…`). With a profile switched on, an agent finds the same
values under the names that another system's tools look for.
"""

import os
from collections.abc import Iterable, Mapping

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

_BY_NAME = {"GT_RIG"}
"""Those that hold a project's name, which we may know by its folder."""

_THEIRS = frozenset(name for names in _ALIASES.values() for name in names)

PROFILES = tuple(_ALIASES)
"""The profiles there are."""


def aliases(profile: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of another system that say what `variables`, under our names, say.

    What is not set here is not set there. Raises `ConfigError` for a profile nobody knows.
    """
    check_profile(profile)
    found = {
        theirs: variables[ours] for theirs, ours in _ALIASES[profile].items() if ours in variables
    }
    for name in _BY_NAME & found.keys():
        found[name] = project_name(found[name])
    return found


def project_name(project: str) -> str:
    """What a project is called: the last part of its folder, or the name that was given."""
    return os.path.basename(project.rstrip(os.sep)) if os.path.isabs(project) else project


def agent_variables(
    env: Mapping[str, str], profiles: Iterable[str], given: Mapping[str, str]
) -> dict[str, str]:
    """`env` of an agent, with its own values under the names of `profiles`.

    Values of these names that come from around (an outer agent's) are not the agent's own and do
    not stay. What the caller gave by name (`given`) wins.
    """
    chosen = tuple(profiles)
    if not chosen:
        return dict(env)
    kept = {name: value for name, value in env.items() if name not in _THEIRS}
    for profile in chosen:
        kept |= aliases(profile, env)
    return {**kept, **{name: value for name, value in given.items() if name in _THEIRS}}


def check_profile(profile: str, where: str = "") -> None:
    """Refuse a profile that nobody knows; `where` says where it was named."""
    if profile not in _ALIASES:
        lead = f"{where}: " if where else ""
        raise ConfigError(f"{lead}unknown profile {profile}", hint=f"known: {', '.join(PROFILES)}")


def profiles_in(text: str) -> tuple[str, ...]:
    """The names in a list that is written with commas or spaces."""
    return tuple(text.replace(",", " ").split())
