"""Whether hooks fire is shown with the real agents."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.doctor.hooks import look_at_hooks, probe_hooks
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import create_acp_adapter, get_adapter
from tests.support.real_cli import pinned, versions


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A state folder that is not below the system's temporary one: Gemini takes no settings from a
    place where others could change them."""
    folder = Path(__file__).parents[2] / ".tmp" / "doctor" / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    yield
    shutil.rmtree(folder, ignore_errors=True)


def test_the_scripted_agent_asks() -> None:
    runtime = get_adapter("scripted")
    assert look_at_hooks(runtime).status == "skip"
    found = probe_hooks(runtime)
    assert found.status == "ok", found.detail
    assert found.detail.startswith("they fire: ")


@pytest.mark.parametrize(
    "runtime",
    [get_adapter("aider"), create_acp_adapter(id="unseen", binary="unseen")],
    ids=lambda runtime: runtime.id,
)
def test_an_agent_without_hooks(runtime: Adapter) -> None:
    for finding in (look_at_hooks(runtime), probe_hooks(runtime)):
        assert (finding.status, finding.detail) == ("skip", "it has no hooks that a guard can use")


@pytest.mark.real_cli
@pytest.mark.parametrize(
    ("name", "cli"),
    [
        ("claude", "claude"),
        ("cline", "cline"),
        ("codex", "codex"),
        ("copilot", "copilot"),
        ("gemini", "gemini"),
        ("opencode", "opencode"),
        ("pi", "pi"),
        ("claude-acp", "claude-agent-acp"),
        ("gemini-acp", "gemini"),
    ],
)
def test_real_agents_ask(name: str, cli: str) -> None:
    runtime = pinned(name, versions(cli)[-1], cli)
    found = probe_hooks(runtime)
    assert found.status == "ok", found.detail


@pytest.mark.real_cli
def test_a_version_without_hooks_is_told() -> None:
    runtime = pinned("codex", "0.120.0")
    found = probe_hooks(runtime)
    assert found.status == "fail"
    assert found.hint
