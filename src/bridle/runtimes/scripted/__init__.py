"""`scripted`: a real agent process that plays a script, with real tools and no model.

The demo, load tests and users' own tests run it.
"""

from bridle.runtimes.scripted.adapter import ScriptedRuntime

__all__ = ["ScriptedRuntime"]
