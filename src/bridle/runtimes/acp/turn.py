"""A turn: what the agent reports between a prompt and its answer, and how the answer is judged.

A run plays one turn, a conversation one after another. The protocol has no names of tools and need
not carry their arguments. An agent that sends both in other fields is judged by these; otherwise by
the kind of the call, the paths it names and, where its quirks say so, the title it shows. Arguments
that the agent does not send are marked as unseen, and then only what changes nothing is allowed.
"""

import re
from typing import Any

import msgspec

from bridle.core.errors import AgentError, Unavailable
from bridle.core.usage import Usage
from bridle.runtimes.acp import client as acp
from bridle.runtimes.acp import wire
from bridle.runtimes.acp.client import result_of
from bridle.runtimes.acp.errors import (
    error_of_call,
    error_of_silence,
    error_of_stop,
    error_of_text,
)
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.acp.updates import Tool, UpdateTranslator
from bridle.turns.guard_contract import UNSEEN, Verdict, WireCall
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question


class Turns:
    """The turns of one session in one process.

    Contract: whoever sends the prompts says when a turn begins and ends (on the recorder); this
    translates what comes meanwhile. A permission request is answered once, whoever answers it.
    """

    def __init__(self, recorder: Recorder, quirks: AcpQuirks, plan: SessionPlan) -> None:
        self._recorder = recorder
        self._quirks = quirks
        self._plan = plan
        self._translator = UpdateTranslator(recorder, quirks)
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
        if not self._quirks.reports_cost or cost is None:
            return
        counts_anew = self._quirks.cost_restarts or not self._plan.resume
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
        about = wire_call(self._quirks, tool, name, asked.tool_call, self._plan.cwd)
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
                error = error_of_silence(self._quirks.silent_error)
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
        usage = usage_of(done, self._quirks)
        if usage is None:
            return
        whole = usage if self._quirks.usage == "session" else self._recorder.usage + usage
        self._recorder.set_usage(whole)

    def close(self) -> None:
        """The turn is over: hand over what was held back."""
        self.withdraw("the turn is over")
        self._translator.close()
        if self._recorder.message_open:
            self._recorder.message_ended()
        self.cancelled = self.unhurried = False


# -- what a turn used ------------------------------------------------------------------------------


def usage_of(done: wire.PromptDone, quirks: AcpQuirks) -> Usage | None:
    """What the only prompt of a process used; None where the agent tells nothing of use."""
    if quirks.usage == "none" or done.usage is None:
        return None
    told = done.usage
    read, written = told.cached_read_tokens or 0, told.cached_write_tokens or 0
    fresh = told.input_tokens - (read + written if quirks.cached_in_input else 0)
    return Usage(
        input_tokens=max(0, fresh),
        output_tokens=told.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=told.thought_tokens or 0,
    )


def model_of(done: wire.PromptDone) -> str | None:
    """The model that a prompt's quota names, where exactly one did the work."""
    used = _part(_part(done.meta, "quota"), "model_usage")
    if isinstance(used, list) and len(used) == 1:
        name = _part(used[0], "model")
        return name if isinstance(name, str) else None
    return None


def asked_no_model(done: wire.PromptDone) -> bool:
    """Whether a prompt's quota says that no model was asked."""
    used = _part(_part(done.meta, "quota"), "model_usage")
    return isinstance(used, list) and not used


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


# -- what a permission request is about ------------------------------------------------------------


_CHANGES = ("edit", "delete", "move")
_FOLDER = re.compile(r"\[in ([^][()]+)\]")
_HERE = "[current working directory "


def wire_call(quirks: AcpQuirks, tool: Tool, name: str, asked: wire.Update, cwd: str) -> WireCall:
    """The call that `asked` is about; `tool` is what is known of it, under the name `name`."""
    own = asked.raw_input if isinstance(asked.raw_input, dict) else {}
    known = tool.args if isinstance(tool.args, dict) and not quirks.late_input else {}
    args: dict[str, Any] = {**known, **own}
    told = bool(args)
    kind = asked.kind or tool.kind
    paths = _paths(asked)
    if kind in _CHANGES and paths:
        named = args.get("path")
        args["path"] = [*paths, named] if isinstance(named, str) else paths
        told = True
    if kind == "execute" and not told and quirks.title_is_command and tool.title:
        args, told = _command(tool.title, wire.text_of(asked.content)), True
    if not told:
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


def _paths(asked: wire.Update) -> list[str]:
    """The files that the request names."""
    parts = [each for each in (asked.locations, asked.content) if isinstance(each, list)]
    found = [entry.get("path") for part in parts for entry in part if isinstance(entry, dict)]
    return list(dict.fromkeys(path for path in found if isinstance(path, str)))
