"""The checks themselves, by subject, in the order in which reports list them."""

from bridle.testing.conformance.checks.delivery import CHECKS as DELIVERY
from bridle.testing.conformance.checks.faults import CHECKS as FAULTS
from bridle.testing.conformance.checks.history import CHECKS as HISTORY
from bridle.testing.conformance.checks.messages import CHECKS as TALKING
from bridle.testing.conformance.checks.registry import Check
from bridle.testing.conformance.checks.safety import CHECKS as SAFETY
from bridle.testing.conformance.checks.stop import CHECKS as STOPPING
from bridle.testing.conformance.checks.tools import CHECKS as TOOLS
from bridle.testing.conformance.checks.wire import CHECKS as WIRE

CHECKS: tuple[Check, ...] = (
    *TALKING,
    *TOOLS,
    *FAULTS,
    *STOPPING,
    *DELIVERY,
    *HISTORY,
    *SAFETY,
    *WIRE,
)

__all__ = ["CHECKS", "Check"]
