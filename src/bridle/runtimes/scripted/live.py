"""The wire of a live conversation with the scripted agent."""

import os

import msgspec

from bridle.core.errors import AgentError, Crashed, Unavailable
from bridle.process.spec import ProcessExit
from bridle.runtimes.scripted import wire
from bridle.runtimes.scripted.stream import ScriptedNormalizer, error_of
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, Outgoing


class ScriptedLiveWire(ScriptedNormalizer):
    """The wire of one conversation. Contract: see `LiveWire` and `ModelSwitch`.

    The agent says of each message whether it took it, and takes a prompt whenever it said that
    its turn is over, so nothing has to be guessed.
    """

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._facts = facts
        self._ready = False
        self._unsettled: dict[str, None] = {}

    def begin(self) -> None:
        """Send the request."""
        self._recorder.reply(msgspec.json.encode(self._facts.own["request"]) + b"\n")

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn."""
        self._send("prompt", message)

    def steer(self, message: Outgoing) -> None:
        """Reach the turn that is played; too late, the agent says so."""
        self._send("steer", message)

    def abort(self) -> None:
        """End the turn that is played, with its tools; without one the agent does nothing."""
        self._recorder.reply(wire.command_line("abort"))

    def set_model(self, model: str) -> None:
        """Ask for `model` from the next turn on."""
        self._recorder.reply(wire.command_line("set_model", model=model))

    def leave(self) -> None:
        """Let the agent leave, also where its stdin cannot be closed."""
        self._recorder.reply(wire.command_line("leave"))
        self._recorder.input_done = True

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone: refuse the messages that it did not take."""
        for message_id in self._unsettled:
            self._recorder.message_refused(
                message_id, Crashed("the agent ended before it took the message")
            )
        super().finish(exit)

    def _send(self, kind: str, message: Outgoing) -> None:
        self._unsettled[message.id] = None
        images = [wire.image_part(os.path.join(self._facts.cwd, image)) for image in message.images]
        text = message.text.encode("utf-8", "replace").decode()
        self._recorder.reply(wire.command_line(kind, id=message.id, text=text, images=images))

    def _translate(self, message: wire.Message) -> None:
        recorder = self._recorder
        match message:
            case wire.Ready():
                self._ready = True
                recorder.ready("ready")
            case wire.Taken(id=name):
                self._unsettled.pop(name, None)
                recorder.message_taken(name)
            case wire.NotTaken(id=name, reason=reason):
                self._unsettled.pop(name, None)
                recorder.message_refused(name, Unavailable(reason))
            case wire.Error():
                self._failed(error_of(message))
            case wire.TurnEnd():
                recorder.turn_ended()
            case _:
                super()._translate(message)

    def _failed(self, error: AgentError) -> None:
        """A turn failed, or the conversation cannot even begin."""
        if self._ready:
            self._recorder.fail(error)
        else:
            self._recorder.request_stop(error)
