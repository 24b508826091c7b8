"""Token counts of wires whose input counts the cached tokens as well."""

import msgspec

from bridle.core.usage import Usage


class InclusiveCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Counts as Copilot and Cline write them: `inputTokens` is everything that went in, the cached
    part too; `outputTokens` includes reasoning."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    reasoning_tokens: int | None = 0

    def usage(self) -> Usage:
        """The same counts in Bridle's meaning."""
        read, write = self.cache_read_tokens or 0, self.cache_write_tokens or 0
        return Usage(
            # Never below nothing: a provider may count its cache apart after all.
            input_tokens=max(0, (self.input_tokens or 0) - read - write),
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=read,
            cache_write_tokens=write,
            reasoning_tokens=self.reasoning_tokens or 0,
        )
