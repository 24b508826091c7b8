"""The configuration that holds somewhere, value by value, each with the place it comes from."""

import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from bridle.config import environment as variables
from bridle.config.environment import environment_values, runtime_in
from bridle.config.load import load_config
from bridle.config.reading import key_lines
from bridle.core.redaction import secrets_in

_HIDDEN = "[secret]"
_OWN = ("files", "modelServer")
"""Fields of the merged configuration that are not settings, or hold a key."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One value that holds."""

    key: str
    """As in a file, with dots: `runtime.default`."""
    value: Any
    source: str
    """A file, a variable of the environment, or `default`."""
    line: int | None = None


def effective_settings(
    cwd: str | None = None, env: Mapping[str, str] | None = None
) -> list[Setting]:
    """Every value that holds in `cwd`, sorted by key; those that are empty by default are left out.

    Raises what `load_config` raises. Values of variables whose name says that they are secret are
    not shown.
    """
    env = os.environ if env is None else env
    config = load_config(cwd, env)
    values = dict(_flat(msgspec.to_builtins(config)))
    values = {key: each for key, each in values.items() if _section(key) not in _OWN}
    values["runtime.default"] = config.runtime.default or "claude"
    sources: dict[str, tuple[str, int | None]] = {}
    for path in reversed(config.files):
        # A bare text in a section's place sets one key of it.
        lines = key_lines(path)
        sources |= {key: (path, line) for key, line in lines.items() if key in values}
        if "runtime" in lines and not any(key.startswith("runtime.") for key in lines):
            sources["runtime.default"] = (path, lines["runtime"])
    for key, name in _from_environment(env, config.profiles).items():
        sources[key] = (name, None)
    if config.model_server is not None:
        values["modelServer"] = config.model_server.url
        sources["modelServer"] = (variables.MODEL_SERVER, None)
    found = []
    for key, value in sorted(values.items()):
        source, line = sources.get(key, ("default", None))
        if source != "default" or value not in (None, [], {}, ""):
            found.append(Setting(key=key, value=_shown(key, value), source=source, line=line))
    return found


def _flat(values: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{where}{key}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}.")
        else:
            yield path, value


def _from_environment(env: Mapping[str, str], profiles: Collection[str]) -> dict[str, str]:
    """The keys that the environment sets, each with its variable."""
    fields = environment_values(env)[1]
    runtime = runtime_in(env, profiles)
    found: dict[str, str] = {}
    if runtime is not None:
        named = [name for name in (variables.RUNTIME, variables.BACKEND) if env.get(name)]
        found["runtime.default"] = named[0] if named else "FORGE_BACKEND"
    if "model" in fields:
        found["model"] = variables.MODEL
    if "profiles" in fields:
        found["profiles"] = variables.PROFILE
    return found


def _section(key: str) -> str:
    return key.partition(".")[0]


def _shown(key: str, value: Any) -> Any:
    """A value as it may be printed."""
    section, _, name = key.rpartition(".")
    is_secret = section.endswith(".env") and isinstance(value, str) and secrets_in({name: value})
    return _HIDDEN if is_secret else value
