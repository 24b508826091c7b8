"""One session with one agent, line by line: from `initialize` to its end.

    initialize -> session/new, session/load or session/fork -> mode, model -> prompts -> close

Every line is one message of the protocol, or noise that is kept as an `unknown` event. `Opening`
makes the steps before the first prompt, `turn` translates what happens in a turn; `AcpMachine` is
what a run (`stream`) and a conversation (`live`) share. It sends through `Recorder.reply` and sets
a time limit (`Recorder.expect`) for every answer, so an agent that stops answering is ended with a
reason.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bridle.core.errors import AgentError, ProtocolDrift, ResumeRefused, Unavailable
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import client as acp
from bridle.runtimes.acp import wire
from bridle.runtimes.acp.client import result_of
from bridle.runtimes.acp.errors import error_of_call, error_of_exit, error_of_load
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.acp.turn import Turns
from bridle.runtimes.acp.updates import is_known
from bridle.runtimes.raw import raw_of
from bridle.turns.recorder import Recorder

T = TypeVar("T")

Params = dict[str, Any]


class Opening:
    """The steps before the first prompt.

    Contract: `begin` gives the first step; `answered` takes each answer until `done` is called, and
    `failed` is called at most once, when nothing can come of it. `call` sends a request.
    """

    def __init__(
        self,
        recorder: Recorder,
        quirks: AcpQuirks,
        plan: SessionPlan,
        *,
        call: Callable[[str, Params], None],
        done: Callable[[], None],
        failed: Callable[[AgentError], None],
    ) -> None:
        self._recorder = recorder
        self._plan = plan
        self._call = call
        self._done = done
        self._failed = failed
        self._steps: deque[tuple[str, Params]] = deque()
        self._replay_end = quirks.replay_end
        self._replaying = bool(plan.resume and quirks.replay_end)
        self.method = "session/new"
        """How the session is opened."""
        if plan.resume:
            self.method = "session/fork" if plan.fork else "session/load"
        self._told = wire.Opened()
        self._opened = False
        self.session_id = None if plan.fork else plan.resume
        self.over = False
        """Whether the session takes prompts."""
        self.can_close = False
        self.takes_images = False

    @property
    def params(self) -> Params:
        """What every call about the session begins with."""
        return {"sessionId": self.session_id}

    def answered(self, answer: acp.Answer) -> None:
        """Take the answer to one of the steps."""
        if answer.method == "initialize":
            self._initialized(answer)
        elif answer.method == self.method:
            self._session_opened(answer)
        elif answer.error is not None:
            self._failed(error_of_call(answer.error, model=self._plan.model))
        else:
            self._next_step()

    def told(self, update: wire.Update) -> bool:
        """Take an update that came before the first prompt; whether it was of use here.

        Old turns are told again while a session is loaded; they are no news.
        """
        if self._opened and self._replaying and update.session_update == self._replay_end:
            self._replaying = False
            self._next_step()
            return True
        return False

    def model_change(self, model: str) -> tuple[str, Params] | None:
        """The call that chooses `model`; None where the agent offers no choice."""
        option = _config_option(self._told, "model")
        if option is not None:
            change = {**self.params, "configId": option.id, "value": model}
            return "session/set_config_option", change
        if self._told.models is not None:
            return "session/set_model", {**self.params, "modelId": model}
        return None

    # -- steps ----------------------------------------------------------------------------------

    def _initialized(self, answer: acp.Answer) -> None:
        if answer.error is not None:
            self._failed(error_of_call(answer.error))
            return
        told = result_of(answer, wire.Initialized)
        info = told.agent_info or wire.AgentInfo()
        self._recorder.runtime_version = info.version or self._recorder.runtime_version
        self.can_close = "close" in told.agent_capabilities.session_capabilities
        self.takes_images = told.agent_capabilities.prompt_capabilities.image
        if self._plan.fork and "fork" not in told.agent_capabilities.session_capabilities:
            self._failed(ResumeRefused("this agent cannot go on in a copy of a session"))
            return
        refusal = self._lacks(told)
        if refusal is not None:
            self._failed(ProtocolDrift(refusal))
            return
        params: Params = {"cwd": self._plan.cwd, "mcpServers": self._plan.mcp_servers}
        if self._plan.meta:
            params["_meta"] = self._plan.meta
        if self._plan.resume:
            params["sessionId"] = self._plan.resume
        self._call(self.method, params)

    def _lacks(self, told: wire.Initialized) -> str | None:
        """What is needed and this agent says it cannot do."""
        can = told.agent_capabilities
        if told.protocol_version != wire.PROTOCOL_VERSION:
            return f"the agent speaks version {told.protocol_version} of the protocol, Bridle 1"
        if self._plan.resume and not self._plan.fork and not can.load_session:
            return "this agent cannot take up an earlier session"
        if not can.prompt_capabilities.image and any(
            block.get("type") == "image" for block in self._plan.prompt
        ):
            return "this agent takes no images"
        for server in self._plan.mcp_servers:
            kind = server.get("type")
            if (kind == "http" and not can.mcp_capabilities.http) or (
                kind == "sse" and not can.mcp_capabilities.sse
            ):
                return f"this agent takes no MCP servers over {kind}"
        return None

    def _session_opened(self, answer: acp.Answer) -> None:
        resume = self._plan.resume
        if answer.error is not None:
            self._failed(
                error_of_load(answer.error, resume) if resume else error_of_call(answer.error)
            )
            return
        told = result_of(answer, wire.Opened)
        refusal = self._not_taken_up(told.session_id, resume) if resume else ""
        if refusal:
            self._failed(ResumeRefused(refusal))
            return
        self.session_id = told.session_id or self.session_id
        if not self.session_id:
            self._failed(ProtocolDrift("the agent opened a session without a name"))
            return
        self._told = told
        self._opened = True
        self._recorder.session_started(self.session_id, model=_current_model(told))
        problem = self._choose_mode(told) or self._choose_model()
        if problem is not None:
            self._failed(problem)
            return
        self._next_step()

    def _not_taken_up(self, told: str | None, resume: str) -> str:
        """Why the session is not the one that was wanted, or no copy of it; empty when it is."""
        if not self._plan.fork:
            other = told not in (None, "", resume)
            return f"the agent opened session {told} instead of {resume}" if other else ""
        return "" if told and told != resume else f"the agent made no copy of session {resume}"

    def _choose_mode(self, told: wire.Opened) -> AgentError | None:
        mode = self._plan.mode
        if mode is None:
            return None
        offered = [each.id for each in told.modes.available_modes] if told.modes else []
        option = _config_option(told, "mode")
        if mode in offered:
            self._steps.append(("session/set_mode", {**self.params, "modeId": mode}))
        elif option is not None:
            change = {**self.params, "configId": option.id, "value": mode}
            self._steps.append(("session/set_config_option", change))
        else:
            return ProtocolDrift(f"the agent has no mode {mode}; it offers: {', '.join(offered)}")
        return None

    def _choose_model(self) -> AgentError | None:
        model = self._plan.model
        if model is None:
            return None
        change = self.model_change(model)
        if change is None:
            return no_model_choice(model)
        self._steps.append(change)
        self._recorder.model = model
        return None

    def _next_step(self) -> None:
        if self._steps:
            self._call(*self._steps.popleft())
        elif not self._replaying and self._opened and not self.over:
            self.over = True
            self._done()


def no_model_choice(model: str) -> AgentError:
    """Why `model` cannot be used by an agent that offers no choice."""
    return Unavailable(
        f"this agent offers no choice of model, so {model} cannot be used",
        hint=f"choose {model} in the agent's own settings, or name no model",
    )


def _config_option(told: wire.Opened, category: str) -> wire.ConfigOption | None:
    """The setting for `category`; several may carry it, so the one named so goes first."""
    options = [each for each in told.config_options or [] if category in (each.id, each.category)]
    options.sort(key=lambda option: option.id != category)
    return options[0] if options else None


def _current_model(told: wire.Opened) -> str | None:
    option = _config_option(told, "model")
    current = told.models.current_model_id if told.models else None
    if option is not None and isinstance(option.current_value, str):
        current = option.current_value
    # An agent that only says "default" does not say which model that is.
    return None if current == "default" else current


_GOODBYE = 3.0
"""Seconds to leave after the work is done, before it is stopped."""
_SHORT_GOODBYE = 0.3
"""The same for an agent that is known not to leave by itself."""


class AcpMachine(ABC):
    """One session in one process.

    Contract: without input or output of its own; `feed` never raises on anything an agent prints.
    """

    def __init__(self, recorder: Recorder, quirks: AcpQuirks, plan: SessionPlan) -> None:
        self._recorder = recorder
        self._quirks = quirks
        self._plan = plan
        self._client = acp.AcpClient()
        self._opening = Opening(
            recorder,
            quirks,
            plan,
            call=self._call,
            done=self._session_ready,
            failed=self._give_up,
        )
        self._turns = Turns(recorder, quirks, plan)

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
        """The agent asks Bridle for something and waits for the response."""
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
        self._recorder.expect(_GOODBYE if self._quirks.leaves_at_eof else _SHORT_GOODBYE)

    def _explain_exit(self, exit: ProcessExit) -> None:
        """Say why a process that never answered ended, as far as that can be told."""
        if self._recorder.error is None and "initialize" in self._client.pending:
            error = error_of_exit(exit)
            if error is not None:
                self._recorder.fail(error)
