"""What agents used and what it cost, from the session files that every agent keeps.

    for request in bridle.usage.requests():
        print(request.session, request.model, request.usage, request.cost_usd)
    print(bridle.usage.report(by="model").total.cost_usd)

Everything reads only. `report` keeps an index in the user's cache folder and reads only what has
changed; `sessions` and `requests` read the files themselves.
"""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.usage import Usage
from bridle.usage.prices import PriceList, Prices, Tiers
from bridle.usage.reports import By, Filter, Line, Report, Sum, make_report, parse_time
from bridle.usage.scans import Skipped, each_reading, scan

if TYPE_CHECKING:
    from bridle.runtimes.usage_reader import Part, Request

__all__ = [
    "Filter",
    "Line",
    "ModelRequest",
    "PastSession",
    "PriceList",
    "Prices",
    "Report",
    "Skipped",
    "Sum",
    "Tiers",
    "parse_time",
    "price",
    "report",
    "requests",
    "sessions",
]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model, as a session file records it."""

    runtime: str
    session: str
    """The agent's own id of the session; a sub-agent's requests belong to its root session."""
    project: str
    """The folder in which the session worked."""
    agent: str
    """The sub-agent's name or id; empty for the session itself."""
    parent: str
    """The session that this one was forked from; empty if it is no fork."""
    id: str
    """The id by which copies of the request are recognised."""
    at: float
    """Seconds since 1970; 0 if unknown."""
    model: str
    usage: Usage
    cache_write_1h_tokens: int = 0
    """The part of `usage.cache_write_tokens` that the cache keeps for an hour."""
    cost_usd: float | None = None
    """What the agent says that it cost, else what it costs by known prices; None if unknown."""


class PastSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session, or one sub-agent of it, with its requests."""

    runtime: str
    session: str
    project: str
    agent: str
    parent: str
    path: str
    requests: tuple[ModelRequest, ...]


def report(
    by: By = "day",
    *,
    only: Filter | None = None,
    home: str | None = None,
    prices: Mapping[str, Prices] | None = None,
    agents: Mapping[str, str] | None = None,
) -> Report:
    """Usage and cost of all sessions in a home folder, those that Bridle did not start included.

    `home` is another home folder than the user's. `prices` are added to the known ones and win.
    `agents` names agents by the native ids of their sessions, for `by="agent"`.
    """
    return make_report(scan(_environment(home), os.environ, prices), by, only, agents)


def sessions(
    *, home: str | None = None, prices: Mapping[str, Prices] | None = None
) -> Iterator[PastSession]:
    """Every session in a home folder, file by file. A request that several files contain is in each
    of them; `requests` gives it once."""
    listed = PriceList(prices)
    for path, runtime, parts in each_reading(_environment(home)):
        for part in parts:
            yield PastSession(
                runtime=runtime,
                session=part.session,
                project=part.project,
                agent=part.agent,
                parent=part.parent,
                path=path,
                requests=tuple(_public(runtime, part, each, listed) for each in part.requests),
            )


def requests(
    *, home: str | None = None, prices: Mapping[str, Prices] | None = None
) -> Iterator[ModelRequest]:
    """Every request in a home folder, once; one that a file inherited comes last if no other file
    contains it."""
    listed = PriceList(prices)
    seen: set[tuple[str, str]] = set()
    inherited: list[ModelRequest] = []
    for _, runtime, parts in each_reading(_environment(home)):
        for part in parts:
            for each in part.requests:
                if each.id and (runtime, each.id) in seen:
                    continue
                found = _public(runtime, part, each, listed)
                if each.id and each.inherited:
                    inherited.append(found)
                    continue
                seen.add((runtime, each.id))
                yield found
    for found in inherited:
        if (found.runtime, found.id) not in seen:
            seen.add((found.runtime, found.id))
            yield found


def price(
    model: str,
    usage: Usage,
    *,
    cache_write_1h_tokens: int = 0,
    at: float | None = None,
    prices: Mapping[str, Prices] | None = None,
) -> float | None:
    """What one request costs in US dollars by known prices; None if the model has none.

    Price each request by itself: for some models a large request costs more for each token. `at` is
    its time in seconds since 1970, now when None.
    """
    import time

    found = PriceList(prices).at(model, time.time() if at is None else at)
    if found is None:
        return None
    return found.cost(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        cache_write_1h_tokens,
    )


def _environment(home: str | None) -> Mapping[str, str]:
    # Variables such as CODEX_HOME are about the user's own home, not about another.
    return os.environ if home is None else {"HOME": os.path.abspath(home)}


def _public(runtime: str, part: "Part", request: "Request", prices: PriceList) -> ModelRequest:
    usage = Usage(
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        cache_read_tokens=request.cache_read_tokens,
        cache_write_tokens=request.cache_write_tokens,
        reasoning_tokens=request.reasoning_tokens,
    )
    cost = request.cost_usd
    known = prices.at(request.model, request.at) if cost is None else None
    if known is not None:
        cost = known.cost(
            request.input_tokens,
            request.output_tokens,
            request.cache_read_tokens,
            request.cache_write_tokens,
            request.cache_write_1h_tokens,
        )
    return ModelRequest(
        runtime=runtime,
        session=part.session,
        project=part.project,
        agent=part.agent,
        parent=part.parent,
        id=request.id,
        at=request.at,
        model=request.model,
        usage=usage,
        cache_write_1h_tokens=request.cache_write_1h_tokens,
        cost_usd=cost,
    )
