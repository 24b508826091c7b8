"""Instructions in a worktree: written where each version of Pi reads them."""

from pathlib import Path

import pytest

from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes import deployment
from bridle.runtimes.pi import PiRuntime
from bridle.runtimes.pi.product import DIALECTS, PiDialect

OLD, NEW = DIALECTS[0], DIALECTS[-1]


def deploy(folder: Path, content: str, dialect: PiDialect, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(PiRuntime, "installed_dialect", lambda self: dialect)
    who = HooksDef(agent_name="a", capability="builder", worktree_path=".")
    path, *_ = deployment.deploy(PiRuntime(), str(folder), OverlayContent(content=content), who)
    return Path(path).name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_claude_file_that_would_be_hidden_is_carried_along(
    tmp_path: Path, dialect: PiDialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CLAUDE.md").write_text("Project rule.\n")
    for content in ("One.", "Two."):
        deploy(tmp_path, content, dialect, monkeypatch)
    text = (tmp_path / "AGENTS.md").read_text()
    assert text.count("Project rule.") == 1
    assert "Two." in text


def test_an_override_is_where_the_newer_version_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "AGENTS.override.md").write_text("Mine.\n")
    assert deploy(tmp_path, "X.", NEW, monkeypatch) == "AGENTS.override.md"
    assert deploy(tmp_path, "X.", OLD, monkeypatch) == "AGENTS.md"
    assert (tmp_path / "AGENTS.override.md").read_text().startswith("Mine.\n")
