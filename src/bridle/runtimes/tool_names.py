"""Names of tools in `allowed_tools` and `denied_tools`: checked, and translated for one agent.

Callers write neutral names (`shell`, `read_file`, …), which mean the same on every runtime, or the
agent's own. Each adapter has one table (`Adapter.tools`); the functions here are the only
readers of it. A name that is neither is refused before anything starts: no CLI complains about a
tool that it does not have, so the option would have no effect.
"""

from typing import Literal

import msgspec

from bridle.core.errors import ConfigError, WrongUse
from bridle.core.features import Features
from bridle.core.options import RunOptions
from bridle.runtimes.contract import Adapter
from bridle.runtimes.product import NEUTRAL, ToolTable
from bridle.runtimes.registry import available_runtimes, get_adapter

Field = Literal["allowed_tools", "denied_tools"]
FIELDS: tuple[Field, ...] = ("allowed_tools", "denied_tools")
_MCP = r"mcp__(?P<server>.+?)(?:__(?P<tool>.+))?"
_SLASH = r"(?P<server>[^/()\s]+)/(?P<tool>[^/()\s]+)"


class _CannotSwitch(Exception):
    """A tool of the agent that cannot be allowed or denied by itself; the text says why."""


def unsupported_tools(runtime: Adapter, options: RunOptions, features: Features) -> dict[str, str]:
    """Which of the two options name a tool that `runtime` cannot switch, each with the reason; an
    option that it does not have at all is ignored.

    Raises `WrongUse` for a name that is neither neutral nor the agent's own.
    """
    table, reasons = runtime.tool_table(), dict[str, str]()
    if table is None:
        return reasons
    for field in FIELDS:
        for name in getattr(options, field) if field in features.options else ():
            try:
                _translated(runtime.id, table, field, name, options)
            except _CannotSwitch as problem:
                reasons.setdefault(field, str(problem))
    return reasons


def native_tools(runtime: Adapter, options: RunOptions) -> RunOptions:
    """`options` with the tools in the agent's own names.

    What `check_options` reported as ignored, because the caller allows that, is left out.
    """
    table = runtime.tool_table()
    if table is None or not (options.allowed_tools or options.denied_tools):
        return options
    changed: dict[str, tuple[str, ...]] = {}
    for field in FIELDS:
        names: list[str] = []
        for name in getattr(options, field):
            try:
                names += _translated(runtime.id, table, field, name, options)
            except (_CannotSwitch, WrongUse):
                continue
        changed[field] = tuple(dict.fromkeys(names))
    return msgspec.structs.replace(options, **changed)


def _translated(
    runtime: str, table: ToolTable, field: Field, name: str, options: RunOptions
) -> tuple[str, ...]:
    if name in NEUTRAL:
        return _neutral(table, field, name, options)
    if name in table.fixed:
        raise _CannotSwitch(f"its tool {name} cannot be switched off or on by itself")
    if name in table.names():
        return (name,)
    if name.endswith(")") and name.partition("(")[0] in table.rules:
        return (name,)
    server = _mcp(table, name, options)
    if server is not None:
        return server
    raise WrongUse(f"{runtime} has no tool {name!r} ({field})", hint=_hint(name, table))


def _neutral(table: ToolTable, field: Field, name: str, options: RunOptions) -> tuple[str, ...]:
    own = table.neutral.get(name)
    if own is None:
        raise _CannotSwitch(f"{name} is not a separate tool that can be switched")
    if field == "denied_tools":
        return (*own, *table.denied_too.get(name, ()))
    if not own:
        raise _CannotSwitch(f"it has no tool for {name}")
    # Allowing one thing must not allow another that the same tool does.
    for other, names in table.neutral.items():
        if names and other not in options.allowed_tools and not set(own).isdisjoint(names):
            raise _CannotSwitch(f"its tool for {name} also does {other}: allow both, or neither")
    return own


def _mcp(table: ToolTable, name: str, options: RunOptions) -> tuple[str, ...] | None:
    """The agent's names for a tool of an MCP server, or for all of a server; None for a name that
    is neither. Besides `mcp__SERVER__TOOL` and `SERVER/TOOL` the agent's own spelling is taken for
    the servers of the run."""
    import re

    found = re.fullmatch(_MCP, name) or re.fullmatch(_SLASH, name)
    if found is None:
        return (name,) if _of_a_server(table, name, options) else None
    server, tool = found["server"], found["tool"]
    form = table.mcp_tool if tool is not None else table.mcp_server
    if not form:
        what = "tools of MCP servers" if tool is not None else "the tools of a whole MCP server"
        raise _CannotSwitch(f"{name}: {what} cannot be switched")
    return (form.format(server=server, tool=tool),)


def _of_a_server(table: ToolTable, name: str, options: RunOptions) -> bool:
    if not table.mcp_tool or options.mcp_config is None:
        return False
    from bridle.runtimes.options import read_servers

    servers = read_servers(options.mcp_config)
    if table.rules and name.endswith(")") and name.partition("(")[0] in servers:
        return True
    forms = [table.mcp_tool.partition("{tool}")[0], table.mcp_server]
    starts = [form.format(server=server) for server in servers for form in forms if form]
    return any(name.startswith(start) for start in starts)


def _hint(name: str, table: ToolTable) -> str:
    from difflib import get_close_matches

    known = table.names()
    folded = {each.lower(): each for each in reversed(known)}
    meant = folded.get(name.lower()) or _same_elsewhere(name, known)
    if meant is None:
        close = get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
        meant = folded[close[0]] if close else None
    listed = f"known names: {', '.join(known)}"
    return f"did you mean {meant}? {listed}" if meant else listed


def _same_elsewhere(name: str, known: list[str]) -> str | None:
    """The neutral name of what another agent calls `name`, if that is among `known`."""
    for other in available_runtimes():
        try:
            table = get_adapter(other).tool_table()
        except ConfigError:
            # An adapter that does not load has no names to compare with.
            continue
        for neutral, names in table.neutral.items() if table is not None else ():
            own = {each.lower() for each in names or ()}
            if name.lower() in own and neutral in known:
                return neutral
    return None
