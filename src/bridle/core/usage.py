"""Token counts that mean the same for every runtime."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one message, turn or session.

    `input_tokens` excludes cache reads and writes; `output_tokens` includes reasoning, and
    `reasoning_tokens` is that part of it. Adapters translate each wire's own meaning to this one.
    """

    input_tokens: int = 0
    """Input, without cache reads and writes."""
    output_tokens: int = 0
    """Output, reasoning included."""
    cache_read_tokens: int = 0
    """Input that was read from the cache."""
    cache_write_tokens: int = 0
    """Input that was written to the cache."""
    reasoning_tokens: int = 0
    """The part of the output that is reasoning."""

    def __add__(self, other: "Usage") -> "Usage":
        """Add two counts, class by class."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        """The growth from `other` to this count; used where a wire reports running totals."""
        return Usage(
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cache_read_tokens=self.cache_read_tokens - other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens - other.reasoning_tokens,
        )

    @property
    def total(self) -> int:
        """All tokens that passed, each counted once (reasoning is inside output)."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )


NO_USAGE = Usage()


_INPUT = ("input_tokens", "input", "prompt_tokens", "inputTokens", "promptTokenCount")
_OUTPUT = ("output_tokens", "output", "completion_tokens", "outputTokens")
_READ = ("cache_read_tokens", "cache_read_input_tokens", "cacheRead")
_WRITE = ("cache_write_tokens", "cache_creation_input_tokens", "cacheWrite")
_READ_INSIDE = ("cached_input_tokens", "cacheReadTokens", "cachedContentTokenCount", "cached")
_WRITE_INSIDE = ("cache_write_input_tokens", "cacheWriteTokens")
_REASONING = ("reasoning_tokens", "reasoning_output_tokens", "reasoningTokens", "reasoning")
_INPUT_DETAILS = ("input_tokens_details", "prompt_tokens_details")
_OUTPUT_DETAILS = ("output_tokens_details", "completion_tokens_details")


def normalize_usage(counts: Mapping[str, Any]) -> Usage:
    """Token counts as any provider or agent writes them, in Bridle's meaning.

    Understands the names of Anthropic (`input_tokens`, cached tokens beside it), OpenAI
    (`prompt_tokens` or `input_tokens`, cached tokens inside it), Gemini (`promptTokenCount`,
    thoughts outside the output), the short `input`/`output`, and those of the agents. What is
    missing or not a count is 0.
    """
    details = _mapping(counts, _INPUT_DETAILS)
    inside_read = _first(counts, _READ_INSIDE) or _first(details, ("cached_tokens",))
    inside_write = _first(counts, _WRITE_INSIDE) or _first(details, ("cache_write_tokens",))
    given = _mapping(counts, _OUTPUT_DETAILS)
    reasoning = _first(counts, _REASONING) or _first(given, ("reasoning_tokens", "thinking_tokens"))
    output = _first(counts, _OUTPUT)
    if "candidatesTokenCount" in counts or "thoughtsTokenCount" in counts:
        reasoning = _first(counts, ("thoughtsTokenCount",))
        output = _first(counts, ("candidatesTokenCount",)) + reasoning
    return Usage(
        input_tokens=max(0, _first(counts, _INPUT) - inside_read - inside_write),
        output_tokens=output,
        cache_read_tokens=_first(counts, _READ) or inside_read,
        cache_write_tokens=_first(counts, _WRITE) or inside_write,
        reasoning_tokens=reasoning,
    )


def _first(counts: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """The first of these that is a count; 0 if none is."""
    for name in names:
        value = counts.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return int(value)
    return 0


def _mapping(counts: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    for name in names:
        value = counts.get(name)
        if isinstance(value, Mapping):
            return value
    return {}
