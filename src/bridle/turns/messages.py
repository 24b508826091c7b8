"""What the agent writes: the open message, and the last text of the turn and of the run."""

from collections.abc import Callable

from bridle.core import events as ev
from bridle.core.marker import find_marker
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.core.usage import Usage
from bridle.turns.event_writer import EventWriter

_START: dict[str, ev.UpdateKind] = {"text": "text_start", "thinking": "thinking_start"}
_DELTA: dict[str, ev.UpdateKind] = {"text": "text_delta", "thinking": "thinking_delta"}
_END: dict[str, ev.UpdateKind] = {"text": "text_end", "thinking": "thinking_end"}

_INSTRUCTIONS = 1 << 16
"""Characters of a conversation's prompts that are kept, to recognize them when the agent repeats
them."""


class MessageWriter:
    """Writes the open assistant message block by block.

    Contract: at most one message is open, and in it at most one block (`text` or `thinking`). The
    caller opens and closes in that order; ending or continuing something that is not open has no
    effect. Secrets that arrive in pieces are held back until they are complete.
    """

    def __init__(self, writer: EventWriter, redactor: Redactor) -> None:
        self.block: str | None = None
        """The kind of the open block."""
        self.id: str | None = None
        """The id of the open message."""
        self._writer = writer
        self._redactor = redactor
        self._role: ev.Role = "assistant"
        self._text: list[str] = []
        self._held = ""
        self._delta: ev.UpdateKind = "text_delta"

    def start(self, message_id: str, synthetic: bool, role: ev.Role = "assistant") -> None:
        """Open a message."""
        self.id = message_id
        self._role = role
        self._text = []
        self._writer.emit(ev.MessageStart, message_id=message_id, role=role, synthetic=synthetic)

    def start_block(self, kind: str, synthetic: bool) -> None:
        """Open a block; an open block is closed first."""
        self.end_block(synthetic)
        self.block, self._delta = kind, _DELTA[kind]
        self._piece(_START[kind], "", synthetic)

    def add(self, text: str, synthetic: bool) -> None:
        """Add text to the open block; ignored if no block is open."""
        block = self.block
        if block is None:
            return
        text, self._held = self._redactor.split(self._held + text)
        if not text:
            return
        if block == "text":
            self._text.append(text)
        self._piece(self._delta, text, synthetic)

    def end_block(self, synthetic: bool) -> None:
        """Close the open block."""
        if self.block is None:
            return
        kind, self.block = self.block, None
        held, self._held = self._redactor.text(self._held), ""
        if held:
            if kind == "text":
                self._text.append(held)
            self._piece(self._delta, held, synthetic)
        self._piece(_END[kind], "", synthetic)

    def end(
        self,
        *,
        usage: Usage | None,
        model: str | None,
        stop_reason: str | None,
        synthetic: bool,
    ) -> str:
        """Close the open message and its open block; returns the text, without secrets."""
        self.end_block(synthetic)
        message_id, self.id = self.id, None
        text = self._redactor.text("".join(self._text))
        self._writer.emit(
            ev.MessageEnd,
            message_id=message_id,
            role=self._role,
            text=text,
            usage=usage,
            model=model,
            stop_reason=stop_reason,
            synthetic=synthetic,
        )
        return text

    def _piece(self, kind: ev.UpdateKind, text: str, synthetic: bool) -> None:
        # Nine of ten events are made here, so this code does not go through `emit`.
        writer = self._writer
        writer.seq += 1
        writer.out.append(
            ev.MessageUpdate(
                seq=writer.seq,
                ts=writer.clock(),
                session_id=writer.session_id,
                runtime=writer.runtime,
                raw=writer.raw,
                synthetic=synthetic,
                message_id=self.id or "",
                kind=kind,
                text=text,
            )
        )


class LastWords:
    """The last text of the turn and of the run, and whether they contain the completion marker.

    Contract: the run's text is the last one that is not empty; its marker is detected if any turn's
    was. A text that only repeats the agent's instructions does not count as the marker.
    """

    def __init__(self, options: RunOptions) -> None:
        self.run_text = ""
        self.run_marker = False
        self.turn_text = ""
        self.turn_marker = False
        self.file_instructions: Callable[[], str] = str
        """Returns the instructions that the agent reads from files. Called only when a text seems
        to contain the marker, so that other runs read no files."""
        self._marker = options.marker
        self._instructions = "\n".join(
            part
            for part in (options.prompt, options.system_prompt, options.append_system_prompt)
            if part
        )

    def instructed(self, text: str) -> None:
        """The agent receives this text as an instruction."""
        self._instructions = f"{self._instructions}\n{text}"[-_INSTRUCTIONS:]

    def begin_turn(self) -> None:
        """A turn begins without a text."""
        self.turn_text = ""
        self.turn_marker = False

    def said(self, text: str) -> None:
        """Record the agent's latest text."""
        if not text:
            return
        self.run_text = self.turn_text = text
        if self.turn_marker or not find_marker(text, self._marker, self._instructions):
            return
        in_files = self.file_instructions()
        if not in_files or find_marker(text, self._marker, f"{self._instructions}\n{in_files}"):
            self.turn_marker = self.run_marker = True
