"""The settings that Claude Code is given by flag, to which guard and reports add their hooks.

They win over the user's and the project's settings, which win over the environment. So they also
take back what those say of a model service when a run names another one.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused, WrongUse
from bridle.core.redaction import secrets_in
from bridle.runtimes.claude.environment import CONFIG_HOME, config_home
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.routing import CLAUDE

_TOKEN = "ANTHROPIC_AUTH_TOKEN"
_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
_HELPER = "apiKeyHelper"


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


def without_own_routing(
    env: Mapping[str, str], cwd: str, key: str | None, *, keep: str = ""
) -> dict[str, Any]:
    """Settings that put `env`, in which Claude is started in `cwd`, before the user's and the
    project's settings wherever those lead to a model service; empty where none does.

    `key` is the variable of the service's key, `keep` one that stays as the settings have it. No
    secret is in what is returned, which may become an argument: where settings bring a token,
    Claude gets its own by a helper that prints the variable. Raises `WrongUse` where a secret of
    the run could be put before theirs in no other way.
    """
    found: dict[str, str] = {}
    helper: str | None = None
    for path, settings in _settings_files(env, cwd):
        variables = settings.get("env")
        names = variables if isinstance(variables, dict) else {}
        found |= {name: path for name in names if CLAUDE.holds(name) and name != keep}
        helper = "" if settings.get(_HELPER) else helper
    values = {name: env.get(name, "") for name in found}
    if values.get(_TOKEN):
        if key is None or key in found:
            raise WrongUse(
                f"{found[_TOKEN]} sets {_TOKEN}, which would go to the model's provider",
                hint="take it out there, or name another variable for the provider's key",
            )
        values[_TOKEN] = ""
        helper = f"printenv {shlex.quote(key)}"
    for name, value in values.items():
        if value and (name == _HEADERS or secrets_in({name: value})):
            raise WrongUse(
                f"{found[name]} sets {name}, and so does this run",
                hint="take it out of that file: Claude lets it win over the run's own",
            )
    return ({"env": values} if values else {}) | ({} if helper is None else {_HELPER: helper})


def one_shot_settings(routing: Mapping[str, str]) -> list[str]:
    """The flag that isolates a one-shot call, here, which `routing` leads to a provider."""
    token = routing.get(_TOKEN)
    key = next((name for name in routing if routing[name] == token and name != _TOKEN), None)
    places = {name: os.environ[name] for name in ("HOME", CONFIG_HOME) if name in os.environ}
    settings = without_own_routing({**places, **routing}, os.getcwd(), key)
    return ["--settings", msgspec.json.encode(settings).decode()] if settings else []


def _settings_files(env: Mapping[str, str], cwd: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings that Claude may read in `cwd`; those that cannot be read it passes over, too."""
    folders = [config_home(env)]
    folder = os.path.abspath(cwd)
    while True:
        folders.append(os.path.join(folder, ".claude"))
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            break
        folder = above
    for each in dict.fromkeys(folders):
        for name in ("settings.json", "settings.local.json"):
            path = os.path.join(each, name)
            try:
                with open(path, "rb") as file:
                    settings = msgspec.json.decode(file.read(), type=dict[str, Any])
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
                continue
            yield path, settings
