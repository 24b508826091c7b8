"""Keeps a session while no agent is there: a shell that waits, in the environment of the session.

The keys in that environment stand nowhere on disk and travel to no daemon; whoever drives the
session looks at the keeper's environment when it plans the next process.
"""

import os
import time

from bridle.process.detached import DetachedProcess
from bridle.process.run_files import RunFiles, read_number
from bridle.process.spec import ProcessSpec

_KEEPER = """
d=$1
word=
umask 077
trap : HUP INT TERM QUIT
exec 3<>"${d}bell"
echo $$ >"${d}pump"
echo $$ >"${d}holder.new"
mv "${d}holder.new" "${d}holder"
until test "$word" = end; do read -r word <&3; done
echo 0 >"${d}exit.new"
mv "${d}exit.new" "${d}exit"
"""

_APPEARS = 2.0
"""Seconds for it to tell its number."""


class Keeper(DetachedProcess):
    """The keeper of one session, in the folder of its run.

    Contract: as `DetachedProcess`, whose holder it is; `close_input` ends it.
    """

    def start(self, spec: ProcessSpec, *, fed: bool = False) -> None:
        """Start the keeper in the environment of `spec`; no agent."""
        self.make()
        os.mkfifo(self.path("bell"), 0o600)
        os.symlink(os.devnull, self.path("stdin"))
        self._start_shell(_KEEPER, "bridle-keeper", spec)
        until = time.monotonic() + _APPEARS
        while read_number(self.path("holder")) is None and time.monotonic() < until:
            # Only then can its environment be looked at.
            time.sleep(0.002)

    def write(self, data: bytes) -> None:
        """Give orders."""
        RunFiles.write(self, data)
