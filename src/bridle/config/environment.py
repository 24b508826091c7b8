"""What environment variables say, in the place they have in a configuration."""

from collections.abc import Collection, Mapping

from bridle.core.errors import WrongUse
from bridle.core.options import ModelServer

RUNTIME = "BRIDLE_RUNTIME"
BACKEND = "BRIDLE_BACKEND"
MODEL = "BRIDLE_MODEL"
MODEL_SERVER = "BRIDLE_MODEL_SERVER"
MODEL_SERVER_KEY = "BRIDLE_MODEL_SERVER_KEY"
PROFILE = "BRIDLE_PROFILE"

_BACKENDS = {"forge": "FORGE_BACKEND"}
"""Other systems' names for the runtime, read only when their profile is switched on."""


def environment_values(env: Mapping[str, str]) -> tuple[str | None, dict[str, object]]:
    """The default runtime that `env` names, and the fields of `Config` it sets."""
    fields: dict[str, object] = {}
    if model := env.get(MODEL):
        fields["model"] = model
    if named := tuple(each for each in _profiles(env.get(PROFILE, "")) if each not in _BACKENDS):
        fields["profiles"] = named
    if url := env.get(MODEL_SERVER):
        fields["model_server"] = model_server(url, env)
    return runtime_in(env), fields


def runtime_in(
    env: Mapping[str, str], profiles: Collection[str] = (), declared: Collection[str] = ()
) -> str | None:
    """The runtime that `env` names; `profiles` are switched on beside those of `env`, `declared`
    are the runtimes that files declare."""
    if name := env.get(RUNTIME):
        return name
    if name := env.get(BACKEND):
        return runtime_of_backend(name, declared)
    for profile, variable in _BACKENDS.items():
        switched_on = profile in profiles or profile in _profiles(env.get(PROFILE, ""))
        if switched_on and (name := env.get(variable)):
            return runtime_of_backend(name, declared)
    return None


def _profiles(named: str) -> tuple[str, ...]:
    if not named:
        return ()
    from bridle.config.profiles import check_profile, profiles_in

    found = profiles_in(named)
    for profile in found:
        check_profile(profile, PROFILE)
    return found


def runtime_of_backend(name: str, known: Collection[str] = ()) -> str:
    """The runtime that an older program's backend name means: `claude-cli` is `claude`, unless
    there is a runtime that is really called so."""
    return name if name in known else name.removesuffix("-cli")


def model_server(url: str, env: Mapping[str, str]) -> ModelServer:
    """The scripted model at `url`, with the key from the environment; `WrongUse` without one."""
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
