"""Bridle's errors, typed by the reaction they call for.

    BridleError
    ├── WrongUse                the caller can fix it             exit 2
    │   ├── ConfigError         a configuration file is wrong
    │   ├── UnknownRuntime      no adapter of that name
    │   └── UnsupportedOption   this runtime cannot honour it     exit 4
    └── AgentError              an agent did not do its work      exit 1
        ├── NotInstalled        install the CLI                   exit 3
        ├── NotAuthenticated    log in, or give a key             exit 5
        ├── RateLimited         wait until `until`                exit 6
        ├── Overloaded          try again later                   exit 6
        ├── Billing             pay, or use another account
        ├── ContextOverflow     shorten or compact
        ├── TimedOut            give more time, or look why       exit 7
        ├── Aborted             the user stopped it               exit 130
        ├── BudgetExceeded      raise the limit                   exit 8
        ├── ResumeRefused       start a new session
        ├── ProtocolDrift       the CLI speaks a dialect that Bridle does not know
        ├── GuardRefused        guard or sandbox not in force     exit 9
        ├── AnswerMismatch      change schema or prompt, ask again
        ├── Crashed             the process died
        └── Unavailable         the service cannot be reached, or failed

Each carries `kind` (the word used in events and JSON), a `hint` that says what to do next, and
where it applies the runtime, its version, the process's exit status and redacted tails of its
standard error and of what it printed outside its protocol. `retryable` says whether the same call
may succeed later without a change, `failover` whether the same work may succeed now with another
account, model or provider.
"""

from typing import ClassVar, Literal

import msgspec

ErrorKind = Literal[
    "not_installed",
    "not_supported",
    "not_authenticated",
    "rate_limited",
    "overloaded",
    "billing",
    "context_overflow",
    "timeout",
    "aborted",
    "budget_exceeded",
    "unsupported_option",
    "resume_refused",
    "protocol_drift",
    "guard_refused",
    "schema_mismatch",
    "crashed",
    "unavailable",
    "wrong_use",
]

STDERR_TAIL = 4096
STDOUT_TAIL = 4096


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The plain-data form of an error, as in events and in a run's JSON."""

    kind: str
    """The error's name, as in the table of errors."""
    message: str
    """What went wrong."""
    hint: str = ""
    """What to do about it."""
    retryable: bool = False
    """Whether the same call may succeed later."""
    until: str | None = None
    """For `rate_limited`: when to try again (RFC 3339, UTC), if the service said so."""
    runtime: str = ""
    """The runtime it happened in."""
    runtime_version: str = ""
    """The version of the agent's CLI."""
    exit_status: int | None = None
    """The agent process's exit status."""
    stderr_tail: str = ""
    """The end of the process's standard error, or of its screen in a terminal."""
    stdout_tail: str = ""
    """The end of what the process printed on stdout outside its protocol, when it failed."""


class BridleError(Exception):
    """Root of all errors that are meant for the user; the command line prints one line."""

    kind: ClassVar[str] = "wrong_use"
    exit_code: ClassVar[int] = 1
    default_hint: ClassVar[str] = ""
    runtime: str = ""
    """The runtime it is about, where that is known."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint

    def info(self) -> ErrorInfo:
        """This error as plain data."""
        return ErrorInfo(kind=self.kind, message=self.message, hint=self.hint, runtime=self.runtime)


class WrongUse(BridleError):
    """The caller asked for something invalid: bad argument, missing file."""

    exit_code = 2


class ConfigError(WrongUse):
    """A configuration file is wrong; the message names file, line and the nearest right key."""


class AdapterRefused(ConfigError):
    """An adapter does not load, or promises what it cannot do."""


class UnknownRuntime(WrongUse):
    """No adapter is registered under that name."""

    def __init__(self, name: str, available: list[str], *, hint: str = "") -> None:
        from bridle.core.spelling import nearest

        near = nearest(name, available)
        suggested = f"did you mean `{near}`?" if near else "see `bridle runtime list`"
        base = name.removesuffix("-sdk")
        if base != name and base in available:
            suggested = f"`{base}` drives the same agent, by its CLI"
        super().__init__(
            f'Unknown runtime: "{name}". Available: {", ".join(available)}',
            hint=hint or suggested,
        )
        self.name = name
        self.available = available


class UnsupportedOption(WrongUse):
    """A runtime cannot honour an option; names the option and the runtimes that can.

    An empty `supported_by` says nothing about other runtimes. `ignorable` says that the option is
    left out and reported where the caller wants that (`RunOptions.ignore_unsupported`).
    """

    kind = "unsupported_option"
    exit_code = 4

    def __init__(
        self,
        runtime: str,
        option: str,
        supported_by: list[str],
        *,
        reason: str = "",
        ignorable: bool = False,
    ) -> None:
        why = f" ({reason})" if reason else ""
        others = f"; supported by: {', '.join(supported_by)}" if supported_by else ""
        ways = ["drop it", *(["choose another runtime"] if supported_by else [])]
        super().__init__(
            f"runtime {runtime} does not support option {option}{why}{others}",
            hint=_one_of([*ways, "set `ignore_unsupported`"] if ignorable else ways),
        )
        self.command_line_hint = _one_of(
            [*ways, "pass --ignore-unsupported"] if ignorable else ways
        )
        """The same for a user at the command line."""
        self.runtime = runtime
        self.option = option
        self.supported_by = supported_by


def _one_of(ways: list[str]) -> str:
    *first, last = ways
    return f"{', '.join(first)} or {last}" if first else last


class AgentError(BridleError):
    """An agent did not do its work; subclasses say which reaction that calls for."""

    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without a change."""
    failover: ClassVar[bool] = False
    """Whether the service, the account or the model is what fails, so that another one may work."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        until: str | None = None,
        runtime: str = "",
        runtime_version: str = "",
        exit_status: int | None = None,
        stderr_tail: str = "",
        stdout_tail: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.until = until
        self.runtime = runtime
        self.runtime_version = runtime_version
        self.exit_status = exit_status
        self.stderr_tail = stderr_tail[-STDERR_TAIL:]
        self.stdout_tail = stdout_tail[-STDOUT_TAIL:]

    def info(self) -> ErrorInfo:
        """This error as plain data."""
        return ErrorInfo(
            kind=self.kind,
            message=self.message,
            hint=self.hint,
            retryable=self.retryable,
            until=self.until,
            runtime=self.runtime,
            runtime_version=self.runtime_version,
            exit_status=self.exit_status,
            stderr_tail=self.stderr_tail,
            stdout_tail=self.stdout_tail,
        )


class NotInstalled(AgentError):
    """The runtime's CLI is not on this machine."""

    kind = "not_installed"
    exit_code = 3


class NotSupported(AgentError):
    """The CLI's version is older than every one that works, so nothing was started."""

    kind = "not_supported"
    exit_code = 3


class NotAuthenticated(AgentError):
    """The service refused the credentials, or there are none."""

    kind = "not_authenticated"
    exit_code = 5
    failover = True
    default_hint = "log in with the agent's own CLI, or set its API key variable"


class RateLimited(AgentError):
    """The account's rate or usage limit is reached; `until` says when it resets, if known."""

    kind = "rate_limited"
    exit_code = 6
    retryable = True
    failover = True
    default_hint = "wait and try again, or use another account or model"


class Overloaded(AgentError):
    """The service has no capacity now."""

    kind = "overloaded"
    exit_code = 6
    retryable = True
    failover = True
    default_hint = "try again later, or use another model"


class Billing(AgentError):
    """The account cannot pay for the call."""

    kind = "billing"
    failover = True
    default_hint = "top up the account's credit, or use another account"


class ContextOverflow(AgentError):
    """The conversation or the answer does not fit the model's window."""

    kind = "context_overflow"
    failover = True
    default_hint = "shorten the prompt, compact the session, or use a model with a larger window"


class TimedOut(AgentError):
    """The agent did not finish in the time it was given; it was stopped."""

    kind = "timeout"
    exit_code = 7
    retryable = True
    default_hint = "give it more time with --timeout, or look at its events for what it waited on"


class Aborted(AgentError):
    """Somebody stopped the agent before it was done."""

    kind = "aborted"
    exit_code = 130


class BudgetExceeded(AgentError):
    """A limit the caller set (money, turns) was reached."""

    kind = "budget_exceeded"
    exit_code = 8
    default_hint = "raise the limit"


class ResumeRefused(AgentError):
    """The earlier conversation cannot be continued; nothing was started in its place."""

    kind = "resume_refused"
    default_hint = "start a new session"


class ProtocolDrift(AgentError):
    """The CLI printed something that none of its known dialects prints."""

    kind = "protocol_drift"
    default_hint = "run `bridle runtime show` for the versions that are known to work"


class GuardRefused(AgentError):
    """Guard or sandbox could not be put in force, so nothing was started."""

    kind = "guard_refused"
    exit_code = 9


class AnswerMismatch(AgentError):
    """The agent did its work, but its answer does not fit the schema that was asked for.

    A separate kind because it calls for a different reaction: the agent, the service and the CLI
    are fine, and the schema or the prompt has to change.
    """

    kind = "schema_mismatch"
    retryable = True


class Crashed(AgentError):
    """The agent's process ended without saying how its work went."""

    kind = "crashed"
    retryable = True
    default_hint = "look at the end of its standard error; --verbose shows the exact command"


class Unavailable(AgentError):
    """The service behind the agent cannot be reached, or answered with an internal error."""

    kind = "unavailable"
    retryable = True
    failover = True
    default_hint = "check the network and the service's address, then try again"


AGENT_ERRORS: dict[str, type[AgentError]] = {
    cls.kind: cls
    for cls in (
        NotInstalled,
        NotSupported,
        NotAuthenticated,
        RateLimited,
        Overloaded,
        Billing,
        ContextOverflow,
        TimedOut,
        Aborted,
        BudgetExceeded,
        ResumeRefused,
        ProtocolDrift,
        GuardRefused,
        AnswerMismatch,
        Crashed,
        Unavailable,
    )
}
"""Agent errors by kind, so that a stored `ErrorInfo` can become an exception again."""


def exit_code_of(kind: str) -> int:
    """The exit status of a command that ended with an error of `kind`."""
    if kind == UnsupportedOption.kind:
        return UnsupportedOption.exit_code
    if kind == WrongUse.kind:
        return WrongUse.exit_code
    cls = AGENT_ERRORS.get(kind)
    return cls.exit_code if cls is not None else AgentError.exit_code


def error_from_info(info: ErrorInfo) -> BridleError:
    """The exception that an `ErrorInfo` describes."""
    cls = AGENT_ERRORS.get(info.kind)
    if cls is None:
        return WrongUse(info.message, hint=info.hint)
    return cls(
        info.message,
        hint=info.hint,
        until=info.until,
        runtime=info.runtime,
        runtime_version=info.runtime_version,
        exit_status=info.exit_status,
        stderr_tail=info.stderr_tail,
        stdout_tail=info.stdout_tail,
    )


def error_for_status(status: int, message: str, *, until: str | None = None) -> AgentError:
    """The error that an HTTP status of a model service calls for.

    The message decides where the status alone is ambiguous: a 400 may mean an overflow or no credit
    left, a 429 a quota that waiting does not refill.
    """
    lowered = message.lower()
    if status == 401 or status == 403 or (status == 400 and "api key not valid" in lowered):
        return NotAuthenticated(message)
    if status == 402 or any(
        word in lowered for word in ("credit balance", "insufficient_quota", "quota exceeded")
    ):
        return Billing(message)
    if status == 413 or any(
        word in lowered
        for word in (
            "prompt is too long",
            "context_length_exceeded",
            "context window",
            "maximum context length",
            "exceeds the maximum number of tokens",
        )
    ):
        return ContextOverflow(message)
    if status == 429:
        return RateLimited(message, until=until)
    if status in (503, 529):
        return Overloaded(message)
    return Unavailable(message)
