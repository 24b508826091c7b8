"""What a run and a live conversation share: one session with one agent, line by line.

Every line is one message of the protocol, or noise that is kept. The steps before the prompt are
`opening`'s, what happens in a turn is `turn`'s; a machine sends what they want said through
`Recorder.reply` and sets a clock (`Recorder.expect`) for every answer, so an agent that stops
answering is ended with a reason.
"""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from bridle.core.errors import AgentError, ProtocolDrift, Unavailable
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import client as acp
from bridle.runtimes.acp import wire
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.acp.errors import error_of_exit
from bridle.runtimes.acp.opening import Opening
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.turn import Turns
from bridle.runtimes.acp.updates import is_known
from bridle.runtimes.raw import raw_of
from bridle.turns.recorder import Recorder

_GOODBYE = 3.0
"""Seconds to leave after the work is done, before it is stopped."""
_SHORT_GOODBYE = 0.3
"""The same for an agent that is known not to leave by itself."""


class AcpMachine(ABC):
    """One session in one process.

    Contract: without input or output of its own; `feed` never raises on anything an agent prints.
    """

    def __init__(self, recorder: Recorder, agent: AcpAgent, plan: SessionPlan) -> None:
        self._recorder = recorder
        self._agent = agent
        self._plan = plan
        self._client = acp.AcpClient()
        self._opening = Opening(
            recorder,
            agent,
            plan,
            call=self._call,
            done=self._session_ready,
            failed=self._give_up,
        )
        self._turns = Turns(recorder, agent, plan)

    def feed(self, line: bytes) -> None:
        """Take one line of stdout."""
        if not line.strip():
            return
        message = self._client.receive(line)
        if self._recorder.options.include_raw:
            self._recorder.source(raw_of(line))
        try:
            self._take(message, line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # A message whose fields have types that the protocol does not allow.
            self._recorder.unknown(raw_of(line))
            if isinstance(message, acp.Answer):
                self._give_up(ProtocolDrift(f"the agent's answer to {message.method} is no answer"))

    # -- what a run and a conversation do in their own way --------------------------------------

    @abstractmethod
    def _session_ready(self) -> None:
        """The session is open and takes prompts."""

    @abstractmethod
    def _give_up(self, error: AgentError) -> None:
        """The step that was under way failed, and what it was for with it."""

    @abstractmethod
    def _answered(self, answer: acp.Answer) -> None:
        """Take an answer that is not about opening or closing the session."""

    @abstractmethod
    def _updated(self, update: wire.Update, line: bytes) -> None:
        """Take an update that came after the session was opened."""

    @abstractmethod
    def _asked(self, call: acp.Call, line: bytes) -> None:
        """Take a permission request."""

    # -- shared ---------------------------------------------------------------------------------

    def _call(self, method: str, params: dict[str, Any]) -> None:
        self._recorder.reply(self._client.request(method, params))
        if method != "session/prompt":
            self._await(method)

    def _await(self, method: str, hint: str = "") -> None:
        seconds = self._plan.start_timeout
        self._recorder.expect(
            seconds, Unavailable(f"the agent did not answer {method} in {seconds:g} s", hint=hint)
        )

    def _await_first(self) -> None:
        self._await("initialize", "check that this command and its flags start an ACP agent")

    def _take(self, message: acp.Incoming, line: bytes) -> None:
        if isinstance(message, acp.Notice):
            self._told(message, line)
        elif isinstance(message, acp.Call):
            self._called(message, line)
        elif isinstance(message, acp.Noise):
            self._recorder.unknown(raw_of(line))
        elif message.method == "session/close":
            self._leave()
        elif not self._opening.over:
            self._opening.answered(message)
        else:
            self._answered(message)

    def _told(self, notice: acp.Notice, line: bytes) -> None:
        if notice.method == "$/cancel_request":
            self._turns.withdrawn(wire.decode_cancelled(notice.params))
            return
        if notice.method != "session/update":
            self._recorder.unknown(raw_of(line))
            return
        told = wire.decode_update(notice.params)
        session_id = self._opening.session_id
        if session_id and told.session_id not in ("", session_id):
            self._recorder.unknown(raw_of(line))
        elif self._opening.over:
            self._updated(told.update, line)
        elif not self._opening.told(told.update) and not is_known(told.update):
            self._recorder.unknown(raw_of(line))

    def _called(self, call: acp.Call, line: bytes) -> None:
        """The agent wants something of us; it waits until it is told."""
        if call.method == "session/request_permission":
            self._asked(call, line)
            return
        self._recorder.reply(acp.refuse(call.id, call.method))
        self._recorder.unknown(raw_of(line))

    def _close_session(self) -> None:
        """Close the session where the agent can do that, then leave."""
        if self._opening.can_close and self._opening.over:
            self._recorder.reply(self._client.request("session/close", self._opening.params))
            self._recorder.expect(_GOODBYE)
        else:
            self._leave()

    def _leave(self) -> None:
        self._recorder.input_done = True
        self._recorder.expect(_GOODBYE if self._agent.leaves_at_eof else _SHORT_GOODBYE)

    def _explain_exit(self, exit: ProcessExit) -> None:
        """Say why a process that never answered ended, as far as that can be told."""
        if self._recorder.error is None and "initialize" in self._client.pending:
            error = error_of_exit(exit)
            if error is not None:
                self._recorder.fail(error)
