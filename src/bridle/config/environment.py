"""Environment variables: the configuration they set, and other systems' names for them.

Bridle reads only its own names (`BRIDLE_…`). With a profile switched on, an agent also gets its
values under the names that another system's tools look for.
"""

import os
from collections.abc import Collection, Iterable, Mapping

from bridle.core.errors import ConfigError, WrongUse
from bridle.core.options import ModelServer

RUNTIME = "BRIDLE_RUNTIME"
BACKEND = "BRIDLE_BACKEND"
MODEL = "BRIDLE_MODEL"
MODEL_SERVER = "BRIDLE_MODEL_SERVER"
MODEL_SERVER_KEY = "BRIDLE_MODEL_SERVER_KEY"
PROFILE = "BRIDLE_PROFILE"

_BACKENDS = {"forge": "FORGE_BACKEND"}
"""Other systems' variables for the runtime, by the profile that makes Bridle read them."""


# -- configuration --------------------------------------------------------------------------------


def environment_values(env: Mapping[str, str]) -> tuple[str | None, dict[str, object]]:
    """The default runtime that `env` names, and the fields of `Config` it sets."""
    fields: dict[str, object] = {}
    if model := env.get(MODEL):
        fields["model"] = model
    if named := tuple(each for each in _profiles_of(env) if each not in _BACKENDS):
        fields["profiles"] = named
    if url := env.get(MODEL_SERVER):
        fields["model_server"] = model_server(url, env)
    return runtime_in(env), fields


def runtime_in(
    env: Mapping[str, str], profiles: Collection[str] = (), declared: Collection[str] = ()
) -> str | None:
    """The runtime that `env` names, or None.

    `profiles` are switched on in addition to those of `env`; `declared` are the runtimes that
    configuration files declare.
    """
    if name := env.get(RUNTIME):
        return name
    if name := env.get(BACKEND):
        return runtime_of_backend(name, declared)
    for profile, variable in _BACKENDS.items():
        switched_on = profile in profiles or profile in _profiles_of(env)
        if switched_on and (name := env.get(variable)):
            return runtime_of_backend(name, declared)
    return None


def runtime_of_backend(name: str, known: Collection[str] = ()) -> str:
    """The runtime that an older program's backend name means: `claude-cli` is `claude`, unless a
    runtime is really called `claude-cli`."""
    return name if name in known else name.removesuffix("-cli")


def model_server(url: str, env: Mapping[str, str]) -> ModelServer:
    """The scripted model at `url`, with the key from `env`; raises `WrongUse` without a key."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not rest:
        raise WrongUse(
            f"model server: {url} is not an http address",
            hint="give the URL that `bridle model-server` prints",
        )
    key = env.get(MODEL_SERVER_KEY)
    if not key:
        raise WrongUse(
            f"model server: {MODEL_SERVER_KEY} is not set",
            hint="set it to the key that `bridle model-server` prints",
        )
    return ModelServer(url=url.rstrip("/").removesuffix("/v1"), api_key=key)


# -- profiles -------------------------------------------------------------------------------------

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
"""By profile: the other system's name, and ours. `forge` only makes Bridle read a variable."""

_PROJECT_NAMES = {"GT_RIG"}
"""Variables that hold a project's name, where ours may hold its folder."""

_FOREIGN = frozenset(name for names in _ALIASES.values() for name in names)

PROFILES = tuple(_ALIASES)
"""The names of all profiles."""


def aliases(profile: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The values of `variables` under the names of another system.

    A variable that is not set has no alias. Raises `ConfigError` for an unknown profile.
    """
    check_profile(profile)
    found = {
        foreign: variables[ours] for foreign, ours in _ALIASES[profile].items() if ours in variables
    }
    for name in _PROJECT_NAMES & found.keys():
        found[name] = project_name(found[name])
    return found


def project_name(project: str) -> str:
    """The name of a project: the last part of its folder, or the name itself."""
    return os.path.basename(project.rstrip(os.sep)) if os.path.isabs(project) else project


def agent_variables(
    env: Mapping[str, str], profiles: Iterable[str], given: Mapping[str, str]
) -> dict[str, str]:
    """An agent's `env`, with its values also under the names of `profiles`.

    Values that these names already have come from an outer agent and are removed. What the caller
    set by name (`given`) wins.
    """
    chosen = tuple(profiles)
    if not chosen:
        return dict(env)
    kept = {name: value for name, value in env.items() if name not in _FOREIGN}
    for profile in chosen:
        kept |= aliases(profile, env)
    return {**kept, **{name: value for name, value in given.items() if name in _FOREIGN}}


def check_profile(profile: str, where: str = "") -> None:
    """Raise `ConfigError` for an unknown profile; `where` says where it was named."""
    if profile not in _ALIASES:
        lead = f"{where}: " if where else ""
        raise ConfigError(f"{lead}unknown profile {profile}", hint=f"known: {', '.join(PROFILES)}")


def _profiles_of(env: Mapping[str, str]) -> tuple[str, ...]:
    """The profiles that `BRIDLE_PROFILE` lists, with commas or spaces between them."""
    found = tuple(env.get(PROFILE, "").replace(",", " ").split())
    for profile in found:
        check_profile(profile, PROFILE)
    return found
