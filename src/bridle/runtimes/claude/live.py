"""A long conversation with one process of Claude Code: messages and its control protocol by pipe.

How the CLI behaves, and what follows:

- It prints nothing until it gets a message. `initialize` is answered once it can take a prompt, and
  a conversation that cannot be resumed is reported before that answer.
- A message comes back under its id when the model receives it. One sent while a tool runs reaches
  the model with that tool's result. One that comes later than the last tool begins its own turn
  right after the `result`; several such are joined into one turn. So a steer is never too late: as
  long as one has not come back, the end of a turn is the beginning of the next.
- Each turn ends with one `result`. Background work wakes the model by itself; the `result` of such
  a turn says so (`origin`), and a prompt sent meanwhile is still to come.
- A message whose id the conversation already holds comes back at once and begins nothing.
- An interrupt that arrives before its prompt was begun is acknowledged and has no effect, so it is
  sent again when the turn continues.
"""

from typing import Any, Literal

import msgspec

from bridle.core.errors import (
    Aborted,
    AgentError,
    Crashed,
    ProtocolDrift,
    ResumeRefused,
    WrongUse,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude import wire
from bridle.runtimes.claude.command import user_line
from bridle.runtimes.claude.stream import ClaudeNormalizer, error_of_exit
from bridle.runtimes.claude.wire import refusal_line, request_line
from bridle.turns.recorder import Recorder
from bridle.turns.rpc import Requests
from bridle.turns.wire import LiveFacts, Outgoing

LEAVE_SECONDS = 5.0
"""How long it may take to exit after its input has ended; background work could delay it."""

Asked = Literal["initialize", "interrupt", "set_model", "stop_task"]


class ClaudeLiveWire(ClaudeNormalizer):
    """One conversation in one process. See `bridle.turns.wire.LiveWire` for the contract; it is
    also a `ModelSwitch` and a `CompactionControl`."""

    def __init__(
        self,
        facts: LiveFacts,
        recorder: Recorder,
        *,
        known_models: frozenset[str] = frozenset(),
    ) -> None:
        native: str = facts.own["session"]
        super().__init__(
            recorder,
            resumed=native if facts.resume is not None else None,
            known_models=known_models,
        )
        self._native = native
        self._requests: Requests[str, None] = Requests("bridle-{}".format)
        self._greeted = False
        self._waiting: dict[str, None] = {}
        """Messages that were sent and have not come back, oldest first."""
        self._opener: str | None = None
        """The prompt that began the open turn."""
        self._begun = False
        """Whether the CLI announced the open turn."""
        self._answering = False
        """Whether the message that the open turn answers is known."""
        self._woken = False
        """Whether background work ended and the agent has not spoken of it yet."""
        self._aborting = False
        self._interrupted: Literal["no", "asked", "done", "too early"] = "no"
        self._interrupt_id = ""
        self._turn_tasks: dict[str, None] = {}
        """What the open turn runs in the background."""
        self._open_questions: dict[str, wire.ControlBody] = {}
        """Calls that wait for permission, by the id of the question."""
        self._compacting = False
        """Whether a compaction that Bridle requested is running."""
        self._compacted = ""
        self._handlers |= {
            wire.ControlResponse: self._control_response,
            wire.ControlCancel: self._control_cancel,
            wire.CommandLifecycle: self._lifecycle,
        }
        # What the CLI may ask of its host. The rest is refused at once: an open question would
        # block the turn forever. Callbacks of hooks that `initialize` registers belong here.
        self._answers = {"can_use_tool": self._ask}

    # -- what the driver asks -------------------------------------------------------------------

    def begin(self) -> None:
        """Send the CLI its first request, which shows when it is ready."""
        # Hooks that are to be asked over this channel are registered with this request.
        self._request("initialize")

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn with a message."""
        if self._send(message):
            self._opener = message.id
            self._open_turn("prompt sent")

    def steer(self, message: Outgoing) -> None:
        """Send a message into the open turn; see the module for where it ends up."""
        self._send(message)

    def abort(self) -> None:
        """Interrupt the open turn. What it runs in the background is stopped at its end."""
        again = self._aborting and self._interrupted != "done"
        self._aborting = True
        if not again:
            self._interrupt()

    def set_model(self, model: str) -> None:
        """Use `model` from the next turn on."""
        self._request("set_model", model=model)

    def compact(self) -> None:
        """Compact the context now."""
        self._compacting, self._compacted = True, ""
        self._recorder.compaction_started("asked for")
        self._recorder.reply(user_line("/compact"))

    def abort_compaction(self) -> None:
        """Cancel the running compaction; within a turn this ends the turn too."""
        self._interrupt()

    def leave(self) -> None:
        """End the CLI's input, after what still runs in the background was stopped."""
        for task_id in sorted(self._tasks):
            self._request("stop_task", task_id=task_id)
        self._recorder.input_done = True
        self._recorder.expect(LEAVE_SECONDS)

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone: an open turn failed, and so did a start that was not answered."""
        recorder = self._recorder
        self._close_message(synthetic=True)
        if recorder.turn_open or not self._greeted:
            error = error_of_exit(exit)
            if error is not None:
                recorder.fail(error)
            elif not self._greeted:
                said = f": {exit.complaint}" if exit.complaint else ""
                recorder.fail(Crashed(f"the agent ended before it was ready{said}"))
        gone = Crashed("the agent ended before it said that it took the message")
        while self._waiting:
            self._refuse(next(iter(self._waiting)), gone)
        recorder.finish(exit)

    # -- Bridle's messages ----------------------------------------------------------------------

    def _send(self, message: Outgoing) -> bool:
        """Send a message; False when its images cannot be read."""
        try:
            line = user_line(message.text, message.images, message.id)
        except WrongUse as problem:
            self._recorder.message_refused(
                message.id, AgentError(problem.message, hint=problem.hint)
            )
            return False
        self._waiting[message.id] = None
        self._recorder.reply(line)
        return True

    def _take(self, message_id: str) -> None:
        if message_id in self._waiting:
            del self._waiting[message_id]
            self._recorder.message_taken(message_id)

    def _take_own(self) -> None:
        """The open turn is one that a message began. Of several that are joined all but the last
        have come back already."""
        if not self._answering and self._waiting:
            self._answering = True
            self._take(next(iter(self._waiting)))

    def _refuse(self, message_id: str, error: AgentError) -> None:
        self._waiting.pop(message_id, None)
        self._recorder.message_refused(message_id, error)

    def _user(self, line: wire.User) -> None:
        if not line.isReplay:
            super()._user(line)
            return
        message_id = line.uuid or ""
        if message_id not in self._waiting:
            # The output of a CLI command comes back under another id.
            return
        self._answering = self._answering or self._begun
        alone = len(self._waiting) == 1
        self._take(message_id)
        if alone and message_id == self._opener and not self._begun:
            # Of messages that are joined the last comes back after `init`, so this one was not
            # begun at all.
            self._recorder.fail(
                Crashed(
                    "the conversation already has this message; the agent does not take it twice",
                    hint="send it as a new message, or ask the agent to continue",
                )
            )
            self._close_turn(None)

    def _lifecycle(self, line: wire.CommandLifecycle) -> None:
        if line.command_uuid not in self._waiting:
            return
        if line.state in ("started", "completed"):
            # An echo follows, unless one of the user's hooks refuses the message.
            self._answering = True
            self._take(line.command_uuid)
        elif line.state == "cancelled":
            dropped = Aborted("the agent dropped the message")
            self._refuse(line.command_uuid, dropped)
            if not self._begun and not self._waiting:
                self._recorder.fail(dropped)
                self._close_turn(None)

    # -- requests, both ways --------------------------------------------------------------------

    def _request(self, kind: Asked, **fields: Any) -> str:
        """Ask something of the CLI; returns the request's id."""
        request_id = self._requests.open(kind)
        self._recorder.reply(request_line(request_id, kind, **fields))
        return request_id

    def _control_response(self, line: wire.ControlResponse) -> None:
        answer = line.response
        # Bridle's own answers come back too; their ids belong to none of its requests.
        kind = self._requests.close(answer.request_id)
        failed = answer.subtype != "success"
        if kind == "initialize":
            self._greet(answer, failed)
        elif kind == "interrupt":
            self._interrupt_answered(answer)
        elif kind == "set_model" and failed:
            self._recorder.unknown(msgspec.json.decode(self._line))

    def _greet(self, answer: wire.ControlAnswer, failed: bool) -> None:
        if failed:
            self._recorder.request_stop(
                ProtocolDrift(f"the agent did not start: {answer.error or 'no reason given'}")
            )
            return
        self._greeted = True
        self._recorder.session_started(self._native)
        self._recorder.ready("initialize answered")

    def _control_request(self, line: wire.ControlRequest) -> None:
        answer = self._answers.get(line.request.subtype)
        if answer is not None:
            answer(line)
        else:
            self._recorder.reply(refusal_line(line.request_id, line.request.subtype))

    def _ask(self, line: wire.ControlRequest) -> None:
        self._open_questions[line.request_id] = line.request
        super()._ask(line)

    def _control_cancel(self, line: wire.ControlCancel) -> None:
        if line.request_id in self._open_questions:
            self._withdraw(line.request_id)

    def _withdraw(self, request_id: str) -> None:
        """A question is no longer open. An earlier answer still counts; a later one has no effect
        on the recorder or the CLI."""
        recorder, asked = self._recorder, self._open_questions.pop(request_id)
        recorder.questions[:] = [
            question for question in recorder.questions if question.request_id != request_id
        ]
        recorder.permission_decided(
            request_id,
            tool_name=asked.tool_name,
            tool_call_id=asked.tool_use_id,
            decision="deny",
            by=recorder.runtime,
            reason="the agent withdrew its question",
        )

    # -- turns ----------------------------------------------------------------------------------

    def _open_turn(self, evidence: str) -> None:
        self._begun = self._answering = False
        self._turn_tasks.clear()
        self._recorder.turn_started(evidence=evidence)

    def _init(self, line: wire.System) -> None:
        recorder = self._recorder
        resumed, self._resumed = self._resumed, None
        if resumed is not None and line.session_id != resumed:
            recorder.request_stop(
                ResumeRefused(
                    f"the agent began conversation {line.session_id} instead of resuming {resumed}"
                )
            )
        recorder.session_started(
            line.session_id, model=line.model, runtime_version=line.claude_code_version
        )
        if not recorder.turn_open:
            if self._compacting:
                return
            self._open_turn("system/init")
            self._answering = True
        self._begun = True
        if self._interrupted == "too early":
            self._interrupt()

    def _result_line(self, result: wire.Result) -> None:
        recorder = self._recorder
        own = result.origin is None
        if not recorder.turn_open:
            # Nobody waits for it: the end of a compaction, or why there is no conversation.
            self._count(result)
            error = self._judge(result)
            if self._compacting and own:
                self._end_compaction(error)
            elif error is not None and not self._greeted:
                recorder.request_stop(error)
            return
        self._take_result(result)
        if own:
            # A message that one of the user's hooks refused, or a CLI command, does not come back.
            self._take_own()
        else:
            self._woken = False
        error = self._judge(result)
        if error is not None:
            recorder.fail(error)
        self._close_turn(result.result)

    def _close_turn(self, text: str | None) -> None:
        """End the open turn, and begin the next when a message is on its way."""
        recorder = self._recorder
        for request_id in list(self._open_questions):
            self._withdraw(request_id)
        aborted = recorder.error if self._aborting and self._opener in self._waiting else None
        if self._aborting:
            for task_id in self._turn_tasks:
                self._request("stop_task", task_id=task_id)
        self._aborting, self._interrupted = False, "no"
        self._error_tag = self._blocked = None
        self._refused.clear()
        recorder.turn_ended(text=text or None if recorder.error is None else None)
        if self._waiting:
            self._open_turn("a message is on its way")
            if aborted is not None:
                # The agent itself began the turn that ended: the abort meant this one.
                self._aborting, self._interrupted = True, "too early"
                recorder.fail(aborted)
        else:
            self._opener = None

    def _task(self, line: wire.System) -> None:
        super()._task(line)
        if line.subtype == "task_notification" and line.status != "stopped":
            self._woken = True
        if line.task_id in self._tasks:
            if line.subtype == "task_started" and self._recorder.turn_open:
                self._turn_tasks[line.task_id] = None
        else:
            self._turn_tasks.pop(line.task_id, None)

    # -- interrupting ---------------------------------------------------------------------------

    def _interrupt(self) -> None:
        self._interrupted = "asked"
        self._interrupt_id = self._request("interrupt")

    def _interrupt_answered(self, answer: wire.ControlAnswer) -> None:
        if self._interrupted != "asked" or answer.request_id != self._interrupt_id:
            return
        response = answer.response
        queued = response.get("still_queued") if isinstance(response, dict) else None
        missed = not self._begun and any(each in self._waiting for each in queued or ())
        self._interrupted = "too early" if missed else "done"

    def _open(self, message_id: str, model: str, *, streaming: bool) -> None:
        if self._aborting and self._interrupted == "done":
            # The model was called after the interrupt was heard: it had found nothing to stop.
            self._interrupt()
        if self._begun and not self._woken:
            # Some versions let a message come back only after the first block of the answer.
            self._take_own()
        super()._open(message_id, model, streaming=streaming)

    # -- compaction -----------------------------------------------------------------------------

    def _status(self, line: wire.System) -> None:
        if not self._compacting or self._recorder.turn_open:
            super()._status(line)
        elif line.status == "compacting":
            if self._interrupted == "done":
                self._interrupt()
        elif line.compact_result == "success":
            self._compacted = "success"
        elif line.compact_result is not None:
            self._compacted = f"failed: {line.compact_error or 'no reason given'}"

    def _assistant(self, line: wire.Assistant) -> None:
        if self._compacting and not self._recorder.turn_open and not self._compacted:
            said = "".join(block.text for block in line.message.content)
            self._compacted = f"failed: {said.removeprefix('Error: ')}"
        else:
            super()._assistant(line)

    def _end_compaction(self, error: AgentError | None) -> None:
        outcome = self._compacted or "failed: no reason given"
        self._compacting, self._interrupted, self._error_tag = False, "no", None
        self._recorder.compaction_ended(outcome if error is None else f"failed: {error.message}")
