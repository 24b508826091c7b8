"""What the doctor found, in the shape of `bridle runtime doctor --json`."""

from typing import Literal

import msgspec

FindingStatus = Literal["ok", "warn", "fail", "skip"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    status: FindingStatus
    detail: str = ""
    hint: str = ""
    """What to do about it; empty when nothing needs doing."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime on this machine."""

    runtime: str
    installed: bool
    version: str | None = None
    dialect: str | None = None
    supported: bool = False
    """Whether a row of the dialect table covers the installed version."""
    checks: tuple[Finding, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether something is wrong that keeps runs from working."""
        return any(check.status == "fail" for check in self.checks)
