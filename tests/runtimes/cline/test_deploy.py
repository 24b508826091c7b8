"""What is deployed into a worktree for Cline."""

import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes import deployment
from bridle.runtimes.cline import ClineRuntime

HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def deploy(root: Path, text: str) -> Path:
    path, _guard = deployment.deploy(ClineRuntime(), str(root), OverlayContent(content=text), HOOKS)
    return Path(path)


def _track_all(root: Path) -> None:
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=root, check=True)


def test_a_file_under_version_control_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("The project's own.\n")
    _track_all(tmp_path)
    path = deploy(tmp_path, "Ours.")
    assert path == tmp_path.resolve() / ".clinerules" / "bridle.md"
    assert (tmp_path / "AGENTS.md").read_text() == "The project's own.\n"
    assert deployment.withdraw(ClineRuntime(), str(tmp_path))[0] == str(path)


def test_rules_that_are_a_file(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("The project's own.\n")
    (tmp_path / ".clinerules").write_text("A rule.\n")
    _track_all(tmp_path)
    with pytest.raises(WrongUse, match="is a file"):
        deploy(tmp_path, "Ours.")
    with pytest.raises(WrongUse, match="no such worktree"):
        deploy(tmp_path / "none", "Ours.")
