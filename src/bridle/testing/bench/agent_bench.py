"""`AgentBench`: where a test runs an agent.

A bench has a private home, a working directory and an environment that is built from nothing. It
plays scripts to the agent, keeps what came of it, and proves at its end that no process is left.
"""

import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from bridle.core.events import Drive, Event
from bridle.core.git import run_git
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, RunOptions, SpawnOptions
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, PrintRun, refuse_all
from bridle.process.private_folders import remove_folders
from bridle.process.process_tree import environment, marked_processes
from bridle.runs import Prepared, SyncEventStream, prepare
from bridle.runtimes.contract import Adapter
from bridle.runtimes.plan import RunPlan
from bridle.testing.contract import check_event_order, kinds, steps
from bridle.testing.request_log import RecordedRequest
from bridle.testing.server import ScriptedModel

if TYPE_CHECKING:
    from bridle.sessions.sync_session import SyncSession
    from bridle.testing.bench.terminal import AgentTerminal

Script = Any
"""What a scripted model plays (a list of turns, YAML text, a path), or a model that runs."""

E = TypeVar("E", bound=Event)
_WHO = {
    f"GIT_{role}_{part}": text
    for role in ("AUTHOR", "COMMITTER")
    for part, text in (("NAME", "Bench"), ("EMAIL", "bench@example.invalid"))
}
_KEPT = ("PYTEST_",)
"""Prefixes of variables that stay: the test runner's own."""
_GONE = 5.0
"""Seconds that processes which are about to end are given at the end of a test."""


class AgentRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is over: everything that it showed."""

    events: list[Event]
    result: RunResult
    plan: RunPlan
    model: ScriptedModel | None = None
    """The scripted model that it ran on, if the bench served one."""

    @property
    def error_kind(self) -> str | None:
        """The kind of the run's error; None for a run without one."""
        return self.result.error.kind if self.result.error else None

    @property
    def requests(self) -> list[RecordedRequest]:
        """What the model was asked, side requests aside."""
        found = self.model.requests if self.model is not None else []
        return [request for request in found if request.outcome != "side"]

    @property
    def kinds(self) -> list[str]:
        """The types of the events in order; see `bridle.testing.contract.kinds`."""
        return kinds(self.events)

    @property
    def steps(self) -> list[str]:
        """`kinds`, with the pieces of a text as one; see `bridle.testing.contract.steps`."""
        return steps(self.events)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type."""
        return [event for event in self.events if isinstance(event, kind)]


class AgentBench:
    """Folders, an environment, scripted models, and runs of an agent in them.

    Contract: use it in `with` (the fixture `agent_bench` does). Inside, the variables of this
    process are those of `env`, so that everything in Bridle sees the bench's home and nothing of
    the user's. The end stops what was started and raises `AssertionError` if a process of this
    home is left; it kills that.
    """

    def __init__(self, folder: str | Path) -> None:
        self.root = Path(folder)
        self.home = self.root / "home"
        """The agent's home: empty, and private to this test."""
        self.work = self.root / "work"
        """The working directory: empty, and no repository before `make_repository`."""
        self.key = f"sk-bench-{secrets.token_hex(16)}"
        """The key of the scripted models. Each run is checked for it: it must be in no argument and
        in no event."""
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        """The environment of everything that is started here. Add to it before a run."""
        for made in (self.home, self.work):
            made.mkdir(parents=True, exist_ok=True)
        self._outer: dict[str, str] = {}
        self._folders: list[str] = []
        self._closing: list[Callable[[], object]] = []

    # -- life -----------------------------------------------------------------------------------

    def __enter__(self) -> "AgentBench":
        self._outer = dict(os.environ)
        kept = {name: text for name, text in self._outer.items() if name.startswith(_KEPT)}
        os.environ.clear()
        os.environ.update(kept | self.env)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self._closing:
                self._closing.pop()()
            remove_folders(tuple(self._folders))
        finally:
            left = self._end_processes()
            os.environ.clear()
            os.environ.update(self._outer)
            shutil.rmtree(self.root, ignore_errors=True)
        if left and problem is None:
            raise AssertionError(f"processes were left behind: {left}")

    def processes(self) -> list[int]:
        """The running processes whose home is this bench's, this one aside."""
        import psutil

        home = str(self.home)
        others = (pid for pid in psutil.pids() if pid != os.getpid())
        return [pid for pid in others if environment(pid).get("HOME") == home]

    def _end_processes(self) -> list[str]:
        """Wait for the processes of this home, and kill those that do not end; their commands."""
        import psutil

        until = time.monotonic() + _GONE
        while (pids := self.processes()) and time.monotonic() < until:
            time.sleep(0.05)
        words = []
        for pid in pids:
            try:
                process = psutil.Process(pid)
                words.append(" ".join(process.cmdline())[:200])
                process.kill()
            except psutil.Error:
                continue
        return words

    # -- folders --------------------------------------------------------------------------------

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Run git in the working directory; returns what it printed. Raises if it fails."""
        done = run_git(str(cwd or self.work), *words, env=self.env | _WHO)
        if done.returncode != 0:
            raise AssertionError(f"git {' '.join(words)}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode()

    def make_repository(self) -> None:
        """Make the working directory a git repository with one commit of what is in it."""
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", _WHO["GIT_AUTHOR_NAME"])
        self.git("config", "user.email", _WHO["GIT_AUTHOR_EMAIL"])
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "first")

    def files(self, *folders: str) -> dict[str, bytes]:
        """Every file below the named folders of the home (all of it without a name), with its
        content."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for folder in folders or (".",)
            for path in sorted((self.home / folder).rglob("*"))
            if path.is_file()
        }

    # -- scripted models ------------------------------------------------------------------------

    def model(self, script: Script) -> ScriptedModel:
        """A scripted model that runs until the end of the test."""
        model = self._model(script).start()
        self._closing.append(model.stop)
        return model

    def _model(self, script: Script) -> ScriptedModel:
        return (
            script if isinstance(script, ScriptedModel) else ScriptedModel(script, token=self.key)
        )

    @contextmanager
    def _serving(self, script: Script | None) -> Iterator[ScriptedModel | None]:
        """The model that plays `script`, running; one that runs already goes on after it."""
        if script is None or isinstance(script, ScriptedModel):
            yield script
        else:
            with self._model(script) as model:
                yield model

    def server(self, model: ScriptedModel) -> ModelServer:
        """The address and the key of a scripted model."""
        return ModelServer(url=model.url, api_key=model.api_key)

    # -- plans and runs -------------------------------------------------------------------------

    def options(self, model: ScriptedModel | None = None, /, **options: Any) -> RunOptions:
        """The options of a run here: in the working directory, allowed to act, on `model`."""
        given: dict[str, Any] = {
            "prompt": "Do it.",
            "cwd": str(self.work),
            "permission_mode": "bypass",
            "timeout": 120.0,
        }
        if model is not None:
            given["model_server"] = self.server(model)
        return RunOptions(**{**given, **options})

    def plan(
        self, runtime: Adapter, /, *, environ: Mapping[str, str] | None = None, **options: Any
    ) -> RunPlan:
        """How a run would be started; its private folders stay until the end of the test.

        `environ` adds to the environment around the run.
        """
        around = self.env | dict(environ or {})
        plan = runtime.plan_run(self.options(**options), around, new_session_id())
        self._folders += plan.private_dirs
        return plan

    def prepare(
        self,
        runtime: Adapter,
        model: ScriptedModel | None = None,
        /,
        *,
        permission: PermissionPolicy = refuse_all,
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Prepared:
        """A run that is ready to start, on `model` if there is one."""
        around = self.env | dict(environ or {})
        return prepare(runtime, self.options(model, **options), env=around, permission=permission)

    def run(
        self,
        runtime: Adapter,
        script: Script | None = None,
        /,
        *,
        permission: PermissionPolicy = refuse_all,
        environ: Mapping[str, str] | None = None,
        on_event: Callable[[Event, PrintRun], None] | None = None,
        stop_when: Callable[[], object] | None = None,
        **options: Any,
    ) -> AgentRun:
        """Run a prompt to its end, on a model that plays `script`.

        `options` are those of `RunOptions`; `on_event` gets each event with the run, which it may
        abort; the run is aborted when `stop_when` becomes true. Raises `AssertionError` if the
        order of events is wrong, a process or a private folder is left, or the key is in an
        argument or an event.
        """
        with self._serving(script) as model:
            prepared = self.prepare(
                runtime, model, permission=permission, environ=environ, **options
            )
            events = self._play(prepared.run, on_event, stop_when)
        run = AgentRun(events=events, result=prepared.run.result, plan=prepared.plan, model=model)
        self._check(run)
        return run

    def _play(
        self,
        run: PrintRun,
        on_event: Callable[[Event, PrintRun], None] | None,
        stop_when: Callable[[], object] | None,
    ) -> list[Event]:
        events: list[Event] = []
        over = threading.Event()

        def watch() -> None:
            while stop_when is not None and not over.wait(0.05):
                if stop_when():
                    run.abort("the test has seen enough")
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for event in run.events():
                events.append(event)
                if on_event is not None:
                    on_event(event, run)
        finally:
            over.set()
            watcher.join()
        return events

    def _check(self, run: AgentRun) -> None:
        left = marked_processes(run.plan.session_id)
        folders = [folder for folder in run.plan.private_dirs if os.path.exists(folder)]
        checks = {
            "the order of events is wrong": check_event_order(run.events),
            "processes were left": left,
            "private folders were left": folders,
            "the key is in an argument": [w for w in run.plan.spec.argv if self.key in w],
            "the key is in an event": [event for event in run.events if self.key in str(event)],
        }
        for problem, found in checks.items():
            if found:
                raise AssertionError(f"{problem}: {found}")

    def stream(
        self,
        runtime: Adapter,
        script: Script | None = None,
        /,
        *,
        permission: PermissionPolicy = refuse_all,
        **options: Any,
    ) -> SyncEventStream:
        """The events of a run as they happen, on a model that plays `script`."""
        model = None if script is None else self.model(script)
        made = SyncEventStream(runtime, self.options(model, **options), permission=permission)
        self._closing.append(lambda: made.__exit__(None, None, None))
        return made

    def session(
        self,
        runtime: Adapter,
        script: Script | None = None,
        /,
        prompt: str | None = None,
        *,
        drive: Drive | None = None,
        permission: PermissionPolicy | None = None,
        **options: Any,
    ) -> "SyncSession":
        """A session that is ready, on a model that plays `script`; the end of the test ends it."""
        from bridle.sessions.host import close_hosts
        from bridle.sessions.sync_session import SyncSession

        model = None if script is None else self.model(script)
        whole = msgspec.structs.asdict(self.options(model))
        given = {name: whole[name] for name in ("cwd", "permission_mode", "model_server")}
        self._closing.append(close_hosts)
        session = SyncSession.start(
            runtime,
            prompt,
            drive=drive,
            permission=permission,
            **cast("Any", given | options),
        )
        self._closing.append(session.dispose)
        return session

    def terminal(
        self, runtime: Adapter, /, *, command: str | None = None, **options: Any
    ) -> "AgentTerminal":
        """The agent's own terminal interface in a private tmux, started as a person would start it.

        `options` are those of `SpawnOptions`; their variables are added to the bench's. `command`
        is started in place of the adapter's own command.
        """
        from bridle.testing.bench.terminal import AgentTerminal

        env = self.env | options.pop("env", {})
        if command is None:
            wanted = SpawnOptions(**{"cwd": str(self.work), **options, "env": env})
            command = runtime.build_spawn_command(wanted)
        made = AgentTerminal(runtime, command, str(self.work), env)
        self._closing.append(made.close)
        made.start()
        return made
