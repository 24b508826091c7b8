"""What each line of Codex accepts and prints, as data; the adapter holds no version of its own."""

from bridle.runtimes.dialects import Dialect, choose_dialect
from bridle.runtimes.product import ToolTable


class CodexDialect(Dialect, frozen=True, kw_only=True):
    """One line of Codex. A flag or feature that a line does not know is fatal to it (exit 1 or
    2), so each is named here and nowhere else."""

    disabled_features: tuple[str, ...]
    """Features that are switched off in every run: endless retries, marketplace downloads."""
    sandbox_probe: tuple[str, ...]
    """Arguments that run `true` in the CLI's own sandbox; exit 0 shows that it works here."""
    usage_records: bool
    """Whether transcripts hold a `token_usage_record` for each model call."""
    daemon: bool
    """Whether the terminal interface starts a shared daemon unless `--no-daemon` is given."""
    inline_instructions: bool
    """Whether `-c instructions=` replaces the base prompt; a file does so in every line."""
    mcp_approval: bool
    """Whether a server's entry can approve the calls of its tools in advance. Where it cannot,
    only tools that declare themselves read-only run, unless the sandbox is off."""
    tells_message_ids: bool
    """Whether the app-server gives back our own id with a message that the model reads."""
    late_command_ends: bool
    """Whether the app-server may tell the end of a quick command after that of its turn."""
    shares_socket: bool
    """Whether the app-server can listen on a Unix socket, and the terminal interface join it."""
    exec_fork: bool
    """Whether `codex exec` can go on in a copy of a thread; the app-server of every line can."""
    hooks: bool
    """Whether hooks can hold a tool call back."""
    unjudged_features: tuple[str, ...] = ()
    """Features that a guarded run goes without, because no hook sees what is done with them: text
    typed into a running terminal."""
    path_dir: str
    """Folder beside the binary with helper programs (`rg`), which its npm launcher puts
    on PATH; empty where the binary finds them by itself."""
    log_filter: str = ""
    """What to add to its log so that failed model calls show; empty where its own pauses between
    tries are short, since it does not heed what the service asks for."""
    model_migrations: tuple[tuple[str, str], ...] = ()
    """Models for which the terminal interface offers a successor in a dialog at its start, where
    Enter changes the model; named in advance, the dialog does not come."""


DIALECTS = (
    CodexDialect(
        name="codex-0.120",
        since=(0, 0),
        seen=("0.120.0",),
        capture="0.120.0/exec/success_shell.jsonl",
        disabled_features=("plugins",),
        sandbox_probe=("sandbox", "linux", "--", "true"),
        usage_records=False,
        daemon=False,
        inline_instructions=False,
        mcp_approval=False,
        tells_message_ids=False,
        late_command_ends=True,
        shares_socket=False,
        exec_fork=False,
        hooks=False,
        path_dir="path",
        model_migrations=(("gpt-5.3-codex", "gpt-5.4"),),
    ),
    CodexDialect(
        name="codex-0.166",
        since=(0, 130),
        seen=("0.166.0",),
        capture="0.166.0/exec/success_shell.jsonl",
        disabled_features=("unbounded_connection_retries", "plugins"),
        sandbox_probe=("sandbox", "--", "true"),
        usage_records=True,
        daemon=True,
        inline_instructions=True,
        mcp_approval=True,
        tells_message_ids=True,
        late_command_ends=False,
        shares_socket=True,
        exec_fork=True,
        hooks=True,
        unjudged_features=("unified_exec_tty",),
        path_dir="",
        log_filter="codex_otel.trace_safe=trace",
        model_migrations=(
            ("gpt-5.5", "gpt-6-sol"),
            ("gpt-5.6-luna", "gpt-6-luna"),
            ("gpt-5.6-sol", "gpt-6-sol"),
            ("gpt-5.6-terra", "gpt-6-sol"),
        ),
    ),
)

SHELLS = ("exec_command", "write_stdin", "shell_command", "shell", "local_shell")
SEARCHES = ("web_search",)
TOOLS = ToolTable(
    # It reads, searches and lists files with its shell, and `apply_patch` has no switch.
    neutral={
        "shell": SHELLS,
        "read_file": None,
        "write_file": None,
        "edit_file": None,
        "search": None,
        "web": SEARCHES,
        "subagent": None,
    },
    fixed=("apply_patch", "spawn_agent", "update_plan", "view_image"),
)


def codex_dialect(version: str | None) -> tuple[CodexDialect, bool, str]:
    """The dialect of `version`, whether that version was ever run, and a warning if not."""
    return choose_dialect("codex", DIALECTS, version)
