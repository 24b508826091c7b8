"""Facts of one product that its adapter states as data: routing variables and names of tools."""

from collections.abc import Mapping

import msgspec


class RoutingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What leads one product to a model service."""

    vendors: tuple[str, ...] = ()
    """Prefixes of model names that mean its maker's own service, which it does not take itself;
    empty for an agent that knows many services by their prefix."""
    addresses: tuple[str, ...] = ()
    """Variables by which the user leads it to a service other than its maker's."""
    names: tuple[str, ...] = ()
    """Further variables: keys, tokens, headers, default models."""
    prefixes: tuple[str, ...] = ()
    """How the names of further such variables begin."""

    def holds(self, name: str) -> bool:
        """Whether the variable `name` leads the product somewhere."""
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
"""The neutral names and what each stands for."""


class ToolTable(msgspec.Struct, frozen=True, kw_only=True):
    """What the tools of one agent are called, over all its dialects."""

    neutral: Mapping[str, tuple[str, ...] | None]
    """Neutral names to its own. Empty: it has no such tool. None: it does this with a tool that
    cannot be switched by itself."""
    native: tuple[str, ...] = ()
    """Further names of its own."""
    fixed: tuple[str, ...] = ()
    """Names of its own that cannot be switched."""
    denied_too: Mapping[str, tuple[str, ...]] = {}
    """What is denied together with a neutral name, beside its tools (permission rules)."""
    rules: frozenset[str] = frozenset()
    """What may stand before the bracket of a rule such as `Bash(git *)`; such names are passed on
    as they are, and the adapter refuses them where only names are taken."""
    mcp_tool: str = ""
    """How it names a tool of an MCP server, with `{server}` and `{tool}`; empty: tools of servers
    cannot be switched."""
    mcp_server: str = ""
    """How all tools of a server are named, with `{server}`; empty: not as a whole."""

    def names(self) -> list[str]:
        """Every name that can be given: the neutral ones first, then the agent's own."""
        neutral = [name for name in NEUTRAL if self.neutral.get(name)]
        own = [each for names in self.neutral.values() for each in names or ()]
        return list(dict.fromkeys([*neutral, *own, *self.native]))


class ToolPieces(msgspec.Struct, frozen=True, kw_only=True):
    """What switches tools when the product is started by another program than its own command."""

    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: dict[str, bytes] = {}
    """Files of the run's private folder, by name."""
