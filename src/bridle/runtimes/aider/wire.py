"""The lines on Aider's wire: its log of events as JSON, and the marks of its lines for people."""

import msgspec

from bridle.core import structs

ANNOUNCED_MODEL = ("Main model: ", "Model: ")
REQUEST = "TO LLM "
REPLY = "LLM RESPONSE "
REPLY_LINE = "ASSISTANT "
FAILURE = "litellm."
"""Begins a line that names the error class of a failed model call."""
RETRYING = "Retrying in "
APPLIED = "Applied edit to "
COMMITTED = "Commit "
SKIPPED = "Skipping edits to "
MALFORMED = "The LLM did not conform to the edit format."
TOKEN_LIMIT = " has hit a token limit!"
TOO_LARGE = "Your estimated chat context of "
RESTORED = "Restored previous conversation history."
QUESTION = "(Y)es/(N)o"

CHATTER = (
    *("Aider v", "Weak model: ", "Editor model: ", "Git repo: ", "Repo-map: ", "Added "),
    *("Update git name with: ", "Update git email with: ", "Detected dumb terminal", "Executing: "),
    *("Cur working dir: ", "Git working dir: ", "Note: in-chat filenames ", "Tokens: "),
    *("https://aider.chat/", "HTTPSConnectionPool(host='raw.githubusercontent.com'"),
    *("Initial repo scan can be slow", SKIPPED),
)
"""Beginnings of lines that say nothing about the work."""


class Properties(msgspec.Struct):
    """What an event carries; which of these depends on the event."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    main_model: str = ""
    reason: str = ""
    exception: str = ""


class LogEvent(msgspec.Struct):
    """One line of the log. `user_id` is a random id which the model never sees: a line that has it
    was written by Aider, not by the model."""

    event: str
    user_id: str | None
    properties: Properties = msgspec.field(default_factory=Properties)


_decoder = structs.decoder(LogEvent)


def log_event(line: bytes) -> LogEvent | None:
    """The event in a line; None for any other line."""
    if not line.startswith(b'{"event": "'):
        return None
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
