"""`bridle daemon`: the process that drives sessions. It is started on demand and ends when idle."""

import argparse
import os
import sys

from bridle.cli.output import write_json
from bridle.cli.parsing import Verbs


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of `bridle daemon`."""
    verbs = Verbs(parser)
    for name, text in (
        ("status", "show whether the daemon runs"),
        ("start", "start the daemon if it does not run"),
        ("stop", "end the daemon; agents and their sessions keep running"),
    ):
        verbs.add(name, text, f"bridle daemon {name}")


def execute(args: argparse.Namespace) -> int:
    """Show, start or end the daemon of this folder's project, else the user's."""
    from bridle.core.errors import Unavailable
    from bridle.sessions.client import DaemonClient, daemon_status
    from bridle.sessions.home import homes
    from bridle.sessions.verbs import Shutdown, Status

    home = homes(os.getcwd(), os.environ)[0]
    if args.verb == "start":
        with DaemonClient(home) as client:
            client.call(Status())
    elif args.verb == "stop":
        try:
            with DaemonClient(home, start=False) as client:
                client.call(Shutdown())
                client.wait_gone()
        except Unavailable:
            pass
    status = daemon_status(home)
    if args.json:
        write_json(status)
    elif status["running"]:
        which = f"version {status['version'] or 'unknown'}, protocol {status['protocol']}"
        held = f"{status['sessions']} session{'' if status['sessions'] == 1 else 's'}"
        sys.stdout.write(f"running, pid {status['pid']}, {which}, {held}\n")
    else:
        sys.stdout.write("not running\n")
    return 0
