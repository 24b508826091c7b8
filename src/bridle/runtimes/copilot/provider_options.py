"""The options that only Copilot has: a closed set, checked before anything starts."""

from typing import Any, Literal

import msgspec

from bridle.core.errors import WrongUse
from bridle.runtimes.provider_options import read_provider_options


class CopilotOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `copilot` runtime."""

    max_retries: int = 3
    """How often a failed model call may be made again; Copilot's own limit is five."""
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """How hard the model is to think."""
    agent: str | None = None
    """A custom agent of the user's or the project's."""
    add_dirs: tuple[str, ...] = ()
    """Folders beside the working directory that tools may touch."""
    preapproved_tools: tuple[str, ...] = ()
    """Permission rules (`shell(git:*)`, `write`) that need no permission."""
    trust_folder: bool = False
    """Let the project's own hooks, skills and MCP servers take effect."""
    all_paths: bool = False
    """Let tools touch any path of the machine; otherwise the folder, `add_dirs` and the temporary
    folder."""
    all_urls: bool = False
    """Let tools fetch any address."""
    provider_type: Literal["openai", "azure", "anthropic"] = "openai"
    """What a provider given with a base address speaks."""
    wire_api: Literal["completions", "responses"] = "completions"
    """Which of OpenAI's protocols such a provider speaks."""


def read_options(given: dict[str, Any]) -> CopilotOptions:
    """The checked options; lists may be one text with the system's separator between paths."""
    options = read_provider_options("copilot", given, CopilotOptions, lists=("add_dirs",))
    if not 0 <= options.max_retries <= 5:
        raise WrongUse("copilot: provider option max_retries must be between 0 and 5")
    return options
