"""Reading what callers give to every runtime alike."""

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import BridleError, NotAuthenticated, WrongUse
from bridle.core.options import Provider, RunOptions
from bridle.runtimes.user_files import readable_file

if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter

_LONGEST = 1 << 20
"""Characters of an instruction file that are read."""


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


def file_instructions(runtime: "Adapter", options: RunOptions, cwd: str) -> str:
    """The lines with the completion marker in the files that instruct an agent in `cwd`.

    These are the file of added instructions and the instruction files of the project, which Bridle
    may have deployed, in `cwd` and above it up to the repository's root. A file that cannot be read
    instructs nobody.
    """
    files = [os.path.expanduser(options.append_system_prompt_file or "")]
    names = [runtime.instruction_path]
    with contextlib.suppress(BridleError, OSError):
        for place in runtime.instruction_places(cwd):
            names += (place.name, *place.carries)
    folder = cwd
    while True:
        files += (os.path.join(folder, name) for name in dict.fromkeys(names) if name)
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            break
        folder = above
    lines: list[str] = []
    for file in files:
        with contextlib.suppress(OSError), open(file, encoding="utf-8", errors="replace") as text:
            lines += (line.strip() for line in text.read(_LONGEST).splitlines())
    return "\n".join(dict.fromkeys(line for line in lines if options.marker in line))


def json_object(given: str, what: str) -> dict[str, Any]:
    """An object that was given as JSON text or as a file of it."""
    data = given.encode() if given.lstrip().startswith("{") else readable_file(given, what)
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as problem:
        raise WrongUse(f"the {what} is not a JSON object: {problem}") from None
