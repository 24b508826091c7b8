"""A conversation in a private tmux server, for the tests of the terminal drive."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bridle.core.events import AgentEnd
from bridle.core.options import RunOptions
from bridle.core.redact import Redactor, secrets_in
from bridle.drives.live import Outgoing
from bridle.drives.print_drive import remove_folders
from bridle.drives.processes import marked_processes
from bridle.drives.recorder import Recorder
from bridle.drives.tmux.conversation import TerminalConversation
from bridle.drives.tmux.server import TmuxServer
from bridle.drives.tmux.terminal import Terminal
from bridle.running import new_session_id
from bridle.runtimes.base import AgentRuntime
from tests.support.live import last_end

DEADLINE = 60.0
"""Seconds for each wait; far more than any needs, so only a hang meets it."""


@contextmanager
def in_terminal(
    runtime: AgentRuntime, options: RunOptions, env: Mapping[str, str]
) -> Iterator[TerminalConversation]:
    """A conversation in a pane that is ready for its first prompt. At the end nothing is left."""
    plan = runtime.plan_tmux(options, env, new_session_id())
    facts = plan.live
    assert facts is not None
    folder = tempfile.mkdtemp(prefix="bridle-tmux-")
    server = TmuxServer(os.path.join(folder, "s"))
    recorder = Recorder(
        runtime=runtime.id,
        session_id=plan.session_id,
        options=options,
        cwd=plan.spec.cwd,
        runtime_version=plan.installation.version or "",
        redactor=Redactor([*secrets_in(plan.spec.env), *plan.secrets]),
        drive="tmux",
    )
    terminal = Terminal(
        server,
        plan.session_id,
        runtime.terminal_facts(),
        runtime.detect_ready,
        verify=runtime.requires_beacon_verification(),
    )
    talk = TerminalConversation(
        terminal,
        runtime.tmux_wire(facts, recorder),
        recorder,
        lambda pid: runtime.transcript_path(facts, pid),
    )
    try:
        server.start()
        talk.start(plan.spec)
        talk.wait_ready(DEADLINE)
        yield talk
    finally:
        talk.close()
        server.kill()
        remove_folders(plan.private_dirs)
        shutil.rmtree(folder, ignore_errors=True)
    assert marked_processes(plan.session_id) == [], "a process was left"


def say(talk: TerminalConversation, text: str) -> AgentEnd:
    """Prompt, wait until the turn is over, and return its end."""
    message = Outgoing(id=new_session_id(), text=text)
    turn = talk.recorder.turn
    talk.prompt(message)
    talk.wait(lambda: talk.recorder.turn > turn and talk.recorder.is_ready, DEADLINE)
    assert talk.deliveries[message.id].taken
    return last_end(talk.events)
