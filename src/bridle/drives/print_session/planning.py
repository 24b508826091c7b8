"""Planning the process of a turn, without keeping other sessions waiting for it."""

import threading
from collections.abc import Callable, Mapping

import msgspec

from bridle.core.errors import BridleError, Crashed, ErrorInfo
from bridle.drives.print_session.records import Order, Planned
from bridle.process.spec import ProcessSpec


class TurnPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A process that can be started, and what of it the journal keeps."""

    spec: ProcessSpec
    planned: Planned


Planner = Callable[[Order, str | None, Mapping[str, str]], TurnPlan]
"""`plan(order, resume, env)`; called in a thread of its own, may take its time."""


class Planning(threading.Thread):
    """Plans a process in a thread of its own: then there is what was `found`, or the `error`."""

    def __init__(
        self, plan: Planner, order: Order, resume: str | None, env: Mapping[str, str]
    ) -> None:
        super().__init__(daemon=True)
        self.found: TurnPlan | None = None
        self.error: ErrorInfo | None = None
        self._ask = (plan, order, resume, env)

    def run(self) -> None:
        """Plan it, or learn why that cannot be."""
        try:
            plan, order, resume, env = self._ask
            self.found = plan(order, resume, env)
        except BridleError as problem:
            self.error = problem.info()
        except Exception as problem:
            self.error = Crashed(f"the process could not be planned: {problem!r}").info()
