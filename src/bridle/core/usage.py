"""Token counts that mean the same for every runtime."""

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
