"""One rule for every runtime: instructions are deployed beside everybody's own text, never into
the project's own file, and are withdrawn to the last byte."""

import subprocess
from pathlib import Path

import pytest

from bridle.config.schema import AdapterSection
from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes import deployment
from bridle.runtimes.contract import Adapter
from bridle.runtimes.instructions import BEGIN, Place, deploy, withdraw
from bridle.runtimes.preset import PresetRuntime
from bridle.runtimes.registry import available_runtimes, get_adapter

OWN = "# The project's rules\r\nkeep \udcff me, no newline at the end"
OURS = "Build it."


def every_runtime() -> dict[str, Adapter]:
    preset = PresetRuntime("mine", AdapterSection(binary="b", instruction_file="conf/RULES.md"))
    return {name: get_adapter(name) for name in available_runtimes()} | {"preset": preset}


RUNTIMES = every_runtime()
every = pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=list(RUNTIMES))


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    done = subprocess.run(
        ("git", *who, *words), cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def put(runtime: Adapter, folder: Path, text: str = OURS) -> list[Path]:
    who = HooksDef(agent_name="a", capability="builder", worktree_path=str(folder))
    overlay = OverlayContent(content=text)
    done = deployment.deploy(runtime, str(folder), overlay, who)
    assert done.instructions == done[0]
    return [Path(done[0])]


def files(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder but git's own; folders too."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if ".git" not in path.relative_to(folder).parts
    }


def write_all(runtime: Adapter, folder: Path) -> None:
    """A project that has every file which the runtime could choose."""
    for place in (*runtime.instruction_places(str(folder)), Place(runtime.instruction_path)):
        path = folder / place.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(OWN.encode(errors="surrogateescape"))
        path.chmod(0o640)


def project(folder: Path, runtime: Adapter | None = None) -> Path:
    """A repository, with every instruction file of `runtime` committed, and no other file."""
    folder.mkdir()
    git(folder, "init", "-q")
    if runtime is not None:
        write_all(runtime, folder)
    (folder / "README").write_text("x\n")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "begin")
    return folder


def worktree(root: Path, name: str = "tree") -> Path:
    tree = root.parent / name
    git(root, "worktree", "add", "-q", "-b", name, str(tree))
    return tree


@every
def test_a_fresh_worktree_is_again_what_it_was(runtime: Adapter, tmp_path: Path) -> None:
    root = project(tmp_path / "root")
    tree = worktree(root)
    excluded = (root / ".git/info/exclude").read_bytes()
    before = files(tree)
    put(runtime, tree, "First.")
    (path,) = put(runtime, tree)
    text = path.read_text()
    assert (text.count(OURS), text.count("First.")) == (1, 0)
    assert put(runtime, tree) == [path]
    assert path.read_text() == text
    assert path.relative_to(tree) == Path(runtime.instruction_path)
    assert git(tree, "status", "--porcelain") == "", "`git add -A` would commit it"
    assert deployment.withdraw(runtime, str(tree))[0] == str(path)
    assert git(tree, "status", "--porcelain") == ""
    assert files(tree) == before
    assert (root / ".git/info/exclude").read_bytes() == excluded
    assert deployment.withdraw(runtime, str(tree)) == []


@every
def test_tracked_files_of_a_worktree_stay_in_force_and_come_back(
    runtime: Adapter, tmp_path: Path
) -> None:
    root = project(tmp_path / "root", runtime)
    tree = worktree(root)
    before, roots = files(tree), files(root)
    (path,) = put(runtime, tree)
    put(runtime, tree)
    text = path.read_bytes()
    assert text.count(OURS.encode()) == 1
    assert text.startswith(OWN.encode(errors="surrogateescape"))
    assert path.stat().st_mode & 0o777 == (tree / runtime.instruction_path).stat().st_mode & 0o777
    assert git(tree, "status", "--porcelain") == "", "the agent would commit it"
    assert files(root) == roots
    assert deployment.withdraw(runtime, str(tree))[0] == str(path)
    assert files(tree) == before
    (tree / path.relative_to(tree)).write_text("a change of the agent's own\n")
    assert git(tree, "status", "--porcelain") != "", "git looks at it again"


@every
@pytest.mark.parametrize("tracked", [True, False])
def test_the_projects_own_file_is_refused(runtime: Adapter, tmp_path: Path, tracked: bool) -> None:
    root = project(tmp_path / "root", runtime if tracked else None)
    if not tracked:
        write_all(runtime, root)
    before = files(root)
    with pytest.raises(WrongUse, match="the project's own") as refusal:
        put(runtime, root)
    assert "worktree" in refusal.value.hint
    assert files(root) == before
    assert deployment.withdraw(runtime, str(root)) == []


@every
def test_a_folder_without_git_keeps_its_own_text(runtime: Adapter, tmp_path: Path) -> None:
    write_all(runtime, tmp_path)
    before = files(tmp_path)
    (path,) = put(runtime, tmp_path)
    assert path.read_bytes().startswith(OWN.encode(errors="surrogateescape"))
    deployment.withdraw(runtime, str(tmp_path))
    assert files(tmp_path) == before


@every
def test_what_was_written_meanwhile_stays(runtime: Adapter, tmp_path: Path) -> None:
    (path,) = put(runtime, tmp_path)
    path.write_text("above\n" + path.read_text() + "below\n")
    put(runtime, tmp_path, "Again.")
    deployment.withdraw(runtime, str(tmp_path))
    assert path.read_text() == "above\nbelow\n"


@every
def test_a_link_is_not_followed(runtime: Adapter, tmp_path: Path) -> None:
    tree, victim = tmp_path / "tree", tmp_path / "victim"
    tree.mkdir()
    victim.write_text("mine")
    for place in runtime.instruction_places(str(tree)):
        path = tree / place.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(victim)
    with pytest.raises(WrongUse, match="symbolic link"):
        put(runtime, tree)
    assert victim.read_text() == "mine"


@every
def test_no_worktree(runtime: Adapter, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="no such worktree"):
        put(runtime, tmp_path / "none")


# -- parts of the rule ----------------------------------------------------------------------------


def test_another_worktree_keeps_what_is_hidden_for_it(tmp_path: Path) -> None:
    root = project(tmp_path / "root")
    one, two = worktree(root, "one"), worktree(root, "two")
    places = (Place("rules/bridle.md"),)
    for tree in (one, two):
        deploy(str(tree), places, OURS)
    withdraw(str(one), places)
    assert git(two, "status", "--porcelain") == ""
    withdraw(str(two), places)
    assert "bridle" not in (root / ".git/info/exclude").read_text()


def test_a_hidden_file_is_carried_along_and_its_changes_too(tmp_path: Path) -> None:
    hidden, places = tmp_path / "CLAUDE.md", (Place("AGENTS.md", carries=("CLAUDE.md",)),)
    for rule in ("Old rule.", "New rule."):
        hidden.write_text(f"{rule}\n")
        deploy(str(tmp_path), places, OURS)
    text = (tmp_path / "AGENTS.md").read_text()
    assert (text.count("New rule."), text.count("Old rule.")) == (1, 0)
    assert hidden.read_text() == "New rule.\n"
    withdraw(str(tmp_path), places)
    assert [path.name for path in tmp_path.iterdir()] == ["CLAUDE.md"]


def test_a_block_that_was_committed_is_the_files_own_text(tmp_path: Path) -> None:
    root = project(tmp_path / "root")
    places = (Place("AGENTS.md"),)
    deploy(str(root), places, "Committed.")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "by mistake")
    with pytest.raises(WrongUse, match="the project's own"):
        deploy(str(root), places, OURS)
    assert withdraw(str(root), places) == []
    tree = worktree(root)
    before = files(tree)
    for _ in range(2):
        deploy(str(tree), places, OURS)
    text = (tree / "AGENTS.md").read_bytes()
    assert (text.count(BEGIN), text.count(OURS.encode()), b"Committed." in text) == (2, 1, True)
    withdraw(str(tree), places)
    assert files(tree) == before


def test_a_mark_without_its_end(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(BEGIN + b" -->\ncut")
    with pytest.raises(WrongUse, match="not its last"):
        deploy(str(tmp_path), (Place("AGENTS.md"),), OURS)


def test_an_empty_file_and_an_empty_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("")
    (tmp_path / "rules").mkdir()
    before = files(tmp_path)
    for places in ((Place("AGENTS.md"),), (Place("rules/bridle.md"),)):
        deploy(str(tmp_path), places, OURS)
        withdraw(str(tmp_path), places)
        assert files(tmp_path) == before


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("A rule.\n")
    with pytest.raises(WrongUse, match="is a file"):
        deploy(str(tmp_path), (Place("rules/bridle.md"),), OURS)


def test_a_place_that_cannot_be_used_does_not_hinder_the_others(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("A rule.\n")
    places = (Place("rules/bridle.md"), Place("AGENTS.md"))
    before = files(tmp_path)
    assert deploy(str(tmp_path), places, OURS).endswith("AGENTS.md")
    withdraw(str(tmp_path), places)
    assert files(tmp_path) == before
