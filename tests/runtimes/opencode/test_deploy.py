"""Instructions that Bridle deploys into a worktree of OpenCode."""

from pathlib import Path

from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes import deployment
from bridle.runtimes.opencode import OpenCodeRuntime

HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def test_the_projects_own_text_stays_in_force(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("# Ours\n")
    (tmp_path / "CLAUDE.md").write_text("not read beside the other\n")
    path, _guard = deployment.deploy(
        OpenCodeRuntime(), str(tmp_path), OverlayContent(content="be brief"), HOOKS
    )
    assert Path(path).read_text().startswith("# Ours\n")
    assert "not read" not in Path(path).read_text()
    assert deployment.withdraw(OpenCodeRuntime(), str(tmp_path))
    assert Path(path).read_text() == "# Ours\n"
    assert not deployment.withdraw(OpenCodeRuntime(), str(tmp_path))
