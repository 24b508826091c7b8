"""Parrot on Bridle's bench: the real program, a scripted model, and folders of the test's own."""

import pytest
from bridle_parrot import ParrotRuntime

from bridle.adapter import UnsupportedOption
from bridle.testing.bench import AgentBench


def test_it_writes_the_file(agent_bench: AgentBench) -> None:
    script = [{"text": "Writing.", "shell": "echo hi > hi.txt"}, {"text": "Done."}]
    run = agent_bench.run(ParrotRuntime(), script, prompt="Write it.")
    assert (run.result.status, run.result.text) == ("completed", "Done.")
    assert (agent_bench.work / "hi.txt").read_text() == "hi\n"
    assert len(run.requests) == 2


def test_a_stop_ends_its_tool(agent_bench: AgentBench) -> None:
    began = agent_bench.work / "began"
    script = [{"shell": "touch began; sleep 600"}, {"text": "Never said."}]
    run = agent_bench.run(ParrotRuntime(), script, stop_when=began.exists)
    assert run.result.status == "aborted"


def test_an_option_that_it_does_not_have_is_refused(agent_bench: AgentBench) -> None:
    with pytest.raises(UnsupportedOption) as refusal:
        agent_bench.plan(ParrotRuntime(), allowed_tools=("shell",))
    assert refusal.value.option == "allowed_tools"
