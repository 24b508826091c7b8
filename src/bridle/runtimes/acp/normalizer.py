"""One prompt through one agent: the steps of a session, as a machine without input or output.

    initialize -> session/new or session/load -> mode, model -> session/prompt -> session/close

Each answer leads to the next step; what is to be written goes through `Recorder.reply`. Every step
has a clock (`Recorder.expect`), so an agent that stops answering ends the run with a reason.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.core.errors import AgentError, ProtocolDrift, Unavailable
from bridle.drives.recorder import Recorder
from bridle.drives.spec import ProcessExit, Question
from bridle.runtimes.acp import client as acp
from bridle.runtimes.acp import wire
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.acp.errors import (
    error_of_call,
    error_of_exit,
    error_of_load,
    error_of_silence,
    error_of_stop,
    error_of_text,
)
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.updates import UpdateTranslator, is_known
from bridle.runtimes.acp.usage import model_of, usage_of
from bridle.runtimes.raw import raw_of
from bridle.runtimes.retries import RetryReader

if TYPE_CHECKING:
    from bridle.runtimes.acp.history import History

_GOODBYE = 3.0
"""Seconds to leave after the work is done, before it is stopped."""
_SHORT_GOODBYE = 0.3
"""The same for an agent that is known not to leave by itself."""

T = TypeVar("T")


class AcpNormalizer:
    """The `Normalizer` of one prompt.

    Contract: made before the process starts; its `initialize` is already the process's first
    input. `history` reads what the session used so far from the agent's files, where only these
    tell; it is called before the start of a resumed session and after the end. `log` reads the
    agent's standard error, where that tells of failed calls.
    """

    def __init__(
        self,
        recorder: Recorder,
        agent: AcpAgent,
        plan: SessionPlan,
        *,
        history: "Callable[[str], History | None] | None" = None,
        log: RetryReader | None = None,
    ) -> None:
        self._recorder = recorder
        self._agent = agent
        self._plan = plan
        self._client = acp.AcpClient()
        self._translator = UpdateTranslator(recorder, agent)
        self._log = log
        self._failed_call: AgentError | None = None
        self._silence: AgentError | None = None
        self._history = history
        self._before = history(plan.resume) if history and plan.resume else None
        self._session_id = plan.resume
        self._steps: deque[tuple[str, dict[str, Any]]] = deque()
        self._can_close = False
        self._replaying = bool(plan.resume and agent.replay_end)
        self._opened = False
        self._prompted = False
        self._judged = False
        self._client.request("initialize", acp.initialize_params())
        self._await("initialize", "check that this command and its flags start an ACP agent")

    # -- what the driver calls ------------------------------------------------------------------

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

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of standard error: some agents tell only there, and only when they are
        ended, that a model call failed and which pause the service asked for."""
        retry = self._log.feed(line) if self._log is not None else None
        if retry is not None:
            self._failed_call = retry.error

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone."""
        recorder = self._recorder
        if self._silence is not None and recorder.error is self._silence and self._failed_call:
            # Silence was all that could be seen; now the agent has told the reason for it.
            recorder.error = self._failed_call
        if not self._judged and recorder.error is None and not self._client_spoke():
            error = error_of_exit(exit)
            if error is not None:
                recorder.fail(error)
        if not self._judged:
            self._translator.close()
        if recorder.turn_open:
            self._count_from_files()
            if self._judged:
                recorder.turn_ended()
        recorder.finish(exit)

    def _client_spoke(self) -> bool:
        """Whether the agent ever answered."""
        return "initialize" not in self._client.pending

    def _take(self, message: acp.Incoming, line: bytes) -> None:
        if isinstance(message, acp.Notice):
            self._told(message, line)
        elif isinstance(message, acp.Answer):
            self._answered(message)
        elif isinstance(message, acp.Call):
            self._called(message, line)
        else:
            self._recorder.unknown(raw_of(line))

    # -- steps ----------------------------------------------------------------------------------

    def _call(self, method: str, params: dict[str, Any]) -> None:
        self._recorder.reply(self._client.request(method, params))
        if method != "session/prompt":
            self._await(method)

    def _await(self, method: str, hint: str = "") -> None:
        seconds = self._plan.start_timeout
        self._recorder.expect(
            seconds, Unavailable(f"the agent did not answer {method} in {seconds:g} s", hint=hint)
        )

    def _answered(self, answer: acp.Answer) -> None:
        method = answer.method
        if method == "initialize":
            self._initialized(answer)
        elif method in ("session/new", "session/load"):
            self._session_opened(answer)
        elif method == "session/prompt":
            self._prompt_over(answer)
        elif method == "session/close":
            self._leave()
        elif answer.error is not None:
            self._give_up(error_of_call(answer.error, model=self._plan.model))
        else:
            self._next_step()

    def _initialized(self, answer: acp.Answer) -> None:
        if answer.error is not None:
            self._give_up(error_of_call(answer.error))
            return
        told = _result(answer, wire.Initialized)
        info = told.agent_info or wire.AgentInfo()
        self._recorder.runtime_version = info.version or self._recorder.runtime_version
        self._can_close = "close" in told.agent_capabilities.session_capabilities
        refusal = self._lacks(told)
        if refusal is not None:
            self._give_up(ProtocolDrift(refusal))
            return
        params: dict[str, Any] = {"cwd": self._plan.cwd, "mcpServers": self._plan.mcp_servers}
        if self._plan.meta:
            params["_meta"] = self._plan.meta
        if self._plan.resume:
            self._call("session/load", {**params, "sessionId": self._plan.resume})
        else:
            self._call("session/new", params)

    def _lacks(self, told: wire.Initialized) -> str | None:
        """What the run needs and this agent says it cannot do."""
        can = told.agent_capabilities
        if told.protocol_version != wire.PROTOCOL_VERSION:
            return f"the agent speaks version {told.protocol_version} of the protocol, Bridle 1"
        if self._plan.resume and not can.load_session:
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
        if answer.error is not None:
            resume = self._plan.resume
            self._give_up(
                error_of_load(answer.error, resume) if resume else error_of_call(answer.error)
            )
            return
        told = _result(answer, wire.Opened)
        self._session_id = told.session_id or self._session_id
        if not self._session_id:
            self._give_up(ProtocolDrift("the agent opened a session without a name"))
            return
        self._opened = True
        self._recorder.session_started(self._session_id, model=_current_model(told))
        problem = self._choose_mode(told) or self._choose_model(told)
        if problem is not None:
            self._give_up(problem)
            return
        self._next_step()

    def _choose_mode(self, told: wire.Opened) -> AgentError | None:
        mode = self._plan.mode
        if mode is None:
            return None
        params = {"sessionId": self._session_id}
        offered = [each.id for each in told.modes.available_modes] if told.modes else []
        option = _config_option(told, "mode")
        if mode in offered:
            self._steps.append(("session/set_mode", {**params, "modeId": mode}))
        elif option is not None:
            change = {**params, "configId": option.id, "value": mode}
            self._steps.append(("session/set_config_option", change))
        else:
            return ProtocolDrift(f"the agent has no mode {mode}; it offers: {', '.join(offered)}")
        return None

    def _choose_model(self, told: wire.Opened) -> AgentError | None:
        model = self._plan.model
        if model is None:
            return None
        params = {"sessionId": self._session_id}
        option = _config_option(told, "model")
        if option is not None:
            change = {**params, "configId": option.id, "value": model}
            self._steps.append(("session/set_config_option", change))
        elif told.models is not None:
            self._steps.append(("session/set_model", {**params, "modelId": model}))
        else:
            return Unavailable(
                f"this agent offers no choice of model, so {model} cannot be used",
                hint=f"choose {model} in the agent's own settings, or name no model",
            )
        self._recorder.model = model
        return None

    def _next_step(self) -> None:
        if self._steps:
            method, params = self._steps.popleft()
            self._call(method, params)
        elif not self._replaying and not self._prompted and self._opened:
            self._prompted = True
            self._call(
                "session/prompt", {"sessionId": self._session_id, "prompt": self._plan.prompt}
            )
            self._recorder.turn_started(evidence="session/prompt")
            self._work_goes_on()

    # -- the turn -------------------------------------------------------------------------------

    def _told(self, notice: acp.Notice, line: bytes) -> None:
        if notice.method != "session/update":
            self._recorder.unknown(raw_of(line))
            return
        told = wire.decode_update(notice.params)
        update = told.update
        if self._session_id and told.session_id not in ("", self._session_id):
            self._recorder.unknown(raw_of(line))
            return
        if self._agent.reports_cost and update.cost is not None and self._prompted:
            self._cost(update.cost)
        if not self._prompted:
            # Old turns are told again while a session is loaded; they are no news.
            if self._opened and self._replaying and update.session_update == self._agent.replay_end:
                self._replaying = False
                self._next_step()
            elif not is_known(update):
                self._recorder.unknown(raw_of(line))
            return
        if not self._judged and self._translator.take(update, line):
            self._work_goes_on()

    def _work_goes_on(self) -> None:
        """Wind up the clock that ends an agent which waits in vain; a tool may take its time."""
        if self._translator.running or self._judged:
            self._recorder.expect(None)
            return
        seconds = self._plan.silence_timeout
        self._failed_call = None
        self._silence = Unavailable(
            f"the agent showed no progress for {seconds:g} s while the model was to answer",
            hint="the service may be failing while the agent tries again in silence; "
            "raise the provider option silence_timeout for a slow model",
        )
        self._recorder.expect(seconds, self._silence)

    def _cost(self, cost: wire.Cost) -> None:
        # An agent that knows no price tells 0, which is not a price.
        if cost.currency == "USD" and cost.amount > 0 and not self._plan.resume:
            self._recorder.set_cost(cost.amount, "provider")

    def _called(self, call: acp.Call, line: bytes) -> None:
        """The agent wants something of us; it waits until it is told."""
        if call.method != "session/request_permission":
            self._recorder.reply(acp.refuse(call.id, call.method))
            self._recorder.unknown(raw_of(line))
            return
        try:
            asked = msgspec.json.decode(call.params, type=wire.PermissionRequest)
        except msgspec.MsgspecError:
            self._recorder.reply(acp.permission_answer(call.id, [], allowed=False))
            raise
        recorder = self._recorder
        tool = self._translator.asked(asked.tool_call)
        self._work_goes_on()
        if recorder.options.permission_mode == "bypass":
            recorder.reply(acp.permission_answer(call.id, asked.options, allowed=True))
            return

        def answer(allowed: bool, reason: str) -> bytes:
            if not allowed:
                self._translator.refused(tool, reason)
            self._work_goes_on()
            return acp.permission_answer(call.id, asked.options, allowed)

        recorder.permission_requested(
            Question(
                request_id=str(call.id),
                tool_name=self._translator.name_of(tool),
                args=tool.args if tool.args is not None else {"title": tool.title},
                answer=answer,
                tool_call_id=tool.id or None,
            )
        )

    def _prompt_over(self, answer: acp.Answer) -> None:
        recorder, translator = self._recorder, self._translator
        error: AgentError | None
        if answer.error is not None:
            error = error_of_call(answer.error, model=recorder.model)
        else:
            done = _result(answer, wire.PromptDone)
            error = error_of_stop(done.stop_reason) or translator.failure
            if error is None and not translator.saw_work:
                error = error_of_silence(self._agent.silent_error)
            usage = usage_of(done, self._agent)
            # Words like a failure's, and no token was used: nothing came from a model.
            if error is None and translator.suspect and not (usage and usage.total):
                error = error_of_text(translator.suspect)
            if usage is not None:
                recorder.set_usage(usage)
            recorder.model = model_of(done) or recorder.model
        if error is not None:
            recorder.fail(error)
        self._end_turn()

    def _end_turn(self) -> None:
        self._judged = True
        self._translator.close()
        if self._recorder.message_open:
            self._recorder.message_ended()
        if self._history is None:
            self._recorder.turn_ended()
        if self._can_close and self._session_id:
            self._recorder.reply(
                self._client.request("session/close", {"sessionId": self._session_id})
            )
            self._recorder.expect(_GOODBYE)
        else:
            self._leave()

    def _leave(self) -> None:
        self._recorder.input_done = True
        self._recorder.expect(_GOODBYE if self._agent.leaves_at_eof else _SHORT_GOODBYE)

    def _give_up(self, error: AgentError) -> None:
        """Nothing can come of this run any more."""
        self._recorder.fail(error)
        if self._prompted and not self._judged:
            self._end_turn()
        else:
            self._leave()

    def _count_from_files(self) -> None:
        """Fill in what only the agent's own files tell."""
        if self._history is None or not self._session_id:
            return
        told = self._history(self._session_id)
        if told is None:
            return
        recorder = self._recorder
        before = self._before
        recorder.set_usage(told.usage - before.usage if before else told.usage)
        recorder.model = told.model or recorder.model
        if told.cost_usd:
            recorder.set_cost(told.cost_usd - (before.cost_usd if before else 0.0), "provider")


def _result(answer: acp.Answer, type_: type[T]) -> T:
    return msgspec.json.decode(answer.result if answer.result is not None else b"{}", type=type_)


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
