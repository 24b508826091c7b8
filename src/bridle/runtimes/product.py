"""Facts of one product that its adapter states as data: routing variables and names of tools."""

from collections.abc import Mapping

import msgspec


class RoutingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The variables and names that route one product to a model service."""

    vendors: tuple[str, ...] = ()
    """Prefixes of model names that mean its vendor's own service and that the CLI does not accept;
    empty for an agent that knows many services by prefix."""
    addresses: tuple[str, ...] = ()
    """Variables by which the user routes it to a service other than its vendor's."""
    names: tuple[str, ...] = ()
    """Further variables: keys, tokens, headers, default models."""
    prefixes: tuple[str, ...] = ()
    """Prefixes of further variables."""

    def holds(self, name: str) -> bool:
        """Whether the variable `name` affects routing."""
        return name in self.addresses or name in self.names or name.startswith(self.prefixes)


NEUTRAL: dict[str, str] = {
    "shell": "run commands",
    "read_file": "read a file",
    "write_file": "create a file, or replace its whole text",
    "edit_file": "change parts of a file",
    "search": "find files, and text in files; list folders",
    "web": "fetch pages, search the web",
    "subagent": "start other agents",
}
"""The neutral names of tools, with their meaning."""


class ToolTable(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one agent's tools, in all its dialects."""

    neutral: Mapping[str, tuple[str, ...] | None]
    """Neutral names to native names. Empty: it has no such tool. None: it does this with a tool
    that cannot be switched separately."""
    native: tuple[str, ...] = ()
    """Further native names."""
    fixed: tuple[str, ...] = ()
    """Native names that cannot be switched."""
    denied_too: Mapping[str, tuple[str, ...]] = {}
    """What is denied together with a neutral name, in addition to its tools (permission rules)."""
    rules: frozenset[str] = frozenset()
    """The words before the bracket of rules such as `Bash(git *)`. Such rules are passed on
    unchanged; the adapter refuses them where only names are accepted."""
    mcp_tool: str = ""
    """The pattern of an MCP tool's name, with `{server}` and `{tool}`; empty: MCP tools cannot be
    switched."""
    mcp_server: str = ""
    """The pattern for all tools of a server, with `{server}`; empty: there is none."""

    def names(self) -> list[str]:
        """Every accepted name: the neutral ones first, then the native ones."""
        neutral = [name for name in NEUTRAL if self.neutral.get(name)]
        own = [each for names in self.neutral.values() for each in names or ()]
        return list(dict.fromkeys([*neutral, *own, *self.native]))


class ToolPieces(msgspec.Struct, frozen=True, kw_only=True):
    """What switches tools when another program starts the product."""

    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: dict[str, bytes] = {}
    """Files of the run's private folder, by name."""
