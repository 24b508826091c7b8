"""Plays the scenarios that are needed, some at once, and lets the checks judge them."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.runtimes.contract import Adapter
from bridle.testing.conformance.checks import CHECKS, Check
from bridle.testing.conformance.checks.registry import Seen
from bridle.testing.conformance.lab import Lab, Outcome
from bridle.testing.conformance.report import CheckResult, Failed, Report, Unsupported, shown
from bridle.testing.conformance.scenarios import SCENARIOS

RUN_SECONDS = 120.0
"""Longest time one run may take before it is stopped."""
WHOLE_SECONDS = 1200.0
"""Time after which no more runs are started."""

UNCONFINED = "run without its own sandbox, which cannot work on this machine"

NAMES: tuple[str, ...] = tuple(check.name for check in CHECKS)
"""Names of all checks, in the order of reports."""

Progress = Callable[[str], None]


class Kit:
    """The checks of one runtime. Use it in `with`.

    Contract: each scenario is played at most once, when a check first needs it; `result` may be
    called from several threads. Leaving the block ends what runs and removes every file.
    """

    def __init__(
        self,
        runtime: Adapter,
        *,
        env: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        folder: str | None = None,
        run_seconds: float = RUN_SECONDS,
        whole_seconds: float = WHOLE_SECONDS,
        progress: Progress | None = None,
    ) -> None:
        self.lab = Lab(
            runtime,
            env=env,
            options=options,
            run_seconds=run_seconds,
            seconds=whole_seconds,
            parent=folder,
        )
        self._progress = progress or (lambda line: None)
        self._locks = {name: threading.Lock() for name in SCENARIOS}
        self._played: dict[str, list[Outcome] | Exception] = {}

    def __enter__(self) -> "Kit":
        return self

    def __exit__(self, *problem: object) -> None:
        self.lab.close()

    def report(self, names: Sequence[str] = NAMES, *, at_once: int = 2) -> Report:
        """Run the checks called `names`, `at_once` scenarios at a time."""
        checks = chosen(names)
        if self._why_not() is None:
            needed = {name for check in checks for name in check.needs}
            self._play_all([name for name in SCENARIOS if name in needed], at_once)
        results = tuple(self.result(check) for check in checks)
        return Report(
            runtime=self.lab.runtime.id,
            version=self.lab.installation.version,
            dialect=self.lab.dialect.name,
            checks=results,
            notes=(UNCONFINED,) if self.lab.unconfined else msgspec.UNSET,
        )

    def result(self, check: Check | str) -> CheckResult:
        """The result of one check; plays the scenarios it needs that were not played yet."""
        if isinstance(check, str):
            (check,) = chosen([check])
        reason = self._why_not()
        if reason is not None:
            return CheckResult(name=check.name, status="unsupported", detail=reason)
        try:
            detail = check.judge(Seen(self.lab, self.played))
        except Unsupported as reason:
            return CheckResult(name=check.name, status="unsupported", detail=str(reason))
        except Failed as problem:
            return CheckResult(name=check.name, status="fail", detail=str(problem))
        except Exception as problem:
            # A broken adapter may raise anything; that is the adapter's failure, not an error for
            # the kit's user.
            return CheckResult(
                name=check.name, status="fail", detail=f"raised {shown(repr(problem))}"
            )
        return CheckResult(name=check.name, status="pass", detail=detail)

    def played(self, name: str) -> list[Outcome]:
        """The outcomes of a scenario; raises what it raised."""
        with self._locks[name]:
            if name not in self._played:
                began = time.monotonic()
                try:
                    self._played[name] = SCENARIOS[name](self.lab)
                except Exception as problem:
                    self._played[name] = problem
                self._progress(f"{name} ({time.monotonic() - began:.1f} s)")
            found = self._played[name]
        if isinstance(found, Exception):
            raise found
        return found

    def _why_not(self) -> str | None:
        """Why nothing can be checked; None when it can."""
        if "model_server" in self.lab.features.options:
            return None
        return "the runtime cannot be pointed at a scripted model"

    def _play_all(self, names: list[str], at_once: int) -> None:
        waiting = iter(names)
        lock = threading.Lock()
        left = threading.Event()

        def work() -> None:
            while True:
                with lock:
                    name = next(waiting, None)
                if name is None or left.is_set():
                    return
                try:
                    self.played(name)
                except Exception:
                    # Each check that needs it reports it.
                    continue

        workers = [threading.Thread(target=work, daemon=True) for _ in range(max(1, at_once))]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                # In short waits, so that Ctrl-C is noticed.
                while worker.is_alive():
                    worker.join(0.5)
        except BaseException:
            # First: a scenario that a worker took up now would be reported as played.
            left.set()
            self.lab.close()
            for worker in workers:
                if worker.is_alive():
                    worker.join(20.0)
            raise


def chosen(names: Iterable[str]) -> list[Check]:
    """The checks of those names, in the order of reports; `WrongUse` for an unknown name."""
    wanted = set(names)
    unknown = wanted - set(NAMES)
    if unknown:
        from difflib import get_close_matches

        name = min(unknown)
        near = get_close_matches(name, NAMES, 1)
        hint = f"did you mean {near[0]}?" if near else f"checks: {', '.join(NAMES)}"
        raise WrongUse(f"there is no check {name}", hint=hint)
    return [check for check in CHECKS if check.name in wanted]


def check(
    runtime: Adapter,
    only: Sequence[str] = (),
    *,
    env: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    folder: str | None = None,
    run_seconds: float = RUN_SECONDS,
    whole_seconds: float = WHOLE_SECONDS,
    at_once: int = 2,
    progress: Progress | None = None,
) -> Report:
    """Check that `runtime` keeps the contract, on its real CLI and a scripted model.

    `only` names the checks to run (all by default); `env` is added to the agent's environment,
    which is otherwise built from nothing; `options` are fields of `RunOptions` for every run, such
    as what the agent needs on this machine; `folder` is where temporary folders are made;
    `progress` gets what was played. Contract: offline, at no cost; ends in bounded time; leaves
    nothing behind. Raises `NotInstalled` when the CLI is missing, and `WrongUse` for an unknown
    check.
    """
    names = tuple(only) or NAMES
    chosen(names)
    with Kit(
        runtime,
        env=env,
        options=options,
        folder=folder,
        run_seconds=run_seconds,
        whole_seconds=whole_seconds,
        progress=progress,
    ) as kit:
        return kit.report(names, at_once=at_once)
