"""What is particular to each agent, as data: the quirks that the protocol leaves open.

One row an agent and version range, each with the version it was seen on and a capture that proves
it. The client, the translation and the runs know no agent by name; they read these fields.
"""

from typing import Any, Literal

import msgspec

from bridle.runtimes.dialects import Dialect

UsageMeaning = Literal["prompt", "session", "none"]
"""What an agent's token counts cover: `prompt`: the prompt that ended; `session`: everything since
the process started, which is the same for one prompt a process; `none`: nothing that could be added
up (only the last of several model calls, or counts with cached tokens inside)."""

NameSource = Literal["kind", "title", "title_prefix", "id_prefix"]


class AcpAgent(Dialect, frozen=True, kw_only=True):
    """One agent that speaks the protocol, and how it departs from what the protocol suggests."""

    command: str
    """Name of its command."""
    flags: tuple[str, ...] = ()
    """What makes it speak the protocol."""
    live_flags: tuple[str, ...] = ()
    """Words for a conversation alone, before the caller's own."""
    package: str = ""
    """npm package around the command, for its version; names that start like it count too."""
    native: str = ""
    """The native program behind an npm launcher, below `node_modules`; `{platform}` is npm's."""
    instruction_file: str = "AGENTS.md"
    install: str = ""
    routing: str = ""
    """Key of the ways to a model service in `routing.ROUTES`; empty: none is known."""
    options: frozenset[str] = frozenset()
    """Options it honours beside those of every agent."""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables it is always started with."""
    keys: tuple[str, ...] = ()
    """Variables that hold a key or token of its own."""
    logins: tuple[str, ...] = ()
    """Files of a login, below the home."""
    family: str = ""
    """The runtime of the same product, which reads its transcripts and writes its instructions."""
    home_variable: str | None = None
    """Variable that moves its configuration home."""
    home_folders: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables that move parts of it, and where these are below the account's folder."""
    model_variable: str | None = None
    model_flags: tuple[str, ...] = ()
    """Words that choose the model, `{}` standing for it; without these and a variable the model is
    chosen by the protocol."""
    mode: str | None = None
    """Mode to set before the prompt, since its default one cannot work."""
    mode_flags: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Words that start it in a mode, where setting the mode by the protocol has side effects."""
    sandbox_modes: dict[str, str] = msgspec.field(default_factory=dict)
    """Modes that stand for `sandbox`."""
    system_prompt_meta: bool = False
    """Takes a system prompt in `_meta.systemPrompt` of `session/new`."""
    usage: UsageMeaning = "none"
    cached_in_input: bool = False
    """Whether its input tokens include cache reads and writes."""
    history: bool = False
    """Whether what a run used is told by the agent's own files, which its `family` reads."""
    unrecorded: tuple[str, ...] = ()
    """How prompts begin that may be commands of its own: those ask no model, which their answer
    tells, and these files do not hold them."""
    reports_model: bool = True
    """Whether it tells which model answered."""
    limit_end: bool = False
    """Whether the error of a used-up limit tells when the limit ends."""
    largest_input: int | None = None
    """Characters beyond which it ends a turn as too long; None where it cuts what tools print."""
    exact_thinking: bool = True
    """Whether thoughts keep their white space."""
    thought_prefix: str = ""
    """What it puts before a thought that has no heading."""
    reports_cost: bool = False
    """Whether `usage_update` tells what this process cost so far."""
    cost_restarts: bool = False
    """Whether that begins at nothing also for a session that was loaded."""
    own_turns: bool = False
    """Whether it starts turns of its own between prompts, each ended by a `usage_update` with what
    it cost."""
    names: NameSource = "kind"
    """Where the name of a tool stands: the protocol has none."""
    title_is_command: bool = False
    """Whether the title of a call of the kind `execute` is the command itself, which is told in no
    other way; a text beside it begins with the folder."""
    late_input: bool = False
    """A pending tool call has only part of its arguments; all of them come when it runs."""
    resume_check: str = ""
    """Key of the check in `resuming.CHECKS` that must pass before it loads a session."""
    replay_end: str = ""
    """The kind of update that ends the replay of a loaded session, where the replay goes on after
    the answer to `session/load`."""
    forks: bool = False
    """Whether it was seen to copy a session (`session/fork`); an agent that nobody has looked at is
    asked when it is to, and believed."""
    compact_command: str = ""
    """What it is prompted with to shorten its context; empty where no such word was run."""
    compact_failure: str = ""
    """How its words begin when that failed, though the prompt ends like a good one."""
    notices: tuple[str, ...] = ()
    """Patterns of texts that the agent itself puts into the model's mouth."""
    retry_notices: tuple[str, ...] = ()
    """Patterns of such texts that tell of another try."""
    retry_cause: bool = True
    """Whether another try is told with how the last one failed."""
    failure_log: bool = False
    """Whether failed model calls stand in its standard error, which its `family` reads. It may
    print them only when it ends: they then tell why it was silent."""
    silence: float = 180.0
    """Seconds without progress after which it waits in vain, if the caller says nothing else."""
    error_notices: tuple[str, ...] = ()
    """Patterns of such texts that tell why the turn failed, though it ends like a good one."""
    error_start: str = ""
    """How such a text begins at least; enough when the model wrote nothing in the turn."""
    silent_error: str = ""
    """What a turn that ends with nothing at all most likely was; empty where no case was seen."""
    sandbox_program: str = ""
    """The program that its sandbox is made with; without it every command fails in silence."""
    open_mode: str = ""
    """The mode that needs no sandbox."""
    guard: str = ""
    """Key of the way in `guarding.WAYS` that makes it ask before each tool call; empty: none is
    known, so it is not run guarded."""
    guard_facts: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of that way's `GuardMechanism` that are different over the protocol."""
    leaves_at_eof: bool = True
    """Whether it exits when its stdin is closed."""


_TOOLS = ("allowed_tools", "denied_tools")

PLAIN = AcpAgent(name="acp 1", since=(), seen=(), capture="stub_agent.py", command="")
"""An agent nobody has looked at: the protocol as it is written, and no trust in what it counts."""

COPILOT = AcpAgent(
    name="copilot 1.0",
    since=(1, 0),
    seen=("1.0.102",),
    capture="copilot.jsonl",
    command="copilot",
    flags=("--acp",),
    package="@github/copilot",
    native="@github/copilot-{platform}/copilot",
    install="npm install -g @github/copilot",
    routing="copilot",
    options=frozenset({"provider", "account_dir", "model_server", "images", *_TOOLS}),
    keys=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
    family="copilot",
    instruction_file=".github/copilot-instructions.md",
    home_variable="COPILOT_HOME",
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
    guard="family",
    guard_facts={"names_differ": True},
)

OPENCODE = AcpAgent(
    name="opencode 1",
    since=(1,),
    seen=("1.18.33",),
    capture="opencode.jsonl",
    command="opencode",
    flags=("acp",),
    package="opencode",
    native="opencode-{platform}/bin/opencode",
    install="npm install -g opencode-ai",
    routing="opencode",
    options=frozenset({"provider", "account_dir", "model_server", "images", *_TOOLS}),
    logins=(".local/share/opencode/auth.json",),
    home_folders={
        "XDG_CONFIG_HOME": "config",
        "XDG_DATA_HOME": "data",
        "XDG_STATE_HOME": "state",
        "XDG_CACHE_HOME": "cache",
        "OPENCODE_TEST_HOME": "home",
    },
    family="opencode",
    usage="none",
    history=True,
    reports_cost=True,
    names="title",
    late_input=True,
    forks=True,
    compact_command="/compact",
    guard="family",
)

GEMINI = AcpAgent(
    name="gemini 0.61",
    since=(0, 61),
    seen=("0.61.0",),
    capture="gemini-nofs.jsonl",
    command="gemini",
    flags=("--acp", "--skip-trust"),
    package="@google/gemini-cli",
    instruction_file="GEMINI.md",
    install="npm install -g @google/gemini-cli",
    routing="gemini",
    options=frozenset({"account_dir", "model_server", "images", "denied_tools"}),
    # It starts itself again as a child, and a signal to the parent is then ignored.
    env={"GEMINI_CLI_NO_RELAUNCH": "true"},
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
    logins=(".gemini/oauth_creds.json",),
    home_variable="GEMINI_CLI_HOME",
    family="gemini",
    model_flags=("-m", "{}"),
    usage="none",
    history=True,
    unrecorded=("/", "$"),
    # A window of 2**20 tokens, four characters each; what a tool printed is given to it whole.
    largest_input=4_000_000,
    exact_thinking=False,
    thought_prefix="****\n",
    failure_log=True,
    # It streams thoughts too; longer than this is a pause that the service asked for.
    silence=90.0,
    names="id_prefix",
    resume_check="gemini",
    replay_end="available_commands_update",
    title_is_command=True,
    guard="asks-gemini",
)

CLINE = AcpAgent(
    name="cline 3",
    since=(3,),
    seen=("3.0.65",),
    capture="cline.jsonl",
    command="cline",
    flags=("--acp",),
    package="@cline/cli",
    native="@cline/cli-{platform}/bin/cline",
    install="npm install -g cline",
    routing="cline",
    options=frozenset({"account_dir", "model_server", "images", "denied_tools"}),
    # Otherwise a daemon that outlives everything executes the session, in its own environment.
    env={"CLINE_SESSION_BACKEND_MODE": "local"},
    family="cline",
    keys=("CLINE_API_KEY",),
    logins=(".cline/data/settings/providers.json",),
    home_variable="CLINE_DIR",
    home_folders={
        "CLINE_DATA_DIR": "data",
        "CLINE_SESSION_DATA_DIR": "data/sessions",
        "CLINE_PROVIDER_SETTINGS_PATH": "data/settings/providers.json",
    },
    usage="none",
    history=True,
    names="title_prefix",
    silent_error="not_authenticated",
    guard="plugin",
)

CLAUDE = AcpAgent(
    name="claude-agent-acp 0.49",
    since=(0, 49),
    seen=("0.49.0",),
    capture="claude-agent-acp.jsonl",
    command="claude-agent-acp",
    package="@agentclientprotocol/claude-agent-acp",
    instruction_file=".claude/CLAUDE.md",
    install="npm install -g @agentclientprotocol/claude-agent-acp",
    routing="claude",
    options=frozenset(
        {
            "provider",
            "account_dir",
            "model_server",
            "images",
            "denied_tools",
            "system_prompt",
            "append_system_prompt",
            "append_system_prompt_file",
        }
    ),
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    logins=(".claude/.credentials.json",),
    family="claude",
    home_variable="CLAUDE_CONFIG_DIR",
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
    guard="pieces",
)

CODEX = AcpAgent(
    name="codex-acp 0.16",
    since=(0, 16),
    seen=("0.16.0",),
    capture="codex-acp-auto-write.jsonl",
    command="codex-acp",
    # Else a command goes on when its turn is aborted, and no call of the protocol ends it.
    live_flags=("-c", "features.unified_exec=false"),
    package="@zed-industries/codex-acp",
    native="@zed-industries/codex-acp-{platform}/bin/codex-acp",
    install="npm install -g @zed-industries/codex-acp",
    routing="codex",
    options=frozenset({"provider", "account_dir", "model_server", "images", "denied_tools"}),
    keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
    logins=(".codex/auth.json",),
    family="codex",
    home_variable="CODEX_HOME",
    model_flags=("-c", 'model="{}"'),
    mode="auto",
    # Set by the protocol, a mode that can write is also noted in the user's file as trust.
    mode_flags={
        "read-only": ("-c", 'approval_policy="on-request"', "-c", 'sandbox_mode="read-only"'),
        "auto": ("-c", 'approval_policy="on-request"', "-c", 'sandbox_mode="workspace-write"'),
        "full-access": ("-c", 'approval_policy="never"', "-c", 'sandbox_mode="danger-full-access"'),
    },
    sandbox_modes={"read-only": "read-only", "worktree": "auto", "off": "full-access"},
    usage="none",
    history=True,
    limit_end=True,
    names="kind",
    notices=(r"Model metadata for `[^`]*` not found",),
    sandbox_program="bwrap",
    open_mode="full-access",
    guard="pieces",
    guard_facts={"matching": "id"},
    leaves_at_eof=False,
)
