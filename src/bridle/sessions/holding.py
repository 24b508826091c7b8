"""Which process, recorder and wire a session has, by its drive and how it began."""

from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption
from bridle.core.events import Drive
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.process.detached import DetachedProcess
from bridle.runtimes.contract import Adapter
from bridle.runtimes.supporting import as_live, as_terminal
from bridle.sessions.ledger import Begin
from bridle.sessions.store import SessionRecord
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.drives.tmux.pane_process import PaneProcess

    SessionProcess = DetachedProcess | PaneProcess
    """What holds a session's agent."""


def process_of(begin: Begin, folder: str, runtime: Adapter) -> "SessionProcess":
    """The process that `begin` tells of, in `folder`, started or not."""
    drive, facts = begin.drive, begin.facts
    if drive == "rpc":
        return DetachedProcess(folder)
    if drive == "tmux":
        from bridle.drives.tmux.pane_process import PaneProcess

        terminal = as_terminal(runtime)
        return PaneProcess(
            folder,
            terminal.configured_terminal(),
            runtime.detect_ready,
            lambda pid: terminal.transcript_path(facts, pid),
            verify=runtime.requires_beacon_verification(),
            reports=facts.reports,
        )
    if drive == "print":
        from bridle.drives.print_session.turn_process import TurnProcess
        from bridle.sessions.turn_planning import planner

        return TurnProcess(folder, planner(runtime, begin))
    raise UnsupportedOption(runtime.id, f"drive {drive}", [], reason="not in a session")


def recorder_of(record: SessionRecord, begin: Begin, redactor: Redactor) -> Recorder:
    """The recorder of a session's process."""
    settings: dict[str, Any] = {
        "runtime": record.runtime,
        "session_id": record.session_id,
        "options": msgspec.convert({"prompt": "", **begin.options}, RunOptions),
        "cwd": begin.facts.cwd,
        "runtime_version": begin.facts.runtime_version,
        "redactor": redactor,
        "drive": begin.drive,
        "before": begin.before,
    }
    if begin.drive == "print":
        from bridle.drives.print_session.turn_recorder import TurnRecorder

        recorder: Recorder = TurnRecorder(**settings)
    else:
        recorder = Recorder(**settings)
    recorder.words.file_instructions = lambda: begin.file_instructions
    return recorder


def wire_of(drive: Drive, runtime: Adapter, facts: LiveFacts, recorder: Recorder) -> LiveWire:
    """The wire of a session's process."""
    if drive == "tmux":
        from bridle.drives.tmux.pane_wire import PaneWire

        return PaneWire(as_terminal(runtime).tmux_wire(facts, recorder), recorder)
    if drive == "print":
        from bridle.drives.print_session.turn_recorder import TurnRecorder
        from bridle.sessions.turn_planning import turn_wire

        assert isinstance(recorder, TurnRecorder)
        return turn_wire(runtime, facts, recorder)
    return as_live(runtime).live_wire(facts, recorder)
