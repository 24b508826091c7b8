"""Errors between Bridle and a terminal, typed by what is lost.

Unavailable
├── ServerGone       the private tmux server is gone, and every pane with it
└── ConnectionLost   the server may run; the last command may or may not have had an effect
Crashed
└── PaneGone         this agent's pane does not exist, or its process has ended
TimedOut
└── NotReady         the pane did not show a prompt in time
Unavailable
└── NotDelivered     the text did not reach the agent's input line, or was not submitted
"""

from bridle.core.errors import Crashed, TimedOut, Unavailable


class ServerGone(Unavailable):
    """The private tmux server does not run: it was killed or never started."""

    default_hint = "its agents ended with it; resume the session to start it again"


class ConnectionLost(Unavailable):
    """The connection broke during a command that must not be repeated."""

    default_hint = "look at the pane before you repeat the command"


class PaneGone(Crashed):
    """The pane does not exist, or the agent in it has ended."""

    default_hint = "resume the session to start the agent again"


class NotReady(TimedOut):
    """The pane did not show a prompt in time, or shows a dialog that Bridle must not answer."""

    default_hint = "attach to the session and look at what it shows"


class NotDelivered(Unavailable):
    """The pane did not take a text. The message says how far it got."""

    default_hint = "attach to the session and look at its input line"
