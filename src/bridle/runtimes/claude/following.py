"""Claude Code's transcript, translated into events as the CLI appends to it.

A message stands on as many lines as it has blocks, each with its id, its stop reason and all of its
usage. The end of a turn is the line `turn_duration`; a failed one has a message of the CLI's own
before it, an interrupted one a line that says so and nothing after it. A prompt interrupted before
the first word goes back into the input line, and the transcript keeps silent: the pane tells. In a
new transcript a quick first answer may stand before the prompt that it answers.
"""

import msgspec

from bridle.core.usage import Usage
from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude.errors import error_of_tag
from bridle.runtimes.claude.wire import Block, WireUsage, usage_of
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts

_SYNTHETIC = "<synthetic>"
_INTERRUPTED = "[Request interrupted by user"
_GOES_ON = (None, "tool_use", "pause_turn")
"""Stop reasons after which the agent goes on by itself."""
_NOT_A_PROMPT = ("<command-name>", "<command-message>", "<local-command-", "<bash-", "Caveat: ")
"""How entries begin that commands of the interface leave behind."""


class _Message(msgspec.Struct):
    id: str = ""
    model: str = ""
    content: str | list[Block] = ""
    stop_reason: str | None = None
    usage: WireUsage | None = None


class _Attachment(msgspec.Struct):
    type: str = ""
    prompt: str | list[Block] = ""


class _Line(msgspec.Struct, rename="camel"):
    type: str = ""
    subtype: str = ""
    session_id: str | None = None
    version: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    api_error_status: int | None = None
    error: object = None
    message: _Message | None = None
    attachment: _Attachment | None = None
    retry_attempt: int = 0
    retry_in_ms: float | None = None


class _Kind(msgspec.Struct):
    type: str = ""


_kinds = msgspec.json.Decoder(_Kind)
_lines = msgspec.json.Decoder(_Line)
_READ = frozenset({"user", "assistant", "system", "attachment"})


class ClaudeFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    _open_id: str | None = None
    _model: str | None = None
    _usage: Usage | None = None
    _stop_reason: str | None = None
    _compacted = False

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        super().__init__(facts, recorder)
        self._early: list[tuple[bytes, _Line]] = []

    def _take(self, line: bytes) -> None:
        if _kinds.decode(line).type not in _READ:
            return
        entry = _lines.decode(line)
        if entry.is_sidechain:
            return
        if entry.type == "assistant" and self.waits and not self.recorder.turn_open:
            self._early.append((line, entry))
            return
        self._play(line, entry)

    def _told(self, text: str, evidence: str) -> None:
        super()._told(text, evidence)
        self._play_early()

    def _take_prompts(self) -> None:
        super()._take_prompts()
        self._play_early()

    def finish(self, exit: ProcessExit) -> None:
        """What answers a prompt that was never written down is told all the same."""
        self._play_early()
        super().finish(exit)

    def _play_early(self) -> None:
        """Tell what stood before the prompt that it answers."""
        early, self._early = self._early, []
        for line, entry in early:
            self._play(line, entry)

    def _play(self, line: bytes, entry: _Line) -> None:
        self.recorder.session_started(entry.session_id, runtime_version=entry.version)
        if self.recorder.options.include_raw:
            self.recorder.source(msgspec.json.decode(line))
        if entry.type == "user" and entry.message is not None:
            self._user(entry, entry.message)
        elif entry.type == "assistant" and entry.message is not None:
            self._assistant(entry, entry.message)
        elif entry.type == "attachment" and entry.attachment is not None:
            if entry.attachment.type == "queued_command":
                self._told(_text(entry.attachment.prompt), "queued_command")
        elif entry.type == "system":
            self._system(entry)

    def _user(self, entry: _Line, message: _Message) -> None:
        if entry.is_compact_summary or (entry.is_meta and isinstance(message.content, str)):
            return
        blocks = [] if isinstance(message.content, str) else message.content
        results = [block for block in blocks if block.type == "tool_result"]
        for block in results:
            self._close_message()
            self.recorder.tool_ended(
                block.tool_use_id, is_error=bool(block.is_error), result=block.content
            )
        text = _text(message.content)
        if text.startswith(_INTERRUPTED):
            self._aborted("interrupted at the terminal")
        elif text and not results and not entry.is_meta and not text.startswith(_NOT_A_PROMPT):
            self._told(text, "user entry")

    def _assistant(self, entry: _Line, message: _Message) -> None:
        if message.model == _SYNTHETIC:
            if entry.is_api_error_message:
                tag = entry.error if isinstance(entry.error, str) else None
                text = _text(message.content)
                model = self.recorder.options.model or self.recorder.model
                self.recorder.fail(error_of_tag(tag, entry.api_error_status, text, model=model))
                self._final = True
            return
        blocks = message.content if isinstance(message.content, list) else []
        for block in blocks:
            if block.type in ("text", "thinking"):
                self._open(message)
                self._say(block.type, block.text or block.thinking)
            elif block.type == "tool_use":
                self._open(message)
                self._close_message()
                self.recorder.tool_started(block.id, block.name, block.input)
        self._final = message.stop_reason not in _GOES_ON

    def _open(self, message: _Message) -> None:
        """Open the message, or go on with it; its usage counts once."""
        if self._open_id == message.id:
            return
        self._close_message()
        self._open_id, self._model = message.id, message.model or None
        self._stop_reason = message.stop_reason
        self._usage = usage_of(message.usage) if message.usage is not None else None
        self.recorder.message_started(message.id)

    def _close_message(self) -> None:
        if self._open_id is not None and self.recorder.message_open:
            self.recorder.message_ended(
                usage=self._usage, model=self._model, stop_reason=self._stop_reason
            )
            self._usage = None

    def _end_turn(self) -> None:
        super()._end_turn()
        self._open_id = None

    def _system(self, entry: _Line) -> None:
        if entry.subtype == "turn_duration":
            self._end_turn()
        elif entry.subtype == "compact_boundary":
            self.recorder.compaction_started("", synthetic=True)
            self.recorder.compaction_ended("success")
        elif entry.subtype == "api_error" and self.recorder.turn_open:
            error = error_of_tag(None, entry.api_error_status, "a model call failed")
            delay = None if entry.retry_in_ms is None else round(entry.retry_in_ms)
            self.recorder.retrying(entry.retry_attempt, delay, error)


def _text(content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if block.type == "text")
