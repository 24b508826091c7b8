"""`scripted`: a real agent process that plays a script, with real tools and no model.

The demo, load tests and users' own tests run it.
"""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.scripted.adapter import ScriptedRuntime

__all__ = ["ScriptedRuntime"]

__getattr__ = from_adapter(__name__, __all__)
