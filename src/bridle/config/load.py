"""Puts a configuration together: environment, project file, user file, defaults."""

import os
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from bridle.config.environment import environment_values, runtime_in
from bridle.config.places import project_file, user_file
from bridle.config.schema import Config
from bridle.core.errors import ConfigError


def load_config(
    cwd: str | None = None, env: Mapping[str, str] | None = None, *, ignoring: str = ""
) -> Config:
    """The configuration that holds in `cwd` (the caller's own when None).

    Precedence: environment, the project's `.bridle/config.yaml`, the user's file, defaults; what a
    command line says is laid over it by `apply_config`. Mappings are merged key by key, everything
    else is replaced. Raises `ConfigError` with every mistake in every file, except what a file says
    wrongly of the key `ignoring`, which the caller is about to change.
    """
    environment = os.environ if env is None else env
    runtime, fields = environment_values(environment)
    files = _files(cwd, environment)
    if not files and runtime is None:
        return Config(**fields)  # type: ignore[arg-type]  # the fields are made next door
    merged, problems = _read(files, environment, ignoring)
    if problems:
        raise ConfigError("\n".join(problems))
    known = set(merged.get("runtime", {}).get("adapters", {}))
    if runtime is not None:
        from bridle.core.entry_points import registered

        known |= set(registered())
    runtime = runtime_in(environment, merged.get("profiles", ()), known)
    if runtime is not None:
        merge(merged, {"runtime": {"default": runtime}})
    import msgspec

    config = msgspec.convert(merged, Config)
    return msgspec.structs.replace(config, files=tuple(path for path, _ in files), **fields)


def check_config(cwd: str | None = None, env: Mapping[str, str] | None = None) -> list[str]:
    """Every mistake in every file that holds in `cwd`, each as a line `FILE:LINE: what`; empty when
    `load_config` would read them all. Never raises for what a file holds."""
    environment = os.environ if env is None else env
    return _read(_files(cwd, environment), environment)[1]


def config_files(cwd: str | None = None, env: Mapping[str, str] | None = None) -> list[str]:
    """The files that hold in `cwd`, the strongest first; those that are there."""
    return [path for path, _ in _files(cwd, os.environ if env is None else env)]


def _files(cwd: str | None, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The files that are there, the strongest first, each with the folder its paths start from."""
    project = project_file(cwd or os.curdir)
    places = [
        (path, _base_folder(path, is_project=path == project))
        for path in (project, user_file(env))
        if path is not None and os.path.lexists(path)
    ]
    return list(dict.fromkeys(places))


def _read(
    files: list[tuple[str, str]], env: Mapping[str, str], ignoring: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """What all files say together, and all that is wrong with them, the weakest file first."""
    merged: dict[str, Any] = {}
    read: list[tuple[str, dict[str, Any], list[str]]] = []
    for path, folder in reversed(files):
        from bridle.config.remembered import read_remembered

        values, wrong = read_remembered(path, env)
        if not wrong:
            _anchor_binaries(values, folder)
        read.append((path, values, wrong))
        merge(merged, deepcopy(values))
    if not read:
        return merged, []
    from bridle.config.meaning import find_mistakes, option_mistakes

    problems: list[str] = []
    for path, values, wrong in read:
        found = [each for each in find_mistakes(values, merged) if each.where != ignoring]
        own = option_mistakes(path, values, merged)
        if found or wrong or own:
            from bridle.config.reading import in_order, located

            problems += in_order([*wrong, *located(path, found), *own])
    return merged, problems


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
