"""Tries releases one after another, keeps what is found, and bisects what changed.

Everything is kept as soon as it is known, so a survey that is interrupted goes on where it was.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from bridle.testing.conformance import Report
from tests.drift import releases as registry
from tests.drift.boundaries import Boundary, boundaries, changed_words, next_step
from tests.drift.releases import Release
from tests.drift.results import ALL, FIRST, FLAG, GUARD, SESSION, Judgement, Result, Store, judged
from tests.drift.trial import Found, runtime_of
from tests.support.clis import (
    PINS,
    InstallFailed,
    Pin,
    RegistryRefused,
    cli_cache,
    installed,
    locked,
)

ROOT = Path(__file__).parents[2]
TESTED = ROOT / "docs" / "runtimes" / "conformance.json"
TRIAL_SECONDS = 2400.0
"""Longest time that all checks of one release may take."""
STOP_SECONDS = 40.0
"""Time that a trial has to clean up after it was asked to stop."""
KEEP_FREE = 10.0
"""Gigabytes that stay free on the disk of the CLI cache."""

NEIGHBOURS = 3
"""How many releases are tried in place of one that cannot be installed."""

Say = Callable[[str], None]
Probe = Callable[[Release, Sequence[str]], Result]
"""Makes sure that the checks of a release were run, and returns what is known about it."""


class NoRoom(Exception):
    """The disk is too full to install another release."""


class Survey:
    """Tries releases with the real CLIs. Results are in `store`."""

    def __init__(self, store: Store, say: Say, *, keep_free: float = KEEP_FREE) -> None:
        self.store, self._say, self._keep_free = store, say, keep_free
        self._commit = _commit()

    def probe(self, release: Release, checks: Sequence[str] = ALL) -> Result:
        """Run those of the checks on a release that were not run yet.

        Contract: ends in bounded time; what the release cannot do, being installed included, is in
        the result. Raises `NoRoom` when the disk is full.
        """
        result = self.store.of(release)
        missing = result.missing(checks)
        if not missing:
            return result
        result.runtime, result.commit = runtime_of(release.name), self._commit
        try:
            binary = self._installed(release)
        except (RegistryRefused, InstallFailed) as problem:
            result.refused = str(problem)[:400]
            self._say(f"{release}: {result.refused}")
            self.store.keep(result)
            return result
        only_words = all(each.startswith(FLAG) for each in missing)
        if result.status(FIRST) is None and FIRST not in missing and not only_words:
            # Whether it works at all comes first: everything else would fail for that reason.
            missing = [FIRST, *missing]
        self._tried(release, binary, missing, result)
        return result

    def _installed(self, release: Release) -> Path:
        self._make_room()
        pinned = {each.names[1]: [each] for each in PINS}
        pins = pinned.get(f"{release.name}-{release.version}") or registry.pins_of(release)
        there = (cli_cache() / pins[0].names[1] / ".complete").exists()
        # Others may be installing for minutes; what is there already need not wait.
        with contextlib.nullcontext() if there else locked(cli_cache() / ".drift.lock"):
            for pin in pins[:-1]:
                with contextlib.suppress(RegistryRefused):
                    return installed(pin, self._say)
            return installed(pins[-1], self._say)

    def _make_room(self) -> None:
        """Remove releases that no test pins, those installed first, until there is room."""
        folder = cli_cache()
        folder.mkdir(parents=True, exist_ok=True)
        pinned = {pin.names[1] for pin in PINS}
        surveyed = [
            each
            for each in folder.iterdir()
            if (each / ".complete").exists() and each.name not in pinned
        ]
        surveyed.sort(key=lambda each: (each / ".complete").stat().st_mtime)
        while shutil.disk_usage(folder).free < self._keep_free * 1e9:
            if not surveyed:
                raise NoRoom(f"less than {self._keep_free:g} GB are free on the disk of {folder}")
            oldest = surveyed.pop(0)
            self._say(f"removing {oldest.name}: less than {self._keep_free:g} GB are free")
            shutil.rmtree(oldest, ignore_errors=True)

    def _tried(self, release: Release, binary: Path, checks: Sequence[str], result: Result) -> None:
        began = time.monotonic()
        self._say(f"{release} ({release.date or 'no date'}): {len(checks)} checks")

        def keep(found: Found) -> None:
            result.runtime, result.dialect = found.runtime, found.dialect
            result.too_old = found.too_old
            result.add(found.checks)
            result.unknown = list(dict.fromkeys([*result.unknown, *found.unknown]))
            result.notes = list(dict.fromkeys([*result.notes, *found.notes]))
            self.store.keep(result)

        with _scratch(self.store.folder) as scratch:
            out = scratch / "found.json"
            ended = self._run(release, binary, checks, scratch, out)
            found = msgspec.json.decode(out.read_bytes(), type=Found) if out.exists() else Found()
            result.seconds = round(result.seconds + time.monotonic() - began, 1)
            keep(found)
            if found.problem or ended:
                result.notes.append(found.problem or ended)
                if not (found.checks or found.too_old):
                    result.refused = found.problem or ended
                self.store.keep(result)
        self._say(f"{release}: {time.monotonic() - began:.0f} s: {judgement(result).sentence}")

    def _run(
        self, release: Release, binary: Path, checks: Sequence[str], scratch: Path, out: Path
    ) -> str:
        """Run the trial in a process of its own; empty, or how it broke off."""
        home = scratch / "home"
        home.mkdir()
        log = self.store.captures(release.name, release.version) / "trial.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        options = {
            "name": release.name,
            "binary": str(binary),
            "scratch": str(scratch),
            "captures": str(log.parent),
            "out": str(out),
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.drift.trial", *words, *checks],
                cwd=ROOT,
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "HOME": str(home),
                    "LANG": "C.UTF-8",
                    "TERM": "xterm-256color",
                    "BRIDLE_CLI_CACHE": str(cli_cache()),
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
            try:
                status = process.wait(TRIAL_SECONDS)
            except subprocess.TimeoutExpired:
                self._end(process)
                return f"stopped after {TRIAL_SECONDS:g} s"
            except BaseException:
                self._end(process)
                raise
        return "" if status in (0, 1) else f"the trial ended with status {status}"

    @staticmethod
    def _end(process: "subprocess.Popen[bytes]") -> None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def surveyed(
    releases: Sequence[Release],
    sample: Sequence[Release],
    checks: Sequence[str],
    probe: Probe,
    known: Callable[[], dict[str, Result]],
    *,
    bisects: bool = True,
) -> list[Boundary]:
    """Try the sample, newest first, then bisect between what passes a check and what fails it.

    `releases` are those among which is bisected, `known` gives all results so far. Returns the
    boundaries.
    """
    taken = {each.version for each in sample}
    for release in reversed(sample):
        if probe(release, checks).refused:
            # What cannot be installed says nothing: a neighbour takes its place.
            for other in _around(releases, release, taken)[:NEIGHBOURS]:
                taken.add(other.version)
                if not probe(other, checks).refused:
                    break
    by_version = {each.version: each for each in releases}
    while bisects and (step := next_step(releases, known(), checks)) is not None:
        result = probe(by_version[step.version], step.checks)
        if any(check in result.missing(step.checks) for check in step.checks):
            # A trial that broke off says nothing; asking again would not end.
            result.refused = result.refused or "the trial broke off before its checks were run"
            break
    return boundaries(releases, known(), checks)


def _around(releases: Sequence[Release], release: Release, taken: set[str]) -> list[Release]:
    """The other releases that are not taken, the nearest first."""
    place = releases.index(release)
    others = [each for each in releases if each.version not in taken]
    return sorted(others, key=lambda each: abs(releases.index(each) - place))


def judgement(result: Result) -> Judgement:
    """The sentence about a release, against the version that the tests pin."""
    return judged(result, tested(result.name))


def tested(name: str) -> dict[str, str]:
    """The status of each check on the newest pinned version of a CLI."""
    pins: list[Pin] = [pin for pin in PINS if pin.name == name]
    reports = msgspec.json.decode(TESTED.read_bytes(), type=list[Report])
    for report in reports:
        if report.runtime == runtime_of(name) and report.version == pins[-1].version:
            known: dict[str, str] = {each.name: each.status for each in report.checks}
            return known | dict.fromkeys((*GUARD, SESSION), "pass")
    return {}


def difference(store: Store, name: str, boundary: Boundary) -> dict[str, object]:
    """What is known about the change at a boundary: the agent's words, flags, captures."""
    failing = boundary.after if boundary.fails else boundary.before
    result = store.read(name, failing)
    texts = []
    for version in (boundary.before, boundary.after):
        path = store.captures(name, version) / "help.txt"
        texts.append(path.read_text(encoding="utf-8") if path.exists() else "")
    removed, added = changed_words(*texts) if all(texts) else ([], [])
    return {
        "check": boundary.check,
        "before": boundary.before,
        "after": boundary.after,
        "fails": failing,
        "dialects": [_dialect(store, name, each) for each in (boundary.before, boundary.after)],
        "between": boundary.between,
        "detail": result.detail(boundary.check) if result else "",
        "words_removed": removed,
        "words_added": added,
        "captures": [
            str(store.captures(name, version)) for version in (boundary.before, boundary.after)
        ],
    }


def _dialect(store: Store, name: str, version: str) -> str:
    """The dialect by which a release was tried: where it differs on the two sides of a boundary,
    the change may be Bridle's."""
    result = store.read(name, version)
    return result.dialect if result else ""


def packed(store: Store, name: str, version: str) -> Path:
    """Everything about a release in one file, to attach to a report."""
    target = store.folder / f"drift-{name}-{version}.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        archive.add(store.folder / name / f"{version}.json", f"{name}-{version}/result.json")
        captures = store.captures(name, version)
        if captures.exists():
            archive.add(captures, f"{name}-{version}/captures")
    return target


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for one trial; not below a temp folder, which some agents treat as less private."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".w", dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
