"""The runtime `cline`: the Cline CLI."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.cline.adapter import ClineAcp, ClineRuntime

__all__ = ["ClineAcp", "ClineRuntime"]

__getattr__ = from_adapter(__name__, __all__)
