"""The lines that `gemini -o stream-json` prints, and the errors inside, as far as Bridle reads
them."""

from typing import Any

import msgspec

from bridle.core import structs


class Problem(msgspec.Struct, frozen=True):
    """What went wrong with a tool or with the run."""

    type: str = ""
    message: str = ""


class ModelStats(msgspec.Struct, frozen=True):
    """What one model used in this process; keyed by the name the service gave."""

    total_tokens: int = 0


class Stats(msgspec.Struct, frozen=True):
    """What this process used. `input_tokens` includes cached ones, `input` does not; tokens of
    thinking are in `total_tokens` alone."""

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0
    input: int = 0
    models: dict[str, ModelStats] = {}


class _Line(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Init(_Line, frozen=True, tag="init"):
    """The first line."""

    session_id: str = ""
    model: str = ""


class Message(_Line, frozen=True, tag="message"):
    """A piece of the model's text, or the prompt."""

    role: str = ""
    content: str = ""
    delta: bool = False


class ToolUse(_Line, frozen=True, tag="tool_use"):
    """The model asks for a tool."""

    tool_id: str
    tool_name: str = ""
    parameters: Any = None


class ToolResult(_Line, frozen=True, tag="tool_result"):
    """A tool has ended."""

    tool_id: str
    status: str = ""
    output: Any = None
    error: Problem | None = None


class Failure(_Line, frozen=True, tag="error"):
    """A warning or an error that does not end the run by itself."""

    severity: str = ""
    message: str = ""


class Result(_Line, frozen=True, tag="result"):
    """The last line; without it the work was not finished."""

    status: str = ""
    error: Problem | None = None
    stats: Stats = Stats()


decode_line = structs.decoder(Init | Message | ToolUse | ToolResult | Failure | Result).decode


class ServiceError(msgspec.Struct):
    """What the model service says about a failed call."""

    code: int | None = None
    message: str = ""
    status: str = ""
    details: list[dict[str, Any]] = []


class _ErrorBody(msgspec.Struct):
    error: ServiceError


def service_error(text: str) -> ServiceError | None:
    """The JSON body inside a sentence about a failed call; None if there is none."""
    start, end = text.find("{"), text.rfind("}")
    try:
        return structs.decode(text[start : end + 1], _ErrorBody).error
    except msgspec.MsgspecError:
        return None
