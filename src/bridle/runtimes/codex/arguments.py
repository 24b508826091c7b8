"""From the common options to Codex's flags.

Everything that Codex would read from, or write into, the user's `config.toml` is given by `-c`, so
that the file stays as it is. Images never come last, because `-i` takes every word that follows.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import ResumeRefused, WrongUse
from bridle.core.git import GitPlace, own_branches
from bridle.core.git_hold import hold, open_folders
from bridle.runtimes.codex.dialects import SEARCHES, SHELLS, CodexDialect
from bridle.runtimes.codex.provider_options import CodexOptions
from bridle.runtimes.codex.sandbox import WORKSPACE_WRITE
from bridle.runtimes.toml import toml_key, toml_value
from bridle.runtimes.user_files import readable_file

LONGEST_ARGUMENT = 96 * 1024
"""Linux takes 128 KiB in one argument; what is longer goes another way."""

PROVIDER = "bridle"
KEY_VARIABLE = "BRIDLE_MODEL_KEY"


def config(name: str, value: Any) -> list[str]:
    """One `-c` flag; `name` is a path of bare keys."""
    return ["-c", f"{name}={toml_value(value, name)}"]


def feature_flags(dialect: CodexDialect) -> list[str]:
    """Switch off what must not happen in a run."""
    return [word for name in dialect.disabled_features for word in ("--disable", name)]


def provider_flags(
    base_url: str | None, key_variable: str | None, own: CodexOptions, *, name: str = PROVIDER
) -> list[str]:
    """Route the run to a model service of the caller's, with bounded retries."""
    table: dict[str, Any] = {"name": name, "base_url": base_url, "wire_api": "responses"}
    if key_variable:
        table["env_key"] = key_variable
    table |= {"request_max_retries": own.max_retries, "stream_max_retries": own.max_retries}
    return [*config("model_provider", name), *config(f"model_providers.{name}", table)]


def environment_flags(env: Mapping[str, str], own: CodexOptions) -> list[str]:
    """The flags for what `build_env` told by variables: Codex reads no address from any."""
    address = env.get("OPENAI_BASE_URL")
    if not address:
        return []
    return provider_flags(address, "OPENAI_API_KEY" if env.get("OPENAI_API_KEY") else None, own)


def settings_flags(settings: str) -> list[str]:
    """Codex's own settings (JSON text, or a TOML or JSON file) as `-c` flags, key by key."""
    if settings.lstrip().startswith("{"):
        table = _json_table(settings.encode(), "settings")
    else:
        data = readable_file(settings, "settings")
        is_json = settings.endswith(".json")
        table = _json_table(data, settings) if is_json else _toml_table(data, settings)
    return [
        word
        for name, value in table.items()
        for word in ("-c", f"{toml_key(name)}={toml_value(value, name)}")
    ]


def _json_table(data: bytes, what: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise WrongUse(f"{what}: not a JSON object: {problem}") from None


def _toml_table(data: bytes, what: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise WrongUse(f"{what}: not TOML: {problem}") from None


def own_flags(own: CodexOptions) -> list[str]:
    """The flags of Codex's own options that belong to its configuration."""
    flags = ["-p", own.profile] if own.profile else []
    if own.effort:
        flags += config("model_reasoning_effort", own.effort)
    if own.network_access:
        flags += config("sandbox_workspace_write.network_access", True)
    return flags


def tool_flags(denied: tuple[str, ...]) -> list[str]:
    """What takes tools from the model; by its own names of `TOOLS`, one of a kind stands for all.
    They come after the caller's settings, which must not give a tool back."""
    flags: list[str] = []
    if not set(denied).isdisjoint(SHELLS):
        flags += config("features.shell_tool", False)
    if not set(denied).isdisjoint(SEARCHES):
        flags += config("web_search", "disabled")
    return flags


def agent_in(*environments: Mapping[str, str]) -> str | None:
    """The agent's name in the last of `environments` that tells it."""
    names = [each.get("BRIDLE_AGENT_NAME") for each in environments]
    return next(filter(None, reversed(names)), None)


def sandbox_flags(
    mode: str, own: CodexOptions, place: GitPlace | None, agent: str | None = None
) -> list[str]:
    """The sandbox, with the folders that may be written beside the working directory."""
    roots = writable_roots(mode, own, place, agent)
    return ["-s", mode, *(word for each in roots for word in ("--add-dir", each))]


def writable_roots(
    mode: str, own: CodexOptions, place: GitPlace | None, agent: str | None = None
) -> list[str]:
    """The folders that may be written beside the working directory; of the branches only those of
    the agent's own (`own_branches`)."""
    if mode != WORKSPACE_WRITE:
        return []
    dirs = [os.path.abspath(os.path.expanduser(each)) for each in own.add_dirs]
    # Only where the repository knows this work tree: the agent can change what its `.git` says.
    if place is not None and own.git_write and place.proven():
        dirs += open_folders(place, own_branches(place.root, agent))
    return dirs


def held_repository(
    mode: str, own: CodexOptions, place: GitPlace | None, agent: str | None
) -> tuple[str, ...]:
    """The folder of a hold on the repository that `writable_roots` open, for the plan's private
    folders: what git obeys there is put back when the agent is gone. Codex's own sandbox holds
    folders, not single files. Empty where nothing of a linked worktree's repository is open."""
    if mode != WORKSPACE_WRITE or not own.git_write or place is None or not place.linked:
        return ()
    if not place.proven():
        return ()
    prefix = own_branches(place.root, agent)
    return (hold(place, os.urandom(8).hex(), mounts=False, branch_prefix=prefix).folder,)


def image_flags(images: tuple[str, ...]) -> list[str]:
    """The images, each checked; another flag must follow."""
    if images:
        from bridle.runtimes.user_files import check_images

        check_images(images, "codex")
    flags = []
    for image in images:
        flags += ["-i", os.path.abspath(os.path.expanduser(image))]
    return flags


def refuse_bad_resume(resume: str) -> None:
    """Refuse what is no thread id. Codex takes it for a name, and when it finds no thread of that
    name begins a new one without a word."""
    shape = [len(part) for part in resume.split("-")]
    digits = resume.replace("-", "").lower()
    if shape != [8, 4, 4, 4, 12] or any(char not in "0123456789abcdef" for char in digits):
        raise ResumeRefused(
            f"{resume!r} is not a codex thread id", hint="give the id that a run reported"
        )
