"""What a client and the daemon agree on: the handshake, and errors as data. `verbs` has the rest.

The first request of a connection is `hello`, with the client's protocol and version; the daemon
answers with its own. A daemon from before `hello` existed refuses it: it speaks protocol 0.

The client replaces a daemon that is older: that one releases its sessions and ends, and the next
one adopts them. Agents are not children of the daemon and messages are in ledgers, so running turns
continue under the new daemon. A newer daemon keeps running, and the client refuses to talk to it.
"""

from typing import Any, Literal

import msgspec

from bridle import _version
from bridle.core import errors, structs
from bridle.core.errors import AgentError, BridleError, WrongUse
from bridle.sessions import home, lock, store

PROTOCOL = 1
"""Increased whenever a request or an answer changes so that the other side would misread it."""

Standing = Literal["same", "behind", "ahead"]


class Peer(msgspec.Struct, frozen=True):
    """One side of a connection."""

    protocol: int = 0
    version: str | None = None

    @property
    def words(self) -> str:
        """Version and protocol, for people."""
        version = f"version {self.version}" if self.version else "a version before 0.1.0"
        return f"{version}, protocol {self.protocol}"


class DaemonAhead(WrongUse):
    """The daemon runs a newer Bridle than the client."""

    def __init__(self, daemon: Peer, root: str) -> None:
        super().__init__(
            f"the daemon of {root} runs a newer Bridle ({daemon.words}; this is {here().words})",
            hint="use that newer version of Bridle, or end its daemon with `bridle daemon stop`;"
            " agents and sessions continue",
        )


def here() -> Peer:
    """This side."""
    return Peer(PROTOCOL, _version.__version__)


def peer_in(answer: Any) -> Peer:
    """The other side, by its answer to `hello`."""
    try:
        return structs.convert(answer, Peer)
    except msgspec.ValidationError:
        return Peer()


def standing(daemon: Peer) -> Standing:
    """How a daemon compares with this client. A newer version with the same protocol counts as the
    same: otherwise two installed versions would replace each other forever."""
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


def error_data(problem: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    if isinstance(problem, BridleError):
        return {
            "type": type(problem).__name__,
            "kind": problem.kind,
            "message": problem.message,
            "hint": problem.hint,
            "exit_code": problem.exit_code,
        }
    return {
        "type": type(problem).__name__,
        "kind": "crashed",
        "message": f"{type(problem).__name__}: {problem}",
        "hint": "",
        "exit_code": 1,
    }


def error_from(data: dict[str, Any]) -> BridleError:
    """The error that `error_data` describes."""
    cls = _ERRORS.get(data.get("type", ""), BridleError)
    problem = cls.__new__(cls)
    BridleError.__init__(problem, data.get("message", ""), hint=data.get("hint", ""))
    if isinstance(problem, AgentError):
        AgentError.__init__(problem, data.get("message", ""), hint=data.get("hint", ""))
    return problem


_ERRORS: dict[str, type[BridleError]] = {
    cls.__name__: cls
    for space in (vars(errors), vars(lock), vars(store), vars(home), globals())
    for cls in list(space.values())
    if isinstance(cls, type) and issubclass(cls, BridleError)
}
