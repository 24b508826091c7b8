"""Which process and which wire a session has, by its drive."""

from bridle.core.errors import UnsupportedOption
from bridle.core.events import Drive
from bridle.drives.detached import DetachedProcess
from bridle.drives.live import LiveFacts, LiveWire
from bridle.drives.recorder import Recorder
from bridle.runtimes.base import AgentRuntime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.drives.tmux.pane_process import PaneProcess

    SessionProcess = DetachedProcess | PaneProcess
    """What holds a session's agent."""


def process_of(
    drive: Drive, folder: str, runtime: AgentRuntime, facts: LiveFacts
) -> "SessionProcess":
    """The process in `folder`, started or not."""
    if drive == "rpc":
        return DetachedProcess(folder)
    if drive == "tmux":
        from bridle.drives.tmux.pane_process import PaneProcess

        return PaneProcess(
            folder,
            runtime.terminal_facts(),
            runtime.detect_ready,
            lambda pid: runtime.transcript_path(facts, pid),
            verify=runtime.requires_beacon_verification(),
            reports=facts.reports,
        )
    raise UnsupportedOption(runtime.id, f"drive {drive}", [], reason="not in a session")


def wire_of(drive: Drive, runtime: AgentRuntime, facts: LiveFacts, recorder: Recorder) -> LiveWire:
    """The wire of a session's process."""
    if drive == "tmux":
        from bridle.drives.tmux.pane_wire import PaneWire

        return PaneWire(runtime.tmux_wire(facts, recorder), recorder)
    return runtime.live_wire(facts, recorder)
