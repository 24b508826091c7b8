"""The doctor's findings, as `bridle runtime doctor --json` prints them."""

from typing import Literal

import msgspec

FindingStatus = Literal["ok", "warn", "fail", "skip"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    status: FindingStatus
    detail: str = ""
    hint: str = ""
    """What to do about it; empty when there is nothing to do."""


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
        """Whether a failed check prevents runs."""
        return any(check.status == "fail" for check in self.checks)
