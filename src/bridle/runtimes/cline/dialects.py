"""What each known version of the Cline CLI accepts and prints: data, with its proof."""

from bridle.runtimes.dialects import Dialect


class ClineDialect(Dialect, frozen=True, kw_only=True):
    """One line of Cline."""

    local_backend: tuple[str, str]
    """Variable and value that keep the work in the process that was started. Without it a daemon
    is started that outlives every run and does the work in the environment of the first."""
    bare_prompt: str
    """The prompt argument that lets the real prompt come by stdin alone. One without any white
    space is refused as an unknown command, none at all as a missing prompt."""
    ready_marks: tuple[str, ...]
    """Texts of which one stands at the prompt of an idle terminal."""


DIALECTS = (
    ClineDialect(
        name="cline-3",
        since=(0, 0),
        seen=("3.0.65",),
        capture="headless-write.jsonl",
        local_backend=("CLINE_SESSION_BACKEND_MODE", "local"),
        bare_prompt=" ",
        ready_marks=("❯ What can I do for you?", "❯ Ask anything..."),
    ),
)
"""Traps of this line: exit 0 after an aborted run, a refused tool and SIGTERM; `--id` does not
resume a headless run; each run writes its provider and model into the user's settings."""
