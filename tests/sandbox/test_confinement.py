"""The sandbox on the real kernel: what is held, what stays open."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bridle.core.errors import GuardRefused
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessSpec
from bridle.sandbox import Enforcement, confine, policy_for, preflight
from bridle.sandbox.preflight import enforcement_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
MEANS = ("all", "landlock", "mounts")


class Place:
    """A repository with a linked worktree, a sibling and an outside folder."""

    def __init__(self, root: Path) -> None:
        self.repo, self.worktree = root / "repo", root / "worktree"
        self.sibling, self.outside = root / "sibling", root / "outside"
        self.scratch = root / "scratch"
        self.prefix: str | None = "bridle/ann"
        for folder in (self.outside, self.scratch):
            folder.mkdir()
        (self.outside / "f.txt").write_text("safe\n")
        self._git("init", "-q", "-b", "main", str(self.repo))
        self.git("commit", "-q", "--allow-empty", "-m", "start")
        for tree, branch in ((self.worktree, "bridle/ann/task"), (self.sibling, "bridle/bob/task")):
            self.git("worktree", "add", "-q", str(tree), "-b", branch)

    def git(self, *arguments: str) -> str:
        return self._git("-C", str(self.repo), *arguments)

    def _git(self, *arguments: str) -> str:
        done = subprocess.run([*GIT, *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    def run(self, command: str, mode: str = "worktree", means: str = "all") -> int:
        """Run a shell command confined; returns its exit status."""
        assert mode in ("worktree", "commit", "read-only")
        can = only(means)
        policy = policy_for(
            mode,  # type: ignore[arg-type]  # just checked
            str(self.worktree),
            scratch=str(self.scratch),
            branch_prefix=self.prefix,
            mounts=can.mounts,
        )
        env = {"PATH": os.environ["PATH"], "HOME": str(self.scratch), "TMPDIR": str(self.scratch)}
        env["OUTER"] = str(os.getpid())
        env |= {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in NAMES}
        spec = ProcessSpec(argv=("bash", "-c", command), env=env, cwd=str(self.worktree))
        spec = confine(spec, policy, can)
        try:
            self.last = subprocess.run(
                spec.argv, env=spec.env, cwd=spec.cwd, stdin=subprocess.DEVNULL, timeout=60,
                capture_output=True, text=True,
            )  # fmt: skip
        finally:
            remove_folders((policy.hold,) if policy.hold else ())
        return self.last.returncode


NAMES = ("NAME", "EMAIL")


def only(means: str) -> Enforcement:
    can = preflight()
    if means == "landlock":
        return msgspec.structs.replace(can, mounts=False)
    if means == "mounts":
        return msgspec.structs.replace(can, landlock=False)
    return can


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_this_machine_has_all_means() -> None:
    can = preflight()
    assert (can.mounts, can.landlock, can.seccomp) == (True, True, True)
    assert can.gaps == ()
    assert can.holds_writes


@pytest.mark.parametrize("means", MEANS)
def test_work_inside_the_worktree_goes_on(place: Place, means: str) -> None:
    work = (
        "echo hi > a.txt && mkdir -p d && mv a.txt d/ && echo x > $TMPDIR/s && chmod +x d/a.txt"
        " && git add -A && git commit -qm one && git commit -q --amend -m two"
        " && git checkout -q -b bridle/ann/other && echo ok > /dev/null"
    )
    assert place.run(work, means=means) == 0
    assert "two" in place.git("log", "--oneline", "bridle/ann/other")


OUTSIDE_WRITES = {
    "redirect": "echo bad > ../outside/f.txt",
    "append": "echo bad >> ../outside/f.txt",
    "truncate": "truncate -s 0 ../outside/f.txt",
    "remove": "rm -f ../outside/f.txt; test ! -e ../outside/f.txt",
    "create": "echo bad > ../outside/new.txt",
    "move out": "echo bad > b && mv b ../outside/new.txt",
    "hard link": "ln ../outside/f.txt l && echo bad > l",
    "symlink": "ln -s ../outside l && echo bad > l/f.txt",
    "python": """python3 -c 'open("../outside/f.txt","w").write("bad")'""",
    "proc root": "echo bad > /proc/self/root$PWD/../outside/f.txt",
    "sibling": "echo bad > ../sibling/x.txt",
    "main checkout": "echo bad > ../repo/x.txt",
    "git config": "git config alias.x '!sh'",
    "git hook": "echo '#!/bin/sh' > ../repo/.git/hooks/post-commit",
    "main branch": "git update-ref refs/heads/main HEAD~0 && git branch -f main HEAD",
    "other branch": "git branch bridle/bob/stolen",
    "home": "echo bad > ~/../escaped",
    "another process's root": "echo bad > /proc/$OUTER/root$PWD/../outside/f.txt",
    "device": "mknod ../outside/null c 1 3",
}


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("command", OUTSIDE_WRITES.values(), ids=OUTSIDE_WRITES.keys())
def test_writing_outside_is_refused(place: Place, command: str, means: str) -> None:
    heads = place.git("for-each-ref")
    assert place.run(command, means=means) != 0
    assert (place.outside / "f.txt").read_text() == "safe\n"
    assert sorted(path.name for path in place.outside.iterdir()) == ["f.txt"]
    assert not (place.sibling / "x.txt").exists()
    assert not (place.repo / "x.txt").exists()
    assert place.git("for-each-ref") == heads


@pytest.mark.parametrize("means", ["all", "mounts"])
@pytest.mark.parametrize(
    "command",
    [
        "echo 'gitdir: /' > .git",
        "rm -f .git",
        "mv .git old",
        "echo / > $(git rev-parse --git-dir)/commondir",
        "echo / > $(git rev-parse --git-dir)/gitdir",
    ],
)
def test_a_worktree_cannot_be_led_to_another_repository(
    place: Place, command: str, means: str
) -> None:
    assert place.run(command, means=means) != 0
    assert place.run("git status", means=means) == 0


def test_a_plain_repository_can_be_committed_to_but_not_rewired(place: Place) -> None:
    place.worktree = place.repo
    assert place.run("echo hi > a.txt && git add a.txt && git commit -qm plain") == 0
    assert place.git("log", "-1", "--format=%s").strip() == "plain"
    before = (place.repo / ".git/config").read_bytes()
    for command in (
        "git config alias.x '!sh'",
        "echo '#!/bin/sh' > .git/hooks/post-commit",
        "mv .git/hooks h",
        "mv .git old",
    ):
        assert place.run(command) != 0, command
    assert (place.repo / ".git/config").read_bytes() == before
    assert not (place.repo / ".git/hooks/post-commit").exists()


def test_a_worktree_opens_no_repository_that_does_not_know_it(place: Place) -> None:
    other = place.outside / "other"
    subprocess.run([*GIT, "init", "-q", str(other)], check=True)
    (place.worktree / ".git").write_text(f"gitdir: {other}/.git\n")
    policy = policy_for("worktree", str(place.worktree), scratch=str(place.scratch))
    assert policy.writable == (str(place.scratch), str(place.worktree))
    assert "does not know the worktree" in policy.notes[0]
    sibling = place.repo / ".git/worktrees/sibling"
    (place.worktree / ".git").write_text(f"gitdir: {sibling}\n")
    policy = policy_for("worktree", str(place.worktree), scratch=str(place.scratch))
    assert str(sibling) not in policy.writable


def test_a_submodule_can_be_committed_in(place: Place) -> None:
    place._git(
        "-C", str(place.repo), "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        str(place.sibling), "sub",
    )  # fmt: skip
    place.worktree = place.repo / "sub"
    assert place.run("echo hi > s.txt && git add s.txt && git commit -qm sub") == 0
    assert place.run("git config alias.x '!sh'") != 0


def test_metadata_outside_is_held_by_mounts(place: Place) -> None:
    target = place.outside / "f.txt"
    target.chmod(0o644)
    assert place.run("chmod 777 ../outside/f.txt") != 0
    assert place.run("touch -d 2001-01-01 ../outside/f.txt") != 0
    assert target.stat().st_mode & 0o777 == 0o644
    assert place.run("chmod 777 ../outside/f.txt", means="landlock") == 0
    without = enforcement_of(mounts=False, landlock_version=7, seccomp=True)
    assert without.gaps == (
        "no user namespaces: mode, owner and times outside can be changed",
        "no user namespaces: shared memory and terminals are not private",
    )
    older = enforcement_of(mounts=False, landlock_version=5, seccomp=True)
    assert "may outlive the run" in older.gaps[-1]


def test_the_view_cannot_be_made_writable_again(place: Place) -> None:
    for means in MEANS:
        assert place.run("mount -o remount,rw,bind / /", means=means) != 0
        assert place.run("unshare -Urm mount -o remount,rw,bind / /", means=means) != 0


@pytest.mark.parametrize(
    ("mounts", "version", "held"), [(True, 0, True), (False, 3, True), (False, 2, False)]
)
def test_writes_are_held_by_mounts_or_by_a_new_enough_landlock(
    mounts: bool, version: int, held: bool
) -> None:
    can = enforcement_of(mounts=mounts, landlock_version=version, seccomp=True)
    assert can.holds_writes is held


@pytest.mark.parametrize("means", MEANS)
def test_read_only_leaves_scratch_alone(place: Place, means: str) -> None:
    assert place.run("echo x > $TMPDIR/s && git status && git log", "read-only", means) == 0
    assert place.run("echo x > a.txt", "read-only", means) != 0
    assert not (place.worktree / "a.txt").exists()


@pytest.mark.real_cli(only="tmux")
def test_a_tmux_server_cannot_be_used_to_escape(place: Place, tmp_path: Path) -> None:
    tmux = shutil.which("tmux")
    assert tmux is not None
    socket = tmp_path / "tmux.sock"
    start = [tmux, "-S", str(socket), "-f", "/dev/null", "new-session", "-d", "sleep 60"]
    subprocess.run(start, check=True, env={"PATH": os.environ["PATH"], "TERM": "xterm"})
    try:
        escape = f"tmux -S {socket} new-session -d 'echo bad > {place.outside}/new.txt'"
        assert place.run(escape) != 0
        assert place.run(escape, means="landlock") != 0
        assert not (place.outside / "new.txt").exists()
    finally:
        subprocess.run([tmux, "-S", str(socket), "kill-server"], check=True)


def test_a_process_outside_cannot_be_signalled(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert place.run(f"kill -9 {other.pid}") != 0
            assert other.poll() is None
        finally:
            other.kill()


def test_a_symlink_in_the_writable_set_is_refused(place: Place) -> None:
    shutil.rmtree(place.scratch)
    place.scratch.symlink_to(place.outside)
    with pytest.raises(GuardRefused, match="symbolic link"):
        place.run("true")


def test_a_machine_that_cannot_hold_writes_refuses_to_start(place: Place) -> None:
    can = msgspec.structs.replace(preflight(), mounts=False, landlock=False)
    policy = policy_for("read-only", str(place.worktree), scratch=str(place.scratch))
    spec = ProcessSpec(argv=("true",), env={}, cwd=str(place.worktree))
    with pytest.raises(GuardRefused, match="cannot confine"):
        confine(spec, policy, can)


def test_what_cannot_be_put_in_force_ends_the_start(tmp_path: Path) -> None:
    from bridle.sandbox import launcher

    done = subprocess.run(
        [sys.executable, "-I", "-S", launcher.__file__, '{"writable": 3}', "--", "true"],
        capture_output=True,
    )
    assert done.returncode == launcher.REFUSED
    assert b"bridle sandbox:" in done.stderr


@pytest.mark.parametrize("means", MEANS)
def test_programs_can_open_terminals_and_write_to_devices(place: Place, means: str) -> None:
    code = "import pty; raise SystemExit(pty.spawn(['sh', '-c', 'echo hi > /dev/null']) >> 8)"
    assert place.run(f'{sys.executable} -c "{code}"', means=means) == 0
