"""How each agent departs from what the protocol suggests, as data.

One row for each agent and version range, with the versions it was seen on and a capture that proves
it. The session and the translation know no agent by name; they read these fields. What holds for a
product in every drive (command, package, key variables, folders) is in the product's own folder.
"""

from typing import Literal

import msgspec

from bridle.core.features import Features
from bridle.runtimes.dialects import Dialect

UsageMeaning = Literal["prompt", "session", "none"]
"""What an agent's token counts cover. `prompt`: the prompt that ended. `session`: everything since
the process started. `none`: nothing that can be added up (only the last of several model calls, or
counts that include cached tokens)."""

NameSource = Literal["kind", "title", "title_prefix", "id_prefix"]


class AcpQuirks(Dialect, frozen=True, kw_only=True):
    """What the protocol leaves open, for one agent."""

    # -- starting -------------------------------------------------------------------------------
    flags: tuple[str, ...] = ()
    """Arguments that make the command speak the protocol."""
    live_flags: tuple[str, ...] = ()
    """Arguments for conversations only, before the caller's own."""
    program_variable: str = ""
    """Variable that names the program a bridge starts. Set where the bridge passes no arguments on
    to its product: a script of the process adds them."""
    features_variable: str = ""
    """Variable with settings of each session, as JSON. What arguments say of the table `features`
    is repeated there: the bridge sets features too, and its table replaces that of arguments."""
    provider_variable: str = ""
    """Variable with the provider of the model, if arguments name one; without it, the bridge leads
    a loaded session to the vendor's own service."""
    program: str = ""
    """What the bridge starts otherwise, as a path below `node_modules`."""
    options: frozenset[str] = frozenset()
    """Options it honours over the protocol, in addition to `PROTOCOL_OPTIONS`."""
    model_variable: str | None = None
    model_flags: tuple[str, ...] = ()
    """Arguments that choose the model; `{}` is its name. Without these and without a variable the
    model is chosen by the protocol."""
    mode: str | None = None
    """Mode to set before the prompt, because the default one cannot work."""
    mode_flags: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Arguments that start it in a mode, where setting the mode by the protocol has side effects.
    """
    mode_variable: str = ""
    """Variable that starts it in a mode, for the same reason."""
    sandbox_modes: dict[str, str] = msgspec.field(default_factory=dict)
    """Modes that implement the option `sandbox`."""
    sandbox_lost: str = ""
    """Why its sandbox around a worktree does not hold; a run that names it is refused."""
    sandbox_program: str = ""
    """Program that its sandbox needs; without it every command fails and the turn still succeeds.
    """
    open_mode: str = ""
    """The mode without a sandbox."""
    system_prompt_meta: bool = False
    """Takes a system prompt in `_meta.systemPrompt` of `session/new`."""

    # -- sessions -------------------------------------------------------------------------------
    replay_end: str = ""
    """Kind of update that ends the replay of a loaded session, where the replay continues after the
    answer to `session/load`."""
    forks: bool = False
    """Whether it can copy a session (`session/fork`). An agent without a row is asked."""
    compact_command: str = ""
    """Prompt that makes it shorten its context; empty where no such command is known."""
    compact_failure: str = ""
    """How its text begins when that failed, although the prompt ends normally."""
    own_turns: bool = False
    """Whether it starts turns between prompts; a `usage_update` with a cost ends each."""
    leaves_at_eof: bool = True
    """Whether it exits when its stdin is closed."""
    silence: float = 180.0
    """Seconds without progress after which a run is stopped, unless the caller sets a limit."""

    # -- usage ----------------------------------------------------------------------------------
    usage: UsageMeaning = "none"
    cached_in_input: bool = False
    """Whether its input tokens include cache reads and writes."""
    history: bool = False
    """Whether only the agent's own files say what a prompt used; the product reads them."""
    unrecorded: tuple[str, ...] = ()
    """How prompts begin that may be commands of the agent. Commands ask no model, which their
    answer shows, and are not in these files."""
    reports_model: bool = True
    """Whether it reports which model answered."""
    reports_cost: bool = False
    """Whether `usage_update` reports the cost of this process so far."""
    cost_restarts: bool = False
    """Whether that cost starts at zero for a loaded session too."""
    limit_end: bool = False
    """Whether the error of an exhausted limit says when the limit ends."""
    largest_input: int | None = None
    """Characters beyond which it ends a turn as too long; None where it cuts tool output."""

    # -- text -----------------------------------------------------------------------------------
    exact_thinking: bool = True
    """Whether thoughts keep their white space."""
    thought_prefix: str = ""
    """What it puts before a thought that has no heading."""
    notices: tuple[str, ...] = ()
    """Patterns of texts that come from the agent although they look like the model's."""
    retry_notices: tuple[str, ...] = ()
    """Patterns of such texts that announce a retry."""
    retry_cause: bool = True
    """Whether a retry is announced with the reason of the failure."""
    error_notices: tuple[str, ...] = ()
    """Patterns of such texts that say why the turn failed, although it ends normally."""
    error_start: str = ""
    """How such a text begins at least; sufficient when no model was used in the turn."""
    failure_mark: tuple[str, ...] = ()
    """Keys in `_meta` of `session_info_update` and the value there: after it, a text without a
    message id says why the turn failed."""
    silent_error: str = ""
    """The likely cause of a turn that ends without any output (`protocol.error_of_silence`)."""
    failure_log: bool = False
    """Whether failed model calls are on its standard error, which the product reads. It may print
    them only when it exits; they then explain its silence."""

    # -- tool calls -----------------------------------------------------------------------------
    names: NameSource = "kind"
    """Where the name of a tool is: the protocol has no field for it."""
    title_is_command: bool = False
    """Whether the title of an `execute` call is the command, which is in no other field; the text
    of the request begins with the folder."""
    late_input: bool = False
    """Whether a pending tool call has only part of its arguments, and a running one all."""


PROTOCOL_OPTIONS = frozenset({"model", "mcp_config", "provider_options", "resume"})
"""Options that the protocol itself carries."""


def features_over_acp(quirks: AcpQuirks, instruction_file: str) -> Features:
    """What an agent with these quirks can do over the protocol, in runs and in sessions."""
    return Features(
        options=PROTOCOL_OPTIONS | quirks.options,
        streaming=True,
        thinking=True,
        exact_thinking=quirks.exact_thinking,
        message_usage=False,
        reports_cost=quirks.reports_cost,
        reports_model=quirks.reports_model,
        retries=bool(quirks.retry_notices),
        retry_cause=quirks.retry_cause,
        limit_end=quirks.limit_end,
        largest_input=quirks.largest_input,
        resume=True,
        fork=quirks.forks,
        follow_up=True,
        abort=True,
        compaction=bool(quirks.compact_command),
        compact=bool(quirks.compact_command),
        drives=("print", "rpc"),
        # An agent with sandbox modes asks only about what would leave its sandbox.
        asks=() if quirks.sandbox_modes else ("print", "rpc"),
        instruction_file=instruction_file,
    )


_ROUTED = frozenset({"provider", "account_dir", "model_server", "images"})
_TOOLS = frozenset({"allowed_tools", "denied_tools"})
_ADDED = frozenset({"append_system_prompt", "append_system_prompt_file"})

PLAIN = AcpQuirks(name="acp 1", since=(), seen=(), capture="stub_agent.py")
"""An agent without a row: the plain protocol, and no trust in its counts."""

COPILOT = AcpQuirks(
    name="copilot 1.0",
    since=(1, 0, 11),
    seen=("1.0.102",),
    capture="copilot.jsonl",
    flags=("--acp",),
    options=_ROUTED | _TOOLS | _ADDED,
    model_variable="COPILOT_MODEL",
    reports_model=False,
    usage="session",
    cached_in_input=True,
    names="kind",
    notices=(r"Info: ",),
    retry_notices=(r"Info: .*\. Retrying\.\.\.$",),
    retry_cause=False,
    error_notices=(
        r"Error: Authentication failed with provider",
        r"Error: Failed to get response from the AI model",
        r"Error: Could not connect to",
        r"Error: Request exceeds the model's prompt budget",
        r"Error: .*\(HTTP \d{3}\)",
    ),
    error_start="Error: ",
)

OPENCODE = AcpQuirks(
    name="opencode 1",
    since=(1, 2, 11),
    seen=("1.18.33",),
    capture="opencode.jsonl",
    flags=("acp",),
    options=_ROUTED | _TOOLS | _ADDED | {"system_prompt", "settings"},
    usage="none",
    history=True,
    reports_cost=True,
    names="title",
    late_input=True,
    forks=True,
    compact_command="/compact",
)

GEMINI = AcpQuirks(
    name="gemini 0.61",
    since=(0, 40),
    seen=("0.61.0",),
    capture="gemini-nofs.jsonl",
    flags=("--acp", "--skip-trust"),
    options=_ROUTED | _TOOLS | _ADDED | {"system_prompt", "settings"},
    model_flags=("-m", "{}"),
    usage="none",
    history=True,
    unrecorded=("/", "$"),
    # A window of 2**20 tokens of four characters; tool output reaches the model uncut.
    largest_input=4_000_000,
    exact_thinking=False,
    thought_prefix="****\n",
    failure_log=True,
    # It streams thoughts too; a longer silence is a pause that the service asked for.
    silence=90.0,
    names="id_prefix",
    replay_end="available_commands_update",
    title_is_command=True,
)

CLINE = AcpQuirks(
    name="cline 3",
    since=(3, 0, 64),
    seen=("3.0.65",),
    capture="cline.jsonl",
    flags=("--acp",),
    options=_ROUTED | _ADDED | {"denied_tools", "settings"},
    usage="none",
    history=True,
    names="title_prefix",
    silent_error="not_authenticated",
)

CLINE_3_0_57 = msgspec.structs.replace(
    CLINE,
    name="cline 3.0.57",
    since=(3,),
    seen=("3.0.57",),
    # It reads no rules from a folder that a variable names.
    options=CLINE.options - _ADDED,
)

CLAUDE = AcpQuirks(
    name="claude-agent-acp 0.49",
    since=(0, 19, 1),
    seen=("0.49.0", "0.99.1"),
    capture="claude-agent-acp.jsonl",
    options=_ROUTED | _ADDED | {"denied_tools", "system_prompt"},
    model_variable="ANTHROPIC_MODEL",
    system_prompt_meta=True,
    reports_model=False,
    usage="prompt",
    reports_cost=True,
    cost_restarts=True,
    own_turns=True,
    forks=True,
    compact_command="/compact",
    compact_failure="Compacting failed",
    names="title",
)

CODEX_FLAGS = AcpQuirks(
    name="codex-acp 0.16",
    since=(0, 4),
    seen=("0.16.0",),
    capture="codex-acp-auto-write.jsonl",
    # Otherwise a command outlives its aborted turn, and no call of the protocol ends it.
    live_flags=("-c", "features.unified_exec=false"),
    options=_ROUTED | {"denied_tools"},
    model_flags=("-c", 'model="{}"'),
    mode="auto",
    # Set by the protocol, a mode that can write is also saved as trust in the user's file.
    mode_flags={
        "read-only": ("-c", 'approval_policy="on-request"', "-c", 'sandbox_mode="read-only"'),
        "auto": ("-c", 'approval_policy="on-request"', "-c", 'sandbox_mode="workspace-write"'),
        "full-access": ("-c", 'approval_policy="never"', "-c", 'sandbox_mode="danger-full-access"'),
    },
    sandbox_modes={"read-only": "read-only", "worktree": "auto", "off": "full-access"},
    sandbox_program="bwrap",
    open_mode="full-access",
    usage="none",
    history=True,
    limit_end=True,
    names="kind",
    notices=(r"Model metadata for `[^`]*` not found",),
    leaves_at_eof=False,
)

CODEX_SCRIPT = AcpQuirks(
    name="codex-acp 1",
    since=(1,),
    seen=("1.0.0",),
    capture="codex-acp-1.jsonl",
    program_variable="CODEX_PATH",
    program="@openai/codex/bin/codex.js",
    features_variable="CODEX_CONFIG",
    provider_variable="MODEL_PROVIDER",
    # Otherwise a service that cannot be reached is tried for ever, and plugins are downloaded.
    flags=(
        *("-c", "features.unbounded_connection_retries=false"),
        *("-c", "features.plugins=false"),
    ),
    live_flags=CODEX_FLAGS.live_flags,
    options=CODEX_FLAGS.options,
    model_flags=CODEX_FLAGS.model_flags,
    mode="agent",
    mode_variable="INITIAL_AGENT_MODE",
    sandbox_modes={"read-only": "read-only", "worktree": "agent", "off": "agent-full-access"},
    open_mode="agent-full-access",
    usage="none",
    history=True,
    limit_end=True,
    failure_mark=("codex", "threadStatus", "type", "systemError"),
    names="kind",
    notices=(*CODEX_FLAGS.notices, r"Reconnecting\.\.\. \d+/\d+"),
)

CODEX_REVIEWED = msgspec.structs.replace(
    CODEX_SCRIPT,
    name="codex-acp 1.7",
    since=(1, 7),
    seen=("1.12.0",),
    capture="codex-acp-1.7.jsonl",
    sandbox_lost="another model, not Bridle, lets commands leave its sandbox",
)

CODEX = msgspec.structs.replace(
    CODEX_REVIEWED,
    name="codex-acp 2",
    since=(2,),
    seen=("2.0.0", "2.6.0"),
    capture="codex-acp-2.jsonl",
    # The mode `agent` has the other model still, and this one asks the client.
    mode="workspace-write",
    sandbox_modes={**CODEX_SCRIPT.sandbox_modes, "worktree": "workspace-write"},
    sandbox_lost="",
)
