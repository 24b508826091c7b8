"""One script plays on the real CLIs: text, a tool call that writes a file, a closing text."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from bridle.testing import ScriptedModel
from tests.testing.agents import SCRATCH, Agent, Place, claude, codex, pi

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
}


@pytest.fixture
def place() -> Iterator[Place]:
    root = SCRATCH / uuid.uuid4().hex[:12]
    home, repo = root / "home", root / "repo"
    home.mkdir(parents=True)
    repo.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
    yield Place(home=home, repo=repo)
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize("name", AGENTS)
def test_one_script_plays_on_every_agent(name: str, place: Place) -> None:
    with ScriptedModel(SCRIPT) as model:
        run = AGENTS[name](model, place, PROMPT)
        requests = model.requests
    shown = [(r.method, r.path, r.outcome, r.turn, r.error) for r in requests]
    assert "ORCHESTRA_COMPLETE" in run.text, (shown, run.events[-2:], run.stderr[-500:])
    model.assert_finished()
    assert (place.repo / "shell.txt").read_text() == "made by shell\n"
    assert (place.repo / "written.txt").read_text() == "one\nthree\n"
    assert model.prompts() == [PROMPT]
    assert "three" in model.tool_results()[-1].text
    assert len(model.tool_results()) == 4
    assert run.usage == {
        "input_tokens": 830,
        "output_tokens": 115,
        "cache_read_tokens": 100,
        "cache_write_tokens": 0,
    }
