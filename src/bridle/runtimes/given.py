"""Reading what callers give to every runtime alike."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import NotAuthenticated, WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.runtimes.base import readable_file


def provider_key(provider: Provider, env: Mapping[str, str], runtime: str) -> str | None:
    """The key that `provider` names; `NotAuthenticated` when its variable is not set."""
    if provider.auth_token_env is None:
        return None
    key = env.get(provider.auth_token_env)
    if not key:
        raise NotAuthenticated(
            f"the variable {provider.auth_token_env} of the model's provider is not set",
            hint=f"set {provider.auth_token_env}",
            runtime=runtime,
        )
    return key


def added_instructions(options: RunOptions) -> str | None:
    """The text to add after the agent's base instructions; None when there is none."""
    parts = [options.append_system_prompt] if options.append_system_prompt else []
    if options.append_system_prompt_file:
        data = readable_file(options.append_system_prompt_file, "system prompt file")
        parts.append(data.decode(errors="replace"))
    return "\n\n".join(parts) or None


def json_object(given: str, what: str) -> dict[str, Any]:
    """An object that was given as JSON text or as a file of it."""
    data = given.encode() if given.lstrip().startswith("{") else readable_file(given, what)
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as problem:
        raise WrongUse(f"the {what} is not a JSON object: {problem}") from None
