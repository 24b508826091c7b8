"""`scripted`: a real agent process that plays a script, with real tools and no model.

It is what the demo, load tests and users' own tests run. It never pretends to be more.
"""

from bridle.runtimes.scripted.product import ScriptedRuntime

__all__ = ["ScriptedRuntime"]
