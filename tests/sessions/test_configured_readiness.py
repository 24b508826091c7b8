"""What the configuration says of readiness holds in a session."""

import os
from collections.abc import Iterator

import pytest

import bridle
from bridle.core import events as ev
from bridle.core.options import ModelServer
from bridle.process.process_tree import kill_marked
from bridle.runtimes.alternatives import as_terminal
from bridle.runtimes.registry import get_adapter
from bridle.sessions.host import close_hosts
from bridle.testing import ScriptedModel
from tests.sandbox.bench import Bench, bench
from tests.support.real_cli import real_cli

LONG = 120.0


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The program's own environment is that of the place."""
    with bench() as made:
        for name in list(os.environ):
            if name.startswith("XDG_"):
                monkeypatch.delenv(name)
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        yield made
        close_hosts()


def configure(place: Bench, runtime: str, section: str) -> None:
    folder = place.worktree / ".bridle"
    folder.mkdir()
    text = f"runtime:\n  adapters:\n    {runtime}: {section}\n"
    (folder / "config.yaml").write_text(text)


def test_an_adapter_is_told(place: Bench) -> None:
    configure(place, "pi", "{ready: {strategy: warmup, warmupSeconds: 7, retries: 1}}")
    config = bridle.load_config(str(place.worktree))
    facts = as_terminal(get_adapter("pi", config)).configured_terminal()
    assert (facts.ready, facts.warmup, facts.retries) == ("warmup", 7.0, 1)
    assert facts.input_line is as_terminal(get_adapter("pi")).terminal_facts().input_line
    own = as_terminal(get_adapter("claude", config))
    assert own.configured_terminal() == own.terminal_facts()


@pytest.mark.real_cli
@pytest.mark.parametrize(("name", "version"), [("codex", "0.166.0"), ("claude", "2.1.325")])
def test_a_terminal_is_warmed_up_instead_of_looked_at(
    place: Bench, name: str, version: str
) -> None:
    binary = real_cli(name, version)
    warmup = "{strategy: warmup, warmupSeconds: 10}"
    configure(place, name, f"{{binary: {binary}, delivery: tmux, ready: {warmup}}}")
    with ScriptedModel([{"text": "Hello back."}]) as model:
        session = bridle.SyncSession.start(
            name,
            "Hello?",
            cwd=place.worktree,
            permission_mode="bypass",
            model_server=ModelServer(url=model.url, api_key=model.api_key),
        )
        try:
            assert session.record.drive == "tmux"
            assert session.wait_idle(timeout=LONG).text == "Hello back."
        finally:
            session.dispose()
            kill_marked(session.session_id)
    changes = [each for each in session.events() if isinstance(each, ev.StateChange)]
    ready = next(each for each in changes if each.new == "ready")
    assert "warm-up time is over" in ready.evidence
