"""What hooks told about the turn that runs, kept until the transcript had its chance to tell it.

The transcript is the first witness: it tells everything, in order and in full. Hooks serve where it
is silent. No clock is read here, so that a session can be played again: whoever holds the pane says
when it is time to act (`FollowingWire.due`), and the end of a turn is such a time too.
"""

from typing import Any

from bridle.drives.tmux.reports import Report
from bridle.turns.recorder import Recorder

_COMMANDS = ("/", "!", "#")
"""How texts begin that an interface takes for itself: no turn follows."""


class HookEvidence:
    """The reports about one turn, and what of them is still unheard of.

    Contract: `add` changes nothing that anybody sees. The others act on the recorder, each report
    at most once.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._prompts: list[Report] = []
        self._starts: dict[str, Report] = {}
        self._ends: dict[str, Report] = {}
        self._stop: Report | None = None
        self._asked: Report | None = None
        self._args: dict[str, Any] = {}

    def add(self, report: Report) -> None:
        """A hook told something."""
        if report.kind == "prompt" and not report.text.startswith(_COMMANDS):
            self._prompts.append(report)
        elif report.kind == "tool_start" and report.tool_call_id:
            self._starts.setdefault(report.tool_call_id, report)
            self._args[report.tool_call_id] = report.args
        elif report.kind == "tool_end" and report.tool_call_id:
            self._ends.setdefault(report.tool_call_id, report)
        elif report.kind == "turn_end":
            self._stop = report
        elif report.kind == "permission":
            self._asked = report

    @property
    def stopped(self) -> bool:
        """Whether a hook told the end of the turn."""
        return self._stop is not None

    def take_prompts(self) -> list[Report]:
        """The prompts that hooks told of."""
        taken, self._prompts = self._prompts, []
        return taken

    def take_question(self) -> Report | None:
        """What a hook told of the permission that is being asked for."""
        taken, self._asked = self._asked, None
        return taken

    def args_of(self, tool_call_id: str) -> Any:
        """The arguments of a call of this turn, as far as a hook told them."""
        return self._args.get(tool_call_id)

    def begin_tools(self) -> None:
        """Tell the starts of tools which the transcript has not told."""
        recorder = self._recorder
        if not recorder.turn_open:
            return
        starts, self._starts = self._starts, {}
        for call_id, report in starts.items():
            if not recorder.tools.knows(call_id):
                recorder.tool_started(call_id, report.tool_name, report.args)

    def end_turn(self) -> None:
        """Tell, right before the end of its turn, what the transcript has lost of it."""
        self.begin_tools()
        recorder = self._recorder
        self._starts.clear()
        ends, self._ends = self._ends, {}
        stop, self._stop = self._stop, None
        self._asked = None
        self._args.clear()
        if not recorder.turn_open:
            return
        for call_id, report in ends.items():
            if call_id in recorder.tools.open:
                recorder.tool_ended(call_id, is_error=report.is_error, result=report.result)
        if stop is None or recorder.error is not None:
            return
        if _bare(stop.text) not in _bare(recorder.words.turn_text):
            recorder.message_started(synthetic=True)
            recorder.text_delta(stop.text, synthetic=True)
            recorder.message_ended(synthetic=True)


def _bare(text: str) -> str:
    return "".join(text.split())
