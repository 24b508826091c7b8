"""What each tool call of the real Claude Code costs, call by call within one session.

Sessions of the kinds to compare are run in turns, forwards and backwards, so that drift of the
machine hits all alike; the n-th call of one kind is compared with the n-th of the other, because a
conversation that grows makes every call dearer than the one before. Processor time is the
scheduler's, in nanoseconds, of every thread of the agent, of our own process (the judge, the
scripted model) and of the hooks that have ended.
"""

import itertools
import os
import random
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from bridle.core import events as ev
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import GuardReport
from bridle.drives.print_run import PrintRun
from bridle.runs import recorder_for
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.guards import RunGuarding
from bridle.testing import ScriptedModel

Kind = Literal["unguarded", "stdio", "hooks"]
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class CallCosts(NamedTuple):
    """One session: seconds of each call after the first, and of its ended children per call."""

    cpu: list[float]
    own: list[float]
    """The part of `cpu` that is our own process's."""
    wall: list[float]
    children: float


class Added(NamedTuple):
    """What a kind of session adds to each call, in seconds: the median over the calls' places, and
    the interval that 95 of 100 drawings of the sessions fall into."""

    median: float
    low: float
    high: float


def added(costs: list[list[float]], plain: list[list[float]]) -> Added:
    """The difference between sessions of two kinds, call by call."""
    chance = random.Random(7)
    drawn = [
        _difference(chance.choices(costs, k=len(costs)), chance.choices(plain, k=len(plain)))
        for _ in range(400)
    ]
    cuts = statistics.quantiles(drawn, n=40)
    return Added(_difference(costs, plain), cuts[0], cuts[-1])


def _difference(costs: list[list[float]], plain: list[list[float]]) -> float:
    places = range(min(len(session) for session in (*costs, *plain)))
    return statistics.median(
        statistics.median(s[place] for s in costs) - statistics.median(s[place] for s in plain)
        for place in places
    )


def play(runtime: ClaudeRuntime, root: Path, calls: int, kind: Kind) -> CallCosts:
    """One session of `calls` tool calls; what each of them cost. Answers are checked."""
    home, folder = root / "home", root / "worktree"
    for each in (home, folder):
        each.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("hello\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "IS_SANDBOX": "1"}
    script: list[dict[str, str]] = [{"read_file": "a.txt"}] * calls
    with ScriptedModel([*script, {"text": "Finished."}]) as model:
        options = RunOptions(
            prompt="Do it.",
            cwd=str(folder),
            permission_mode="bypass",
            timeout=110.0,
            model_server=ModelServer(url=model.url, api_key=model.api_key),
        )
        plan = runtime.plan_run(options, env, new_session_id())
        guarding = None
        if kind != "unguarded":
            guarding = RunGuarding(runtime, "builder", env, stdio=kind == "stdio")
            plan = guarding.adapt(plan)
        try:
            recorder = recorder_for(runtime, options, plan)
            if guarding is not None:
                recorder.guard = guarding.begin(plan)
            normalizer = partial(runtime.normalizer, plan, recorder)
            run = PrintRun(plan.spec, normalizer, recorder, private_dirs=plan.private_dirs)
            costs = _sampled(run)
        finally:
            if guarding is not None:
                guarding.close()
    assert run.result.status == "completed", run.result.error
    assert len(costs.cpu) == calls - 1, len(costs.cpu)
    if kind != "unguarded":
        assert isinstance(run.result.guard, GuardReport)
        assert run.result.guard.allowed == calls
    return costs


def _sampled(run: PrintRun) -> CallCosts:
    cpu: list[float] = []
    own: list[float] = []
    wall: list[float] = []
    ended: list[float] = []
    spent = 0.0
    """What the sampling itself cost us."""
    for event in run.events():
        if not isinstance(event, ev.ToolExecutionEnd):
            continue
        assert not event.is_error, event.result
        began = time.process_time()
        agent = _agent()
        own.append(began - spent)
        cpu.append(_threads(agent) + began - spent)
        ended.append(_ended_children(agent))
        wall.append(time.perf_counter())
        spent += time.process_time() - began
    steps = len(cpu) - 1
    return CallCosts(_steps(cpu), _steps(own), _steps(wall), (ended[-1] - ended[0]) / steps)


def _steps(values: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(values)]


def _agent() -> int:
    """The one child of this process."""
    children: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            children += [int(word) for word in file.read().split()]
    (only,) = children
    return only


def _threads(pid: int) -> float:
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        except OSError:
            continue
    return total / 1e9


def _ended_children(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) * _TICK
