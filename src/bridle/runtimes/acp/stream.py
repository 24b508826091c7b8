"""One prompt through one agent: open a session, prompt, close.

initialize -> session/new, load or fork -> mode, model -> session/prompt -> session/close
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bridle.core.errors import AgentError
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import protocol
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.acp.session import AcpMachine
from bridle.runtimes.retries import RetryReader
from bridle.turns.recorder import Recorder

if TYPE_CHECKING:
    from bridle.runtimes.history import Spent


class AcpNormalizer(AcpMachine):
    """The `Normalizer` of one prompt.

    Contract: made before the process of a resumed session starts. `initialize` is the process's
    first input. `history` reads what the session used so far, if only the agent's files say so,
    before the start of a resumed session and after the end. `log` reads the agent's standard error,
    if failed calls are logged there.
    """

    def __init__(
        self,
        recorder: Recorder,
        quirks: AcpQuirks,
        plan: SessionPlan,
        *,
        history: "Callable[[str], Spent | None] | None" = None,
        log: RetryReader | None = None,
    ) -> None:
        super().__init__(recorder, quirks, plan)
        self._log = log
        self._failed_call: AgentError | None = None
        self._failed_in: AgentError | None = None
        """The error of the inactivity timer that ran when that call failed."""
        self._history = history
        # The total of a copy does not include what it takes from its source.
        taken_up = plan.resume if not plan.fork else None
        self._before = history(taken_up) if history and taken_up else None
        self._prompted = False
        self._judged = False
        self._client.request("initialize", protocol.initialize_params())
        self._await_first()

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of standard error: some agents report only there, and only when they exit,
        that a model call failed and which pause the service asked for."""
        retry = self._log.feed(line) if self._log is not None else None
        if retry is not None:
            self._failed_call = retry.error
            self._failed_in = self._turns.silence

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone."""
        recorder = self._recorder
        if self._failed_call is not None and recorder.error is self._failed_in:
            # Until now only the silence was known; this is its reason.
            recorder.error = self._failed_call
        if not self._judged:
            self._explain_exit(exit)
            self._turns.close()
        if recorder.turn_open:
            self._count_from_files()
            if self._judged:
                recorder.turn_ended()
        recorder.finish(exit)

    # -- the only turn --------------------------------------------------------------------------

    def _session_ready(self) -> None:
        self._prompted = True
        self._call("session/prompt", {**self._opening.params, "prompt": self._plan.prompt})
        self._recorder.turn_started(evidence="session/prompt")
        self._turns.goes_on()

    def _updated(self, update: protocol.Update, line: bytes) -> None:
        self._turns.cost(update)
        if not self._judged:
            self._turns.take(update, line)

    def _asked(self, call: protocol.Call, line: bytes) -> None:
        self._turns.asked(call)

    def _answered(self, answer: protocol.Answer) -> None:
        self._turns.judge(answer)
        self._end_turn()

    def _end_turn(self) -> None:
        self._judged = True
        self._turns.close()
        if self._history is None:
            self._recorder.turn_ended()
        self._close_session()

    def _give_up(self, error: AgentError) -> None:
        """The run cannot succeed any more."""
        self._recorder.fail(error)
        if self._prompted and not self._judged:
            self._end_turn()
        else:
            self._leave()

    def _count_from_files(self) -> None:
        """Record what only the agent's own files say."""
        session_id = self._opening.session_id
        if self._history is None or not session_id:
            return
        spent = self._history(session_id)
        if spent is None:
            return
        recorder = self._recorder
        before = self._before
        recorder.set_usage(spent.usage - before.usage if before else spent.usage)
        recorder.model = spent.model or recorder.model
        if spent.cost_usd:
            recorder.set_cost(spent.cost_usd - (before.cost_usd if before else 0.0), "provider")
