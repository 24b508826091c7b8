"""Testing with Bridle: the scripted model, and the checks of the event contract.

Every public name is loaded on first use, so importing this package costs almost nothing.
"""

TYPE_CHECKING = False  # Type checkers assume it is true; importing `typing` would cost 10 ms.

if TYPE_CHECKING:
    from bridle.testing.request_log import RecordedRequest
    from bridle.testing.script import Script, ScriptError, ScriptProblem, script_to_json
    from bridle.testing.script_load import load_script
    from bridle.testing.script_source import script_json_schema
    from bridle.testing.server import ScriptedModel, server_main

__all__ = [
    "RecordedRequest",
    "Script",
    "ScriptError",
    "ScriptProblem",
    "ScriptedModel",
    "load_script",
    "script_json_schema",
    "script_to_json",
    "server_main",
]

_HOME = {
    "RecordedRequest": "request_log",
    "Script": "script",
    "ScriptError": "script",
    "ScriptProblem": "script",
    "ScriptedModel": "server",
    "load_script": "script_load",
    "script_json_schema": "script_source",
    "script_to_json": "script",
    "server_main": "server",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module that owns it, on first use."""
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
