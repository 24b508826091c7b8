"""The JSON lines on Aider's wire: its own log of events."""

import msgspec


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


_decoder = msgspec.json.Decoder(LogEvent)


def log_event(line: bytes) -> LogEvent | None:
    """The event that a line is, None when it is something else."""
    if not line.startswith(b'{"event": "'):
        return None
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
