"""The runtime `pi`: the Pi coding agent."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.pi.adapter import PiRuntime

__all__ = ["PiRuntime"]

__getattr__ = from_adapter(__name__, __all__)
