"""What the configuration says about sessions, in the shapes that sessions use."""

from typing import TYPE_CHECKING

from bridle.core.events import Drive
from bridle.sessions.clocks import Clocks

if TYPE_CHECKING:
    from bridle.config import Config


def configured_clocks(config: "Config") -> Clocks:
    """The clocks of section `sessions`; what is 0 there is switched off."""
    section = config.sessions
    return Clocks(
        startup=section.startup or None,
        first_progress=section.first_progress or None,
        inactivity=section.inactivity or None,
        tool_inactivity=section.tool_inactivity or None,
        turn=section.turn or None,
        permission=section.permission,
        abort=section.abort,
        leave=section.leave,
    )


def configured_drive(config: "Config", runtime: str) -> Drive | None:
    """The drive that `runtime.adapters.<name>.mode` or `delivery` asks for; None when both leave
    that open.

    `delivery: stdin` leaves it open: messages reach an agent that way in more than one drive.
    """
    return config.drive(runtime)
