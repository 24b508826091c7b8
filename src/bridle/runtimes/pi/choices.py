"""What a caller may choose for Pi: model names, its own options, tools, images; checked here."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.options import RunOptions
from bridle.runtimes.options import json_object
from bridle.runtimes.pi.dialects import (
    ALIASES,
    APIS,
    DEFAULT_PROVIDER,
    DEFAULT_TOOLS,
    PiDialect,
)
from bridle.runtimes.pi.images import media_type
from bridle.runtimes.user_files import readable_file

_SCRIPTED_MODEL = "sonnet"


class ProviderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that only Pi knows (`provider_options`), by their documented names."""

    thinking: str | None = None
    """Thinking level. Unset: what the model's suffix or the user's settings say, else Pi's own."""
    max_retries: int | None = None
    """How often Pi makes a failed model call again. Unset: the user's settings, else 3."""
    trust_project: bool = False
    """Let the project's own `.pi` folder (settings, extensions, prompts) take effect."""
    api: str | None = None
    """Wire protocol of a provider given with a base address."""
    fork: bool = False
    """With `resume`: go on in a copy of the conversation, under a new id."""


_NAMES = tuple(ProviderOptions.__struct_fields__)


def provider_options(given: Mapping[str, Any], dialect: PiDialect) -> ProviderOptions:
    """`given`, checked; `WrongUse` names what is unknown or of the wrong kind."""
    for name in given:
        if name not in _NAMES:
            raise WrongUse(f"pi has no provider option {name}", hint=_nearest(name, _NAMES))
    try:
        options = msgspec.convert(dict(given), ProviderOptions, strict=False)
    except msgspec.ValidationError as problem:
        raise WrongUse(f"wrong provider option for pi: {problem}") from None
    _one_of("thinking", options.thinking, dialect.thinking_levels)
    _one_of("api", options.api, APIS)
    if options.max_retries is not None and not 0 <= options.max_retries <= 100:
        raise WrongUse("provider option max_retries must be between 0 and 100")
    return options


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise WrongUse(
            f"provider option {name} cannot be {value}", hint=f"one of: {', '.join(allowed)}"
        )


def _nearest(name: str, names: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, names, 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"known ones: {', '.join(names)}"


def expand_model(name: str, section: Mapping[str, Any]) -> str:
    """A model name as `provider/id`, which is the only form that every version reads the same.

    `section` is `runtime.pi` of the configuration: its `modelMap` is looked at first, then the
    built-in aliases; a name without provider gets the section's `provider`, else `anthropic`. A
    thinking level after a colon stays.
    """
    bare, colon, level = name.partition(":") if "/" not in name else (name, "", "")
    mapped = (section.get("modelMap") or section.get("model_map") or {}).get(bare)
    provider = section.get("provider") or DEFAULT_PROVIDER
    full = str(mapped or ALIASES.get(bare, bare))
    if "/" not in full:
        full = f"{provider}/{full}"
    return f"{full}{colon}{level}"


def wanted_model(options: RunOptions, settings: Mapping[str, Any]) -> str | None:
    """The model that `options` ask for, by Pi's own name for it."""
    name = options.model or (_SCRIPTED_MODEL if options.model_server else None)
    return expand_model(name, settings) if name else None


def tool_flags(options: RunOptions, dialect: PiDialect) -> list[str]:
    """Flags that leave the agent the allowed tools, without the denied ones."""
    allowed = options.allowed_tools
    if options.denied_tools and not dialect.deny_flag:
        # This version has no list of what to leave out: say what stays.
        allowed = allowed or DEFAULT_TOOLS
        allowed = tuple(name for name in allowed if name not in options.denied_tools)
        return ["--tools", ",".join(allowed)] if allowed else ["--no-tools"]
    flags = ["--tools", ",".join(allowed)] if allowed else []
    if options.denied_tools:
        flags += ["--exclude-tools", ",".join(options.denied_tools)]
    return flags


def image_arguments(paths: tuple[str, ...]) -> list[str]:
    """Arguments that put images into the prompt; `WrongUse` for a file that is none.

    Pi itself would paste any other file into the prompt as text.
    """
    arguments = []
    for path in paths:
        if media_type(readable_file(path, "image")) is None:
            raise WrongUse(f"{path} is not an image Pi can send", hint="PNG, JPEG, GIF or WebP")
        arguments.append("@" + os.path.abspath(os.path.expanduser(path)))
    return arguments


def settings_object(given: str) -> dict[str, Any]:
    """The caller's settings as an object: JSON text, or the content of a file."""
    return json_object(given, "settings")


def mcp_servers(given: str) -> dict[str, Any]:
    """The caller's MCP servers. Their tools are declared to the model like all others, unless an
    entry says otherwise: Pi would only let the model search for them."""
    servers = json_object(given, "MCP configuration").get("mcpServers")
    if not isinstance(servers, dict) or not all(isinstance(one, dict) for one in servers.values()):
        raise WrongUse(
            "the MCP configuration names no servers", hint='it looks like {"mcpServers": {…}}'
        )
    return {name: {"exposure": "direct", **entry} for name, entry in servers.items()}


def thinking_flags(choices: ProviderOptions, options: RunOptions) -> list[str]:
    """The flag that sets the thinking level, where it is not left to Pi."""
    level = choices.thinking
    if level is None and options.model_server is not None and ":" not in (options.model or ""):
        # The user's settings are out of reach there, and a script thinks when it says so.
        level = "off"
    return ["--thinking", level] if level else []


def trust_flags(dialect: PiDialect, cwd: str, trusted: bool) -> tuple[list[str], str]:
    """Flags that keep a project's own code from running unless it is trusted, and a warning.

    Where Pi knows of trust, it is told. Where it does not, all discovery of extensions is switched
    off in a project that brings some; the user's own are then off too.
    """
    if dialect.trust_flags:
        return (["--approve"] if trusted else ["--no-approve"]), ""
    folder = os.path.join(cwd, ".pi")
    if trusted or not os.path.isdir(folder):
        return [], ""
    return ["--no-extensions"], (
        f"pi: this version cannot ignore {folder}: its extensions are off for this run (yours"
        " too), but its settings and system prompts take effect; trust_project=true loads all"
    )


def prompt_words(prompt: str, dialect: PiDialect) -> list[str]:
    """The words that carry a prompt on a command line, whatever it begins with.

    A leading `@` would name a file, and one version knows no `--`: a space before it helps.
    """
    if prompt[:1] == "-" and dialect.end_of_options:
        return ["--", prompt]
    return [f" {prompt}" if prompt[:1] in ("-", "@") else prompt]
