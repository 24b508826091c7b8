"""What a session used, from the files that agents keep themselves.

Only for agents whose protocol does not tell; the runtime of the same product reads its files. A
reading gives the session's whole total; what one run added is the difference between two readings.
Nothing is ever written.
"""

from collections.abc import Mapping

import msgspec

from bridle.core.usage import Usage
from bridle.runtimes import contract


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a session."""

    usage: Usage
    model: str | None = None
    cost_usd: float = 0.0


def read_history(
    product: contract.Adapter, env: Mapping[str, str], session_id: str
) -> History | None:
    """Totals of a session of `product`, which ran in `env`; None when they are not there."""
    if not isinstance(product, contract.History):
        return None
    path = product.find_transcript(session_id, env)
    told = product.parse_transcript(path) if path else None
    if told is None:
        return None
    usage = Usage(
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cache_read_tokens=told.cache_read_tokens,
        cache_write_tokens=told.cache_write_tokens,
        reasoning_tokens=told.reasoning_tokens,
    )
    return History(usage=usage, model=told.model or None, cost_usd=told.cost_usd or 0.0)
