"""The options that only Cline has: a closed set, checked before anything starts."""

from typing import Any, Literal

import msgspec

from bridle.runtimes.provider_options import read_provider_options


class ClineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`provider_options` of the `cline` runtime."""

    provider: str | None = None
    """Which of the providers that Cline knows serves the model; the one used last when unset."""
    api: Literal["openai-compatible", "anthropic", "openai-native"] = "openai-compatible"
    """What a provider given with a base address speaks, by Cline's name for it."""
    thinking: Literal["none", "low", "medium", "high", "xhigh"] | None = None
    """How hard the model is to think."""
    compaction: Literal["agentic", "basic", "off"] | None = None
    """How the conversation is shortened when it grows too long."""
    plan: bool = False
    """Plan only: nothing is changed."""


def read_options(given: dict[str, Any]) -> ClineOptions:
    """The checked options; `WrongUse` names the one that is wrong."""
    return read_provider_options("cline", given, ClineOptions)
