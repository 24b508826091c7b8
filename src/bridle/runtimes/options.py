"""Reading what a caller gives: files, keys, instructions, settings, MCP servers, provider options.

Everything is checked before an agent starts; `WrongUse` says what is wrong and where.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.core import structs
from bridle.core.errors import BridleError, NotAuthenticated, WrongUse
from bridle.core.options import Provider, RunOptions

if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter

T = TypeVar("T", bound=msgspec.Struct)

# -- files ----------------------------------------------------------------------------------------

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def readable_file(path: str, what: str) -> bytes:
    """The bytes of a file that the caller names; `WrongUse` says why it cannot be read."""
    try:
        with open(os.path.expanduser(path), "rb") as file:
            return file.read()
    except OSError as problem:
        raise WrongUse(f"cannot read {what} {path}: {problem.strerror}") from None


def check_images(paths: tuple[str, ...], reader: str) -> None:
    """Refuse, with `WrongUse`, a file that cannot be read or is not an image."""
    for path in paths:
        _image_type(readable_file(path, "image"), path, reader)


def image_data(path: str, reader: str = "an agent") -> tuple[str, str]:
    """The MIME type and the base64 text of an image file; `WrongUse` if it is not an image."""
    data = readable_file(path, "image")
    kind = _image_type(data, path, reader)
    import base64

    return kind, base64.b64encode(data).decode()


def _image_type(data: bytes, path: str, reader: str) -> str:
    kind = next((kind for start, kind in _IMAGES if data.startswith(start)), None)
    if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise WrongUse(f"not an image {reader} can read: {path}", hint="use PNG, JPEG, GIF or WebP")
    return kind


# -- keys and instructions ------------------------------------------------------------------------

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
    may have deployed, in `cwd` and above it up to the repository's root. Unreadable files are
    ignored.
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


# -- JSON and settings ----------------------------------------------------------------------------


def json_object(given: str, what: str) -> dict[str, Any]:
    """An object from JSON text or a JSON file."""
    try:
        return structs.decode(_json_text(given, what), dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise WrongUse(f"the {what} is not a JSON object: {problem}") from None


def _json_text(given: str, what: str) -> bytes:
    return given.encode() if given.lstrip().startswith("{") else readable_file(given, what)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` over it; objects inside objects are merged too."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            result[name] = merged(old, value)
        else:
            result[name] = value
    return result


def with_hooks(settings: Mapping[str, Any], entries: Mapping[str, list[Any]]) -> dict[str, Any]:
    """`settings` with `entries` in its `hooks`, by event, after those that are there. A value of
    the wrong type there is replaced."""
    hooks = settings.get("hooks")
    whole: dict[str, Any] = dict(hooks) if isinstance(hooks, dict) else {}
    for event, added in entries.items():
        there = whole.get(event)
        whole[event] = [*(there if isinstance(there, list) else []), *added]
    return {**settings, "hooks": whole}


# -- MCP servers ----------------------------------------------------------------------------------


class McpServer(msgspec.Struct, frozen=True):
    """One server in the common `mcpServers` shape."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    type: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}


class _McpConfig(msgspec.Struct, frozen=True):
    mcp_servers: dict[str, McpServer] = msgspec.field(name="mcpServers")


def read_servers(text_or_path: str) -> dict[str, McpServer]:
    """The servers of `mcp_config`; `WrongUse` says what is wrong with it."""
    data = _json_text(text_or_path, "MCP config")
    try:
        servers = structs.decode(data, _McpConfig).mcp_servers
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise WrongUse(f"MCP config: {problem}", hint='expected {"mcpServers": {…}}') from None
    for name, server in servers.items():
        if (server.command is None) == (server.url is None):
            raise WrongUse(f"MCP server {name!r} needs either command or url")
    return servers


# -- provider options -----------------------------------------------------------------------------


def read_provider_options(
    runtime: str,
    given: dict[str, Any],
    kind: type[T],
    *,
    lists: tuple[str, ...] = (),
    separator: str = os.pathsep,
) -> T:
    """`given` as a `kind`; `WrongUse` names the one that is wrong, and the nearest right name.

    Values may be texts, as the command line gives them: `true`, `3`, and for `lists` `dir1:dir2`.
    """
    known = kind.__struct_fields__
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise WrongUse(
                f"{runtime} has no provider option {name!r}; it has: {', '.join(known)}",
                hint=_nearest(name, known),
            )
        split = name in lists and isinstance(value, str)
        values[name] = value.split(separator) if split else value
    try:
        return structs.convert(values, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise WrongUse(f"{runtime} provider option: {problem}") from None


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside its bounds."""
    if not least <= value <= most:
        raise WrongUse(f"provider option {name} must be between {least:g} and {most:g}")


def _nearest(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else ""
