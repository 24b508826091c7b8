"""The releases of a CLI in its registry: which there are, in what order, and an even sample."""

import datetime
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from tests.support.clis import NODE, RECIPES, Pin, RegistryRefused, release, uv

ASK_SECONDS = 120.0
"""Longest time that one question to the registry may take."""
UNDATED = 24
"""How many releases count as a year's where the registry's client does not tell their dates."""

_PLAIN = re.compile(r"\d+\.\d+\.\d+")
_NODE_MAJOR = re.compile(r"(\d+)")


class UnknownRelease(Exception):
    """A name or version that does not exist; the text names the nearest."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One published version of one CLI."""

    name: str
    version: str
    package: str
    date: str | None = None
    """Day on which it was published at the latest, None where the client does not tell."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


Ask = Callable[[Sequence[str]], str]
"""Runs a client of a registry and returns what it printed; raises `RegistryRefused`."""


def names() -> list[str]:
    """The CLIs that have releases to try."""
    return [name for name in RECIPES if name != "node"]


def known(name: str) -> str:
    """`name`, or `UnknownRelease` with the nearest one."""
    if name in names():
        return name
    near = get_close_matches(name, names(), 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
    raise UnknownRelease(f"there is no CLI {name}: {hint}")


def listed(name: str, ask: Ask | None = None) -> list[Release]:
    """All releases of a CLI from the oldest to the newest, previews left out.

    A CLI that moved to another package has the releases of both, in the order of the packages. A
    release is dated not later than any after it: a mirror's date may be that of its first use.
    """
    ask = ask or asked
    recipe = RECIPES[known(name)]
    found: list[Release] = []
    for package in reversed(recipe.packages):
        dates = _python_versions(package, ask) if recipe.python else _npm_versions(package, ask)
        plain = sorted((each for each in dates if _PLAIN.fullmatch(each)), key=order)
        found += [
            Release(name=name, version=each, package=package, date=dates[each]) for each in plain
        ]
    if not found:
        raise RegistryRefused(f"{name}: the registry lists no release")
    latest: str | None = None
    for at in range(len(found) - 1, -1, -1):
        date = found[at].date
        latest = min(date, latest) if date and latest else date or latest
        found[at] = msgspec.structs.replace(found[at], date=latest)
    return found


def order(version: str) -> tuple[int, ...]:
    """What a version is sorted by."""
    return tuple(int(part) for part in version.split("."))


def find(releases: Sequence[Release], version: str) -> Release:
    """The release of that version; `UnknownRelease` with the nearest otherwise."""
    for each in releases:
        if each.version == version:
            return each
    versions = [each.version for each in releases]
    near = _nearest(versions, version)
    raise UnknownRelease(
        f"{releases[0].name} has no release {version}: the nearest are {', '.join(near)}"
    )


def _nearest(versions: Sequence[str], wanted: str) -> list[str]:
    """The versions around a number, or those that look like it."""
    if not _PLAIN.fullmatch(wanted):
        return get_close_matches(wanted, versions, 3) or [versions[-1]]
    before = [each for each in versions if order(each) < order(wanted)]
    after = [each for each in versions if order(each) > order(wanted)]
    return [*sorted(before, key=order)[-1:], *sorted(after, key=order)[:1]]


def of_the_last_year(releases: Sequence[Release], today: datetime.date) -> list[Release]:
    """The releases of twelve months before `today`, and the one that was current at their start."""
    if all(each.date is None for each in releases):
        return list(releases[-UNDATED:])
    start = (today - datetime.timedelta(days=365)).isoformat()
    first = next((at for at, each in enumerate(releases) if (each.date or "") >= start), None)
    if first is None:
        return list(releases[-1:])
    return list(releases[max(0, first - 1) :])


def sampled(releases: Sequence[Release], count: int) -> list[Release]:
    """`count` releases, with the oldest and the newest, spread evenly.

    Evenly means half by date and half by position: a week with ten releases changes more than a
    month with one, and dates alone would skip what a mirror dates alike.
    """
    if count >= len(releases):
        return list(releases)
    if count <= 1:
        return list(releases[-1:])
    places = _places(releases)
    free = set(range(1, len(releases) - 1))
    chosen = {0, len(releases) - 1}
    for step in range(1, count - 1):
        wanted = step / (count - 1)
        at = min(free, key=lambda each: (abs(places[each] - wanted), each))
        free.discard(at)
        chosen.add(at)
    return [releases[at] for at in sorted(chosen)]


def _places(releases: Sequence[Release]) -> list[float]:
    """Where each release is between the first (0) and the last (1)."""
    last = len(releases) - 1
    days = [
        datetime.date.fromisoformat(each.date).toordinal() if each.date else 0 for each in releases
    ]
    span = days[-1] - days[0]
    dated = span > 0 and all(each.date for each in releases)
    return [
        (at / last + ((days[at] - days[0]) / span if dated else at / last)) / 2
        for at in range(len(releases))
    ]


def pins_of(each: Release, ask: Ask | None = None) -> list[Pin]:
    """The ways to install a release, the best first: on a newer Node where it asks for one, with
    the parts of the same project in its own version, and unpacked where it is one file with its
    dependencies and the registry does not have them all."""
    recipe = RECIPES[each.name]
    if recipe.python:
        return [release(each.name, each.version, each.package)]
    ask = ask or asked
    fields = ("engines", "bin", "dependencies")
    about = ["npm", "view", f"{each.package}@{each.version}", *fields, "--json"]
    reply = json.loads(ask(about) or "{}")
    # Where only one of the fields exists, npm prints that alone.
    engines = reply.get("engines", reply if "node" in reply else {})
    minimum = _NODE_MAJOR.search(str(engines.get("node", "")))
    newer = minimum is not None and int(minimum[1]) > _node_major()
    node = NODE if newer else ""
    # A range like ^0.80.3 would bring parts that were made for a later release.
    scope = each.package.rpartition("/")[0]
    parts = tuple(
        f"{name}@{each.version}"
        for name, wanted in reply.get("dependencies", {}).items()
        if scope and name.startswith(f"{scope}/") and wanted == f"^{each.version}"
    )
    pins = [release(each.name, each.version, each.package, node=node, beside=parts)]
    if recipe.bundle and recipe.bundle in json.dumps(reply):
        pins.append(release(each.name, each.version, each.package, node=node, bundled=True))
    return pins


def _node_major() -> int:
    found = shutil.which("node")
    if found is None:
        return 0
    said = subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=False, timeout=30
    ).stdout
    major = _NODE_MAJOR.search(said)
    return int(major[1]) if major else 0


def _npm_versions(package: str, ask: Ask) -> dict[str, str | None]:
    """Published versions of an npm package with their days."""
    reply = json.loads(ask(["npm", "view", package, "time", "versions", "--json"]) or "{}")
    # One version alone is a text, and versions that were taken back keep their time.
    versions = reply.get("versions", [])
    there = {versions} if isinstance(versions, str) else set(versions)
    return {each: date[:10] for each, date in reply.get("time", {}).items() if each in there}


def _python_versions(package: str, ask: Ask) -> dict[str, str | None]:
    """Published versions of a Python package; its client does not tell dates."""
    said = ask([uv(), "tool", "run", "pip", "index", "versions", package])
    _, _, rest = said.partition("Available versions:")
    return {each.strip(): None for each in rest.partition("\n")[0].split(",") if each.strip()}


def asked(command: Sequence[str]) -> str:
    """Ask the registry by its client, as it is set up on this machine."""
    program = shutil.which(command[0])
    if program is None:
        raise RegistryRefused(f"{command[0]} was not found on PATH")
    what = " ".join([os.path.basename(command[0]), *command[1:4]])
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=Path.home(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RegistryRefused(f"{what}: no answer within {ASK_SECONDS:g} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason"]
        reason = next((line for line in lines if " code " in line or "ERROR" in line), lines[-1])
        raise RegistryRefused(f"{what}: {reason[:200]}")
    return done.stdout


def today() -> datetime.date:
    """The day from which a year is counted back."""
    return datetime.datetime.now(datetime.UTC).date()
