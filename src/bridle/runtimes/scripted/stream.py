"""Translates the scripted agent's wire into events."""

import msgspec

from bridle.core.errors import AgentError
from bridle.process.spec import ProcessExit
from bridle.runtimes.scripted import wire
from bridle.runtimes.scripted.product import PRODUCT
from bridle.runtimes.wire import raw_of
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question


class ScriptedNormalizer:
    """One run's translator. Contract: see `Normalizer`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._seen = False

    def feed(self, line: bytes) -> None:
        """Take one line of stdout."""
        if not line.strip():
            return
        message = wire.decode(line)
        if message is None:
            self._recorder.unknown(raw_of(line))
            return
        self._seen = True
        if self._recorder.options.include_raw:
            self._recorder.source(msgspec.json.decode(line))
        self._translate(message)

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone; a turn that it did not close failed."""
        if not self._seen and (error := PRODUCT.errors.of_exit(exit)) is not None:
            self._recorder.fail(error)
        self._recorder.finish(exit)

    def _translate(self, message: wire.Message) -> None:
        recorder = self._recorder
        match message:
            case wire.Text(text=text):
                recorder.text_delta(text)
            case wire.Thinking(text=text):
                recorder.thinking_delta(text)
            case wire.MessageStart(id=name):
                recorder.message_started(name)
            case wire.MessageEnd():
                recorder.message_ended(
                    usage=message.usage,
                    model=message.model,
                    stop_reason=message.stop_reason,
                    cost_usd=message.cost_usd,
                )
            case wire.ToolStart():
                recorder.tool_started(message.id, message.name, message.args)
            case wire.ToolUpdate(id=name, text=text):
                recorder.tool_updated(name, text)
            case wire.ToolEnd():
                recorder.tool_ended(message.id, is_error=message.is_error, result=message.result)
            case wire.Session():
                recorder.session_started(
                    message.id, model=message.model, runtime_version=message.version
                )
            case wire.TurnStart():
                recorder.turn_started(evidence="turn_start")
            case wire.Result():
                recorder.turn_ended()
                recorder.input_done = True
            case wire.Error():
                recorder.fail(error_of(message))
                recorder.turn_ended()
                recorder.input_done = True
            case _:
                self._translate_rare(message)

    def _translate_rare(self, message: wire.Message) -> None:
        recorder = self._recorder
        match message:
            case wire.Retry():
                recorder.message_ended(synthetic=True)
                recorder.retrying(message.attempt, message.delay_ms, error_of(message.error))
            case wire.Refused():
                recorder.permission_decided(
                    f"refused_{message.id}",
                    tool_call_id=message.id,
                    tool_name=message.name,
                    decision="deny",
                    by=message.by,
                    reason=message.reason,
                )
            case wire.Guarded():
                if recorder.guard is not None:
                    recorder.guard.proved("the agent said that it asks")
            case wire.GuardQuestion():
                verdict = recorder.verdicts.ask(message.id, message.name, message.args, message.cwd)
                recorder.reply(
                    wire.answer_line(message.request_id, verdict.allowed, verdict.reason)
                )
            case wire.Permission(request_id=request_id):
                recorder.permission_requested(
                    Question(
                        request_id=request_id,
                        tool_call_id=message.id,
                        tool_name=message.name,
                        args=message.args,
                        answer=lambda allowed, reason: wire.answer_line(
                            request_id, allowed, reason
                        ),
                    )
                )


def error_of(said: wire.Error | wire.WireError) -> AgentError:
    """The error of a failure on the wire, by its HTTP status or by its kind."""
    return PRODUCT.errors.of_call(
        said.message, status=said.status, tag=said.kind or "", until=said.until
    )
