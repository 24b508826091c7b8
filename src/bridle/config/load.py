"""Puts a configuration together: environment, project file, user file, defaults."""

import os
from collections.abc import Mapping
from typing import Any

from bridle.config.environment import environment_values, runtime_in
from bridle.config.places import project_file, user_file
from bridle.config.schema import Config
from bridle.core.errors import ConfigError


def load_config(cwd: str | None = None, env: Mapping[str, str] | None = None) -> Config:
    """The configuration that holds in `cwd` (the caller's own when None).

    Precedence: environment, the project's `.bridle/config.yaml`, the user's file, defaults; what a
    command line says is laid over it by `apply_config`. Mappings are merged key by key, everything
    else is replaced. Raises `ConfigError` with every mistake in every file.
    """
    environment = os.environ if env is None else env
    runtime, fields = environment_values(environment)
    project = project_file(cwd or os.curdir)
    user = user_file(environment)
    files = [path for path in (project, user) if path is not None and os.path.lexists(path)]
    if not files and runtime is None:
        return Config(**fields)  # type: ignore[arg-type]  # the fields are made next door
    merged: dict[str, Any] = {}
    problems: list[str] = []
    for path in reversed(files):
        from bridle.config.remembered import read_remembered

        values, wrong = read_remembered(path, environment)
        problems += wrong
        if not wrong:
            _anchor_binaries(values, _base_folder(path, is_project=path == project))
            merge(merged, values)
    if problems:
        raise ConfigError("\n".join(problems))
    adapters = merged.get("runtime", {}).get("adapters", {})
    runtime = runtime_in(environment, merged.get("profiles", ()), adapters)
    if runtime is not None:
        merge(merged, {"runtime": {"default": runtime}})
    import msgspec

    config = msgspec.convert(merged, Config)
    return msgspec.structs.replace(config, files=tuple(files), **fields)


def _base_folder(path: str, *, is_project: bool) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.dirname(folder) if is_project else folder


def _anchor_binaries(values: dict[str, Any], folder: str) -> None:
    """Make relative paths of binaries absolute: they are meant from the project, or the file."""
    for section in values.get("runtime", {}).get("adapters", {}).values():
        binary = section.get("binary")
        if binary and os.sep in binary and not binary.startswith(("/", "~")):
            section["binary"] = os.path.normpath(os.path.join(folder, binary))


def merge(below: dict[str, Any], above: dict[str, Any]) -> None:
    """Lay `above` over `below`, in place: mappings key by key, everything else replaced."""
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merge(old, value)
        else:
            below[key] = value
