"""From `initialize` to a session that can take a prompt, as a machine without input or output.

    initialize -> session/new, session/load or session/fork -> mode, model -> done

A run and a live conversation open their sessions the same way; what follows is theirs.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bridle.core.errors import AgentError, ProtocolDrift, ResumeRefused, Unavailable
from bridle.runtimes.acp import client as acp
from bridle.runtimes.acp import wire
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.acp.errors import error_of_call, error_of_load
from bridle.runtimes.acp.plan import SessionPlan
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
        agent: AcpAgent,
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
        self._replay_end = agent.replay_end
        self._replaying = bool(plan.resume and agent.replay_end)
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


def result_of(answer: acp.Answer, type_: type[T]) -> T:
    """An answer's result as `type_`; raises `msgspec.MsgspecError`."""
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
