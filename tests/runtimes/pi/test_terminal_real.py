"""Pi's own terminal interface, in a tmux of the test's own."""

import shlex

import pytest

from bridle.core.options import SpawnOptions
from bridle.core.results import Busy, Dialog, Ready
from bridle.runtimes.pi import PiRuntime
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from tests.runtimes.pi.real import agent_dir, login
from tests.support.real_cli import pinned_as, real_cli, versions

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("version", versions("pi")),
]

EXTENSION = """
import { writeFileSync } from "node:fs";
export default function (pi) { writeFileSync(process.env.HOME + "/witness", "loaded"); }
"""


def test_a_spawned_session_takes_a_prompt(version: str, bench: AgentBench) -> None:
    runtime = pinned_as(PiRuntime, version)
    script = [{"text": "first answer"}, {"text": "I ask.", "shell": "touch asked.txt"}]
    with ScriptedModel(script) as model:
        login(bench, model)
        terminal = bench.terminal(
            runtime,
            model="lab/scripted",
            append_system_prompt="marker-$HOME-'quoted'",
            initial_prompt="-a first prompt",
        )
        model.wait_for_request(lambda request: request.body is not None)
        terminal.wait(lambda state: state == Ready())
        terminal.type("a second prompt")
        model.wait_for_request(lambda request: "a second prompt" in str(request.body))
        assert [said.strip() for said in model.prompts()] == ["-a first prompt", "a second prompt"]
        assert "marker-$HOME-'quoted'" in str(model.requests[0].body)
        # It asks the person, as the default of a spawned session says.
        terminal.wait(lambda state: state == Busy(what="permission"))
        assert not (bench.work / "asked.txt").exists()


def test_the_safe_key_does_not_trust_a_project(version: str, bench: AgentBench) -> None:
    runtime = pinned_as(PiRuntime, version)
    if not runtime.dialect(version)[0].trust_flags:
        plain = SpawnOptions(model="sonnet", permission_mode="bypass")
        assert "--no-approve" not in runtime.build_spawn_command(plain)
        return
    (bench.work / ".pi" / "extensions").mkdir(parents=True)
    (bench.work / ".pi" / "extensions" / "witness.ts").write_text(EXTENSION)
    with ScriptedModel([{"text": "ok"}]) as model:
        login(bench, model)
        binary = shlex.quote(str(real_cli("pi", version)))
        terminal = bench.terminal(runtime, command=f"{binary} --model lab/scripted")
        dialog = terminal.wait(lambda state: isinstance(state, Dialog))
        assert isinstance(dialog, Dialog)
        assert dialog.action is not None
        terminal.press(dialog.action)
        terminal.wait(lambda state: state == Ready())
    assert not (agent_dir(bench) / "trust.json").exists()
    assert not (bench.home / "witness").exists()
