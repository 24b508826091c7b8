"""What a confined agent can do to the repository it commits to, and what is left afterwards."""

import hashlib
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from tests.sandbox.test_confinement import GIT, MEANS, Place

from bridle.core.errors import GuardRefused
from bridle.core.git import find_git, own_branches
from bridle.core.git_hold import FOLDER, hold, release

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

WITH_MOUNTS = ("all", "mounts")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def planted(place: Place) -> str:
    """A git folder whose configuration runs a program, in the agent's own worktree."""
    proof = place.outside / "planted"
    lines = [
        "mkdir -p evil/objects evil/refs evil/hooks",
        "printf 'ref: refs/heads/main\\n' > evil/HEAD",
        "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch " + str(proof) + ""
        "\\n' > evil/config",
    ]
    return " && ".join(lines)


PLANTS = {
    "commondir of a plain repository": (".git", "commondir"),
    "configuration of a worktree": (".git", "config.worktree"),
    "configuration of a submodule": (".git/modules/sub", "config"),
    "common folder of another worktree": (".git/worktrees/sibling", "commondir"),
    "attributes": (".git/info", "attributes"),
    "replaced objects": (".git/refs/replace", "x"),
    "legacy remotes": (".git/remotes", "origin"),
}


@pytest.mark.parametrize("means", WITH_MOUNTS)
@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_nothing_can_be_planted_in_a_plain_repository(
    place: Place, plant: tuple[str, str], means: str
) -> None:
    place.worktree = place.repo
    folder, name = plant
    path = place.repo / folder / name
    before = path.read_bytes() if path.exists() else None
    write = f"mkdir -p {folder}; echo $PWD/evil > {folder}/{name}.new"
    attacks = [
        f"{planted(place)} && echo $PWD/evil > {folder}/{name}",
        f"{write}; mv -f {folder}/{name}.new {folder}/{name}",
        f"rm -rf {folder}/{name} && mkdir -p {folder} && cp evil/config {folder}/{name}",
    ]
    for attack in attacks:
        assert place.run(attack, means=means) != 0, attack
    assert (path.read_bytes() if path.exists() else None) == before
    place.git("status")
    assert not (place.outside / "planted").exists()


def test_without_namespaces_a_plain_repository_is_refused(place: Place) -> None:
    place.worktree = place.repo
    with pytest.raises(GuardRefused, match="cannot be protected") as refused:
        place.run("true", means="landlock")
    assert "worktree" in refused.value.hint


@pytest.mark.parametrize("means", MEANS)
def test_a_linked_worktree_runs_nothing_planted(place: Place, means: str) -> None:
    place.git("config", "extensions.worktreeConfig", "true")
    git_dir = place.repo / ".git/worktrees/worktree"
    before = {name: (git_dir / name).read_bytes() for name in ("commondir", "gitdir")}
    attack = (
        f"{planted(place)}; echo $PWD/evil > {git_dir}/commondir;"
        f" cp evil/config {git_dir}/config.worktree; echo / > {git_dir}/gitdir;"
        " rm -f .git; echo 'gitdir: evil' > .git"
    )
    place.run(attack, means=means)
    assert {name: (git_dir / name).read_bytes() for name in before} == before
    subprocess.run([*GIT, "-C", str(place.worktree), "status"], check=True, capture_output=True)
    assert not (place.outside / "planted").exists()


@pytest.mark.parametrize("means", MEANS)
def test_a_submodule_of_a_linked_worktree_is_not_planted(place: Place, means: str) -> None:
    """Git enters it with every `git status` of the worktree around it."""
    modules = place.repo / ".git/worktrees/worktree/modules"
    attack = (
        f"{planted(place)}; mkdir -p {modules} sub && cp -r evil {modules}/sub"
        f" && echo 'gitdir: {modules}/sub' > sub/.git"
        f" && git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub"
    )
    place.run(attack, means=means)
    assert not modules.exists()
    subprocess.run([*GIT, "-C", str(place.worktree), "status"], capture_output=True)
    assert not (place.outside / "planted").exists()


@pytest.mark.parametrize("means", WITH_MOUNTS)
@pytest.mark.parametrize("packed", [True, False])
def test_without_a_prefix_the_other_branches_are_held(
    place: Place, means: str, packed: bool
) -> None:
    tree = place.repo.parent / "tree"
    place.git("worktree", "add", "-q", str(tree), "-b", "fix")
    if packed:
        place.git("pack-refs", "--all")
    place.worktree, place.prefix = tree, None
    before = place.git("for-each-ref", "refs/heads/main", "refs/heads/bridle")
    assert place.run("echo hi > a && git add -A && git commit -qm kept", means=means) == 0
    heads = place.repo / ".git/refs/heads"
    for attack in (
        "git branch -f main HEAD",
        "git branch -D bridle/bob/task",
        f"git rev-parse HEAD > {heads}/main",
        f"git rev-parse HEAD > x && mv -f x {heads}/bridle/bob/task",
        f"rm -rf {heads}/bridle",
    ):
        assert place.run(attack, means=means) != 0, attack
    assert place.git("for-each-ref", "refs/heads/main", "refs/heads/bridle") == before
    assert "kept" in place.git("log", "--oneline", "fix")


def test_landlock_alone_says_that_all_branches_are_open(place: Place) -> None:
    found = find_git(str(place.worktree))
    assert found is not None
    kept = hold(found, "one", mounts=False, branch_prefix=None)
    assert any("all branches of the repository are open" in note for note in kept.notes)
    release(kept.folder)


@pytest.mark.parametrize("linked", [True, False])
def test_a_repository_is_left_as_it_was_but_for_the_commits(place: Place, linked: bool) -> None:
    if not linked:
        place.worktree = place.repo
    seen = _git_files(place.repo)
    assert place.run("echo hi > a.txt && git add -A && git commit -qm kept") == 0, place.last
    new = {name for name in _git_files(place.repo) - seen if "/objects/" not in f"/{name}"}
    own = {".git/COMMIT_EDITMSG", ".git/index", ".git/logs/HEAD", ".git/bridle/lock"}
    own |= {f".git/worktrees/worktree/{name}" for name in ("COMMIT_EDITMSG", "index", "logs/HEAD")}
    assert {name for name in new if not name.endswith(".keep")} <= own
    place.git("fsck", "--strict")
    assert not (place.repo / ".git/objects/info/alternates").exists()


def _git_files(repo: Path) -> set[str]:
    return {str(path.relative_to(repo)) for path in (repo / ".git").rglob("*") if path.is_file()}


@pytest.mark.parametrize("means", WITH_MOUNTS)
def test_objects_can_be_added_and_neither_replaced_nor_removed(place: Place, means: str) -> None:
    (place.repo / "old.txt").write_text("old\n")
    place.git("add", "old.txt")
    place.git("commit", "-qm", "old")
    blob = place.git("rev-parse", "HEAD:old.txt").strip()
    loose = place.repo / ".git/objects" / blob[:2] / blob[2:]
    intact = loose.read_bytes()
    # Nothing that the agent reads is missing, and what it writes is its own.
    assert place.run(f"git cat-file -p {blob}", means=means) == 0
    assert place.last.stdout == "old\n"
    attack = f"chmod +w {loose}; rm -f {loose}; mkdir -p {loose.parent}; cp .git {loose}"
    place.run(attack, means=means)
    assert loose.read_bytes() == intact
    assert place.run("git prune --expire=now; git gc -q --prune=now", means=means) != 0
    place.git("gc", "-q")
    place.run(f"rm -rf {place.repo}/.git/objects/pack/*", means=means)
    assert place.git("cat-file", "-p", blob) == "old\n"


def test_the_agent_s_commits_are_visible_while_it_works(place: Place) -> None:
    found = find_git(str(place.worktree))
    assert found is not None
    kept = hold(found, "one", mounts=True, branch_prefix="bridle/ann")
    own = Path(kept.own[0][0])
    content = b"blob 3\0new"
    name = hashlib.sha1(content).hexdigest()
    (own / name[:2]).mkdir()
    (own / name[:2] / name[2:]).write_bytes(zlib.compress(content))
    assert place.git("cat-file", "-p", name) == "new"
    release(kept.folder)
    release(kept.folder)
    assert (place.repo / ".git/objects" / name[:2] / name[2:]).exists()
    assert place.git("cat-file", "-p", name) == "new"


def test_an_object_that_is_not_what_its_name_says_is_not_taken_over(place: Place) -> None:
    found = find_git(str(place.worktree))
    assert found is not None
    kept = hold(found, "one", mounts=True, branch_prefix="bridle/ann")
    name = "ab" + "0" * 38
    folder = Path(kept.own[0][0]) / "ab"
    folder.mkdir()
    (folder / name[2:]).write_bytes(zlib.compress(b"blob 3\0bad"))
    release(kept.folder)
    assert not (place.repo / ".git/objects/ab").exists()
    assert (folder / name[2:]).exists()


def test_placeholders_stay_until_the_last_agent_is_gone(place: Place) -> None:
    found = find_git(str(place.repo))
    assert found is not None
    one, two = (hold(found, name, mounts=True, branch_prefix=None) for name in ("one", "two"))
    assert (place.repo / ".git/commondir").read_text() == ".\n"
    release(one.folder)
    assert (place.repo / ".git/commondir").exists()
    release(two.folder)
    assert not (place.repo / ".git/commondir").exists()
    assert not list((place.repo / ".git" / FOLDER).glob("*/hold.json"))


def test_a_repository_whose_path_is_not_text_can_be_held(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.mkdir()
    place = Place(root)
    assert place.run("echo hi > a.txt && git add -A && git commit -qm kept") == 0, place.last
    assert "kept" in place.git("log", "--oneline", "bridle/ann/task")


@pytest.mark.parametrize(
    ("branch", "agent", "prefix"),
    [
        ("bridle/ann/fix", "ann", "bridle/ann"),
        ("bridle/ann/deep/fix", "ann", "bridle/ann"),
        ("feature/fix", None, "feature"),
        ("feature/fix", "bob", "feature"),
        ("fix", "ann", None),
    ],
)
def test_an_agent_s_branches_follow_from_the_one_it_is_on(
    place: Place, branch: str, agent: str | None, prefix: str | None
) -> None:
    tree = place.repo.parent / "tree"
    place.git("worktree", "add", "-q", str(tree), "-b", branch)
    assert own_branches(str(tree), agent) == prefix
    assert own_branches(str(place.repo), agent) is None
