"""What comes back from a run."""

from typing import Any, Literal

import msgspec

from bridle.core.errors import BridleError, ErrorInfo, error_from_info, exit_code_of
from bridle.core.events import RunStatus
from bridle.core.usage import NO_USAGE, Usage

CostSource = Literal["provider", "priced", "unknown"]


class GuardReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's result says about its guard."""

    capability: str
    state: Literal["live", "unproved", "unguarded"]
    """`live`: it was seen to fire. `unproved`: nothing happened that could have shown it.
    `unguarded`: the caller switched it off."""
    mechanism: str = ""
    sandbox: str | None = None
    """The sandbox mode that confined the agent, named or from its capability. None: no sandbox, or
    the runtime's own default."""
    allowed: int = 0
    blocked: int = 0


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, in the shape that `bridle run --json` prints."""

    runtime: str
    """The runtime that ran."""
    runtime_version: str = ""
    """The version of the agent's CLI."""
    session_id: str = ""
    """Bridle's own id of the run."""
    native_session_id: str | None = None
    """The agent's id of the conversation; `resume` takes it."""
    model: str | None = None
    """What the runtime reported, not what was asked for."""
    status: RunStatus
    """How the run ended."""
    exit_code: int | None = None
    """The agent process's own exit status (negative: killed by that signal). It proves nothing:
    some CLIs exit 0 after a failure; `status` is decided by evidence."""
    text: str = ""
    """The agent's last text."""
    structured: Any = msgspec.UNSET
    """The answer as a value that fits `output_schema`; unset, and not in JSON, without one."""
    marker_detected: bool = False
    """Whether the agent said the completion marker; `docs/marker.md` has the rule."""
    usage: Usage = NO_USAGE
    """Tokens of all model calls."""
    cost_usd: float | None = None
    """What the run cost; None when that is not known."""
    cost_source: CostSource = "unknown"
    """Where `cost_usd` comes from: the agent itself, a price table, or nowhere."""
    duration_ms: int = 0
    """How long the run took."""
    ignored_options: tuple[str, ...] = ()
    """Options that the runtime does not support, left out with `ignore_unsupported`."""
    error: ErrorInfo | None = None
    """Why the run failed; None when it completed."""
    refusals: int = 0
    """Tool calls that were refused: by a person, the guard, the agent's own rules, or because
    nobody was there to ask."""
    guard: GuardReport | msgspec.UnsetType = msgspec.UNSET
    """How the run was guarded; left out for a run that belongs to no agent."""

    def failure(self) -> BridleError | None:
        """The exception for this result's error; None when the run completed."""
        return None if self.error is None else error_from_info(self.error)

    @property
    def exit_status(self) -> int:
        """The exit status of a command that ends with this result; 0 only when it completed."""
        if self.error is not None:
            return exit_code_of(self.error.kind)
        return 0 if self.status == "completed" else 1


STATUS_OF_KIND: dict[str, RunStatus] = {
    "timeout": "timed_out",
    "aborted": "aborted",
    "budget_exceeded": "budget_exceeded",
}
"""Error kinds that have their own run status; every other kind is `failed`."""


class TranscriptSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a transcript file says was used, each model call counted once."""

    input_tokens: int
    output_tokens: int
    model: str
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None


def transcript_summary(
    usage: Usage, *, model: str, cost_usd: float | None = None
) -> TranscriptSummary:
    """The summary of a transcript whose model calls add up to `usage`."""
    return TranscriptSummary(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        model=model,
        cost_usd=cost_usd,
    )


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a runtime can be used on this machine, and if not, why and what to do."""

    runtime: str
    available: bool
    binary: str | None = None
    version: str | None = None
    dialect: str | None = None
    version_seen: bool = False
    """Whether this exact version was ever tested; if not, the nearest dialect is used."""
    credentials: Literal["present", "missing", "unknown"] = "unknown"
    """Judged by the presence of a key variable or login file; contents are never read."""
    reasons: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


class Loading(msgspec.Struct, frozen=True, tag_field="phase", tag="loading"):
    """The pane shows no prompt yet: wait and look again."""


class Dialog(msgspec.Struct, frozen=True, kw_only=True, tag_field="phase", tag="dialog"):
    """A dialog blocks the terminal; `action` is the one key sequence that is safe to send.

    `action` None means no key is safe: a person must decide, or the session must not be started.
    """

    name: str
    action: str | None


class Ready(msgspec.Struct, frozen=True, tag_field="phase", tag="ready"):
    """The agent waits for a prompt."""


class Busy(msgspec.Struct, frozen=True, kw_only=True, tag_field="phase", tag="busy"):
    """The agent is past its start and works; `what` says on what, as far as the pane shows."""

    what: Literal["working", "permission", "retrying", "error"] = "working"


ReadyState = Loading | Dialog | Ready | Busy
"""What a captured pane shows. Callers that only wait for readiness treat `Busy` as not ready."""
