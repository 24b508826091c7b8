"""What each known version of the Copilot CLI accepts and prints: data, with its proof."""

from bridle.runtimes.dialects import Dialect


class CopilotDialect(Dialect, frozen=True, kw_only=True):
    """One line of Copilot. What it does not know is fatal to it (exit 1 or 2)."""

    prompt_on_stdin: bool
    """Whether a prompt is read from a pipe when no `-p` is given."""
    chosen_session_id: bool
    """Whether `--session-id` names a new conversation."""
    usage_file: bool
    """Whether `--usage-output-file` writes the tokens, which no line of the wire tells."""
    own_retries: int
    """How often it makes a failed model call again by itself; no option of its own changes it."""
    ready_marks: tuple[str, ...]
    """Texts that all stand on the terminal when it waits for a prompt."""
    hook_folder: str
    """Where hooks of a project stand; they run only in a trusted folder (`--trust-folder`)."""


DIALECTS = (
    CopilotDialect(
        name="copilot-1.0",
        since=(0, 0),
        seen=("1.0.102",),
        capture="headless-write.jsonl",
        prompt_on_stdin=True,
        chosen_session_id=True,
        usage_file=True,
        own_retries=5,
        ready_marks=("❯", "/ commands"),
        hook_folder=".github/hooks",
    ),
)
"""Traps of this line: exit 0 after a refused tool and after SIGTERM; the npm launcher dies of a
signal and leaves the native program running; a newer version that was downloaded before runs in
place of the installed one unless updates are off."""
