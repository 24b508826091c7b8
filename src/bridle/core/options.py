"""What a caller can ask of a runtime: one shape for every agent."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from os import PathLike
from typing import Any, Literal, TypedDict, get_args, get_origin, get_type_hints

import msgspec

from bridle.core.errors import WrongUse

PermissionMode = Literal["bypass", "ask"]
SandboxMode = Literal["off", "read-only", "commit", "worktree"]

CAPABILITY = "BRIDLE_CAPABILITY"
"""The variable with an agent's capability, for the agent and the program that starts it."""

PROJECT = "BRIDLE_PROJECT"
"""The variable that tells an agent which project it works for."""
_OF_ONE_AGENT = ("BRIDLE_AGENT_NAME", "BRIDLE_TASK", "BRIDLE_ACTOR")


def without_outer_agent(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without the identity of the agent that started Bridle, if one did: an agent that Bridle
    starts is a different one. The capability stays, because it applies to everything below."""
    if not env.get("BRIDLE_SESSION_ID"):
        return dict(env)
    return {name: value for name, value in env.items() if name not in _OF_ONE_AGENT}


DEFAULT_MARKER = "ORCHESTRA_COMPLETE"
"""The completion marker that other programs already print and wait for; never change it."""


def check_closed(struct: msgspec.Struct) -> None:
    """Raise `WrongUse` when a field whose type is a `Literal` holds another value.

    For `__post_init__`: msgspec checks types when it decodes, not when Python builds a struct.
    """
    for name, allowed in _closed_fields(type(struct)):
        value = getattr(struct, name)
        if value not in allowed:
            known = ", ".join(str(each) for each in allowed if each is not None)
            raise WrongUse(
                f"{type(struct).__name__}.{name} cannot be {value!r}", hint=f"it is one of: {known}"
            )


@lru_cache
def _closed_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The fields with a closed set of values, each with those values."""
    found = []
    for name, hint in get_type_hints(cls).items():
        parts = [hint] if get_origin(hint) is Literal else list(get_args(hint))
        if parts and all(get_origin(each) is Literal or each is type(None) for each in parts):
            values = [None if each is type(None) else get_args(each) for each in parts]
            found.append((name, tuple(v for each in values for v in (each or (None,)))))
    return tuple(found)


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model is served and which variable holds the key to it."""

    base_url: str | None = None
    auth_token_env: str | None = None
    """Name of the environment variable that holds the key; the key itself is never stored."""


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model name after aliases, with the routing that belongs to it.

    Both forms are supported: `env` is passed on unchanged, and each runtime translates `provider`
    into its own variables and flags.
    """

    model: str
    env: dict[str, str] = {}
    provider: Provider | None = None


class ModelServer(msgspec.Struct, frozen=True, kw_only=True):
    """A scripted model on loopback that every runtime can be pointed at, with no user settings.

    A run that has one uses a private, throw-away configuration home, so nothing of the user's is
    read or written and the agent cannot reach any other service by accident.
    """

    url: str
    """Base address without `/v1`."""
    api_key: str


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run can be asked for. A runtime honours a field or refuses it by name."""

    prompt: str
    """The agent's task. Any size: a prompt too long for a command line goes through stdin or a
    file."""
    system_prompt: str | None = None
    """Replaces the agent's base instructions."""
    append_system_prompt: str | None = None
    """Added after the agent's base instructions."""
    append_system_prompt_file: str | None = None
    """A file whose text is added after the base instructions."""
    cwd: str | None = None
    """Working directory; the caller's own when None."""
    env: dict[str, str] = {}
    """Variables added to the agent's environment."""
    model: str | None = None
    """Model name or alias; the agent's default when None."""
    provider: Provider | None = None
    """Where that model is served, when not at the agent's own default."""
    max_turns: int | None = None
    """Most model calls the agent may make before it is stopped."""
    allowed_tools: tuple[str, ...] = ()
    """Only these tools, by neutral names (`shell`, `read_file`, …) or the agent's own; empty means
    the agent's default set."""
    denied_tools: tuple[str, ...] = ()
    """Never these tools."""
    settings: str | None = None
    """The runtime's own settings: a file's path, or JSON text."""
    mcp_config: str | None = None
    """MCP servers of this run: a file's path, or JSON text, in the common `mcpServers` shape."""
    permission_mode: PermissionMode = "ask"
    """`ask`: the person at the terminal answers requests; without one they are refused, with a
    reason. `bypass`: the agent acts within its sandbox and guards."""
    sandbox: SandboxMode | None = None
    """What the operating system lets the agent write, enforced for every runtime: by its own
    sandbox if it has one, else by Bridle. None: the default of the agent's capability
    (`capabilities.SANDBOXES`), or the runtime's own default for an unguarded agent."""
    guard: str | None = None
    """The capability (builder, scout, …) whose rules judge every tool call before it runs.
    None: the one that the agent's environment names (`BRIDLE_CAPABILITY`), else no guard."""
    unguarded: bool = False
    """Run without a guard although a capability is named; the result says so."""
    images: tuple[str, ...] = ()
    """Image files that go with the prompt."""
    provider_options: dict[str, Any] = {}
    """Options that only this runtime knows, by their documented names."""
    raw_args: tuple[str, ...] = ()
    """Arguments passed to the CLI unchanged; the last resort."""
    timeout: float | None = None
    """Seconds until the agent is stopped with `TimedOut`; in a session, for each turn."""
    budget_usd: float | None = None
    """Most the run may cost."""
    output_schema: dict[str, Any] | str | None = None
    """A JSON Schema that the answer must fit: the schema, the path of its file, or its JSON text.
    The value is `RunResult.structured`."""
    marker: str = DEFAULT_MARKER
    """The text by which the agent says that its work is complete."""
    resume: str | None = None
    """Native id of the conversation to continue; verified or refused, never replaced by a new
    one."""
    ignore_unsupported: bool = False
    """Report options the runtime cannot honour in `ignored_options` instead of refusing."""
    include_raw: bool = False
    """Keep the wire message in each event's `raw`."""
    account_dir: str | None = None
    """The agent's configuration home to use instead of the user's default one. Together with
    `model_server` it takes the place of the throw-away home and is kept, so that a conversation
    with a scripted model can be resumed; existing files in it are not overwritten."""
    model_server: ModelServer | None = None
    """A scripted model to run against instead of the real service."""

    def __post_init__(self) -> None:
        check_closed(self)


StrPath = str | PathLike[str]
"""A path as a caller gives it; `RunOptions` holds its text."""


class ResumeOptionsDict(TypedDict, total=False):
    """The keywords of `Session.resume` and `Session.fork`: fields of `RunOptions`.

    The three dictionaries here exist so that type checkers and editors know every keyword. A test
    holds their names and types equal to the fields of `RunOptions`.
    """

    system_prompt: str | None
    append_system_prompt: str | None
    append_system_prompt_file: StrPath | None
    env: dict[str, str]
    model: str | None
    provider: Provider | None
    max_turns: int | None
    allowed_tools: Sequence[str]
    denied_tools: Sequence[str]
    settings: StrPath | None
    mcp_config: StrPath | None
    permission_mode: PermissionMode
    sandbox: SandboxMode | None
    guard: str | None
    unguarded: bool
    images: Sequence[StrPath]
    provider_options: dict[str, Any]
    raw_args: Sequence[str]
    budget_usd: float | None
    output_schema: dict[str, Any] | StrPath | None
    marker: str
    resume: str | None
    ignore_unsupported: bool
    include_raw: bool
    account_dir: StrPath | None
    model_server: ModelServer | None


class SessionOptionsDict(ResumeOptionsDict, total=False):
    """The keywords of `Session.start`, in addition to its own."""

    cwd: StrPath | None


class RunOptionsDict(SessionOptionsDict, total=False):
    """The keywords of `run` and `stream`: all fields of `RunOptions` except the prompt."""

    timeout: float | None


ALWAYS_SUPPORTED = frozenset(
    {
        "prompt",
        "cwd",
        "env",
        "timeout",
        "output_schema",
        "marker",
        "ignore_unsupported",
        "include_raw",
        "raw_args",
        "permission_mode",
        "sandbox",
        "guard",
        "unguarded",
    }
)
"""Options that Bridle itself honours for every runtime, or that each must map."""


def guarded_as(options: RunOptions, env: Mapping[str, str]) -> str | None:
    """The capability that a run in the environment `env` belongs to; None for the user's own."""
    return options.guard or options.env.get(CAPABILITY) or env.get(CAPABILITY) or None


def options_in_use(options: RunOptions) -> list[str]:
    """Names of the optional fields that the caller set, in the order they are declared."""
    defaults = _DEFAULTS
    return [
        name
        for name in RunOptions.__struct_fields__
        if name not in ALWAYS_SUPPORTED and getattr(options, name) != getattr(defaults, name)
    ]


_DEFAULTS = RunOptions(prompt="")


class SpawnOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `build_spawn_command` needs to write the command of an interactive session.

    `cwd` and `env` are set on the terminal session, never written into the command.
    """

    model: str
    permission_mode: PermissionMode = "ask"
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    append_system_prompt_file: str | None = None
    cwd: str = "."
    env: dict[str, str] = {}
    initial_prompt: str | None = None

    def __post_init__(self) -> None:
        check_closed(self)


class QualityGate(msgspec.Struct, frozen=True, kw_only=True):
    """A command that must pass before an agent may report that it is done."""

    name: str
    command: str


class OverlayContent(msgspec.Struct, frozen=True, kw_only=True):
    """The whole text of an agent's instruction file."""

    content: str


class HooksDef(msgspec.Struct, frozen=True, kw_only=True):
    """Who the agent is, for the configuration that is deployed into its worktree."""

    agent_name: str
    capability: str
    worktree_path: str
    quality_gates: tuple[QualityGate, ...] = ()
