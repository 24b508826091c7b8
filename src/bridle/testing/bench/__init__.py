"""One place for the tests of an adapter: private folders, scripted models, runs of the agent.

The pytest plugin `bridle.testing.bench.pytest_plugin` has the fixture `agent_bench`:

def test_it_writes_the_file(agent_bench: AgentBench) -> None:
    script = [{"text": "Writing.", "shell": "echo hi > hi.txt"}, {"text": "Done."}]
    run = agent_bench.run(MyRuntime(), script)
    assert run.result.text == "Done."
    assert (agent_bench.work / "hi.txt").read_text() == "hi\\n"
"""

from bridle.testing.bench.agent_bench import AgentBench, AgentRun
from bridle.testing.bench.terminal import AgentTerminal

__all__ = ["AgentBench", "AgentRun", "AgentTerminal"]
