"""What sessions cost: the stored turns, and the report over records."""

from pathlib import Path

import msgspec
import pytest

from bridle.core.events import AgentEnd
from bridle.core.usage import Usage
from bridle.sessions.costs import cost_report
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord, SessionStore, TurnRow, turns_in
from bridle.usage.tally import Row

USED = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=5)
TOLD = SessionRecord(
    session_id="s-1",
    name="one",
    runtime="pi",
    agent="ada",
    task="t1",
    turn=2,
    usage=USED,
    cost_usd=0.5,
    model="m",
)
UNTOLD = SessionRecord(
    session_id="s-2",
    runtime="codex",
    agent="ada",
    native_session_id="n-2",
    turn=1,
    state="stopped",
    usage=USED,
    model="gpt-5",
)


def row(session: str, *, priced: int) -> Row:
    found = Row("codex", session, "/app", "", "gpt-5", 1, 2, 100, 20)
    found.priced, found.priced_usd = priced, 0.25 * bool(priced)
    return found


def test_a_cost_that_was_not_told_comes_from_the_agents_own_file() -> None:
    costs = cost_report([TOLD, UNTOLD], [row("n-2", priced=2), row("other", priced=2)], "agent")
    (line,) = costs.rows
    assert (line.key, line.sessions, line.living, line.turns) == ("ada", 2, 1, 3)
    assert line.usage == USED + USED
    assert (line.cost_usd, line.cost_source, line.unpriced_models) == (0.75, "mixed", ())
    assert costs.total == msgspec.structs.replace(line, key="")


def test_what_nobody_can_price_is_unknown() -> None:
    costs = cost_report([TOLD, UNTOLD], [row("n-2", priced=0)], "session")
    one, two = costs.rows
    assert (one.key, one.cost_source) == ("one", "provider")
    assert (two.key, two.cost_usd, two.cost_source) == ("s-2", None, "unknown")
    assert costs.total.cost_usd == 0.5
    assert costs.total.unpriced_models == ("gpt-5",)
    assert cost_report([UNTOLD], [], "task").rows[0].unpriced_models == ("gpt-5",)


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("session", ["one", "s-2"]),
        ("task", ["-", "t1"]),
        ("runtime", ["codex", "pi"]),
        ("model", ["gpt-5", "m"]),
    ],
)
def test_rows_are_sorted(by: str, keys: list[str]) -> None:
    found = cost_report([UNTOLD, TOLD], [], by)  # type: ignore[arg-type]  # one of its choices
    assert [line.key for line in found.rows] == keys


def test_turns_are_kept_once_and_removed_with_their_session(tmp_path: Path) -> None:
    store = SessionStore(StateHome(str(tmp_path / "state"), None))
    store.put(TOLD)
    first = TurnRow(turn=1, status="completed", usage=USED, cost_usd=0.1, cost_source="provider")
    second = TurnRow(turn=2, status="failed", usage=Usage(), ended_at="2026-11-15T18:00:00Z")
    store.put_turns("s-1", [second, first])
    store.put_turns("s-1", [msgspec.structs.replace(first, cost_usd=0.2)])
    assert store.turns("s-1") == [msgspec.structs.replace(first, cost_usd=0.2), second]
    store.remove("s-1")
    assert store.turns("s-1") == []
    store.close()


def test_every_turn_that_ends_is_kept_even_if_two_end_at_once() -> None:
    ends = [
        AgentEnd(
            runtime="pi",
            session_id="s-1",
            ts="2026-11-15T18:00:00Z",
            seq=number,
            turn=number,
            status="completed",
            usage=USED,
            cost_usd=cost,
        )
        for number, cost in ((1, 0.1), (2, None))
    ]
    found = turns_in(ends, "m", "provider")
    assert [(each.turn, each.cost_usd, each.cost_source) for each in found] == [
        (1, 0.1, "provider"),
        (2, None, "unknown"),
    ]
