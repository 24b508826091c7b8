"""What Bridle's own sessions used and cost, by session, agent, task and so on.

Tokens are those of a session's events, so they are live. A cost is what the agent reported; where
it reported none, it follows from prices, request by request, if the agent's own file is there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

import msgspec

from bridle.core.usage import NO_USAGE, Usage
from bridle.sessions.store import SessionRecord
from bridle.usage.reports import UNKNOWN, Source, Sum, add_up
from bridle.usage.tally import Row

CostsBy = Literal["session", "agent", "task", "capability", "runtime", "model", "project"]
COST_CHOICES: tuple[CostsBy, ...] = get_args(CostsBy)
NONE = "-"
"""The key of sessions that have no agent, task or capability."""


class CostLine(msgspec.Struct, frozen=True, kw_only=True):
    """What some sessions used and cost."""

    key: str = ""
    sessions: int = 0
    living: int = 0
    """How many of them have not ended."""
    turns: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float | None = None
    """The cost of those whose cost is known; None if no cost is known."""
    cost_source: Source = "unknown"
    unpriced_models: tuple[str, ...] = ()


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Usage and cost of sessions, the rows sorted by their key."""

    by: str
    rows: tuple[CostLine, ...]
    total: CostLine


def cost_report(
    records: Iterable[SessionRecord], rows: Iterable[Row], by: CostsBy = "session"
) -> Costs:
    """The costs of sessions. `rows` are the sums of a scan of the agents' own files."""
    files: dict[str, list[Row]] = {}
    for row in rows:
        files.setdefault(row.session, []).append(row)
    key = _KEYS[by]
    groups: dict[str, list[CostLine]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(_of(record, files))
    lines = [_sum(name, group) for name, group in sorted(groups.items())]
    total = _sum("", [each for group in groups.values() for each in group])
    return Costs(by=by, rows=tuple(lines), total=total)


_KEYS: dict[CostsBy, Callable[[SessionRecord], str]] = {
    "session": lambda record: record.name or record.session_id,
    "agent": lambda record: record.agent or NONE,
    "task": lambda record: record.task or NONE,
    "capability": lambda record: record.capability or NONE,
    "runtime": lambda record: record.runtime,
    "model": lambda record: record.model or UNKNOWN,
    "project": lambda record: record.project or record.workdir or NONE,
}


def _of(record: SessionRecord, files: Mapping[str, list[Row]]) -> CostLine:
    usage = record.usage or NO_USAGE
    found = Sum()
    if record.cost_usd is not None:
        found = Sum(cost_usd=record.cost_usd, cost_source="provider")
    elif usage.total:
        found = add_up(files.get(record.native_session_id or "", ()))
        if found.cost_usd is None and not found.unpriced_models:
            found = Sum(unpriced_models=(record.model or UNKNOWN,))
    return CostLine(
        sessions=1,
        living=0 if record.is_over else 1,
        turns=record.turn,
        usage=usage,
        cost_usd=found.cost_usd,
        cost_source=found.cost_source,
        unpriced_models=found.unpriced_models,
    )


def _sum(key: str, lines: list[CostLine]) -> CostLine:
    known = [line.cost_usd for line in lines if line.cost_usd is not None]
    sources = {line.cost_source for line in lines} - {"unknown"}
    source: Source = "mixed" if len(sources) > 1 else next(iter(sources), "unknown")
    return CostLine(
        key=key,
        sessions=sum(line.sessions for line in lines),
        living=sum(line.living for line in lines),
        turns=sum(line.turns for line in lines),
        usage=sum((line.usage for line in lines), NO_USAGE),
        cost_usd=round(sum(known), 9) if known else None,
        cost_source=source,
        unpriced_models=tuple(sorted({name for line in lines for name in line.unpriced_models})),
    )
