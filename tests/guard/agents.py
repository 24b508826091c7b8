"""Real agents under the guard: who they are, how they are driven, and what they are asked to do.

Another drive is one more entry of `DRIVES`, another runtime one more of `AGENTS` with the drives it
has; the tests take both as parameters.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import RunResult
from bridle.drives.print_run import PrintRun
from bridle.guard.hooks.host import HostedGuard
from bridle.process.process_tree import marked_processes
from bridle.runs import prepare, recorder_for
from bridle.runtimes.contract import Adapter
from bridle.runtimes.guards import RunGuarding
from bridle.runtimes.registry import get_adapter
from bridle.testing import ScriptedModel
from tests.guard.sessions import GuardedSession
from tests.sandbox.bench import Bench
from tests.support.real_cli import path_with_bubblewrap, pinned

ROOT = Path(__file__).parents[2]


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime in one version."""

    name: str
    version: str = ""
    cli: str = ""
    """Name of its pinned CLI, where that is another."""
    options: dict[str, Any] = {}
    """What it is always run with."""
    drives: tuple[str, ...] = ("print",)
    """The drives with code of their own: `print-hooks` only where the guard of a run asks on the
    agent's wire and that of a terminal does not."""
    older: bool = False
    """Whether a newer version of the same CLI is among the agents. It is asked what depends on the
    CLI, and not again what depends on Bridle alone."""
    in_text: bool = False
    """Whether its model answers in text alone, in which edits stand: there are no calls to ask
    about, so it is held by the sandbox and refuses a guard."""
    own_boundary: bool = False
    """Whether its file tools refuse a path outside by themselves, before any hook is asked."""

    asks_driver: bool = False
    """Whether it asks on its wire and waits, so that nothing runs while nobody drives it."""
    has_hooks: bool = True
    """Whether hooks are what judges its calls."""

    def __str__(self) -> str:
        return f"{self.name}-{self.version}" if self.version else self.name

    def runtime(self) -> Adapter:
        """The adapter, on this version's binary."""
        if not self.version:
            return get_adapter(self.name)
        return pinned(self.name, self.version, self.cli)


UNPACKED = {"env": {"COPILOT_CACHE_HOME": str(ROOT / ".tmp" / "copilot-cache")}}
"""Copilot is unpacked once for all: 235 MB and seconds each time."""
ACP = ("print", "rpc")
EVERY = ("print", "rpc", "tmux")
ALL = ("print", "print-hooks", "rpc", "tmux")

AGENTS = (
    Agent(name="claude", version="2.1.325", drives=ALL),
    Agent(name="claude", version="2.1.197", drives=ALL, older=True),
    Agent(
        name="codex",
        version="0.166.0",
        options={"model": "gpt-5.5"},
        drives=EVERY,
    ),
    Agent(name="pi", version="1.5.0", drives=EVERY),
    Agent(name="pi", version="0.74.2", drives=("print", "rpc"), older=True),
    Agent(name="gemini", version="0.61.0", own_boundary=True),
    Agent(name="opencode", version="1.18.33"),
    Agent(name="cline", version="3.0.65"),
    Agent(
        name="copilot",
        version="1.0.102",
        options=UNPACKED,
        drives=("print", "tmux"),
    ),
    Agent(
        name="copilot-acp",
        cli="copilot",
        version="1.0.102",
        options=UNPACKED,
        drives=ACP,
        asks_driver=True,
    ),
    Agent(
        name="gemini-acp",
        cli="gemini",
        version="0.61.0",
        own_boundary=True,
        drives=ACP,
        asks_driver=True,
        has_hooks=False,
    ),
    Agent(
        name="opencode-acp",
        cli="opencode",
        version="1.18.33",
        drives=ACP,
    ),
    Agent(
        name="cline-acp",
        cli="cline",
        version="3.0.65",
        drives=ACP,
        asks_driver=True,
    ),
    Agent(
        name="claude-acp",
        cli="claude-agent-acp",
        version="0.49.0",
        drives=ACP,
        asks_driver=True,
    ),
    Agent(
        name="codex-acp",
        cli="codex-acp",
        version="0.16.0",
        options={"model": "gpt-5.5"},
        drives=ACP,
    ),
    Agent(name="scripted", drives=("print", "print-hooks", "rpc")),
    # Their conversations go over ACP, where other means ask than in their runs.
    Agent(name="copilot", version="1.0.102", options=UNPACKED, drives=("rpc",), asks_driver=True),
    Agent(
        name="gemini",
        version="0.61.0",
        own_boundary=True,
        drives=("rpc",),
        asks_driver=True,
        has_hooks=False,
    ),
    Agent(name="opencode", version="1.18.33", drives=("rpc",)),
    Agent(name="cline", version="3.0.65", drives=("rpc",), asks_driver=True),
)

WITHOUT_GUARD = (Agent(name="aider", version="0.86.2", drives=("print",), in_text=True),)
"""What nothing can make ask, and the sandbox alone holds."""

Sabotage = Callable[[HostedGuard], None]


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A guarded run that is over."""

    events: list[ev.Event]
    result: RunResult
    heard: str = ""
    """Everything that the model was sent."""

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        """The guard's decisions with their rules, in order."""
        return [
            (each.decision, each.reason.partition(":")[0])
            for each in self.events
            if isinstance(each, ev.PermissionDecision) and each.by == "guard"
        ]

    @property
    def ended(self) -> list[ev.ToolExecutionEnd]:
        """The tool calls that the events tell of."""
        return [each for each in self.events if isinstance(each, ev.ToolExecutionEnd)]


Drive = Callable[[Bench, Adapter, RunOptions, Sabotage | None], Played]


def in_print(
    place: Bench, runtime: Adapter, options: RunOptions, sabotage: Sabotage | None
) -> Played:
    """The print drive, as `bridle run` uses it."""
    if sabotage is not None:
        return hosted(place, runtime, options, sabotage, stdio=True)
    prepared = prepare(runtime, options, env=place.env)
    events = list(prepared.run.events())
    assert marked_processes(prepared.plan.session_id) == []
    return Played(events=events, result=prepared.run.result)


def by_hooks(
    place: Bench, runtime: Adapter, options: RunOptions, sabotage: Sabotage | None
) -> Played:
    """The print drive with a guard that may not use the agent's wire, as at a terminal."""
    return hosted(place, runtime, options, sabotage, stdio=False)


def hosted(
    place: Bench,
    runtime: Adapter,
    options: RunOptions,
    sabotage: Sabotage | None,
    *,
    stdio: bool,
) -> Played:
    """A run whose guard is put around it by hand, as any host of sessions does."""
    assert options.guard is not None
    guarding = RunGuarding(runtime, options.guard, place.env, stdio=stdio)
    try:
        guarding.hook.patience = 3 if sabotage is not None else 25
        plan = guarding.adapt(runtime.plan_run(options, place.env, new_session_id()))
        recorder = recorder_for(runtime, options, plan)
        recorder.guard = guarding.begin(plan)
        if sabotage is not None:
            sabotage(guarding.hook)
        normalizer = partial(runtime.normalizer, plan, recorder)
        run = PrintRun(plan.spec, normalizer, recorder, private_dirs=plan.private_dirs)
        return Played(events=list(run.events()), result=run.result)
    finally:
        guarding.close()


def in_rpc(
    place: Bench, runtime: Adapter, options: RunOptions, sabotage: Sabotage | None
) -> Played:
    """A session over the agent's own protocol, which outlives its driver."""
    return _in_session("rpc", place, runtime, options, sabotage)


def in_tmux(
    place: Bench, runtime: Adapter, options: RunOptions, sabotage: Sabotage | None
) -> Played:
    """A session in the agent's own terminal interface."""
    return _in_session("tmux", place, runtime, options, sabotage)


def _in_session(
    drive: ev.Drive,
    place: Bench,
    runtime: Adapter,
    options: RunOptions,
    sabotage: Sabotage | None,
) -> Played:
    with GuardedSession(place, runtime, options, drive, sabotage) as session:
        if session.ready():
            session.prompt(options.prompt)
        return Played(events=session.events(), result=session.result())


DRIVES: dict[str, Drive] = {
    "print": in_print,
    "print-hooks": by_hooks,
    "rpc": in_rpc,
    "tmux": in_tmux,
}


def play(
    place: Bench,
    agent: Agent,
    drive: Drive,
    capability: str,
    script: list[dict[str, Any]],
    sabotage: Sabotage | None = None,
    **options: Any,
) -> Played:
    """Let the agent play `script` as `capability`."""
    with ScriptedModel([*script, {"text": "Finished."}]) as model:
        wanted = wanted_of(place, agent, capability, model, **options)
        played = drive(place, agent.runtime(), wanted, sabotage)
        heard = json.dumps([request.body for request in model.requests])
        return msgspec.structs.replace(played, heard=heard)


def by_hand(
    place: Bench, runtime: Adapter, script: list[dict[str, Any]], agent: str, **own: Any
) -> RunResult:
    """Let the agent play `script` as somebody would start it by hand, with no guard of Bridle's
    own around it: as `agent`, or as a person where that is empty."""
    with ScriptedModel(script) as model:
        options = RunOptions(
            prompt="Do it.",
            cwd=str(place.worktree),
            permission_mode="bypass",
            timeout=120.0,
            model_server=ModelServer(url=model.url, api_key=model.api_key),
            env={"BRIDLE_AGENT_NAME": agent} if agent else {},
            provider_options=own,
        )
        plan = runtime.plan_run(options, place.env, new_session_id())
        # By hand it would not be told to leave the worktree's plugins alone.
        env = {key: value for key, value in plan.spec.env.items() if key != "OPENCODE_PURE"}
        spec = msgspec.structs.replace(plan.spec, env=env)
        recorder = recorder_for(runtime, options, plan)
        run = PrintRun(
            spec,
            partial(runtime.normalizer, plan, recorder),
            recorder,
            private_dirs=plan.private_dirs,
        )
        for _ in run.events():
            pass
        return run.result


def in_text(call: dict[str, Any], place: Bench) -> dict[str, Any]:
    """A call as a model writes it that has no tools, in the form that Aider looks for."""
    if "shell" in call:
        return {"text": f"Run this:\n\n```bash\n{call['shell']}\n```\n"}
    path = call["write_file"]["path"].replace(str(place.root), "..")
    edit = f"<<<<<<< SEARCH\n=======\n{call['write_file']['content']}\n>>>>>>> REPLACE"
    return {"text": f"Writing.\n\n{path}\n```\n{edit}\n```\n"}


def wanted_of(
    place: Bench, agent: Agent, capability: str, model: ScriptedModel, **options: Any
) -> RunOptions:
    """The options of a guarded run on the scripted model. The first rounds are the guard's alone:
    the agent is not confined unless `options` say so."""
    if agent.name == "codex-acp":
        place.env["PATH"] = path_with_bubblewrap(place.env["PATH"])
    return RunOptions(
        **{
            "prompt": "Do it.",
            "cwd": str(place.worktree),
            "permission_mode": "bypass",
            "timeout": 120.0,
            "guard": capability,
            "sandbox": "off",
            "model_server": ModelServer(url=model.url, api_key=model.api_key),
            **agent.options,
            **options,
        }
    )
