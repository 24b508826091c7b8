"""The usage and cost of a session, in this process and before it, and the limits on them."""

import msgspec

from bridle.core.errors import AgentError, BudgetExceeded
from bridle.core.options import RunOptions
from bridle.core.results import CostSource
from bridle.core.usage import NO_USAGE, Usage


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a session when its last process ended; the next process continues from them."""

    seq: int = 0
    turn: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float | None = None


class UsageTotals:
    """Adds up usage, cost and model calls, process after process and turn by turn.

    Contract: `usage` and `cost_usd` belong to the current process; a runtime that computes totals
    itself sets them. The limit on model calls applies to each process, the budget to all of them
    together. The limit on model calls is checked when the agent continues, so that work that ended
    exactly at the limit counts; the budget is checked whenever a cost is known.
    """

    def __init__(self, options: RunOptions, before: Before, *, ignores_budget: bool) -> None:
        self.usage = NO_USAGE
        self.cost_usd: float | None = None
        self.cost_source: CostSource = "unknown"
        self.model_calls = 0
        self._before = before
        self._max_turns = options.max_turns
        self._budget = None if ignores_budget else options.budget_usd
        self._usage_at_start = NO_USAGE
        self._cost_at_start = 0.0
        self._calls_before = 0
        self._spent_before = 0.0

    def begin_process(self) -> None:
        """A process begins: what was used so far belongs to earlier processes."""
        self._before = self.total(self._before.seq, self._before.turn)
        self._spent_before += self.cost_usd or 0.0
        self._calls_before = self.model_calls
        self.usage = self._usage_at_start = NO_USAGE
        self.cost_usd = None
        self._cost_at_start = 0.0

    def go_on_from(self, before: Before) -> None:
        """Continue from the totals `before`."""
        self.begin_process()
        self._before = before

    def begin_turn(self) -> None:
        """A turn begins: what is used from now on belongs to it."""
        self._usage_at_start = self.usage
        self._cost_at_start = self.cost_usd or 0.0

    @property
    def turn_usage(self) -> Usage:
        """The usage of the turn."""
        return self.usage - self._usage_at_start

    @property
    def turn_cost(self) -> float | None:
        """The cost of the turn; None if unknown."""
        return None if self.cost_usd is None else self.cost_usd - self._cost_at_start

    def total(self, seq: int, turn: int) -> Before:
        """The totals of the session, with all its earlier processes."""
        costs = [cost for cost in (self._before.cost_usd, self.cost_usd) if cost is not None]
        return Before(
            seq=seq,
            turn=turn,
            usage=self._before.usage + self.usage,
            cost_usd=sum(costs) if costs else None,
        )

    def add(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Add the usage and cost of a model call, if known."""
        if usage is not None:
            self.usage += usage
        if cost_usd is not None:
            self.set_cost((self.cost_usd or 0.0) + cost_usd, "provider")

    def set_cost(self, cost_usd: float, source: CostSource) -> None:
        """Replace the cost of the process so far."""
        self.cost_usd = cost_usd
        self.cost_source = source

    def past_turns(self) -> AgentError | None:
        """The error if the limit on model calls is reached; None otherwise."""
        limit = self._max_turns
        if limit is not None and self.model_calls - self._calls_before >= limit:
            return BudgetExceeded(f"reached the limit of {limit} turns")
        return None

    def unpriced(self, model: str | None) -> AgentError | None:
        """The error after a call of `model` whose cost is unknown; None without a budget."""
        if self._budget is None:
            return None
        return BudgetExceeded(
            f"the price of {model or 'this model'} is not known, so the budget cannot be kept",
            hint="drop the budget, or use a model whose price the agent knows",
        )

    def past_budget(self) -> AgentError | None:
        """The error if the budget is spent; None if more may be spent."""
        limit, cost = self._budget, self._spent_before + (self.cost_usd or 0.0)
        if limit is not None and cost > limit:
            return BudgetExceeded(f"cost {cost:.4f} USD is over the budget of {limit:.4f} USD")
        return None
