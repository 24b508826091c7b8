"""What each known version of Aider accepts and prints: data, with the capture that proves a row."""

from bridle.runtimes.dialects import Dialect


class AiderDialect(Dialect, frozen=True, kw_only=True):
    """The facts about a version range of Aider that the adapter needs."""

    flags: tuple[str, ...]
    """Switches of every run."""
    log_flags: tuple[str, ...]
    """Flags that take a file which Aider appends its log to. Given the standard output, they turn
    it into a wire: requests and replies framed line by line, events as JSON."""
    edit_formats: tuple[str, ...]


DIALECTS = (
    AiderDialect(
        name="aider-0.86",
        since=(0, 86),
        seen=("0.86.2",),
        capture="wire-edit.txt",
        flags=(
            # Streaming would log Aider's own estimate in place of the service's token counts.
            "--no-stream",
            "--no-pretty",
            "--no-fancy-input",
            "--no-check-update",
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--no-gitignore",
            # For this run alone. Without it, `--yes-always` may agree to analytics for good.
            "--no-analytics",
            # A URL in the prompt would be fetched, and pasted into the prompt.
            "--no-detect-urls",
            # At the end of stdin a suggested command counts as agreed to.
            "--no-suggest-shell-commands",
            "--no-notifications",
        ),
        log_flags=("--analytics-log", "--llm-history-file"),
        edit_formats=(
            *("whole", "diff", "diff-fenced", "udiff", "patch", "architect", "ask"),
            *("editor-diff", "editor-whole", "editor-diff-fenced"),
        ),
    ),
)

ALIASES = ("opus", "sonnet", "haiku")
"""Short names that Aider itself knows; all three are models of Anthropic's."""

KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "groq": "GROQ_API_KEY",
    "xai": "XAI_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "cohere": "COHERE_API_KEY",
}
"""Providers (the first part of a model's name) and the variable each one's key is read from."""

APIS = ("openai", "anthropic")
"""Wire protocols that a provider of the caller's own may speak."""

# -- lines of the wire -----------------------------------------------------------------------------

ANNOUNCED_MODEL = ("Main model: ", "Model: ")
REQUEST = "TO LLM "
REPLY = "LLM RESPONSE "
REPLY_LINE = "ASSISTANT "
RETRYING = "Retrying in "
APPLIED = "Applied edit to "
COMMITTED = "Commit "
SKIPPED = "Skipping edits to "
MALFORMED = "The LLM did not conform to the edit format."
TOKEN_LIMIT = " has hit a token limit!"
TOO_LARGE = "Your estimated chat context of "
RESTORED = "Restored previous conversation history."
ASKED = "(Y)es/(N)o"

CHATTER = (
    *("Aider v", "Weak model: ", "Editor model: ", "Git repo: ", "Repo-map: ", "Added "),
    *("Update git name with: ", "Update git email with: ", "Detected dumb terminal", "Executing: "),
    *("Cur working dir: ", "Git working dir: ", "Note: in-chat filenames ", "Tokens: "),
    *("https://aider.chat/", "HTTPSConnectionPool(host='raw.githubusercontent.com'"),
    *("Initial repo scan can be slow", SKIPPED),
)
"""Beginnings of lines that say nothing about the work."""
