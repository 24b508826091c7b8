"""What was found out about each release, kept in one file each, and the sentence about it."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bridle.testing.conformance import NAMES, CheckResult, CheckStatus
from tests.drift.releases import Release, order

FIRST = "text"
"""The check without which nothing else is worth running."""
GUARD_CASES = "abcdef"
GUARD = tuple(f"guard:{case}" for case in GUARD_CASES)
"""The calls of the guard proof: `a` must happen, the others must not."""
SESSION = "session"
"""The conversation of the session traces, in the drive that a session of the runtime has."""
BASIC: tuple[str, ...] = ("text", "event_order", "usage", "tool_call")
"""What shows in seconds whether a release works at all."""
ALL: tuple[str, ...] = (*NAMES, *GUARD, SESSION)
"""Every check of a release, in the order of tables."""

FLAG = "flag:"
"""The prefix of a check outside the kit: whether the help has a word, as in `flag:--verbose`.
It can be asked of a release that does not work, to find what its dialect must leave out."""

Verdict = Literal["as_tested", "differences", "broken", "too_old", "not_installed", "unfinished"]


class Result(msgspec.Struct, kw_only=True):
    """What is known about one release."""

    name: str
    version: str
    package: str
    date: str | None = None
    runtime: str = ""
    dialect: str = ""
    commit: str = ""
    """The commit of Bridle that was tried."""
    refused: str = ""
    """Why it could not be installed or tried; empty where it could."""
    too_old: str = ""
    """What Bridle says when it refuses to start a release of this age; empty where it starts it."""
    checks: list[CheckResult] = []
    unknown: list[str] = []
    """Kinds of messages on its wire that Bridle does not know."""
    notes: list[str] = []
    seconds: float = 0.0

    def status(self, check: str) -> CheckStatus | None:
        """How a check ended; None where it was not run, or cannot say anything because the
        release does not work at all."""
        return self._by_name.get(check)

    def detail(self, check: str) -> str:
        """What a check saw."""
        return next((each.detail for each in self.checks if each.name == check), "")

    @property
    def _by_name(self) -> dict[str, CheckStatus]:
        return {each.name: each.status for each in self.checks}

    @property
    def failures(self) -> list[CheckResult]:
        """The checks that failed; a word that the help lacks is no failure."""
        return [
            each for each in self.checks if each.status == "fail" and not each.name.startswith(FLAG)
        ]

    @property
    def tried(self) -> bool:
        """Whether more than its help was looked at."""
        return any(not each.name.startswith(FLAG) for each in self.checks)

    @property
    def dead(self) -> bool:
        """Whether it does not even answer."""
        return self.status(FIRST) == "fail"

    def missing(self, wanted: Sequence[str] = ALL) -> list[str]:
        """The wanted checks that were not run yet; none where nothing more can be learned."""
        if self.refused or (self.too_old and self.status(FIRST) is None):
            return []
        known = self._by_name
        askable = [each for each in wanted if not self.dead or each.startswith(FLAG)]
        return [each for each in askable if each not in known]

    def add(self, checks: Sequence[CheckResult]) -> None:
        """Put results in their places, newer ones instead of older."""
        by_name = {each.name: each for each in (*self.checks, *checks)}
        ordered = sorted(by_name, key=lambda each: ALL.index(each) if each in ALL else len(ALL))
        self.checks = [by_name[each] for each in ordered]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a release is not as the tested one."""

    check: str
    what: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The sentence about a release."""

    verdict: Verdict
    because: str = ""
    differences: tuple[Difference, ...] = ()

    @property
    def sentence(self) -> str:
        """The judgement in words."""
        if self.verdict == "as_tested":
            return "works as tested"
        if self.verdict == "differences":
            shown = "; ".join(f"{each.check}: {each.what}" for each in self.differences)
            return f"works with these differences: {shown}"
        if self.verdict == "broken":
            return f"does not work, because {self.because}"
        if self.verdict == "too_old":
            return f"is refused: {self.because}"
        if self.verdict == "not_installed":
            return f"was not tried, because {self.because}"
        return f"works, as far as tried: {self.because}"


def judged(result: Result, tested: Mapping[str, str]) -> Judgement:
    """The sentence about a release; `tested` has the status of each check of the tested version.

    A release whose guard lets through what it must stop counts as broken, whatever else works.
    """
    if result.refused:
        return Judgement(verdict="not_installed", because=result.refused)
    if result.too_old:
        return Judgement(verdict="too_old", because=result.too_old)
    if result.dead:
        return Judgement(verdict="broken", because=result.detail(FIRST))
    if result.status(FIRST) is None:
        return Judgement(verdict="unfinished", because="no check was run yet")
    leaks = [each for each in result.failures if _is_leak(each)]
    if leaks:
        shown = ", ".join(each.name for each in leaks)
        return Judgement(verdict="broken", because=f"the guard did not stop {shown}")
    differences = [
        *(Difference(check=each.name, what=each.detail) for each in result.failures),
        *_changed(result, tested),
        *(Difference(check="wire", what=f"unknown message {each}") for each in result.unknown),
    ]
    if differences:
        return Judgement(verdict="differences", differences=tuple(differences))
    if missing := result.missing():
        return Judgement(verdict="unfinished", because=f"{len(missing)} checks were not run")
    return Judgement(verdict="as_tested")


def _is_leak(check: CheckResult) -> bool:
    return check.name in GUARD[1:] and check.detail == "done"


def _changed(result: Result, tested: Mapping[str, str]) -> list[Difference]:
    """Checks that ended otherwise than on the tested version, failures apart."""
    found = []
    for each in result.checks:
        before = tested.get(each.name)
        if each.status == "unsupported" and before == "pass":
            found.append(Difference(check=each.name, what=f"not supported: {each.detail}"))
        elif each.status == "pass" and before in ("fail", "unsupported"):
            found.append(Difference(check=each.name, what="passes, and did not on the tested one"))
    return found


class Store:
    """The folder of the results: `NAME/VERSION.json`, with captures in `NAME/VERSION/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str, version: str) -> Result | None:
        """What is kept about a release."""
        try:
            return msgspec.json.decode(self._file(name, version).read_bytes(), type=Result)
        except FileNotFoundError:
            return None

    def of(self, release: Release) -> Result:
        """What is kept about a release, or an empty result."""
        return self.read(release.name, release.version) or Result(
            name=release.name, version=release.version, package=release.package, date=release.date
        )

    def all(self, name: str) -> dict[str, Result]:
        """Everything that is kept about a CLI, by version."""
        found = {}
        for path in sorted((self.folder / name).glob("*.json")):
            result = msgspec.json.decode(path.read_bytes(), type=Result)
            found[result.version] = result
        return found

    def keep(self, result: Result) -> None:
        """Write a result, whole or not at all."""
        _write(self._file(result.name, result.version), result)

    def listed(self, name: str) -> list[Release]:
        """The releases of a CLI when it was last surveyed; without that, those with results."""
        try:
            return msgspec.json.decode(self._list(name).read_bytes(), type=list[Release])
        except FileNotFoundError:
            results = sorted(self.all(name).values(), key=lambda each: order(each.version))
        return [
            Release(name=name, version=each.version, package=each.package, date=each.date)
            for each in results
        ]

    def keep_list(self, name: str, releases: Sequence[Release]) -> None:
        """Remember which releases there are."""
        _write(self._list(name), releases)

    def _list(self, name: str) -> Path:
        return self.folder / f"{name}.releases.json"

    def captures(self, name: str, version: str) -> Path:
        """The folder of a release's captures."""
        return self.folder / name / version

    def _file(self, name: str, version: str) -> Path:
        return self.folder / name / f"{version}.json"


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(content), indent=1)
    handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        file.write(text + b"\n")
    os.replace(partial, path)
