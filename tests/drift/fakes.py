"""A registry and releases that exist nowhere, and a kit that answers by a function."""

import json
from collections.abc import Callable, Sequence

from bridle.testing.conformance import CheckResult, CheckStatus
from tests.drift.releases import Release
from tests.drift.results import Result
from tests.support.clis import RegistryRefused


def release(number: int, date: str | None = None) -> Release:
    return Release(name="claude", version=f"1.0.{number}", package="p", date=date)


def line(count: int) -> list[Release]:
    """Releases 1.0.0, 1.0.1, …"""
    return [release(number) for number in range(count)]


def result(version: str, **checks: CheckStatus) -> Result:
    found = Result(name="claude", version=version, package="p")
    found.add([CheckResult(name=name, status=status) for name, status in checks.items()])
    return found


class FakeKit:
    """Probes releases by a function from number and check to a status, and keeps a list."""

    def __init__(self, says: Callable[[int, str], CheckStatus | None]) -> None:
        self._says = says
        self.results: dict[str, Result] = {}
        self.tried: list[str] = []

    def probe(self, release: Release, checks: Sequence[str]) -> Result:
        self.tried.append(release.version)
        found = self.results.setdefault(release.version, result(release.version))
        for check in checks:
            status = self._says(int(release.version.rpartition(".")[2]), check)
            if status is None:
                found.refused = "the registry refused"
            else:
                found.add([CheckResult(name=check, status=status, detail=f"{check} {status}")])
        return found


def npm(packages: dict[str, dict[str, str]], **about: str) -> Callable[[Sequence[str]], str]:
    """A client of a registry with these packages: version to date."""

    def ask(command: Sequence[str]) -> str:
        assert command[:2] == ["npm", "view"]
        package = command[2]
        if package not in packages:
            if about:
                return json.dumps(about)
            raise RegistryRefused(f"npm view {package}: npm error code E404")
        times = packages[package]
        return json.dumps({"time": {"created": "2020", **times}, "versions": list(times)})

    return ask
