"""The clocks of a session: how long each step may take before it is called hung."""

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; None switches a clock off."""

    startup: Seconds | None = 180.0
    """From the start of the process until it is ready for a prompt."""
    first_progress: Seconds | None = 300.0
    """From a prompt until the agent says anything."""
    inactivity: Seconds | None = 600.0
    """Silence within a turn."""
    tool_inactivity: Seconds | None = 3600.0
    """Silence within a turn while a tool runs."""
    turn: Seconds | None = None
    """A whole turn."""
    permission: Seconds = 300.0
    """Until a permission request that nobody answers is refused."""
    abort: Seconds = 30.0
    """From an abort until the agent's process is ended because its turn goes on."""
    leave: Seconds = 10.0
    """From a polite goodbye until the agent's process is ended because it stays."""

    def with_turn(self, seconds: float | None) -> "Clocks":
        """These clocks with at most `seconds` for a turn; None adds no limit."""
        if seconds is None or (self.turn is not None and self.turn <= seconds):
            return self
        return msgspec.structs.replace(self, turn=seconds)
