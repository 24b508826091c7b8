"""The `LiveWire` of a session with one process for each turn: a new normalizer for each."""

from collections.abc import Callable

import msgspec

from bridle.core.errors import (
    Aborted,
    AgentError,
    Crashed,
    ErrorInfo,
    ProtocolDrift,
    ResumeRefused,
    error_from_info,
)
from bridle.drives.print_session.records import ERR, OUT, Mark, Order, Planned, mark_in, order_line
from bridle.drives.print_session.turn_recorder import AT_REST, Overstayed, TurnRecorder
from bridle.process.spec import ProcessExit
from bridle.turns.player import finish_wire
from bridle.turns.usage_totals import Before
from bridle.turns.wire import Normalizer, Outgoing, Patience, Question, StderrReader

MakeNormalizer = Callable[[Planned, TurnRecorder], Normalizer]
"""Makes the normalizer of a planned process."""

_LEAVING = 30.0
"""Seconds for a process to exit after its turn."""


class TurnWire:
    """One conversation with one process for each turn.

    `resume` is the conversation to resume; `resumes` says whether the agent can resume at all.
    """

    def __init__(
        self,
        recorder: TurnRecorder,
        make: MakeNormalizer,
        *,
        resume: str | None,
        resumes: bool,
    ) -> None:
        self._recorder = recorder
        self._make = make
        self._resumes = resumes
        self._normalizer: Normalizer | None = None
        self._message: Outgoing | None = None
        self._model: str | None = None
        self._number = 0
        self._watches = False
        self._proved = resume is not None
        self._turns = 0
        self.unsettled = False
        """Whether a turn has ended whose totals are not recorded yet (`settled`)."""
        self.settled_number = 0
        """The last process whose files are no longer needed."""
        if resume is not None:
            recorder.native_session_id = resume

    # -- the driver -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Ready at once: there is no process to wait for."""
        self._recorder.ready(AT_REST)

    @property
    def is_spent(self) -> bool:
        """Whether the only turn of an agent that cannot resume is over."""
        return bool(self._turns) and not self._resumes

    def prompt(self, message: Outgoing) -> None:
        """Order a process for the message."""
        recorder = self._recorder
        if self.is_spent:
            error = ResumeRefused(
                f"{recorder.runtime} cannot resume a conversation in another process",
                hint="this session can have only one turn: start a new session for the next",
            )
            recorder.message_refused(message.id, error)
            return
        self._turns += 1
        self._message = message
        recorder.turn_started(evidence="a process is started for the prompt")
        self._order(message)

    def _order(self, message: Outgoing, *, fresh: bool = False) -> None:
        order = Order(
            do="turn",
            id=message.id,
            text=message.text,
            images=message.images,
            model=self._model,
            fresh=fresh,
        )
        self._recorder.replies.append(order_line(order))

    def steer(self, message: Outgoing) -> None:
        """Never called: `Begin.can_steer` is not set in this drive."""
        self._recorder.message_refused(message.id, Crashed("a print session cannot be steered"))

    def abort(self) -> None:
        """End the process; the next prompt starts another."""
        recorder = self._recorder
        recorder.request_stop(recorder.error or Overstayed("aborted"))

    def leave(self) -> None:
        """End the session; at once if no process runs."""
        if not self._recorder.has_process:
            self._recorder.input_done = True

    def set_model(self, model: str) -> None:
        """Use `model` for the next process."""
        self._model = model

    # -- the journal ----------------------------------------------------------------------------

    def feed(self, line: bytes) -> None:
        """Take a line of the journal."""
        mark = mark_in(line)
        if mark is not None:
            self._take(mark)
        elif self._normalizer is not None:
            normalizer = self._normalizer
            if line.startswith(OUT):
                normalizer.feed(line[len(OUT) :])
            elif self._watches and isinstance(normalizer, StderrReader):
                normalizer.feed_stderr(line[len(ERR) :])
            self._translate()

    def _take(self, mark: Mark) -> None:
        recorder = self._recorder
        if mark.what == "planned" and mark.plan is not None:
            self._number = mark.number
            recorder.process_began(mark.plan.resume, mark.plan.model)
            recorder.may_begin_anew = mark.plan.resume is not None and not self._proved
            self._watches = mark.plan.watch_stderr
            self._normalizer = self._made(mark.plan)
        elif mark.what == "started" and self._message is not None:
            recorder.message_taken(self._message.id)
        elif mark.what == "unstarted":
            self._not_started(mark)
        elif mark.what == "ended":
            self._ended(ProcessExit(code=mark.code, stderr_tail=mark.stderr))

    def _made(self, plan: Planned) -> Normalizer | None:
        try:
            return self._make(plan, self._recorder)
        except Exception as problem:
            self._recorder.fail(ProtocolDrift(f"the adapter failed at the start: {problem!r}"))
            return None

    def _not_started(self, mark: Mark) -> None:
        recorder, self._normalizer = self._recorder, None
        self._number = mark.number
        if not recorder.turn_open:
            self.settled_number = mark.number
            return
        if mark.failure is not None:
            recorder.fail(_could_not_start(mark.failure))
        recorder.fail(Aborted("the process was no longer wanted"))
        error = recorder.error
        recorder.may_begin_anew = mark.resumed and not self._proved
        recorder.turn_ended()
        if not self._begins_anew() and self._message is not None and error is not None:
            recorder.message_refused(self._message.id, error)
        self._rest(f"no process was started; {AT_REST}")

    def _ended(self, exit: ProcessExit) -> None:
        recorder = self._recorder
        exit = recorder.with_last_words(exit)
        self._finish_process(exit)
        if recorder.has_process:
            recorder.finish(exit)
        if not self._begins_anew():
            self._proved = self._proved or recorder.completed
            self._rest(f"process {exit.words}; {AT_REST}")

    def _finish_process(self, exit: ProcessExit) -> None:
        normalizer, self._normalizer = self._normalizer, None
        if normalizer is not None:
            finish_wire(normalizer, self._recorder, exit)

    def _begins_anew(self) -> bool:
        """Order another process if the conversation could not be resumed but none of its turns was
        ever completed: the agent had stored nothing, so nothing is lost."""
        recorder = self._recorder
        if not recorder.turn_open or self._message is None:
            return False
        recorder.process_ended("")
        recorder.native_session_id = None
        self.settled_number = self._number
        self._order(self._message, fresh=True)
        return True

    def _rest(self, evidence: str) -> None:
        if self._recorder.turn_open:
            return
        self._message = None
        self._recorder.process_ended(evidence)
        self.unsettled = True
        if self._recorder.leaving is not None:
            self._recorder.input_done = True

    def _translate(self) -> None:
        """Turn what the normalizer asks for into orders: it knows only its own process."""
        recorder = self._recorder
        recorder.replies[:] = [self._saying(data) for data in recorder.replies]
        recorder.questions[:] = [self._wrapped(question) for question in recorder.questions]
        if recorder.input_done:
            recorder.input_done = False
            recorder.replies.append(order_line(Order(do="close", number=self._number)))
        patience = recorder.patience
        if patience is None and not recorder.turn_open:
            patience = Patience(_LEAVING, None)
        if patience is not None and patience.error is None:
            late = Overstayed(f"the agent did not exit within {patience.seconds:g} s of its end")
            recorder.expect(patience.seconds, late)

    def _saying(self, data: bytes) -> bytes:
        return order_line(Order(do="say", number=self._number, data=data))

    def _wrapped(self, question: Question) -> Question:
        number, answer = self._number, question.answer

        def say(allowed: bool, reason: str) -> bytes:
            return order_line(Order(do="say", number=number, data=answer(allowed, reason)))

        return msgspec.structs.replace(question, answer=say)

    def settled(self, total: Before, native_session_id: str | None, model: str | None) -> None:
        """Use the recorded totals of the last turn; they override what this replay computed."""
        self.unsettled = False
        self.settled_number = self._number
        self._recorder.settle(total, native_session_id, model)

    def finish(self, exit: ProcessExit) -> None:
        """The keeper has ended, and the process with it."""
        self._recorder.may_begin_anew = False
        self._finish_process(ProcessExit(code=None))
        if self._recorder.has_process:
            self._recorder.finish(ProcessExit(code=None))
        self._recorder.finish(exit)


def _could_not_start(info: ErrorInfo) -> AgentError:
    error = error_from_info(info)
    if isinstance(error, AgentError):
        return error
    return Crashed(f"no process could be started: {info.message}", hint=info.hint)
