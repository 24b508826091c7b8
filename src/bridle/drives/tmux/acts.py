"""What a decision about a pane can be; carried out by `terminal`."""

import msgspec

from bridle.core.errors import AgentError


class Wait(msgspec.Struct, frozen=True):
    """Look again at this time (monotonic)."""

    until: float


class Press(msgspec.Struct, frozen=True):
    """Press these keys, by tmux's names, then look again."""

    keys: tuple[str, ...]


class Paste(msgspec.Struct, frozen=True):
    """Paste this text, then look again."""

    text: str


class Done(msgspec.Struct, frozen=True):
    """It is reached; `evidence` says by what."""

    evidence: str


class Failed(msgspec.Struct, frozen=True):
    """It cannot be reached."""

    error: AgentError


Act = Wait | Press | Paste | Done | Failed
