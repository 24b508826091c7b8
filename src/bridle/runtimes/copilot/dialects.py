"""What each known version of the Copilot CLI accepts and prints: data, with its proof."""

from bridle.runtimes.dialects import Dialect


class CopilotDialect(Dialect, frozen=True, kw_only=True):
    """One line of Copilot. What it does not know is fatal to it (exit 1 or 2)."""

    usage_file: bool
    """Whether `--usage-output-file` writes the tokens, which no line of the wire tells."""
    ready_marks: tuple[str, ...]
    """Texts that all stand on the terminal when it waits for a prompt."""


DIALECTS = (
    CopilotDialect(
        name="copilot-1.0",
        since=(0, 0),
        seen=("1.0.102",),
        capture="headless-write.jsonl",
        usage_file=True,
        ready_marks=("❯", "/ commands"),
    ),
)
"""Traps of this line: exit 0 after a refused tool and after SIGTERM; the npm launcher dies of a
signal and leaves the native program running; a newer version that was downloaded before runs in
place of the installed one unless updates are off."""
