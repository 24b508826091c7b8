"""The runtime `opencode`."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.opencode.adapter import OpencodeAcp, OpenCodeRuntime

__all__ = ["OpenCodeRuntime", "OpencodeAcp"]

__getattr__ = from_adapter(__name__, __all__)
