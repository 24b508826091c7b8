"""What the scripted agent speaks: one wire, which changes with Bridle itself."""

from bridle._version import __version__
from bridle.runtimes.dialects import Dialect

DIALECTS = (Dialect(name="scripted-1", since=(0,), seen=(__version__,), capture="tools.jsonl"),)
