"""One version of the real Codex on a bench: runs and conversations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.drives.print_run import PermissionPolicy, PrintRun, refuse_all
from bridle.process.process_tree import marked_processes
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.contract import AdapterSettings
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun
from tests.support.conversation import AttachedConversation
from tests.support.driving import check_order
from tests.support.live import conversing
from tests.support.real_cli import real_cli
from tests.support.replaying import record_wires

VERSIONS = ("0.120.0", "0.166.0")
KEY = "sk-scripted-secret-0123"
MODEL = "gpt-5.5"


class RealCodex:
    """Runs and conversations on one bench; `last` is the last run."""

    def __init__(self, bench: AgentBench, version: str) -> None:
        self.bench, self.version = bench, version
        self.root, self.home, self.work = bench.root, bench.home, bench.work
        self.env, self.git = bench.env, bench.git
        self.config_home = bench.home / ".codex"
        self.config_home.mkdir(exist_ok=True)
        self.runtime = CodexRuntime(AdapterSettings(binary=str(real_cli("codex", version))))
        self.last: AgentRun | None = None

    @property
    def events(self) -> list[ev.Event]:
        """The events of the last run."""
        assert self.last is not None
        return self.last.events

    def options(self, served: ScriptedModel | None, /, **options: Any) -> RunOptions:
        """What runs and conversations have in common."""
        return self.bench.options(served, **{**self._given(), "timeout": None, **options})

    def _given(self) -> dict[str, Any]:
        return {"prompt": "Please do it.", "model": MODEL}

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
        check_order(talk.events)
        assert marked_processes(talk.recorder.session_id) == []
        assert KEY not in " ".join(talk.process.spec.argv)
        assert not any(KEY in str(event) for event in talk.events)

    def run(
        self,
        served: ScriptedModel | None,
        /,
        *,
        on_event: Callable[[ev.Event, PrintRun], None] | None = None,
        **options: Any,
    ) -> RunResult:
        """Run to the end, as the bench checks it."""
        given = {**self._given(), "timeout": 60.0, **options}
        self.last = self.bench.run(self.runtime, served, on_event=on_event, **given)
        assert KEY not in " ".join(self.last.plan.spec.argv)
        assert not any(KEY in str(event) for event in self.events)
        return self.last.result


def model_of(script: Any) -> ScriptedModel:
    """The scripted model with a key that can be told from ordinary words."""
    return ScriptedModel(script, token=KEY)
