"""What is deployed into a worktree for Copilot."""

import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes import deployment
from bridle.runtimes.copilot import CopilotRuntime

HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def deploy(root: Path, text: str) -> Path:
    (path,) = deployment.deploy(CopilotRuntime(), str(root), OverlayContent(content=text), HOOKS)
    return Path(path)


def test_a_file_under_version_control_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / ".github" / "copilot-instructions.md"
    own.parent.mkdir()
    own.write_text("The project's own.\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    path = deploy(tmp_path, "Ours.")
    assert path.name == "bridle.instructions.md"
    assert own.read_text() == "The project's own.\n"


def test_no_link_leads_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".github").symlink_to(outside)
    with pytest.raises(WrongUse, match="leads out"):
        deploy(tree, "Ours.")
    with pytest.raises(WrongUse, match="no such worktree"):
        deploy(tmp_path / "none", "Ours.")
