"""A place for one real Codex: a home, a repository, a clean environment, and runs in it."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.process_tree import marked_processes
from bridle.runs import Prepared, prepare
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.contract import AdapterSettings
from bridle.testing import ScriptedModel
from tests.runtimes.codex.captures import check_order
from tests.support.conversation import AttachedConversation
from tests.support.driving import check_order as check_conversation
from tests.support.live import conversing
from tests.support.real_cli import real_cli
from tests.support.replaying import record_wires

VERSIONS = ("0.120.0", "0.166.0")
KEY = "sk-scripted-secret-0123"
MODEL = "gpt-5.5"
# Not below a temp folder: Codex leaves those writable in every sandbox.
SCRATCH = Path(__file__).parents[3] / ".tmp" / "codex"


class Bench:
    """One version of Codex with its own home and repository."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.root = SCRATCH / uuid.uuid4().hex[:12]
        self.home, self.repo = self.root / "home", self.root / "repo"
        self.config_home = self.home / ".codex"
        self.config_home.mkdir(parents=True)
        self.repo.mkdir()
        self.git("init", "-q", ".")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@b")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        binary = str(real_cli("codex", version))
        self.runtime = CodexRuntime(AdapterSettings(binary=binary))
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.env |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.events: list[ev.Event] = []
        self.prepared: Prepared | None = None

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.repo, check=True, capture_output=True, text=True
        )
        return done.stdout

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def options(self, served: ScriptedModel | None, /, **options: Any) -> RunOptions:
        """What runs and conversations here have in common."""
        given: dict[str, Any] = {"prompt": "Please do it.", "cwd": str(self.repo), "model": MODEL}
        given["permission_mode"] = "bypass"
        if served is not None:
            given["model_server"] = ModelServer(url=served.url, api_key=served.api_key)
        return RunOptions(**(given | options))

    @contextmanager
    def talk(
        self,
        served: ScriptedModel,
        /,
        permission: PermissionPolicy = refuse_all,
        **options: Any,
    ) -> Iterator[AttachedConversation]:
        """A conversation; afterwards its wire is proved repeatable and nothing is left of it."""
        wires = record_wires(self.runtime)
        given = self.options(served, **options)
        try:
            with conversing(self.runtime, given, self.env, permission) as talk:
                yield talk
        finally:
            del self.runtime.__dict__["live_wire"]
        wires.check_repeatable()
        check_conversation(talk.events)
        assert marked_processes(talk.recorder.session_id) == []
        assert KEY not in " ".join(talk.process.spec.argv)
        assert not any(KEY in str(event) for event in talk.events)

    def run(
        self,
        served: ScriptedModel | None,
        /,
        *,
        on_event: Callable[[ev.Event, Prepared], None] | None = None,
        **options: Any,
    ) -> RunResult:
        """Run to the end; checks the order of events and that nothing is left behind."""
        wanted = self.options(served, **{"timeout": 60.0, **options})
        self.prepared = prepare(self.runtime, wanted, env=self.env)
        self.events = []
        for event in self.prepared.run.events():
            self.events.append(event)
            if on_event is not None:
                on_event(event, self.prepared)
        plan = self.prepared.plan
        check_order(self.events)
        assert marked_processes(plan.session_id) == []
        assert KEY not in " ".join(plan.spec.argv)
        assert not any(KEY in str(event) for event in self.events)
        assert not any(os.path.exists(folder) for folder in plan.private_dirs)
        return self.prepared.run.result


def model_of(script: Any) -> ScriptedModel:
    """The scripted model with a key that can be told from ordinary words."""
    return ScriptedModel(script, token=KEY)
