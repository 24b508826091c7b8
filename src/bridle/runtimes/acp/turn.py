"""A turn: what is told between a prompt and its answer, and how the answer is judged.

A run plays one, a live conversation one after another.
"""

import msgspec

from bridle.core.errors import AgentError, Unavailable
from bridle.runtimes.acp import client as acp
from bridle.runtimes.acp import wire
from bridle.runtimes.acp.agents import AcpAgent
from bridle.runtimes.acp.asking import wire_call
from bridle.runtimes.acp.errors import (
    error_of_call,
    error_of_silence,
    error_of_stop,
    error_of_text,
)
from bridle.runtimes.acp.opening import result_of
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.updates import Tool, UpdateTranslator
from bridle.runtimes.acp.usage import model_of, usage_of
from bridle.turns.guard_contract import Verdict
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question


class Turns:
    """The turns of one session in one process.

    Contract: whoever sends the prompts says when a turn begins and ends (on the recorder); this
    translates what comes meanwhile. A permission request is answered once, whoever answers it.
    """

    def __init__(self, recorder: Recorder, agent: AcpAgent, plan: SessionPlan) -> None:
        self._recorder = recorder
        self._agent = agent
        self._plan = plan
        self._translator = UpdateTranslator(recorder, agent)
        self._asking: dict[str, tuple[acp.Call, Question]] = {}
        """Permission requests without an answer, by the id that is shown."""
        self._judging: dict[str, acp.Call] = {}
        """Permission requests that wait for the guard's verdict, by the same id."""
        self.cancelled = False
        """Whether the agent was told to end this turn: it may then ask for nothing more."""
        self.unhurried = False
        """Whether this turn has no clock for silence, since nobody waits for it."""
        self.silence: AgentError | None = None
        """What the agent would be ended with if it said nothing more; None while no clock runs."""

    def take(self, update: wire.Update, line: bytes) -> None:
        """Translate an update of the open turn, which came as `line`."""
        if self._translator.take(update, line):
            self.goes_on()

    def cost(self, update: wire.Update) -> None:
        """Note what an update tells of the cost so far."""
        cost = update.cost
        if not self._agent.reports_cost or cost is None:
            return
        counts_anew = self._agent.cost_restarts or not self._plan.resume
        # An agent that knows no price tells 0, which is not a price.
        if cost.currency == "USD" and cost.amount > 0 and counts_anew:
            self._recorder.set_cost(cost.amount, "provider")

    def goes_on(self) -> None:
        """Wind up the clock that ends an agent which waits in vain; a tool may take its time."""
        if self.cancelled or self.unhurried:
            return
        seconds = self._plan.silence_timeout
        if seconds is None or self._translator.running or self._asking or self._judging:
            self.silence = None
            self._recorder.expect(None)
            return
        self.silence = Unavailable(
            f"the agent showed no progress for {seconds:g} s while the model was to answer",
            hint="the service may be failing while the agent tries again in silence; "
            "raise the provider option silence_timeout for a slow model",
        )
        self._recorder.expect(seconds, self.silence)

    # -- permission -----------------------------------------------------------------------------

    def asked(self, call: acp.Call) -> None:
        """The agent asks whether it may act; raises `msgspec.MsgspecError`, the answer given."""
        recorder = self._recorder
        try:
            asked = msgspec.json.decode(call.params, type=wire.PermissionRequest)
        except msgspec.MsgspecError:
            recorder.reply(acp.permission_cancelled(call.id))
            raise
        if self.cancelled:
            recorder.reply(acp.permission_cancelled(call.id))
            return
        tool = self._translator.asked(asked.tool_call)
        if recorder.stop_requested is not None:
            # Above all one whose guard is dead: it must not act before it is gone.
            recorder.reply(acp.permission_cancelled(call.id))
            return
        guard = recorder.guard
        if guard is None or not guard.mechanism.on_wire:
            self._ask_user(call, asked, tool)
            return
        self._judging[str(call.id)] = call
        self.goes_on()

        def hear(verdict: Verdict) -> None:
            if self._judging.pop(str(call.id), None) is None:
                # The turn was ended meanwhile, and with it the request.
                return
            if verdict.allowed:
                self._ask_user(call, asked, tool)
                return
            self._translator.blocked(tool, verdict.reason)
            self.goes_on()
            recorder.reply(acp.permission_answer(call.id, asked.options, allowed=False))

        name = self._translator.name_of(tool)
        about = wire_call(self._agent, tool, name, asked.tool_call, self._plan.cwd)
        recorder.verdicts.ask_later(about, hear)

    def _ask_user(self, call: acp.Call, asked: wire.PermissionRequest, tool: Tool) -> None:
        """Nothing speaks against it: allow it, or ask whoever decides."""
        recorder = self._recorder
        if recorder.options.permission_mode == "bypass":
            self.goes_on()
            recorder.reply(acp.permission_answer(call.id, asked.options, allowed=True))
            return
        request_id = str(call.id)

        def answer(allowed: bool, reason: str) -> bytes:
            if self._asking.pop(request_id, None) is None:
                # The turn was ended meanwhile, and with it the request.
                return b""
            if not allowed:
                self._translator.refused(tool, reason)
            self.goes_on()
            return acp.permission_answer(call.id, asked.options, allowed)

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
        """Answer everything that is still asked as cancelled."""
        for request_id in list(self._asking):
            self._cancel(request_id, reason)
        for call in self._judging.values():
            self._recorder.reply(acp.permission_cancelled(call.id))
        self._judging.clear()

    def withdrawn(self, call_id: int | str | None) -> None:
        """The agent takes one of its requests back."""
        judged = self._judging.pop(str(call_id), None)
        if judged is not None:
            self._recorder.reply(acp.permission_cancelled(judged.id))
            self.goes_on()
        elif str(call_id) in self._asking:
            self._cancel(str(call_id), "the agent took its question back")
            self.goes_on()

    def _cancel(self, request_id: str, reason: str) -> None:
        recorder = self._recorder
        call, question = self._asking.pop(request_id)
        recorder.questions[:] = [each for each in recorder.questions if each is not question]
        recorder.reply(acp.permission_cancelled(call.id))
        recorder.permission_decided(
            request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision="deny",
            by="bridle",
            reason=reason,
        )

    # -- the end --------------------------------------------------------------------------------

    def judge(self, answer: acp.Answer) -> None:
        """Take the answer to the prompt: what the turn used, and why it failed if it did."""
        recorder, translator = self._recorder, self._translator
        error: AgentError | None
        if answer.error is not None:
            error = error_of_call(answer.error, model=recorder.model)
        else:
            done = result_of(answer, wire.PromptDone)
            error = error_of_stop(done.stop_reason) or translator.failure
            if error is None and not translator.saw_work:
                error = error_of_silence(self._agent.silent_error)
            before = recorder.usage
            self._count(done)
            # Words like a failure's, and no token was used: nothing came from a model.
            if error is None and translator.suspect and recorder.usage == before:
                error = error_of_text(translator.suspect)
            recorder.model = model_of(done) or recorder.model
        if error is not None:
            recorder.fail(error)

    def settle(self, answer: acp.Answer) -> str:
        """Take the answer to a prompt that was no turn: what it used; why it failed, if it did."""
        if answer.error is not None:
            return error_of_call(answer.error, model=self._recorder.model).message
        done = result_of(answer, wire.PromptDone)
        self._count(done)
        error = error_of_stop(done.stop_reason)
        return error.message if error else ""

    def _count(self, done: wire.PromptDone) -> None:
        usage = usage_of(done, self._agent)
        if usage is None:
            return
        whole = usage if self._agent.usage == "session" else self._recorder.usage + usage
        self._recorder.set_usage(whole)

    def close(self) -> None:
        """The turn is over: hand over what was held back."""
        self.withdraw("the turn is over")
        self._translator.close()
        if self._recorder.message_open:
            self._recorder.message_ended()
        self.cancelled = self.unhurried = False
