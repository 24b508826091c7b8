"""What a session used and cost, in this process and before it, and the limits on that."""

import msgspec

from bridle.core.errors import AgentError, BudgetExceeded
from bridle.core.options import RunOptions
from bridle.core.results import CostSource
from bridle.core.usage import NO_USAGE, Usage


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What a session had come to when its last process ended; the next goes on from there."""

    seq: int = 0
    turn: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float | None = None


class Tally:
    """Adds up usage, cost and model calls of one process after the other, turn by turn.

    Contract: `usage` and `cost_usd` are the process's; a runtime that sums up itself sets them.
    The limit of model calls is each process's, that of the cost is theirs together. The limit of
    model calls is checked when the agent goes on, so that work which ended at it counts; that of
    the cost whenever a cost is known, so that it never counts what was spent beyond it.
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
        """What was used so far is that of earlier processes."""
        self._before = self.total(self._before.seq, self._before.turn)
        self._spent_before += self.cost_usd or 0.0
        self._calls_before = self.model_calls
        self.usage = self._usage_at_start = NO_USAGE
        self.cost_usd = None
        self._cost_at_start = 0.0

    def go_on_from(self, before: Before) -> None:
        """What was used so far is what `before` says."""
        self.begin_process()
        self._before = before

    def begin_turn(self) -> None:
        """What is used from now on is the turn's."""
        self._usage_at_start = self.usage
        self._cost_at_start = self.cost_usd or 0.0

    @property
    def turn_usage(self) -> Usage:
        """What the turn used."""
        return self.usage - self._usage_at_start

    @property
    def turn_cost(self) -> float | None:
        """What the turn cost; None when that is not known."""
        return None if self.cost_usd is None else self.cost_usd - self._cost_at_start

    def total(self, seq: int, turn: int) -> Before:
        """What the session has come to, with all its earlier processes."""
        costs = [cost for cost in (self._before.cost_usd, self.cost_usd) if cost is not None]
        return Before(
            seq=seq,
            turn=turn,
            usage=self._before.usage + self.usage,
            cost_usd=sum(costs) if costs else None,
        )

    def add(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Count what a model call used and cost, where that is known."""
        if usage is not None:
            self.usage += usage
        if cost_usd is not None:
            self.set_cost((self.cost_usd or 0.0) + cost_usd, "provider")

    def set_cost(self, cost_usd: float, source: CostSource) -> None:
        """Replace the cost so far."""
        self.cost_usd = cost_usd
        self.cost_source = source

    def past_turns(self) -> AgentError | None:
        """Why the model must not be called again, None when it may."""
        limit = self._max_turns
        if limit is not None and self.model_calls - self._calls_before >= limit:
            return BudgetExceeded(f"reached the limit of {limit} turns")
        return None

    def unpriced(self, model: str | None) -> AgentError | None:
        """Why a call of `model` whose cost is not known must be the last; None without a budget."""
        if self._budget is None:
            return None
        return BudgetExceeded(
            f"the price of {model or 'this model'} is not known, so the budget cannot be kept",
            hint="drop the budget, or use a model whose price the agent knows",
        )

    def past_budget(self) -> AgentError | None:
        """Why nothing more may be spent, None when it may."""
        limit, cost = self._budget, self._spent_before + (self.cost_usd or 0.0)
        if limit is not None and cost > limit:
            return BudgetExceeded(f"cost {cost:.4f} USD is over the budget of {limit:.4f} USD")
        return None
