"""Runs of any runtime under the option `sandbox`: what the plan says, and what ends a start."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.real_cli import real_cli

from bridle.core.errors import GuardRefused
from bridle.core.files import in_home
from bridle.core.options import ModelServer, RunOptions
from bridle.process.spec import ProcessSpec
from bridle.runs import Prepared, prepare, run_interactive
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.sandbox import (
    SandboxNeeds,
    SandboxPolicy,
    confine,
    launcher,
    policy_for,
    preflight,
    warnings_of,
)
from bridle.sandbox.preflight import Enforcement, enforcement_of
from bridle.sandbox.process import REFUSAL_LINE, REFUSED
from bridle.sessions.host import close_hosts
from bridle.sessions.sync_session import SyncSession
from bridle.testing import ScriptedModel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

PREFLIGHT = sys.modules["bridle.sandbox.preflight"]
NOTHING = enforcement_of(mounts=False, landlock_version=0, seccomp=False)


@pytest.fixture
def env(private_home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(private_home)}


def ready(env: dict[str, str], cwd: Path, script: Any, **options: Any) -> Prepared:
    given: dict[str, Any] = {"prompt": "Do it.", "permission_mode": "bypass", "timeout": 60.0}
    given |= {"cwd": str(cwd), "provider_options": {"script": script}}
    return prepare(ScriptedRuntime(), RunOptions(**(given | options)), env=env)


def pretend(monkeypatch: pytest.MonkeyPatch, can: Enforcement) -> None:
    """Let this machine be able to do no more than `can`."""
    monkeypatch.setattr("bridle.runtimes.sandbox_plan.preflight", lambda: can)


def test_off_changes_nothing(env: dict[str, str], tmp_path: Path) -> None:
    plain = ready(env, tmp_path, [{"text": "."}])
    off = ready(env, tmp_path, [{"text": "."}], sandbox="off")
    assert off.plan.spec.argv == plain.plan.spec.argv
    assert off.plan.private_dirs == ()
    assert (off.plan.ignored_options, off.plan.warnings) == ((), ())


def test_a_run_has_a_scratch_folder_and_no_names_of_ways_out(
    env: dict[str, str], tmp_path: Path
) -> None:
    env |= {"TMUX": "x", "SSH_AUTH_SOCK": "x", "DBUS_SESSION_BUS_ADDRESS": "x", "KEPT": "x"}
    prepared = ready(env, tmp_path, [{"shell": "env > e; echo $TMPDIR"}], sandbox="worktree")
    list(prepared.run.events())
    (scratch,) = prepared.plan.private_dirs
    seen = dict(line.split("=", 1) for line in (tmp_path / "e").read_text().splitlines())
    assert seen["TMPDIR"] == seen["TMP"] == seen["TEMP"] == scratch
    assert not {"TMUX", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"} & set(seen)
    assert seen["KEPT"] == "x"
    assert not os.path.exists(scratch)


def test_a_machine_that_cannot_hold_an_agent_refuses(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, NOTHING)
    for more in ({}, {"ignore_unsupported": True}):
        with pytest.raises(GuardRefused, match="no Landlock of ABI 3") as caught:
            ready(env, tmp_path, [{"text": "."}], sandbox="read-only", **more)
        assert caught.value.exit_code == 9
    run = Path(env["HOME"], ".local/state/bridle/run")
    assert not run.exists() or list(run.iterdir()) == []
    assert ready(env, tmp_path, [{"text": "."}], sandbox="off").plan.warnings == ()


def test_what_stays_open_is_told(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, enforcement_of(mounts=False, landlock_version=7, seccomp=False))
    prepared = ready(env, tmp_path, [{"text": "."}], sandbox="worktree")
    told = "\n".join(prepared.plan.warnings)
    assert "mode, owner and times outside can be changed" in told
    assert "Unix sockets (tmux, docker, ssh-agent) can be reached" in told
    assert all(text.startswith("sandbox: ") for text in prepared.plan.warnings)
    prepared.run.close()


def test_a_start_that_the_kernel_refuses_is_no_crash(env: dict[str, str], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    prepared = ready(env, tmp_path, [{"text": "."}], sandbox="worktree")
    shutil.rmtree(tmp_path / ".git/hooks")
    list(prepared.run.events())
    error = prepared.run.result.error
    assert error is not None
    assert error.kind == "guard_refused"
    assert "could not be enforced" in error.message


def test_the_launcher_and_its_reader_agree(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", launcher.__file__, "{}", "--", "true"], capture_output=True
    )
    assert done.returncode == REFUSED == launcher.REFUSED
    assert done.stderr.decode().startswith(REFUSAL_LINE)


def test_what_the_machine_can_do_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    can = preflight()

    def no_more() -> Enforcement:
        raise AssertionError("tried again")

    monkeypatch.setattr(PREFLIGHT, "_try_all", no_more)
    assert preflight() == can
    cache = Path(os.environ["XDG_CACHE_HOME"], "bridle/versions.json")
    assert any(
        key.startswith("sandbox:") for key in msgspec.json.decode(cache.read_bytes())["entries"]
    )
    cache.write_bytes(b"{")
    with pytest.raises(AssertionError, match="tried again"):
        preflight()


def test_what_the_machine_can_do_does_not_depend_on_the_search_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert preflight().holds_writes


def test_a_machine_that_holds_nothing_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PREFLIGHT, "_try_all", lambda: NOTHING)
        assert preflight() == NOTHING
    assert preflight().holds_writes


def held(
    folder: Path, needs: SandboxNeeds, command: str, means: Enforcement, own_in: str | None = None
) -> int:
    """Run a shell command in `folder/work` with the needs of a CLI; returns its exit status."""
    scratch, work = folder / "scratch", folder / "work"
    for each in (scratch, work):
        each.mkdir(exist_ok=True)
    policy = policy_for("read-only", str(work), scratch=str(scratch), own_in=own_in, needs=needs)
    env = {"PATH": os.environ["PATH"]}
    spec = confine(ProcessSpec(argv=("sh", "-c", command), env=env, cwd=str(work)), policy, means)
    return subprocess.run(spec.argv, env=spec.env, cwd=spec.cwd, timeout=60).returncode


def test_what_a_cli_obeys_is_held_inside_its_own_folder(tmp_path: Path) -> None:
    state = tmp_path / "state"
    needs = SandboxNeeds(
        writable=(str(state),),
        protected={str(state / "settings.json"): "{}\n", str(state / "extensions"): None},
    )
    can = preflight()
    for command in ("echo x > ../state/settings.json", "rm ../state/settings.json",
                    "echo x > ../state/extensions/a", "mv ../state/extensions ../state/b",
                    "mv ../state ../other"):  # fmt: skip
        assert held(tmp_path, needs, command, can) != 0, command
    assert held(tmp_path, needs, "echo x > ../state/log", can) == 0
    assert (state / "settings.json").read_text() == "{}\n"
    policy = policy_for("read-only", str(tmp_path), scratch=str(tmp_path / "scratch"), needs=needs)
    without = msgspec.structs.replace(can, mounts=False)
    assert "not protected" in warnings_of(policy, without)[-1]


def test_a_folder_shared_with_other_sessions_is_seen_empty(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "theirs.sh").write_text("theirs")
    needs = SandboxNeeds(own=(str(shared),))
    command = "test ! -e ../shared/theirs.sh && echo mine > ../shared/mine.sh"
    can = preflight()
    assert held(tmp_path, needs, command, can) == 0
    assert held(tmp_path, needs, command, msgspec.structs.replace(can, landlock=False)) == 0
    assert [path.name for path in shared.iterdir()] == ["theirs.sh"]


def test_a_link_that_the_turn_before_left_leads_nowhere(tmp_path: Path) -> None:
    """The scratch folder is then not new: what stands there may be the agent's."""
    shared, outside, fresh = (tmp_path / name for name in ("shared", "outside", "fresh"))
    for folder in (shared, outside, fresh):
        folder.mkdir()
    can = preflight()
    assert held(tmp_path, SandboxNeeds(), f"ln -s {outside} ../scratch/.shared", can) == 0
    needs = SandboxNeeds(own=(str(shared),), private=(str(fresh),))
    assert held(tmp_path, needs, "echo mine > ../shared/mine.sh", can, own_in=str(fresh)) == 0
    assert list(outside.iterdir()) == []
    assert [path.name for path in (fresh / ".shared").iterdir()] == ["mine.sh"]


def test_a_path_that_is_no_text_can_be_held(env: dict[str, str], tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(folder)
    policy = policy_for("worktree", folder, scratch=str(tmp_path))
    spec = ProcessSpec(argv=("sh", "-c", "echo x > f"), env=env, cwd=folder)
    spec = confine(spec, policy)
    assert subprocess.run(spec.argv, env=spec.env, cwd=spec.cwd, timeout=60).returncode == 0


def test_folders_of_a_cli_are_where_the_user_moved_them() -> None:
    env = {"HOME": "/h", "XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "not absolute"}
    assert in_home(".cache/copilot", env) == "/c/copilot"
    assert in_home(".config/opencode", env) == "/h/.config/opencode"
    assert in_home(".gemini", env) == "/h/.gemini"


def test_a_run_at_the_terminal_is_confined_too(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[ProcessSpec] = []

    def start(spec: ProcessSpec) -> int:
        started.append(spec)
        return 0

    monkeypatch.setattr("bridle.process.terminal.run_at_terminal", start)
    options = RunOptions(prompt="x", cwd=str(tmp_path), sandbox="worktree")
    assert run_interactive(ScriptedRuntime(), options, env) == 0
    assert launcher.__file__ in started[0].argv
    assert not os.path.exists(started[0].env["TMPDIR"])


@pytest.fixture
def impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher is told to protect what is not there when it comes to it, and refuses."""

    def gone(*args: Any, **more: Any) -> SandboxPolicy:
        policy = policy_for(*args, **more)
        return msgspec.structs.replace(policy, protected=(str(tmp_path / "gone"),))

    monkeypatch.setattr("bridle.runtimes.sandbox_plan.policy_for", gone)


@pytest.mark.usefixtures("impossible")
def test_a_session_that_the_kernel_refuses_is_no_crash(tmp_path: Path) -> None:
    with pytest.raises(GuardRefused, match="could not be enforced") as caught:
        SyncSession.start("scripted", cwd=tmp_path, sandbox="worktree", permission_mode="bypass")
    assert caught.value.exit_code == 9
    close_hosts()


@pytest.mark.real_cli
@pytest.mark.usefixtures("impossible")
def test_nor_is_one_in_a_terminal(tmp_path: Path) -> None:
    runtime = get_adapter("claude")
    runtime.use_binary(str(real_cli("claude", "2.1.325")))
    with (
        ScriptedModel([{"text": "never"}]) as model,
        pytest.raises(GuardRefused, match="could not be enforced"),
    ):
        SyncSession.start(
            runtime,
            cwd=tmp_path,
            drive="tmux",
            sandbox="worktree",
            permission_mode="bypass",
            model_server=ModelServer(url=model.url, api_key=model.api_key),
        )
    close_hosts()
