"""A live conversation with the scripted agent: its plan and its wire."""

import os
from typing import Any

import msgspec

from bridle.core.errors import AgentError, Crashed, Unavailable
from bridle.process.spec import ProcessExit
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.scripted import wire
from bridle.runtimes.scripted.errors import error_of
from bridle.runtimes.scripted.stream import ScriptedNormalizer
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, Outgoing

KEY_VARIABLE = "BRIDLE_SCRIPTED_API_KEY"
"""Takes the key of the model server to the agent, which hands it to no tool."""


def live_plan(plan: RunPlan, request: dict[str, Any], resume: str | None) -> RunPlan:
    """The plan of a conversation whose agent is asked for `request` by its wire."""
    env = plan.spec.env
    server = request.get("server")
    if server is not None:
        env = {**env, KEY_VARIABLE: server["api_key"]}
        request = {**request, "server": {"url": server["url"]}}
    spec = msgspec.structs.replace(
        plan.spec, argv=(*plan.spec.argv, "--face", "live"), env=env, keep_stdin=True
    )
    live = msgspec.structs.replace(plan, spec=spec)
    return live.conversing("scripted", resume=resume, own={"request": request})


class ScriptedLiveWire(ScriptedNormalizer):
    """The wire of one conversation. Contract: see `LiveWire` and `ModelSwitch`.

    The agent tells of each message whether it took it, and takes a prompt whenever it said that
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
        """Let the agent leave; where its stdin cannot be closed, the word is enough."""
        self._recorder.reply(wire.command_line("leave"))
        self._recorder.input_done = True

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone: what it did not take it never will."""
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
