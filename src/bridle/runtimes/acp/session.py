"""One session with one agent, line by line: from `initialize` to its end.

    initialize -> session/new, session/load or session/fork -> mode, model -> prompts -> close

`Opening` takes the steps before the first prompt. `Turns` handles what the agent reports between a
prompt and its answer: updates, permission requests, and the answer itself. `AcpMachine` is what a
run (`stream`) and a conversation (`live`) share. It sends through `Recorder.reply` and sets a time
limit (`Recorder.expect`) for every answer, so an agent that stops answering is ended with a reason.
A line that is not a message of the protocol becomes an `unknown` event.

The protocol has no names of tools and need not carry their arguments. If an agent sends both in
other fields, these are judged; otherwise the kind of the call, the paths it names and, if its
quirks say so, its title. Arguments that the agent does not send are marked as unseen, and then only
what changes nothing is allowed.
"""

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import AgentError, ProtocolDrift, ResumeRefused, Unavailable
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import protocol
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.acp.updates import Tool, UpdateTranslator, is_known
from bridle.runtimes.wire import raw_of
from bridle.turns.guard_contract import UNSEEN, Verdict, WireCall
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question

Params = dict[str, Any]


class Opening:
    """The steps before the first prompt.

    Contract: `answered` takes each answer until `done` is called; `failed` is called at most once,
    when the session cannot be opened. `call` sends a request.
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
        self._choices = protocol.Opened()
        self._opened = False
        self.session_id = None if plan.fork else plan.resume
        self.over = False
        """Whether the session takes prompts."""
        self.can_close = False
        self.takes_images = False

    @property
    def params(self) -> Params:
        """The parameters that every call about the session has."""
        return {"sessionId": self.session_id}

    def answered(self, answer: protocol.Answer) -> None:
        """Take the answer to one of the steps."""
        if answer.method == "initialize":
            self._initialized(answer)
        elif answer.method == self.method:
            self._session_opened(answer)
        elif answer.error is not None:
            self._failed(protocol.error_of_call(answer.error, model=self._plan.model))
        else:
            self._next_step()

    def take(self, update: protocol.Update) -> bool:
        """Take an update that came before the first prompt; returns whether it was needed here.

        While it loads a session, the agent repeats old turns; they are not new.
        """
        if self._opened and self._replaying and update.session_update == self._replay_end:
            self._replaying = False
            self._next_step()
            return True
        return False

    def model_change(self, model: str) -> tuple[str, Params] | None:
        """The call that chooses `model`; None if the agent offers no choice."""
        option = _config_option(self._choices, "model")
        if option is not None:
            change = {**self.params, "configId": option.id, "value": model}
            return "session/set_config_option", change
        if self._choices.models is not None:
            return "session/set_model", {**self.params, "modelId": model}
        return None

    # -- steps ----------------------------------------------------------------------------------

    def _initialized(self, answer: protocol.Answer) -> None:
        if answer.error is not None:
            self._failed(protocol.error_of_call(answer.error))
            return
        agent = protocol.result_of(answer, protocol.Initialized)
        info = agent.agent_info or protocol.AgentInfo()
        self._recorder.runtime_version = info.version or self._recorder.runtime_version
        self.can_close = "close" in agent.agent_capabilities.session_capabilities
        self.takes_images = agent.agent_capabilities.prompt_capabilities.image
        if self._plan.fork and "fork" not in agent.agent_capabilities.session_capabilities:
            self._failed(ResumeRefused("this agent cannot continue in a copy of a session"))
            return
        refusal = self._lacks(agent)
        if refusal is not None:
            self._failed(ProtocolDrift(refusal))
            return
        params: Params = {"cwd": self._plan.cwd, "mcpServers": self._plan.mcp_servers}
        if self._plan.meta:
            params["_meta"] = self._plan.meta
        if self._plan.resume:
            params["sessionId"] = self._plan.resume
        self._call(self.method, params)

    def _lacks(self, agent: protocol.Initialized) -> str | None:
        """What the plan needs and the agent says that it cannot do."""
        can = agent.agent_capabilities
        if agent.protocol_version != protocol.PROTOCOL_VERSION:
            return f"the agent speaks version {agent.protocol_version} of the protocol, Bridle 1"
        if self._plan.resume and not self._plan.fork and not can.load_session:
            return "this agent cannot continue an earlier session"
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

    def _session_opened(self, answer: protocol.Answer) -> None:
        resume = self._plan.resume
        if answer.error is not None:
            self._failed(
                protocol.error_of_load(answer.error, resume)
                if resume
                else protocol.error_of_call(answer.error)
            )
            return
        opened = protocol.result_of(answer, protocol.Opened)
        refusal = self._wrong_session(opened.session_id, resume) if resume else ""
        if refusal:
            self._failed(ResumeRefused(refusal))
            return
        self.session_id = opened.session_id or self.session_id
        if not self.session_id:
            self._failed(ProtocolDrift("the agent opened a session without an id"))
            return
        self._choices = opened
        self._opened = True
        self._recorder.session_started(self.session_id, model=_current_model(opened))
        problem = self._choose_mode(opened) or self._choose_model()
        if problem is not None:
            self._failed(problem)
            return
        self._next_step()

    def _wrong_session(self, opened: str | None, resume: str) -> str:
        """Why the session is not `resume`, or not a copy of it; empty if it is."""
        if not self._plan.fork:
            other = opened not in (None, "", resume)
            return f"the agent opened session {opened} instead of {resume}" if other else ""
        copied = opened and opened != resume
        return "" if copied else f"the agent made no copy of session {resume}"

    def _choose_mode(self, opened: protocol.Opened) -> AgentError | None:
        mode = self._plan.mode
        if mode is None:
            return None
        offered = [each.id for each in opened.modes.available_modes] if opened.modes else []
        option = _config_option(opened, "mode")
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


def _config_option(opened: protocol.Opened, category: str) -> protocol.ConfigOption | None:
    """The setting for `category`; several may have it, so the one of that name goes first."""
    options = [each for each in opened.config_options or [] if category in (each.id, each.category)]
    options.sort(key=lambda option: option.id != category)
    return options[0] if options else None


def _current_model(opened: protocol.Opened) -> str | None:
    option = _config_option(opened, "model")
    current = opened.models.current_model_id if opened.models else None
    if option is not None and isinstance(option.current_value, str):
        current = option.current_value
    # "default" does not say which model that is.
    return None if current == "default" else current


class Turns:
    """The turns of one session in one process.

    Contract: the sender of the prompts says when a turn begins and ends (on the recorder); this
    translates what comes in between. A permission request is answered exactly once.
    """

    def __init__(self, recorder: Recorder, quirks: AcpQuirks, plan: SessionPlan) -> None:
        self._recorder = recorder
        self._quirks = quirks
        self._plan = plan
        self._translator = UpdateTranslator(recorder, quirks)
        self._asking: dict[str, tuple[protocol.Call, Question]] = {}
        """Permission requests that wait for a person, by the id of their event."""
        self._judging: dict[str, protocol.Call] = {}
        """Permission requests that wait for the guard's verdict, by the same id."""
        self.cancelled = False
        """Whether this turn was cancelled: later permission requests of it are cancelled too."""
        self.unhurried = False
        """Whether this turn has no inactivity timer, because nobody waits for it."""
        self.silence: AgentError | None = None
        """The error if the inactivity timer fires; None while it does not run."""

    def take(self, update: protocol.Update, line: bytes) -> None:
        """Translate an update of the open turn, which came as `line`."""
        if self._translator.take(update, line):
            self.goes_on()

    def cost(self, update: protocol.Update) -> None:
        """Record the cost so far that an update reports."""
        cost = update.cost
        if not self._quirks.reports_cost or cost is None:
            return
        counts_process = self._quirks.cost_restarts or not self._plan.resume
        # An agent that knows no price reports 0, which is not a price.
        if cost.currency == "USD" and cost.amount > 0 and counts_process:
            self._recorder.set_cost(cost.amount, "provider")

    def goes_on(self) -> None:
        """Restart the inactivity timer; it does not run during a tool or a permission request."""
        if self.cancelled or self.unhurried:
            return
        seconds = self._plan.silence_timeout
        if seconds is None or self._translator.running or self._asking or self._judging:
            self.silence = None
            self._recorder.expect(None)
            return
        self.silence = Unavailable(
            f"the agent showed no progress for {seconds:g} s while the model should answer",
            hint="the service may be failing while the agent silently retries; "
            "raise the provider option silence_timeout for a slow model",
        )
        self._recorder.expect(seconds, self.silence)

    # -- permission -----------------------------------------------------------------------------

    def asked(self, call: protocol.Call) -> None:
        """Take a permission request; raises `msgspec.MsgspecError` after refusing a broken one."""
        recorder = self._recorder
        try:
            asked = structs.decode(call.params, protocol.PermissionRequest)
        except msgspec.MsgspecError:
            recorder.reply(protocol.permission_cancelled(call.id))
            raise
        if self.cancelled:
            recorder.reply(protocol.permission_cancelled(call.id))
            return
        tool = self._translator.asked(asked.tool_call)
        if recorder.stop_requested is not None:
            # The agent must not act before it is stopped, above all if its guard is dead.
            recorder.reply(protocol.permission_cancelled(call.id))
            return
        guard = recorder.guard
        if guard is None or not guard.mechanism.on_wire:
            self._ask_user(call, asked, tool)
            return
        self._judging[str(call.id)] = call
        self.goes_on()

        def apply(verdict: Verdict) -> None:
            if self._judging.pop(str(call.id), None) is None:
                # The turn ended in between, and the request with it.
                return
            if verdict.allowed:
                self._ask_user(call, asked, tool)
                return
            self._translator.blocked(tool, verdict.reason)
            self.goes_on()
            recorder.reply(protocol.permission_answer(call.id, asked.options, allowed=False))

        name = self._translator.name_of(tool)
        about = wire_call(self._quirks, tool, name, asked.tool_call, self._plan.cwd)
        recorder.verdicts.ask_later(about, apply)

    def _ask_user(self, call: protocol.Call, asked: protocol.PermissionRequest, tool: Tool) -> None:
        """The guard does not object: allow the call, or ask the person who decides."""
        recorder = self._recorder
        if recorder.options.permission_mode == "bypass":
            self.goes_on()
            recorder.reply(protocol.permission_answer(call.id, asked.options, allowed=True))
            return
        request_id = str(call.id)

        def answer(allowed: bool, reason: str) -> bytes:
            if self._asking.pop(request_id, None) is None:
                # The turn ended in between, and the request with it.
                return b""
            if not allowed:
                self._translator.refused(tool, reason)
            self.goes_on()
            return protocol.permission_answer(call.id, asked.options, allowed)

        question = Question(
            request_id=request_id,
            tool_name=self._translator.name_of(tool),
            args=tool.args if tool.args is not None else {"title": tool.title},
            answer=answer,
            tool_call_id=tool.id or None,
        )
        self._asking[request_id] = (call, question)
        self.goes_on()
        recorder.permission_requested(question)

    def withdraw(self, reason: str) -> None:
        """Cancel every open permission request."""
        for request_id in list(self._asking):
            self._cancel(request_id, reason)
        for call in self._judging.values():
            self._recorder.reply(protocol.permission_cancelled(call.id))
        self._judging.clear()

    def withdrawn(self, call_id: int | str | None) -> None:
        """The agent withdraws one of its requests."""
        judged = self._judging.pop(str(call_id), None)
        if judged is not None:
            self._recorder.reply(protocol.permission_cancelled(judged.id))
            self.goes_on()
        elif str(call_id) in self._asking:
            self._cancel(str(call_id), "the agent withdrew its request")
            self.goes_on()

    def _cancel(self, request_id: str, reason: str) -> None:
        recorder = self._recorder
        call, question = self._asking.pop(request_id)
        recorder.questions[:] = [each for each in recorder.questions if each is not question]
        recorder.reply(protocol.permission_cancelled(call.id))
        recorder.permission_decided(
            request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision="deny",
            by="bridle",
            reason=reason,
        )

    # -- the end --------------------------------------------------------------------------------

    def judge(self, answer: protocol.Answer) -> None:
        """Take the answer to the prompt: record the usage of the turn, and its failure if any."""
        recorder, translator = self._recorder, self._translator
        error: AgentError | None
        if answer.error is not None:
            error = protocol.error_of_call(answer.error, model=recorder.model)
        else:
            done = protocol.result_of(answer, protocol.PromptDone)
            error = protocol.error_of_stop(done.stop_reason) or translator.failure
            if error is None and not translator.saw_work:
                error = protocol.error_of_silence(self._quirks.silent_error)
            before = recorder.usage
            self._count(done)
            # A text like an error, and no token was used: it did not come from a model.
            if error is None and translator.suspect and recorder.usage == before:
                error = protocol.error_of_text(translator.suspect)
            recorder.model = model_of(done) or recorder.model
        if error is not None:
            recorder.fail(error)

    def settle(self, answer: protocol.Answer) -> str:
        """Take the answer to a prompt that is not a turn: record its usage; returns its failure."""
        if answer.error is not None:
            return protocol.error_of_call(answer.error, model=self._recorder.model).message
        done = protocol.result_of(answer, protocol.PromptDone)
        self._count(done)
        error = protocol.error_of_stop(done.stop_reason)
        return error.message if error else ""

    def _count(self, done: protocol.PromptDone) -> None:
        usage = usage_of(done, self._quirks)
        if usage is None:
            return
        whole = usage if self._quirks.usage == "session" else self._recorder.usage + usage
        self._recorder.set_usage(whole)

    def close(self) -> None:
        """The turn is over: record what is still open."""
        self.withdraw("the turn is over")
        self._translator.close()
        if self._recorder.message_open:
            self._recorder.message_ended()
        self.cancelled = self.unhurried = False


_GOODBYE = 3.0
"""Seconds that an agent has to exit after its work, before it is stopped."""
_SHORT_GOODBYE = 0.3
"""The same for an agent that does not exit by itself."""


class AcpMachine(ABC):
    """One session in one process.

    Contract: no input or output of its own; `feed` never raises, whatever an agent prints.
    """

    def __init__(self, recorder: Recorder, quirks: AcpQuirks, plan: SessionPlan) -> None:
        self._recorder = recorder
        self._quirks = quirks
        self._plan = plan
        self._client = protocol.AcpClient()
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
            if isinstance(message, protocol.Answer):
                self._give_up(ProtocolDrift(f"the agent's answer to {message.method} is malformed"))

    # -- what runs and conversations do differently ---------------------------------------------

    @abstractmethod
    def _session_ready(self) -> None:
        """The session is open and takes prompts."""

    @abstractmethod
    def _give_up(self, error: AgentError) -> None:
        """The current step failed."""

    @abstractmethod
    def _answered(self, answer: protocol.Answer) -> None:
        """Take an answer that is not about opening or closing the session."""

    @abstractmethod
    def _updated(self, update: protocol.Update, line: bytes) -> None:
        """Take an update that came after the session was opened."""

    @abstractmethod
    def _asked(self, call: protocol.Call, line: bytes) -> None:
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

    def _take(self, message: protocol.Incoming, line: bytes) -> None:
        if isinstance(message, protocol.Notice):
            self._notified(message, line)
        elif isinstance(message, protocol.Call):
            self._called(message, line)
        elif isinstance(message, protocol.Noise):
            self._recorder.unknown(raw_of(line))
        elif message.method == "session/close":
            self._leave()
        elif not self._opening.over:
            self._opening.answered(message)
        else:
            self._answered(message)

    def _notified(self, notice: protocol.Notice, line: bytes) -> None:
        if notice.method == "$/cancel_request":
            self._turns.withdrawn(protocol.decode_cancelled(notice.params))
            return
        if notice.method.startswith("_"):
            # The protocol's names for extensions, which a client may ignore.
            return
        if notice.method != "session/update":
            self._recorder.unknown(raw_of(line))
            return
        report = protocol.decode_update(notice.params)
        session_id = self._opening.session_id
        if session_id and report.session_id not in ("", session_id):
            self._recorder.unknown(raw_of(line))
        elif self._opening.over:
            self._updated(report.update, line)
        elif not self._opening.take(report.update) and not is_known(report.update):
            self._recorder.unknown(raw_of(line))

    def _called(self, call: protocol.Call, line: bytes) -> None:
        """Answer a call of the agent."""
        if call.method == "session/request_permission":
            self._asked(call, line)
            return
        self._recorder.reply(protocol.refuse(call.id, call.method))
        self._recorder.unknown(raw_of(line))

    def _close_session(self) -> None:
        """Close the session if the agent can do that, then leave."""
        if self._opening.can_close and self._opening.over:
            self._recorder.reply(self._client.request("session/close", self._opening.params))
            self._recorder.expect(_GOODBYE)
        else:
            self._leave()

    def _leave(self) -> None:
        self._recorder.input_done = True
        self._recorder.expect(_GOODBYE if self._quirks.leaves_at_eof else _SHORT_GOODBYE)

    def _explain_exit(self, exit: ProcessExit) -> None:
        """Record why a process that never answered ended, if it says so."""
        if self._recorder.error is None and "initialize" in self._client.pending:
            error = protocol.ERRORS.of_exit(exit)
            if error is not None:
                self._recorder.fail(error)


# -- what a turn used ------------------------------------------------------------------------------


def usage_of(done: protocol.PromptDone, quirks: AcpQuirks) -> Usage | None:
    """What a prompt used; None if the agent's counts cannot be added up."""
    if quirks.usage == "none" or done.usage is None:
        return None
    counts = done.usage
    read, written = counts.cached_read_tokens or 0, counts.cached_write_tokens or 0
    fresh = counts.input_tokens - (read + written if quirks.cached_in_input else 0)
    return Usage(
        input_tokens=max(0, fresh),
        output_tokens=counts.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=counts.thought_tokens or 0,
    )


def model_of(done: protocol.PromptDone) -> str | None:
    """The model that a prompt's quota names, if exactly one worked."""
    used = _part(_part(done.meta, "quota"), "model_usage")
    if isinstance(used, list) and len(used) == 1:
        name = _part(used[0], "model")
        return name if isinstance(name, str) else None
    return None


def asked_no_model(done: protocol.PromptDone) -> bool:
    """Whether a prompt's quota says that no model was asked."""
    used = _part(_part(done.meta, "quota"), "model_usage")
    return isinstance(used, list) and not used


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


# -- what a permission request is about ------------------------------------------------------------


_CHANGES = ("edit", "delete", "move")
_FOLDER = re.compile(r"\[in ([^][()]+)\]")
_HERE = "[current working directory "


def wire_call(
    quirks: AcpQuirks, tool: Tool, name: str, asked: protocol.Update, cwd: str
) -> WireCall:
    """The call that `asked` is about; `tool` is what is known of it, under the name `name`."""
    own = asked.raw_input if isinstance(asked.raw_input, dict) else {}
    known = tool.args if isinstance(tool.args, dict) and not quirks.late_input else {}
    args: dict[str, Any] = {**known, **own}
    seen = bool(args)
    kind = asked.kind or tool.kind
    paths = _paths(asked)
    if kind in _CHANGES and paths:
        named = args.get("path")
        args["path"] = [*paths, named] if isinstance(named, str) else paths
        seen = True
    if kind == "execute" and not seen and quirks.title_is_command and tool.title:
        args, seen = _command(tool.title, protocol.text_of(asked.content)), True
    if not seen:
        args = {UNSEEN: True}
    return WireCall(tool_call_id=tool.id, tool_name=name, args=args, cwd=cwd)


def _command(title: str, explanation: str) -> dict[str, Any]:
    """A command that the agent reports as a title; the text may begin with its folder."""
    if not explanation or explanation.startswith(_HERE):
        return {"command": title}
    folder = _FOLDER.match(explanation)
    if folder is None:
        return {UNSEEN: True}
    return {"command": title, "dir_path": folder.group(1)}


def _paths(asked: protocol.Update) -> list[str]:
    """The files that the request names."""
    parts = [each for each in (asked.locations, asked.content) if isinstance(each, list)]
    found = [entry.get("path") for part in parts for entry in part if isinstance(entry, dict)]
    return list(dict.fromkeys(path for path in found if isinstance(path, str)))
