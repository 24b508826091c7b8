"""A run over a wire that takes many prompts: one prompt, its turn, and the end of the process."""

from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveWire, Outgoing

_GOODBYE = 5.0
"""Seconds for the agent to leave once its turn is over, before it is stopped."""


class OnePrompt:
    """The `Normalizer` of a run that is played over a `LiveWire`.

    Contract: made before the process starts; the wire's first words are then in
    `Recorder.replies`. The prompt is sent once the agent is ready, and the agent leaves after the
    turn. A prompt that the agent does not take fails the run.
    """

    def __init__(self, wire: LiveWire, recorder: Recorder, prompt: Outgoing) -> None:
        self._wire = wire
        self._recorder = recorder
        self._prompt: Outgoing | None = prompt
        self._over = False
        wire.begin()

    def feed(self, line: bytes) -> None:
        """Take one line of stdout, and say what is due after it."""
        self._wire.feed(line)
        recorder = self._recorder
        if self._prompt is not None and recorder.is_ready:
            prompt, self._prompt = self._prompt, None
            self._wire.prompt(prompt)
        for delivery in recorder.deliveries:
            if not delivery.taken and delivery.error is not None:
                recorder.fail(delivery.error)
                self._leave()
        recorder.deliveries.clear()
        if recorder.turn and not recorder.turn_open:
            self._leave()

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone."""
        self._wire.finish(exit)

    def _leave(self) -> None:
        if not self._over:
            self._over = True
            self._wire.leave()
            self._recorder.expect(_GOODBYE)
