"""What each known version of Gemini CLI accepts and prints: data, with a capture for each row."""

from bridle.runtimes.dialects import Dialect


class GeminiDialect(Dialect, frozen=True, kw_only=True):
    """The facts about a version range of Gemini CLI that the adapter needs."""

    stream_flags: tuple[str, ...]
    trust_flag: str
    """Lets it work in a folder nobody trusted, without running what the folder brings along.
    Without it, it exits 55 there."""
    trust_variable: str
    """Trusts the folder whole: its hooks and settings take effect."""
    approval_modes: tuple[str, ...]
    ask_mode: str
    """Mode in which tools that need permission are not offered to the model at all, since nobody
    is there to be asked."""
    bypass_mode: str
    default_model: str
    """Named where neither the caller nor the user's settings name one: without a name each prompt
    costs an extra call that chooses a model."""
    prompt_limit: int
    """Bytes of standard input that are read; the rest is cut off with a warning."""
    exits: tuple[tuple[int, str], ...]
    """Exit statuses of a run that never began, and the kind of error each stands for."""


DIALECTS = (
    GeminiDialect(
        name="gemini-0.61",
        since=(0, 61),
        seen=("0.61.0",),
        capture="headless-write.jsonl",
        stream_flags=("-o", "stream-json"),
        trust_flag="--skip-trust",
        trust_variable="GEMINI_CLI_TRUST_WORKSPACE",
        approval_modes=("default", "auto_edit", "yolo", "plan"),
        ask_mode="default",
        bypass_mode="yolo",
        default_model="gemini-2.5-pro",
        prompt_limit=8 * 1024 * 1024,
        exits=(
            (41, "not_authenticated"),
            (42, "resume_refused"),
            (53, "budget_exceeded"),
            (130, "aborted"),
        ),
    ),
)

CREDENTIALS = (
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_ACCESS_TOKEN",
)
