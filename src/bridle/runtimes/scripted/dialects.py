"""What the scripted agent speaks: one wire, which changes with Bridle itself."""

from bridle._version import __version__
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.product import ToolTable

DIALECTS = (Dialect(name="scripted-1", since=(0,), seen=(__version__,), capture="tools.jsonl"),)

TOOLS = ToolTable(
    neutral={
        **{name: (name,) for name in ("shell", "read_file", "write_file", "edit_file")},
        **dict.fromkeys(("search", "web", "subagent"), ()),
    }
)
