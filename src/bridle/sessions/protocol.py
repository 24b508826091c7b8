"""What a client and the daemon must agree on before they talk.

The first request of a connection is `hello`, with the client's protocol and version; the daemon
answers with its own. A daemon from before there was a `hello` refuses it, and so says that it
speaks protocol 0.

A daemon that is behind its client is replaced: it lets its sessions go and ends, and the next one
takes them over. Agents are no children of the daemon and messages are in ledgers, so turns that run
go on and end under the new daemon. A daemon that is ahead is left alone and the client refuses.
"""

from typing import Any, Literal

import msgspec

from bridle import _version
from bridle.core.errors import WrongUse

PROTOCOL = 1
"""Raised whenever a request or an answer changes so that the other side would misread it."""

Standing = Literal["same", "behind", "ahead"]


class Peer(msgspec.Struct, frozen=True):
    """One side of a connection."""

    protocol: int = 0
    version: str | None = None

    @property
    def words(self) -> str:
        """Who that is, for people."""
        version = f"version {self.version}" if self.version else "a version before 0.1.0"
        return f"{version}, protocol {self.protocol}"


class DaemonAhead(WrongUse):
    """The daemon is of a newer Bridle than the client."""

    def __init__(self, daemon: Peer, root: str) -> None:
        super().__init__(
            f"the daemon of {root} is of a newer Bridle ({daemon.words}; this is {here().words})",
            hint="use that newer version of Bridle, or end its daemon with `bridle daemon stop`;"
            " agents and sessions go on",
        )


def here() -> Peer:
    """This side."""
    return Peer(PROTOCOL, _version.__version__)


def peer_in(told: Any) -> Peer:
    """The side that said this in its `hello`."""
    try:
        return msgspec.convert(told, Peer)
    except msgspec.ValidationError:
        return Peer()


def standing(daemon: Peer) -> Standing:
    """How a daemon stands to this client. One of the same protocol and a newer version is as good
    as the same: were it replaced, two installed versions would replace each other for ever."""
    own = here()
    if daemon.protocol != own.protocol:
        return "ahead" if daemon.protocol > own.protocol else "behind"
    if daemon.version == own.version:
        return "same"
    return "same" if _numbers(daemon.version) > _numbers(own.version) else "behind"


def _numbers(version: str | None) -> tuple[int, ...]:
    numbers = []
    for part in (version or "").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
