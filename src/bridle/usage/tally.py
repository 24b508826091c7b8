"""Requests added up: each counted once, and priced.

The sums are kept in quarters of an hour, which fit into the days of every time zone.
"""

from collections.abc import Iterable, Sequence

import msgspec

from bridle.runtimes.usage_reader import Part, Request
from bridle.usage.prices import PriceList

QUARTER = 900
"""Seconds."""


class Row(msgspec.Struct, array_like=True, gc=False):
    """The requests of one session, or one sub-agent of it, to one model in a quarter of an hour."""

    runtime: str
    session: str
    project: str
    agent: str
    model: str
    quarter: int
    """Quarters of an hour since 1970; 0 for requests whose time is unknown."""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    told: int = 0
    """Requests whose cost the product tells."""
    told_usd: float = 0.0
    priced: int = 0
    """Requests whose cost follows from prices."""
    priced_usd: float = 0.0

    def add(
        self,
        requests: int,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int,
        cache_write_tokens: int,
        reasoning_tokens: int,
        cache_write_1h_tokens: int,
    ) -> None:
        """Add the counts of some requests."""
        self.requests += requests
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cache_read_tokens += cache_read_tokens
        self.cache_write_tokens += cache_write_tokens
        self.reasoning_tokens += reasoning_tokens
        self.cache_write_1h_tokens += cache_write_1h_tokens


class Tally:
    """Adds up the requests of many files.

    Contract: `add` each file once, then `rows`. A request that several files contain counts for
    the one that did not inherit it; if all of them did, for the first.
    """

    def __init__(self, prices: PriceList) -> None:
        self._prices = prices
        self._rows: dict[tuple[str, str, str, str, str, int], Row] = {}
        self._seen: dict[str, set[str]] = {}
        self._inherited: list[tuple[str, Part, Request]] = []

    def add(self, runtime: str, parts: Iterable[Part]) -> None:
        """Add the requests of a file."""
        seen = self._seen.setdefault(runtime, set())
        for part in parts:
            self._add(runtime, part, part.requests, seen)

    def _add(self, runtime: str, part: Part, requests: Sequence[Request], seen: set[str]) -> None:
        """Add requests of one part. The sums are local until model or quarter changes: this runs
        for every request of a large home."""
        model, first, last = "", 1.0, 0.0
        row = Row("", "", "", "", "", 0)
        count = fresh = output = read = write = reasoning = hour = 0
        is_flat = False
        for request in requests:
            key = request.id
            if key:
                if key in seen:
                    continue
                if request.inherited:
                    self._inherited.append((runtime, part, request))
                    continue
                seen.add(key)
            at = request.at
            if not first <= at < last or request.model != model:
                row.add(count, fresh, output, read, write, reasoning, hour)
                count = fresh = output = read = write = reasoning = hour = 0
                model, quarter = request.model, int(at) // QUARTER
                first, last = quarter * QUARTER, (quarter + 1) * QUARTER
                row = self._row(runtime, part, model, quarter)
                is_flat = self._prices.flat(model) is not None
            count += 1
            fresh += request.input_tokens
            output += request.output_tokens
            read += request.cache_read_tokens
            write += request.cache_write_tokens
            reasoning += request.reasoning_tokens
            hour += request.cache_write_1h_tokens
            if not is_flat or request.cost_usd is not None:
                self._price(row, request, is_flat=is_flat)
        row.add(count, fresh, output, read, write, reasoning, hour)

    def _row(self, runtime: str, part: Part, model: str, quarter: int) -> Row:
        key = (runtime, part.session, part.project, part.agent, model, quarter)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = Row(*key)
        return row

    def _price(self, row: Row, request: Request, *, is_flat: bool) -> None:
        """Add the cost of a request that has one of its own. A flat price is applied to the sums at
        the end, so what the product tells is taken off them."""
        if request.cost_usd is not None:
            row.told += 1
            row.told_usd += request.cost_usd
            if is_flat:
                row.priced_usd -= self._cost(request)
            return
        cost = self._prices.at(request.model, request.at)
        if cost is not None:
            row.priced += 1
            row.priced_usd += self._cost(request)

    def _cost(self, counts: Request | Row, at: float = 0.0) -> float:
        prices = self._prices.at(counts.model, counts.at if isinstance(counts, Request) else at)
        if prices is None:
            return 0.0
        return prices.cost(
            counts.input_tokens,
            counts.output_tokens,
            counts.cache_read_tokens,
            counts.cache_write_tokens,
            counts.cache_write_1h_tokens,
        )

    def rows(self) -> list[Row]:
        """The sums, in no particular order. Nothing can be added afterwards."""
        inherited, self._inherited = self._inherited, []
        for runtime, part, request in inherited:
            alone = msgspec.structs.replace(request, inherited=False)
            self._add(runtime, part, [alone], self._seen[runtime])
        rows = list(self._rows.values())
        for row in rows:
            if self._prices.flat(row.model) is not None:
                row.priced = row.requests - row.told
                # What the product told for all of them leaves nothing but rounding errors.
                row.priced_usd = row.priced_usd + self._cost(row) if row.priced else 0.0
        return rows
