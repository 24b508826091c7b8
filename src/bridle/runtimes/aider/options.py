"""What a caller may choose for Aider: its own options, model names, where models are served."""

import os
from collections.abc import Mapping

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.aider.dialects import ALIASES, APIS, KEY_VARIABLES, AiderDialect
from bridle.runtimes.options import provider_key
from bridle.runtimes.provider_options import read_provider_options
from bridle.runtimes.user_files import readable_file

SCRIPTED_MODEL = "openai/gpt-4o"


class AiderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`RunOptions.provider_options` for Aider, after the checks."""

    auto_commits: bool = False
    """Let Aider commit each edit. The model call that writes the message is never counted."""
    edit_format: str | None = None
    """How the model writes its edits; Aider's own choice for the model when unset."""
    files: tuple[str, ...] = ()
    """Files to put into the chat from the start."""
    read: tuple[str, ...] = ()
    """Files to show the model, which it may not edit."""
    instructions: bool = True
    """Show the model the worktree's AGENTS.md; Aider itself reads none."""
    max_retries: int = 3
    """How often a failed model call is made again before the run is ended."""
    request_timeout: float | None = None
    """Seconds until a model call counts as failed; Aider's own 600 when unset."""
    weak_model: str | None = None
    """Model for commit messages and summaries."""
    map_tokens: int | None = None
    """Size of the map of the repository that the model is shown; 0 for none."""
    auto_lint: bool = True
    """Let Aider lint what it edited, and have errors mended."""
    test_cmd: str | None = None
    """A shell command to run after each edit; what fails goes back to the model."""
    reasoning_effort: str | None = None
    """Passed on to models that know it."""
    api: str | None = None
    """Wire protocol of a provider given with a base address: `openai` or `anthropic`."""


def read_options(options: RunOptions, dialect: AiderDialect, cwd: str) -> AiderOptions:
    """The checked options; `WrongUse` names the one that is wrong."""
    own = read_provider_options(
        "aider", options.provider_options, AiderOptions, lists=("files", "read")
    )
    _one_of("edit_format", own.edit_format, dialect.edit_formats)
    _one_of("api", own.api, APIS)
    if not 0 <= own.max_retries <= 8:
        raise WrongUse("provider option max_retries must be between 0 and 8")
    for path in (*own.files, *own.read):
        readable_file(os.path.join(cwd, os.path.expanduser(path)), "file")
    return own


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise WrongUse(
            f"provider option {name} cannot be {value}", hint=f"one of: {', '.join(allowed)}"
        )


def option_flags(own: AiderOptions, cwd: str) -> list[str]:
    """The flags that these options mean."""
    commits = "--auto-commits" if own.auto_commits else "--no-auto-commits"
    # Dirty commits would commit the user's own unfinished work.
    flags = [commits, "--no-dirty-commits"]
    if not own.auto_lint:
        flags.append("--no-auto-lint")
    for flag, value in (
        ("--edit-format", own.edit_format),
        ("--timeout", own.request_timeout),
        ("--weak-model", own.weak_model),
        ("--map-tokens", own.map_tokens),
        ("--reasoning-effort", own.reasoning_effort),
        ("--test-cmd", own.test_cmd),
    ):
        if value is not None:
            flags += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    if own.test_cmd is not None:
        flags.append("--auto-test")
    for path in own.files:
        flags += ["--file", os.path.join(cwd, os.path.expanduser(path))]
    return flags


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """What sends model calls to where the caller wants them."""

    model: str | None
    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()


def api_of(model: str) -> str:
    """The wire protocol of a model's usual service."""
    bare = model.rpartition("/")[2]
    is_claude = model in ALIASES or model.startswith("anthropic/") or bare.startswith("claude")
    return "anthropic" if is_claude else "openai"


def route_to_provider(
    provider: Provider, model: str | None, api: str | None, env: Mapping[str, str]
) -> Routing:
    """Send `model` to the caller's provider.

    By Aider's own variables, which count more than an `.env` file in the project; a key is never
    an argument.
    """
    if model is None:
        raise WrongUse("a provider needs a model", hint="name the model with --model")
    api = api or api_of(model)
    key = provider_key(provider, env, "aider")
    variables: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    if provider.base_url:
        if api == "anthropic":
            flags = ("--set-env", f"ANTHROPIC_API_BASE={provider.base_url.rstrip('/')}")
        else:
            variables["AIDER_OPENAI_API_BASE"] = provider.base_url.rstrip("/")
        if model not in ALIASES and model.partition("/")[0] != api:
            model = f"{api}/{model}"
    if key is not None:
        name, _, _ = model.partition("/")
        if provider.base_url or name in APIS or model in ALIASES:
            variables[f"AIDER_{KEY_VARIABLES[api]}"] = key
        else:
            variables[KEY_VARIABLES.get(name, KEY_VARIABLES[api])] = key
    return Routing(model=model, flags=flags, env=variables, secrets=(key,) if key else ())


def route_to_server(server: ModelServer, model: str | None) -> Routing:
    """Send every model to the scripted one, whatever its name is."""
    url = server.url.rstrip("/")
    model = model or SCRIPTED_MODEL
    if model not in ALIASES and model.partition("/")[0] not in APIS:
        model = f"{api_of(model)}/{model}"
    return Routing(
        model=model,
        flags=(
            *("--set-env", f"ANTHROPIC_API_BASE={url}"),
            *("--weak-model", model, "--editor-model", model),
        ),
        env={
            "AIDER_OPENAI_API_BASE": f"{url}/v1",
            "AIDER_OPENAI_API_KEY": server.api_key,
            "AIDER_ANTHROPIC_API_KEY": server.api_key,
            # Else the library behind Aider fetches its list of prices.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        secrets=(server.api_key,),
    )
