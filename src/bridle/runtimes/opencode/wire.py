"""The lines that `opencode run --format json` prints, as far as Bridle reads them."""

from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.usage import Usage


class Cache(msgspec.Struct, frozen=True):
    """Cached tokens of one model call."""

    read: int = 0
    write: int = 0


class Tokens(msgspec.Struct, frozen=True):
    """Tokens of one model call: `input` without cached ones, `output` without reasoning; in older
    versions with it, which the total shows."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: Cache = Cache()
    total: int | None = None

    @property
    def usage(self) -> Usage:
        """The same in Bridle's meaning."""
        without = self.input + self.output + self.cache.read + self.cache.write
        return Usage(
            input_tokens=self.input,
            output_tokens=self.output + (0 if self.total == without else self.reasoning),
            cache_read_tokens=self.cache.read,
            cache_write_tokens=self.cache.write,
            reasoning_tokens=self.reasoning,
        )


class ToolState(msgspec.Struct, frozen=True):
    """How a tool call went; lines come for finished ones only."""

    status: str = ""
    input: Any = None
    output: Any = None
    error: str = ""


class Part(msgspec.Struct, frozen=True):
    """A finished part of a message; which fields it has follows from the line's type."""

    message_id: str = msgspec.field(name="messageID", default="")
    text: str = ""
    tool: str = ""
    call_id: str = msgspec.field(name="callID", default="")
    state: ToolState = ToolState()
    reason: str = ""
    tokens: Tokens = Tokens()
    cost: float = 0.0


class ErrorData(msgspec.Struct, frozen=True, rename="camel"):
    """What an error says about itself."""

    message: str = ""
    status_code: int | None = None
    response_headers: dict[str, str] = {}
    response_body: str = ""


class Problem(msgspec.Struct, frozen=True):
    """An error by the name OpenCode gives it."""

    name: str = ""
    data: ErrorData = ErrorData()


class _Line(msgspec.Struct, frozen=True, tag_field="type"):
    session_id: str = msgspec.field(name="sessionID", default="")


class _PartLine(_Line, frozen=True):
    part: Part = Part()


class StepStart(_PartLine, frozen=True, tag="step_start"):
    """The model began to answer."""


class Text(_PartLine, frozen=True, tag="text"):
    """A whole block of text."""


class Reasoning(_PartLine, frozen=True, tag="reasoning"):
    """A whole block of reasoning."""


class ToolUse(_PartLine, frozen=True, tag="tool_use"):
    """A tool call that has ended."""


class StepFinish(_PartLine, frozen=True, tag="step_finish"):
    """The answer is complete and its tools have ended."""


class Failure(_Line, frozen=True, tag="error"):
    """Something went wrong."""

    error: Problem = Problem()


decode_line = structs.decoder(StepStart | Text | Reasoning | ToolUse | StepFinish | Failure).decode
