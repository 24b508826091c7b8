"""What can go wrong between Bridle and a terminal, typed by what is lost.

Unavailable
├── ServerGone       the private tmux server is gone, and every pane with it
└── ConnectionLost   the server may live; what was asked last may or may not have happened
Crashed
└── PaneGone         this agent's pane is not there (any more), or its process has ended
TimedOut
└── NotReady         the pane never showed a prompt in the time it was given
Unavailable
└── NotDelivered     the text did not reach the agent's input, or did not leave it
"""

from bridle.core.errors import Crashed, TimedOut, Unavailable


class ServerGone(Unavailable):
    """The private tmux server does not run: killed, or never started."""

    default_hint = "the agents in it ended with it; resume the session to start it anew"


class ConnectionLost(Unavailable):
    """The connection broke while an order was under way that must not be given twice."""

    default_hint = "look at the pane before giving the order again"


class PaneGone(Crashed):
    """The pane does not exist, or the agent in it has ended."""

    default_hint = "resume the session to start the agent anew"


class NotReady(TimedOut):
    """The agent's pane did not come to a prompt in time, or asks what no key may answer."""

    default_hint = "attach to the session and look at what it shows"


class NotDelivered(Unavailable):
    """The pane did not take a text. The message says how far it came."""

    default_hint = "attach to the session and look at its input line"
