"""Instructions in a worktree: written where Pi reads them, nothing of the project's lost."""

from pathlib import Path

import pytest

from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes.pi import PiRuntime
from bridle.runtimes.pi.deploy import BEGIN, END, deploy_instructions
from bridle.runtimes.pi.dialects import DIALECTS, PiDialect

OLD, NEW = DIALECTS
HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def test_a_new_file(tmp_path: Path) -> None:
    files = PiRuntime().deploy_config(str(tmp_path), OverlayContent(content="Build it."), HOOKS)
    assert files == [str(tmp_path / "AGENTS.md")]
    assert (tmp_path / "AGENTS.md").read_text() == f"{BEGIN}\nBuild it.\n{END}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["AGENTS.md"]


def test_the_projects_text_stays_and_ours_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_bytes(b"# Rules\r\nkeep \xff me\n")
    deploy_instructions(str(tmp_path), "First.", NEW)
    deploy_instructions(str(tmp_path), "Second.", NEW)
    text = file.read_bytes()
    assert text.startswith(b"# Rules\r\nkeep \xff me\n")
    assert text.count(BEGIN.encode()) == 1
    assert b"Second." in text
    assert b"First." not in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_claude_file_that_would_be_hidden_is_carried_along(
    tmp_path: Path, dialect: PiDialect
) -> None:
    (tmp_path / "CLAUDE.md").write_text("Project rule.\n")
    for content in ("One.", "Two."):
        deploy_instructions(str(tmp_path), content, dialect)
    text = (tmp_path / "AGENTS.md").read_text()
    assert text.count("Project rule.") == 1
    assert "Two." in text
    assert (tmp_path / "CLAUDE.md").read_text() == "Project rule.\n"


def test_an_override_is_where_the_newer_version_looks(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.override.md").write_text("Mine.\n")
    assert deploy_instructions(str(tmp_path), "X.", NEW).endswith("AGENTS.override.md")
    assert deploy_instructions(str(tmp_path), "X.", OLD).endswith("AGENTS.md")
    assert (tmp_path / "AGENTS.override.md").read_text().startswith("Mine.\n")


def test_no_overlay_writes_no_instructions(tmp_path: Path) -> None:
    assert PiRuntime().deploy_config(str(tmp_path), None, HOOKS) == []
    assert list(tmp_path.iterdir()) == []
