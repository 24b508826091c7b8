"""The kit's findings as data."""

from typing import Literal

import msgspec

CheckStatus = Literal["pass", "fail", "unsupported"]


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One check: whether the runtime keeps that promise."""

    name: str
    status: CheckStatus
    detail: str = ""
    """What was seen; for `unsupported`, why the promise does not apply to this agent."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All checks of one runtime in one version, in the shape of `bridle conformance R --json`."""

    runtime: str
    version: str | None
    dialect: str
    checks: tuple[CheckResult, ...]
    notes: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """What was unusual in all runs; left out if empty."""

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status == "fail")

    @property
    def passed(self) -> bool:
        """Whether nothing failed; what the agent cannot do is not a failure."""
        return not self.failures


class Failed(Exception):
    """Raised by a check: the runtime breaks the promise. The text says what was seen."""


class Unsupported(Exception):
    """Raised by a check: the agent cannot do this, and says so. The text says why."""


def need(holds: bool, otherwise: str) -> None:
    """Fail with `otherwise` unless the fact holds."""
    if not holds:
        raise Failed(otherwise)


def shown(value: object, longest: int = 200) -> str:
    """A value for a detail: short, on one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
