"""A daemon of another version of the same code, for the tests of upgrades.

`python -m tests.sessions.other_daemon PROTOCOL VERSION ROOT` runs one. Protocol 0 is that of the
daemons from before there was a `hello`: they refuse it, and their status names no version.
"""

import sys
from typing import Any

from bridle import _version
from bridle.sessions import daemon, protocol


class _BeforeHello(daemon.Daemon):
    def serve(self, client: Any, line: bytes) -> None:
        """Carry out a request, unless it is `hello`."""
        super().serve(client, line.replace(b'"op":"hello"', b'"op":"unheard"'))

    def _status(self) -> dict[str, Any]:
        told = super()._status()
        return {key: told[key] for key in ("running", "pid", "socket", "sessions")}


def main(argv: list[str]) -> int:
    """Run the daemon."""
    number, version, *rest = argv
    protocol.PROTOCOL = int(number)
    _version.__version__ = version
    if protocol.PROTOCOL == 0:
        daemon.Daemon = _BeforeHello  # type: ignore[misc]
    return daemon.main(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
