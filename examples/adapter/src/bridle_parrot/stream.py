"""What Parrot prints, as calls of the recorder."""

from typing import Any

import msgspec

from bridle.adapter import ProcessExit, Recorder, Usage, decoder, raw_of
from bridle_parrot.product import PRODUCT


class Line(msgspec.Struct):
    """Every line Parrot prints; which fields it has depends on its type."""

    type: str
    session: str = ""
    model: str = ""
    version: str = ""
    text: str = ""
    thought: str = ""
    usage: dict[str, Any] | None = None
    id: str = ""
    command: str = ""
    status: int = 0
    output: str = ""
    attempt: int = 0
    message: str = ""


class ParrotNormalizer:
    """Parrot's lines, as calls on the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._decoder = decoder(Line)

    def feed(self, line: bytes) -> None:
        recorder = self._recorder
        try:
            said = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            recorder.unknown(raw_of(line))
            return
        recorder.source(raw_of(line))
        if said.type == "hello":
            recorder.session_started(said.session, model=said.model, runtime_version=said.version)
            recorder.turn_started(evidence="hello")
        elif said.type == "say":
            recorder.message_started()
            recorder.thinking_delta(said.thought, synthetic=True)
            recorder.text_delta(said.text, synthetic=True)
            recorder.message_ended(usage=_usage(said.usage))
        elif said.type == "run":
            recorder.tool_started(said.id, "bash", {"command": said.command})
        elif said.type == "ran":
            recorder.tool_ended(said.id, is_error=said.status != 0, result=said.output)
        elif said.type == "again":
            error = PRODUCT.errors.of_call(said.message, status=said.status)
            recorder.retrying(said.attempt, None, error)
        elif said.type == "failed":
            recorder.fail(PRODUCT.errors.of_call(said.message, status=said.status))
        elif said.type == "bye":
            recorder.turn_ended()
        else:
            recorder.unknown(raw_of(line))

    def finish(self, exit: ProcessExit) -> None:
        # A turn without `bye` failed: by what `failed` said, else by how the process ended.
        self._recorder.finish(exit)


def _usage(counts: dict[str, Any] | None) -> Usage | None:
    """OpenAI's counts in Bridle's meaning: input without what came from the cache."""
    if counts is None:
        return None
    cached = (counts.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (counts.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return Usage(
        input_tokens=counts["prompt_tokens"] - cached,
        output_tokens=counts["completion_tokens"],
        cache_read_tokens=cached,
        reasoning_tokens=reasoning,
    )
