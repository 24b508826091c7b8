"""The configuration of a working directory: environment, project file, user file, defaults.

Parsing YAML costs 30 ms of every run, half of Bridle's budget, so the values of a file without
mistakes are cached together with its text, and used only while the file still has that text.
"""

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from bridle._version import __version__
from bridle.config import environment, schema
from bridle.config.environment import environment_values, runtime_in
from bridle.config.schema import Config
from bridle.core import structs
from bridle.core.errors import ConfigError
from bridle.core.files import Cache, config_dir, home_dir
from bridle.core.git import find_git
from bridle.core.options import RunOptions

PROJECT_FILE = os.path.join(".bridle", "config.yaml")
_MAC_FOLDER = os.path.join("Library", "Application Support")
_LARGEST_CACHED = 1 << 16
"""Bytes; a larger file is parsed each time."""
_MOST_CACHED = 32
"""Files."""


# -- loading --------------------------------------------------------------------------------------


def load_config(
    cwd: str | None = None, env: Mapping[str, str] | None = None, *, ignoring: str = ""
) -> Config:
    """The configuration that applies in `cwd` (the current directory when None).

    Precedence: environment, the project's `.bridle/config.yaml`, the user's file, defaults;
    `apply_config` adds the options of a call. Mappings are merged key by key, everything else is
    replaced. Raises `ConfigError` with every mistake in every file, except a wrong value of the key
    `ignoring`, which the caller is about to change.
    """
    around = os.environ if env is None else env
    runtime, fields = environment_values(around)
    files = _files(cwd, around)
    if not files and runtime is None:
        return Config(**fields)  # type: ignore[arg-type]  # environment_values made the fields
    merged, problems = _read(files, around, ignoring)
    if problems:
        raise ConfigError("\n".join(problems))
    known = set(merged.get("runtime", {}).get("adapters", {}))
    if runtime is not None:
        from bridle.core.entry_points import registered

        known |= set(registered())
    runtime = runtime_in(around, merged.get("profiles", ()), known)
    if runtime is not None:
        merge(merged, {"runtime": {"default": runtime}})
    config = structs.convert(merged, Config)
    return msgspec.structs.replace(config, files=tuple(path for path, _ in files), **fields)


def check_config(cwd: str | None = None, env: Mapping[str, str] | None = None) -> list[str]:
    """Every mistake in every file that applies in `cwd`, each as a line `FILE:LINE: what`; empty
    when `load_config` would accept them all. Never raises for what a file contains."""
    around = os.environ if env is None else env
    return _read(_files(cwd, around), around)[1]


def apply_config(options: RunOptions, config: Config, runtime: str) -> RunOptions:
    """`options` with the values of `config` wherever the caller set none.

    What the caller set always wins. Aliases and provider prefixes apply to the model of the caller
    and to that of `config`. Raises `WrongUse` when the model's provider is not configured.
    """
    changes: dict[str, object] = {}
    model = options.model or config.default_model(runtime)
    if model is not None:
        resolved = config.resolve_model(model, runtime)
        changes["model"] = resolved.model
        changes["env"] = {**resolved.env, **options.env}
        changes["provider"] = options.provider or resolved.provider
    if options.budget_usd is None:
        changes["budget_usd"] = config.budgets.run_usd
    if options.timeout is None:
        changes["timeout"] = config.budgets.run_seconds
    if options.model_server is None:
        changes["model_server"] = config.model_server
    return msgspec.structs.replace(options, **changes)


def merge(below: dict[str, Any], above: dict[str, Any]) -> None:
    """Merge `above` into `below`, in place: mappings key by key, everything else replaced."""
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merge(old, value)
        else:
            below[key] = value


# -- files ----------------------------------------------------------------------------------------


def user_file(env: Mapping[str, str]) -> str:
    """The user's configuration file; it need not exist.

    `config.yaml` in the user's configuration folder (`core.files.config_dir`). On macOS a file in
    `~/Library/Application Support/bridle` is used when only that one exists.
    """
    usual = os.path.join(config_dir(env), "config.yaml")
    chosen = os.path.isabs(env.get("XDG_CONFIG_HOME", ""))
    if sys.platform == "darwin" and not chosen and not os.path.exists(usual):
        native = os.path.join(home_dir(env), _MAC_FOLDER, "bridle", "config.yaml")
        if os.path.exists(native):
            return native
    return usual


def project_file(cwd: str) -> str | None:
    """The nearest project file from `cwd` up to the root of its repository; None without one.

    A linked worktree without a file uses that of its main repository. Outside a repository only
    `cwd` itself counts, so that a stray file higher up never takes effect.
    """
    place = find_git(cwd)
    if place is None:
        return _existing(os.path.abspath(cwd))
    folder = os.path.realpath(cwd)
    while True:
        found = _existing(folder)
        if found is not None:
            return found
        if folder == place.root:
            break
        folder = os.path.dirname(folder)
    return _existing(place.main_root) if place.main_root is not None else None


def new_project_file(cwd: str) -> str:
    """The path of the project's file, whether or not it exists."""
    found = project_file(cwd)
    if found is not None:
        return found
    place = find_git(cwd)
    return os.path.join(os.path.abspath(cwd) if place is None else place.root, PROJECT_FILE)


def _existing(folder: str) -> str | None:
    path = os.path.join(folder, PROJECT_FILE)
    return path if os.path.lexists(path) else None


def _files(cwd: str | None, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The existing files, the strongest first, each with the folder that its paths start from."""
    project = project_file(cwd or os.curdir)
    places = [
        (path, _base_folder(path, is_project=path == project))
        for path in (project, user_file(env))
        if path is not None and os.path.lexists(path)
    ]
    return list(dict.fromkeys(places))


def _base_folder(path: str, *, is_project: bool) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.dirname(folder) if is_project else folder


def _read(
    files: list[tuple[str, str]], env: Mapping[str, str], ignoring: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """The merged values of all files, and every mistake in them, the weakest file first."""
    if not files:
        return {}, []
    from copy import deepcopy

    from bridle.config.consistency import find_mistakes, option_mistakes

    merged: dict[str, Any] = {}
    read: list[tuple[str, dict[str, Any], list[str]]] = []
    for path, folder in reversed(files):
        values, wrong = _cached_values(path, env)
        if not wrong:
            _anchor_binaries(values, folder)
        read.append((path, values, wrong))
        merge(merged, deepcopy(values))
    problems: list[str] = []
    for path, values, wrong in read:
        found = [each for each in find_mistakes(values, merged) if each.where != ignoring]
        options = option_mistakes(values, merged)
        if found or wrong or options:
            from bridle.config.yaml_check import in_order, located, option_problems

            problems += in_order([*wrong, *located(path, found), *option_problems(path, options)])
    return merged, problems


def _anchor_binaries(values: dict[str, Any], folder: str) -> None:
    """Make relative paths of binaries absolute: they start at the project, or at the file."""
    for section in values.get("runtime", {}).get("adapters", {}).values():
        binary = section.get("binary")
        if binary and os.sep in binary and not binary.startswith(("/", "~")):
            section["binary"] = os.path.normpath(os.path.join(folder, binary))


# -- the cache of parsed files --------------------------------------------------------------------


class _Parsed(msgspec.Struct, frozen=True):
    text: str
    values: dict[str, Any]


def _cached_values(path: str, env: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The values of the file at `path` and its mistakes, as `yaml_check.read_file` returns them;
    from the cache where the file still has the same text. Files with mistakes are not cached."""
    text = _text_of(path)
    cache = Cache("config.json", limit=_MOST_CACHED, made_by=_schema_version(), env=env)
    known = cache.get(path, _Parsed) if text is not None else None
    if known is not None and known.text == text:
        return known.values, []
    from bridle.config.yaml_check import read_file

    values, problems = read_file(path)
    # Read once more: the cached text must be the one that was parsed.
    if not problems and text is not None and text == _text_of(path):
        cache.put(path, _Parsed(text, values))
    return values, problems


def _text_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_CACHED + 1)
        return None if len(data) > _LARGEST_CACHED else data.decode()
    except (OSError, UnicodeDecodeError):
        return None


def _schema_version() -> str:
    """Identifies the schema that cached values were checked against."""
    try:
        found = os.stat(schema.__file__)
    except OSError:
        return __version__
    return f"{__version__} {found.st_mtime_ns} {found.st_size}"


# -- the source of each value ---------------------------------------------------------------------

_HIDDEN = "[secret]"
_NOT_SETTINGS = ("files", "modelServer")
"""Fields of the merged configuration that are not settings, or hold a key."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the merged configuration, with its source."""

    key: str
    """As in a file, with dots: `runtime.default`."""
    value: Any
    source: str
    """A file, an environment variable, or `default`."""
    line: int | None = None


def effective_settings(
    cwd: str | None = None, env: Mapping[str, str] | None = None
) -> list[Setting]:
    """Every value that applies in `cwd`, sorted by key, without defaults that are empty.

    Raises what `load_config` raises. Values of variables with a secret name are hidden.
    """
    from bridle.config.yaml_check import key_lines

    around = os.environ if env is None else env
    config = load_config(cwd, around)
    values = dict(_flat(msgspec.to_builtins(config)))
    values = {
        key: each for key, each in values.items() if key.partition(".")[0] not in _NOT_SETTINGS
    }
    values["runtime.default"] = config.runtime.default or "claude"
    sources: dict[str, tuple[str, int | None]] = {}
    for path in reversed(config.files):
        # A string in place of a section sets one of its keys.
        lines = key_lines(path)
        sources |= {key: (path, line) for key, line in lines.items() if key in values}
        if "runtime" in lines and not any(key.startswith("runtime.") for key in lines):
            sources["runtime.default"] = (path, lines["runtime"])
    for key, name in _variables(around, config.profiles).items():
        sources[key] = (name, None)
    if config.model_server is not None:
        values["modelServer"] = config.model_server.url
        sources["modelServer"] = (environment.MODEL_SERVER, None)
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


def _variables(env: Mapping[str, str], profiles: Collection[str]) -> dict[str, str]:
    """The keys that the environment sets, each with its variable."""
    fields = environment_values(env)[1]
    found: dict[str, str] = {}
    if runtime_in(env, profiles) is not None:
        own = (environment.RUNTIME, environment.BACKEND)
        found["runtime.default"] = next((name for name in own if env.get(name)), "FORGE_BACKEND")
    if "model" in fields:
        found["model"] = environment.MODEL
    if "profiles" in fields:
        found["profiles"] = environment.PROFILE
    return found


def _shown(key: str, value: Any) -> Any:
    """A value in the form that may be printed."""
    from bridle.core.redaction import secrets_in

    section, _, name = key.rpartition(".")
    is_secret = section.endswith(".env") and isinstance(value, str) and secrets_in({name: value})
    return _HIDDEN if is_secret else value
