"""Runs of the agent under test: each in a separate home and repository, on a scripted model.

A `Lab` owns one folder for everything. Leftovers of a run are found and ended here, so that
a broken adapter cannot leave anything running after the kit.
"""

import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridle.core.errors import BridleError, GuardRefused
from bridle.core.events import Event
from bridle.core.features import Features
from bridle.core.files import make_private_dir, run_dir
from bridle.core.git import run_git
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import RunResult
from bridle.drives.print_run import PrintRun
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.process.spec import ProcessExit
from bridle.runs import recorder_for
from bridle.runtimes.contract import Adapter
from bridle.runtimes.plan import RunPlan
from bridle.testing.conformance.report import Failed, shown
from bridle.testing.request_log import RecordedRequest
from bridle.testing.server import ScriptedModel
from bridle.turns.wire import Normalizer, StderrReader

PERMITTED = {"permission_mode": "bypass"}
_CLOSING = 15.0
"""Seconds that runs get to end when the kit ends."""


class Outcome(msgspec.Struct, kw_only=True):
    """Everything that one run showed."""

    events: list[Event]
    lines: list[bytes]
    """The lines that the agent printed, as its normalizer got them."""
    requests: list[RecordedRequest]
    """The requests to the model, without side requests."""
    place: "Place"
    seconds: float = 0.0
    left: list[int] = []
    """Processes of the session that remained after its end (ended by now)."""
    plan: RunPlan | None = None
    exit: ProcessExit | None = None
    result: RunResult | None = None
    refusal: BridleError | None = None
    """Why the run was refused before anything started."""
    home_before: dict[str, bytes] = {}
    home_after: dict[str, bytes] = {}
    """Files of the agent's home before and after, where the scenario looked."""

    @property
    def error_kind(self) -> str | None:
        """The kind of the run's error, however it was reported."""
        if self.refusal is not None:
            return self.refusal.kind
        return self.result.error.kind if self.result and self.result.error else None

    def completed(self) -> RunResult:
        """The result of a run that should have completed; fails otherwise."""
        if self.refusal is not None:
            raise Failed(f"refused to start: {self.refusal.kind}: {shown(self.refusal)}")
        result = self.result
        assert result is not None
        if result.status != "completed":
            error = result.error
            why = f"{error.kind}: {shown(error.message)}" if error else "without an error"
            raise Failed(f"the run ended {result.status}: {why}")
        return result

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one scenario."""

    home: str
    work: str
    """A fresh git repository."""
    account: str
    """An empty folder for a configuration home that outlives a run."""


class Tap:
    """Passes lines on to the adapter's own normalizer and keeps them."""

    def __init__(self, inner: Normalizer) -> None:
        self._inner = inner
        self.lines: list[bytes] = []
        self.exit: ProcessExit | None = None

    def feed(self, line: bytes) -> None:
        """Keep the line, then pass it to the adapter."""
        self.lines.append(line)
        self._inner.feed(line)

    def feed_stderr(self, line: bytes) -> None:
        """Pass a line of standard error to the adapter, if it reads that."""
        if isinstance(self._inner, StderrReader):
            self._inner.feed_stderr(line)

    def finish(self, exit: ProcessExit) -> None:
        """Keep how the process ended, then let the adapter judge."""
        self.exit = exit
        self._inner.finish(exit)


class Lab:
    """Where a runtime is tried. Use it in `with`; safe to use from several threads."""

    def __init__(
        self,
        runtime: Adapter,
        *,
        env: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        run_seconds: float,
        seconds: float,
        parent: str | None = None,
    ) -> None:
        self.runtime = runtime
        self.installation = runtime.installation()
        self.dialect, _, _ = runtime.dialect(self.installation.version)
        self.features: Features = runtime.features_of(self.dialect)
        self.run_seconds = run_seconds
        self.key = f"conformance-{secrets.token_hex(12)}"
        """The model's key; it must not appear anywhere."""
        self.planted = secrets.token_hex(12)
        """A secret in the agent's environment; it must not appear anywhere."""
        self._extra = dict(env or {})
        self._given = dict(options or {})
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._running: set[PrintRun] = set()
        self._closed = False
        # Not below a temp folder: some agents treat that as less private than a home.
        base = parent or run_dir(os.environ)
        make_private_dir(base)
        self.folder = os.path.join(base, f"conformance-{secrets.token_hex(6)}")
        self.temp = os.path.join(self.folder, "tmp")
        """The agents' temp folder; its path is short because sockets are made there too."""
        for made in (self.folder, self.temp):
            os.mkdir(made, 0o700)
        self.unconfined = False
        """Whether the agent ran without its own sandbox because that cannot work here."""
        self.longest = 0.0
        """Seconds of the longest run so far that ended by itself."""

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs and remove everything. Safe to call twice."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for run in running:
            run.abort("the kit ends", now=True)
        # An agent that still writes would undo the removal.
        until = time.monotonic() + _CLOSING
        while self._running and time.monotonic() < until:
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def seconds_left(self) -> float:
        """Time until no more runs are started."""
        return self._until - time.monotonic()

    def place(self, name: str) -> Place:
        """New folders for a scenario, its repository made."""
        root = os.path.join(self.folder, name)
        found = Place(
            home=os.path.join(root, "home"),
            work=os.path.join(root, "work"),
            account=os.path.join(root, "account"),
        )
        for folder in (root, found.home, found.work, found.account):
            os.mkdir(folder, 0o700)
        self.git(found, "init", "-q")
        return found

    def git(self, place: Place, *words: str) -> None:
        """Run git in the place's repository; fails the scenario if git fails."""
        who = {"NAME": "Conformance", "EMAIL": "conformance@localhost"}
        names = {
            f"GIT_{role}_{part}": text
            for role in ("AUTHOR", "COMMITTER")
            for part, text in who.items()
        }
        done = run_git(place.work, *words, env={**self.environment(place), **names})
        if done.returncode != 0:
            raise Failed(f"git {words[0]} failed: {shown(done.stderr.decode(errors='replace'))}")

    def environment(self, place: Place) -> dict[str, str]:
        """The agent's environment: built from nothing, with a separate home."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": place.home,
            "TMPDIR": self.temp,
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "CONFORMANCE_API_KEY": self.planted,
            **self._extra,
        }

    def options(self, place: Place, server: ModelServer, prompt: str, **more: Any) -> RunOptions:
        """The options of a run at `place`, on the scripted model, allowed to act."""
        given = {"cwd": place.work, "timeout": self.run_seconds, **PERMITTED, **self._given, **more}
        return RunOptions(prompt=prompt, model_server=server, **given)

    def run(
        self,
        place: Place,
        script: Any,
        prompt: str = "Please do it.",
        *,
        meanwhile: Callable[[PrintRun, ScriptedModel], None] | None = None,
        keep_folders: bool = False,
        **options: Any,
    ) -> Outcome:
        """Play a script through the agent to its end.

        With `keep_folders` the run's private folders stay until the lab is closed, so that what it
        printed can be translated again.
        `meanwhile` is called in a separate thread once the run is made; it may watch and abort it,
        and must end by itself. Contract: returns an outcome for whatever the agent does.
        """
        with ScriptedModel(script, token=self.key) as model:
            server = ModelServer(url=model.url, api_key=self.key)
            outcome = self.run_on(
                place,
                self.options(place, server, prompt, **options),
                model,
                meanwhile,
                keep_folders=keep_folders,
            )
            asked = [request for request in model.requests if request.outcome != "side"]
        outcome.requests = asked
        return outcome

    def plan(self, place: Place, options: RunOptions) -> tuple[RunOptions, RunPlan]:
        """The plan of a run, and the options it was made with.

        An agent whose own sandbox cannot work on this machine runs without one: the scripts do
        nothing that needs confinement, and everything else can still be proved.
        """
        env = self.environment(place)
        try:
            return options, self.runtime.plan_run(options, env, new_session_id())
        except GuardRefused:
            if not self.runtime.confines_itself or options.sandbox is not None:
                raise
        self.unconfined = True
        options = msgspec.structs.replace(options, sandbox="off")
        return options, self.runtime.plan_run(options, env, new_session_id())

    def run_on(
        self,
        place: Place,
        options: RunOptions,
        model: ScriptedModel | None = None,
        meanwhile: Callable[[PrintRun, ScriptedModel], None] | None = None,
        *,
        keep_folders: bool = False,
    ) -> Outcome:
        """One run with exactly these `options`."""
        outcome = Outcome(events=[], lines=[], requests=[], place=place)
        began = time.monotonic()
        if self.seconds_left <= 0:
            raise Failed("not run: the kit's time limit was reached")
        try:
            options, plan = self.plan(place, options)
        except BridleError as refusal:
            outcome.refusal = refusal
            return outcome
        outcome.plan = plan
        recorder = recorder_for(self.runtime, options, plan)
        tap = Tap(self.runtime.normalizer(plan, recorder))
        run = PrintRun(
            plan.spec, lambda: tap, recorder, private_dirs=() if keep_folders else plan.private_dirs
        )
        watcher = None
        if meanwhile is not None and model is not None:
            watcher = threading.Thread(target=meanwhile, args=(run, model), daemon=True)
            watcher.start()
        with self._lock:
            self._running.add(run)
        try:
            if self._closed:
                run.abort("the kit ends", now=True)
            outcome.events.extend(run.events())
        finally:
            with self._lock:
                self._running.discard(run)
            if watcher is not None:
                watcher.join(self.run_seconds)
        outcome.seconds = time.monotonic() - began
        outcome.lines, outcome.exit, outcome.result = tap.lines, tap.exit, run.result
        if run.result.status == "completed":
            self.longest = max(self.longest, outcome.seconds)
        outcome.left = marked_processes(plan.session_id)
        if outcome.left:
            kill_marked(plan.session_id)
        return outcome
