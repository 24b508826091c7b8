"""`bridle session attach`: a live view of a session, with input.

A line that is typed goes to the agent: as a prompt when it waits for one, else into the running
turn. Leaving (Ctrl-D, `/detach`) does not disturb the session. Where the agent's own screen is
available, that is shown instead.
"""

import sys
import threading

from bridle.cli.output import end_with_reader, one_line, safe, say_error
from bridle.cli.run_view import HumanView
from bridle.core.errors import BridleError
from bridle.core.events import AgentEnd, Event, PermissionRequest, SessionEnd
from bridle.sessions import verbs
from bridle.sessions.home import StateHome
from bridle.sessions.lock import SessionOver
from bridle.sessions.manager import SessionManager
from bridle.sessions.store import SessionRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.process.spec import ProcessSpec

_HELP = "/abort ends the turn, /stop the session, /allow and /deny answer, /detach leaves"


class _Attached:
    """What one attached person sees, and the last request they were asked."""

    def __init__(self, record: SessionRecord) -> None:
        self.record = record
        self.question: str | None = None
        self.over = threading.Event()
        self._view = HumanView()

    def follow(self, after: int) -> None:
        """Show every event after number `after`, until the agent is gone."""
        try:
            with SessionManager(self.record.workdir) as manager:
                for event in manager.events(self.record.session_id, after=after, follow=True):
                    self._show(event)
        except BridleError as problem:
            say_error(problem)
        except BrokenPipeError:
            # The reader is gone, which ends the view.
            return
        self.over.set()

    def seen(self, manager: SessionManager) -> int:
        """The number of the last event of an earlier turn: only the current one is shown."""
        last = 0
        for event in manager.events(self.record.session_id):
            if isinstance(event, AgentEnd):
                last = event.seq
        return last

    def _show(self, event: Event) -> None:
        self._view.event(event)
        if isinstance(event, PermissionRequest):
            self.question = event.request_id
            sys.stderr.write(f"the agent asks to use {safe(event.tool_name)}: /allow or /deny\n")
        elif isinstance(event, AgentEnd):
            status = event.status if event.error is None else event.error.message
            sys.stderr.write(f"-- turn {event.turn}: {one_line(status)}\n")
        elif isinstance(event, SessionEnd):
            sys.stderr.write(f"-- {one_line(event.reason)}\n")
        sys.stderr.flush()


def attach(manager: SessionManager, record: SessionRecord) -> int:
    """Watch `record`'s session and pass on what is typed; returns the exit status."""
    attached = _Attached(record)
    end_with_reader()
    sys.stderr.write(f"attached to {record.name or record.session_id}, {record.state}; {_HELP}\n")
    # Before a line is read: the turn that it starts may be over before the watcher runs.
    watcher = threading.Thread(target=attached.follow, args=(attached.seen(manager),), daemon=True)
    watcher.start()
    try:
        while not attached.over.is_set():
            line = sys.stdin.readline()
            if not line:
                # Nothing more will be typed. Without a terminal the view continues.
                if not sys.stdin.isatty():
                    watcher.join()
                break
            if not _typed(manager, attached, line.strip()):
                break
    except KeyboardInterrupt:
        sys.stderr.write("\ndetached; the session continues\n")
    return 0


def attach_terminal(home: StateHome, record: SessionRecord) -> int:
    """Show the agent's own screen at this terminal, until the person detaches (Ctrl-B D)."""
    import os
    import subprocess

    from bridle.core.errors import WrongUse
    from bridle.drives.tmux.server import attach_argv, read_place

    if record.is_over:
        raise SessionOver(record)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUse("attach shows the agent's own screen and needs a terminal")
    place = read_place(home.run_folder(record.session_id, record.run))
    if place is None:
        raise SessionOver(record)
    # It would refuse inside another tmux; this one has its own server.
    env = {name: value for name, value in os.environ.items() if name != "TMUX"}
    return subprocess.run(attach_argv(place), env=env, check=False).returncode


def shared_terminal(home: StateHome, record: SessionRecord) -> "ProcessSpec | None":
    """The agent's own screen, if it can join the session and this is a terminal."""
    import os

    from bridle.sessions.engine import find_runtime
    from bridle.sessions.start import remote_terminal

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    # Variables that mark an agent's processes must not mark the person's.
    env = {name: value for name, value in os.environ.items() if not name.startswith("BRIDLE_")}
    return remote_terminal(home, record, find_runtime(record.runtime, record.workdir), env)


def show_terminal(spec: "ProcessSpec") -> int:
    """Run the agent's own screen at this terminal, until the person leaves it."""
    import signal
    import subprocess

    from bridle.process.launch import default_signals

    # The screen handles its own keys: Ctrl-C is for it, not for Bridle. A child inherits ignored
    # signals, but not handlers.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        status = subprocess.run(
            spec.argv, env=spec.env, cwd=spec.cwd, preexec_fn=default_signals(), check=False
        ).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    sys.stderr.write("detached; the session continues unless it was stopped\n")
    return status if status >= 0 else 128 - status


def _typed(manager: SessionManager, attached: _Attached, line: str) -> bool:
    """Do what was typed; False if the person wants to leave."""
    name = attached.record.session_id
    try:
        if line == "/detach":
            return False
        if line == "/abort":
            manager.call(verbs.Abort(session=name, reason="aborted at the terminal"))
        elif line == "/stop":
            manager.stop(name, "stopped at the terminal")
        elif line in ("/allow", "/deny"):
            if attached.question is not None:
                question, attached.question = attached.question, None
                allowed = line == "/allow"
                manager.call(
                    verbs.Permit(session=name, request_id=question, allowed=allowed, by="person")
                )
        elif line == "/help":
            sys.stderr.write(f"{_HELP}\n")
        elif line:
            working = manager.show(name).state != "ready"
            manager.send(name, line, kind="steer" if working else "prompt", timeout=5.0)
    except BridleError as problem:
        say_error(problem)
    return True
