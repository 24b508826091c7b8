"""The facts of one product, as data: what its CLI is called, reads, writes and obeys.

An adapter's folder declares them once, in `product.py`; planner, sandbox, routing, instructions and
documentation read them from here.
"""

import os
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from bridle.core.features import Features
from bridle.core.files import home_dir
from bridle.core.handles import SessionHints
from bridle.process.spec import POLITE_STOP, StopStep
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.errors import ErrorTable
from bridle.runtimes.install import Installation


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


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """The model service of a product that another program starts."""

    url: str | None
    """Base address without `/v1`; None leaves the product's own."""
    api: str | None = None
    """The same with the path that OpenAI's protocols have (`/v1`)."""
    key: str | None
    model: str | None
    max_retries: int
    home: str | None = None
    """A private home, if the user's must not be used."""
    cwd: str = ""
    account: str = ""
    """The user's own configuration home, if that is used."""
    env: dict[str, str] = {}
    """The environment of the product, which decides which settings of the user's are used."""


class ServicePieces(msgspec.Struct, frozen=True, kw_only=True):
    """What routes a product that another program starts to a model service. Keys are in `env`,
    never in `flags`."""

    env: dict[str, str] = {}
    drop: tuple[str, ...] = ()
    """The user's variables that would route it elsewhere."""
    flags: tuple[str, ...] = ()


Mode = Literal["run", "live", "tmux", "interactive", "spawn", "print"]
"""What a process is started for: one prompt, a conversation over a protocol, a conversation in a
pane, a person at this terminal, a terminal that somebody else starts, a one-shot call."""

Login = Literal["present", "missing", "unknown"]

COMMON_OPTIONS = frozenset(
    {
        "append_system_prompt",
        "append_system_prompt_file",
        "model",
        "provider",
        "provider_options",
        "account_dir",
        "model_server",
    }
)
"""Options that the adapter to every coding agent honours."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Where a login or a key can be. None is ever read."""

    variables: tuple[str, ...] = ()
    """Any of these variables, if set, is a login."""
    files: tuple[str, ...] = ()
    """Any of these files, if it exists, is a login; relative to the product's home."""
    filled: tuple[str, ...] = ()
    """Any of these files is a login if it contains more than an empty JSON object."""
    doubtful: tuple[str, ...] = ()
    """Files that may hold a key or name a helper program."""
    words: Mapping[str, tuple[str, ...]] = {}
    """Files that count the same if they contain one of these words: they name another service or
    another place for logins."""
    suffix: str = ""
    """A set variable whose name ends in this may be a key."""
    otherwise: Login = "missing"
    """The answer when nothing of the above exists; `unknown` where a key ring may hold a login."""


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """One coding agent's CLI."""

    id: str
    """Unique; the registry's key and the value of `--runtime`."""
    binary: str
    """Name of the CLI's command."""
    find: Callable[[str], Installation | None]
    """Finds the CLI by its name or path; must not take long (see `runtimes.install`)."""
    install_hint: str = ""
    """The command that installs the CLI."""
    key_variable: str = ""
    """The variable that most users set to give it an API key or token."""
    dialects: tuple[Dialect, ...]
    features: Features
    """What it can do in its newest dialect."""
    instruction_path: str
    """The instruction file that Bridle deploys, relative to the worktree."""

    home_variable: str = ""
    """The variable that moves its home."""
    home: str = ""
    """Its home, relative to the user's, unless the variable says otherwise."""
    credentials: Credentials = Credentials()
    routing: RoutingFacts = RoutingFacts()
    """The variables that route it to a model service."""
    provider_path: str = "/v1"
    """What the address of a provider ends with, after the host, for this CLI."""
    scripted_model: str = "scripted"
    """The model of a call to a scripted model server that names none."""

    options_type: type[msgspec.Struct] | None = None
    """The shape of its `provider_options`; None for a product that has none."""
    list_options: tuple[str, ...] = ()
    """Fields of `options_type` that a command line gives as one text."""
    list_separator: str = os.pathsep
    """What separates the items of such a text."""
    tools: ToolTable | None = None
    """The names of its tools."""
    errors: ErrorTable = ErrorTable()
    """What it says when it fails."""
    refused: Mapping[Mode, tuple[str, ...]] = {}
    """Options that it honours, but not in these modes."""
    stop: tuple[StopStep, ...] = POLITE_STOP
    """How its process is ended."""
    state_paths: tuple[str, ...] = ()
    """Folders, relative to the user's home, that the CLI must be able to write in a sandbox. The
    agent can then write there too, so: no folder whose content the CLI obeys or runs."""
    confines_itself: bool = False
    """Whether it honours the option `sandbox` by its own means."""
    worktree_hooks: str = "it runs no hook that a file there could name"
    """Why a worktree cannot contain a guard, if it cannot."""
    hints: SessionHints = SessionHints()
    session_by_print: bool = True
    """Whether a session can have a process for each turn."""
    stability: Literal["stable", "experimental"] = "stable"
    tells_version: bool = True
    """Whether the CLI answers `--version`."""
    spawns_found: bool = False
    """Whether a spawn command names the program that `find` found, not the command on PATH."""

    def home_in(self, env: Mapping[str, str]) -> str:
        """The product's home under `env`."""
        return env.get(self.home_variable) or os.path.join(home_dir(env), self.home)

    def login_in(self, env: Mapping[str, str]) -> Login:
        """Whether a login or key exists under `env`, without reading any."""
        home, where = self.home_in(env), self.credentials
        if any(env.get(name) for name in where.variables):
            return "present"
        if any(_exists(home, name) for name in where.files):
            return "present"
        if any(_size(home, name) > len("{}\n") for name in where.filled):
            return "present"
        if any(_exists(home, name) for name in where.doubtful):
            return "unknown"
        if any(_contains(home, name, words) for name, words in where.words.items()):
            return "unknown"
        if where.suffix and any(env[name] for name in env if name.endswith(where.suffix)):
            return "unknown"
        return where.otherwise


def _exists(folder: str, name: str) -> bool:
    # Normalized, because `folder` itself may be missing where a name begins with `..`.
    return os.path.exists(os.path.normpath(os.path.join(folder, name)))


def _contains(folder: str, name: str, words: tuple[str, ...]) -> bool:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            text = file.read()
    except OSError:
        return False
    return any(word.encode() in text for word in words)


def _size(folder: str, name: str) -> int:
    try:
        return os.stat(os.path.join(folder, name)).st_size
    except OSError:
        return 0
