"""The lines that `cline --json` prints, as far as Bridle reads them: tagged unions, one pass."""

from typing import Any

import msgspec

from bridle.core import structs
from bridle.runtimes.wire import InclusiveCounts

# -- what the agent does: `agent_event` -----------------------------------------------------------


class AgentThing(msgspec.Struct, frozen=True, tag_field="type", rename="camel"):
    """Something inside an `agent_event`."""


class IterationStart(AgentThing, frozen=True, tag="iteration_start"):
    """A model call begins."""


class IterationEnd(AgentThing, frozen=True, tag="iteration_end"):
    """The model call and its tools are done."""


class ContentStart(AgentThing, frozen=True, tag="content_start", rename="camel"):
    """A tool begins, or another piece of text or reasoning arrived: each comes as a start."""

    content_type: str = ""
    text: str = ""
    reasoning: str = ""
    tool_call_id: str = ""
    tool_name: str = "unknown"
    input: Any = None


class Update(msgspec.Struct, frozen=True):
    """Output of a running tool."""

    chunk: str = ""


class ContentUpdate(AgentThing, frozen=True, tag="content_update", rename="camel"):
    """A running tool printed something."""

    tool_call_id: str = ""
    update: Update | None = None


class ContentEnd(AgentThing, frozen=True, tag="content_end", rename="camel"):
    """A block is whole, or a tool ended."""

    content_type: str = ""
    text: str = ""
    reasoning: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    output: Any = None
    error: Any = None


class UsageEvent(InclusiveCounts, frozen=True, tag_field="type", tag="usage", rename="camel"):
    """Tokens of the model call that just ended; the totals beside them are not read."""

    cost: float | None = None


class Problem(msgspec.Struct, frozen=True):
    """An exception of the agent."""

    name: str = ""
    message: str = ""


class AgentFailure(AgentThing, frozen=True, tag="error", rename="camel"):
    """The run fails, or, when it is recoverable, goes on after a mistake."""

    error: Problem = Problem()
    error_class: str = ""
    recoverable: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What a notice is about."""

    kind: str = ""
    phase: str = ""
    attempt: int = 0
    delay_ms: int | None = None
    provider_error: Any = None


class Notice(AgentThing, frozen=True, tag="notice"):
    """A message to the person at the terminal."""

    message: str = ""
    metadata: Metadata = Metadata()


class Done(AgentThing, frozen=True, tag="done"):
    """The agent stopped; `run_result` says the same and more."""


class Ids(msgspec.Struct, frozen=True, rename="camel"):
    """The model as `run_result` names it."""

    id: str = ""
    provider: str = ""


# -- lines ----------------------------------------------------------------------------------------


class Line(msgspec.Struct, frozen=True, tag_field="type", rename="camel"):
    """One line."""


class AgentEvent(Line, frozen=True, tag="agent_event"):
    """The agent did something."""

    event: (
        IterationStart
        | IterationEnd
        | ContentStart
        | ContentUpdate
        | ContentEnd
        | UsageEvent
        | AgentFailure
        | Notice
        | Done
    )


class HookEvent(Line, frozen=True, tag="hook_event", rename="camel"):
    """A point at which hooks run."""

    hook_event_name: str = ""


class Totals(InclusiveCounts, frozen=True, rename="camel"):
    """Tokens and price of a run."""

    total_cost: float | None = None


class RunResult(Line, frozen=True, tag="run_result", rename="camel"):
    """How the run ended."""

    finish_reason: str = ""
    text: str = ""
    usage: Totals | None = None
    aggregate_usage: Totals | None = None
    """With what sub-agents used."""
    model: Ids = Ids()


class RunAborted(Line, frozen=True, tag="run_aborted"):
    """Somebody stopped the run: a signal (`local_abort`) or a hook (`external_abort`)."""

    reason: str = ""
    message: str = ""


class ErrorLine(Line, frozen=True, tag="error"):
    """A failure; these come on stderr."""

    message: str = ""


decode_line = structs.decoder(AgentEvent | HookEvent | RunResult | RunAborted | ErrorLine).decode
