"""One script plays on the real CLIs: text, a tool call that writes a file, a closing text."""

import pytest

from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from tests.testing.agents import Agent, claude, codex, pi

pytestmark = pytest.mark.real_cli

PROMPT = "Please write the file."

SCRIPT = """
- text: I will write the file now.
  shell: "printf 'made by shell\\n' > shell.txt"
  usage: {input_tokens: 300, output_tokens: 40, cache_read_tokens: 70, cache_write_tokens: 0}
- write_file: {path: written.txt, content: "one\\ntwo\\n"}
  usage: {input_tokens: 10, output_tokens: 5}
- edit_file: {path: written.txt, old: "two\\n", new: "three\\n"}
  usage: {input_tokens: 10, output_tokens: 5}
- read_file: written.txt
  usage: {input_tokens: 10, output_tokens: 5}
- thinking: I have to think about this.
  tool_calls:
    - {name: shell, args: {command: "echo 1 > one"}}
    - {name: shell, args: {command: "echo 2 > two"}}
  usage: {input_tokens: 50, output_tokens: 30, reasoning_tokens: 10}
- text: Done. ORCHESTRA_COMPLETE
  usage: {input_tokens: 500, output_tokens: 60, cache_read_tokens: 30}
"""

AGENTS: dict[str, Agent] = {
    "claude-2.1.197": claude("2.1.197"),
    "claude-2.1.325": claude("2.1.325"),
    "codex-0.166.0": codex("0.166.0", model="gpt-5.5"),
    "codex-0.166.0-code-mode": codex("0.166.0", model="gpt-6-sol"),
    "codex-0.166.0-unknown-model": codex("0.166.0", model="scripted"),
    "codex-0.120.0": codex("0.120.0", model="gpt-5.1-codex"),
    "codex-0.120.0-unknown-model": codex("0.120.0", model="scripted"),
    "pi-0.74.2-messages": pi("0.74.2", api="anthropic-messages"),
    "pi-0.74.2-chat": pi("0.74.2", api="openai-completions"),
    "pi-0.74.2-responses": pi("0.74.2", api="openai-responses"),
    "pi-1.5.0-messages": pi("1.5.0", api="anthropic-messages"),
    "pi-1.5.0-chat": pi("1.5.0", api="openai-completions"),
}


@pytest.mark.parametrize("name", AGENTS)
def test_one_script_plays_on_every_agent(name: str, bench: AgentBench) -> None:
    with ScriptedModel(SCRIPT) as model:
        run = AGENTS[name](model, bench, PROMPT)
        requests = model.requests
    shown = [(r.method, r.path, r.outcome, r.turn, r.error) for r in requests]
    assert "ORCHESTRA_COMPLETE" in run.text, (shown, run.events[-2:], run.stderr[-500:])
    model.assert_finished()
    assert (bench.work / "shell.txt").read_text() == "made by shell\n"
    assert (bench.work / "written.txt").read_text() == "one\nthree\n"
    assert model.prompts() == [PROMPT]
    assert "three" in model.tool_results()[3].text
    assert (bench.work / "one").read_text() == "1\n"
    assert (bench.work / "two").read_text() == "2\n"
    assert len(model.tool_results()) == 6
    assert run.usage == {
        "input_tokens": 880,
        "output_tokens": 145,
        "cache_read_tokens": 100,
        "cache_write_tokens": 0,
    }


@pytest.mark.parametrize("name", AGENTS)
def test_faults_and_then_success(name: str, bench: AgentBench) -> None:
    script = """
- text: One.
  shell: "true"
- fault: {status: 500}
  text: Two.
  shell: "true"
- fault: {cut: true}
  text: Done after a fault. ORCHESTRA_COMPLETE
"""
    with ScriptedModel(script) as model:
        run = AGENTS[name](model, bench, PROMPT)
    assert run.text == "Done after a fault. ORCHESTRA_COMPLETE", run.stderr[-500:]
    model.assert_finished()
    outcomes = [request.outcome for request in model.requests if request.protocol]
    assert outcomes == ["turn", "fault", "turn", "fault", "turn"]


@pytest.mark.parametrize(
    "name", ["claude-2.1.197", "claude-2.1.325", "codex-0.166.0", "codex-0.120.0"]
)
def test_a_conversation_goes_on_through_resume_and_compaction(name: str, bench: AgentBench) -> None:
    script = """
- text: First step.
  shell: "true"
- text: First answer.
- context_overflow: true
  text: Second answer.
- text: Third step.
  shell: "true"
- text: Third answer.
"""
    agent = AGENTS[name]
    with ScriptedModel(script) as model:
        first = agent(model, bench, "Begin.")
        assert first.text == "First answer."
        second = agent(model, bench, "Go on.", resume=first.session)
        if name.startswith("codex"):
            # Codex gives up on an overflow and compacts when the next turn begins.
            assert second.status == 1
            second = agent(model, bench, "Go on then.", resume=first.session)
        assert second.text == "Second answer."
        third = agent(model, bench, "And on.", resume=first.session)
        assert third.text == "Third answer."
    model.assert_finished()
    assert [request.side for request in model.requests if request.side] == (
        ["ping", "ping", "compaction", "ping"] if name == "claude-2.1.197" else ["compaction"]
    )


@pytest.mark.parametrize("name", ["pi-0.74.2-chat", "pi-0.74.2-responses", "pi-1.5.0-chat"])
def test_a_refused_key_reaches_the_agent(name: str, bench: AgentBench) -> None:
    """The tests of the runtimes show it for every CLI, on the wire that Bridle uses."""
    with ScriptedModel([{"fault": {"kind": "authentication"}}]) as model:
        run = AGENTS[name](model, bench, PROMPT)
    told = " ".join(str(event) for event in run.events) + run.stderr
    signs = ("Invalid API key", "invalid x-api-key", "401", "Incorrect API key")
    assert any(sign in told for sign in signs), told[-1000:]
    assert {request.outcome for request in model.requests if request.protocol} == {"fault"}


@pytest.mark.parametrize(
    "name", ["claude-2.1.197", "claude-2.1.325", "codex-0.166.0", "codex-0.120.0"]
)
def test_a_conversation_goes_on_after_an_interruption(name: str, bench: AgentBench) -> None:
    """What became of the interrupted reply differs by agent; the script goes on all the same."""
    script = """
- text: This reply stalls and is interrupted.
  chunks: 5
  fault: {stall: 90}
- text: After the interruption.
- text: The end.
"""
    agent = AGENTS[name]
    with ScriptedModel(script) as model:

        def stalled() -> None:
            model.wait_for_request(lambda request: request.outcome == "fault", timeout=60)

        first = agent(model, bench, "Begin.", interrupt=stalled)
        assert first.text == "" or "stalls" in first.text
        second = agent(model, bench, "Something else.", resume=first.session)
        assert second.text == "After the interruption."
        assert agent(model, bench, "And?", resume=first.session).text == "The end."
    model.assert_finished()
    assert model.prompts() == ["Begin.", "Something else.", "And?"]
