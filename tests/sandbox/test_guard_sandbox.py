"""A guard brings the sandbox of its capability, where the kernel can and the user names none."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sandbox.test_confinement import Place
from tests.sandbox.test_runs import NOTHING, pretend

from bridle.core import events as ev
from bridle.core.capabilities import CAPABILITIES, SANDBOXES
from bridle.core.errors import UnsupportedOption
from bridle.core.options import RunOptions
from bridle.core.results import GuardReport, RunResult
from bridle.runs import Prepared, prepare, run_interactive
from bridle.runtimes.codex.command import sandbox_mode
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.sandbox_plan import held_as
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.sandbox import launcher, preflight
from bridle.sessions.host import close_hosts
from bridle.sessions.sync_session import SyncSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

GATE = """\
#!/bin/sh
# What the judge lets a reader run, and what no judge can see in it.
echo bad > written-inside
echo bad > "$OUTSIDE/written-outside"
echo fine > "$TMPDIR/scratch" && echo bad > .git-probe
git -c user.name=a -c user.email=a@b commit -q --allow-empty -m by-the-gate
exit 0
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    (made.worktree / "gate.sh").write_text(GATE)
    (made.worktree / "gate.sh").chmod(0o755)
    (made.worktree / ".bridle").mkdir()
    config = made.worktree / ".bridle/config.yaml"
    config.write_text("guards:\n  qualityGates: [./gate.sh]\n")
    return made


@pytest.fixture
def env(private_home: Path, place: Place) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(private_home), "OUTSIDE": str(place.outside)}


def ready(env: dict[str, str], cwd: Path, capability: str, **options: Any) -> Prepared:
    given: dict[str, Any] = {"prompt": "Do it.", "permission_mode": "bypass", "timeout": 60.0}
    script = [{"shell": "./gate.sh"}, {"text": "Finished."}]
    given |= {"cwd": str(cwd), "provider_options": {"script": script}, "guard": capability}
    return prepare(ScriptedRuntime(), RunOptions(**(given | options)), env=env)


def played(prepared: Prepared) -> RunResult:
    list(prepared.run.events())
    result = prepared.run.result
    assert result.status == "completed", result.error
    assert isinstance(result.guard, GuardReport)
    assert (result.guard.state, result.guard.allowed) == ("live", 1)
    return result


def left_by_the_gate(place: Place) -> tuple[bool, bool, bool]:
    """Whether it wrote inside, committed, and wrote outside."""
    log = place.git("log", "--format=%s", "bridle/ann/task").split()
    return (
        (place.worktree / "written-inside").exists(),
        "by-the-gate" in log,
        (place.outside / "written-outside").exists(),
    )


MAY = {
    "read-only": (False, False, False),
    "commit": (False, True, False),
    "worktree": (True, True, False),
}


def test_every_capability_has_a_sandbox() -> None:
    assert set(SANDBOXES) == CAPABILITIES
    assert set(SANDBOXES.values()) == set(MAY)


@pytest.mark.parametrize("means", ["all", "landlock"])
@pytest.mark.parametrize("capability", sorted(CAPABILITIES))
def test_a_guarded_run_writes_what_its_capability_may(
    env: dict[str, str],
    place: Place,
    capability: str,
    means: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if means == "landlock":
        pretend(monkeypatch, msgspec.structs.replace(preflight(), mounts=False))
    prepared = ready(env, place.worktree, capability)
    result = played(prepared)
    assert isinstance(result.guard, GuardReport)
    assert result.guard.sandbox == SANDBOXES[capability]
    assert left_by_the_gate(place) == MAY[SANDBOXES[capability]]


@pytest.mark.parametrize("means", ["all", "landlock"])
def test_a_write_below_tmp_is_refused_and_shown_its_place(
    env: dict[str, str],
    place: Place,
    means: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the guard in words, by the kernel where no judge sees it; the named place works."""
    if means == "landlock":
        pretend(monkeypatch, msgspec.structs.replace(preflight(), mounts=False))
    target = f"/tmp/bridle-refused-{os.getpid()}"
    (place.worktree / "gate.sh").write_text(
        f"#!/bin/sh\necho x > {target}; echo x > $TMPDIR/y && cp $TMPDIR/y kept\n"
    )
    script = [{"shell": f"echo x > {target}"}, {"shell": "./gate.sh"}, {"text": "Finished."}]
    own = {"script": script}
    prepared = ready(env, place.worktree, "builder", provider_options=own)
    events = list(prepared.run.events())
    (refused,) = (
        each
        for each in events
        if isinstance(each, ev.PermissionDecision) and each.decision == "deny"
    )
    assert f"$TMPDIR, which is {prepared.plan.spec.env['TMPDIR']}" in refused.reason
    assert not os.path.exists(target)
    assert (place.worktree / "kept").exists()


@pytest.mark.parametrize("mode", ["off", "worktree"])
def test_a_sandbox_that_the_user_names_stays(env: dict[str, str], place: Place, mode: str) -> None:
    result = played(ready(env, place.worktree, "scout", sandbox=mode))
    assert isinstance(result.guard, GuardReport)
    assert result.guard.sandbox == mode
    assert left_by_the_gate(place) == ((True, True, mode == "off"))


def test_without_a_guard_there_is_none(env: dict[str, str], place: Place) -> None:
    prepared = ready(env, place.worktree, "scout", unguarded=True)
    assert launcher.__file__ not in prepared.plan.spec.argv
    prepared.run.close()


def test_a_machine_that_cannot_hold_it_says_so_first(
    env: dict[str, str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, NOTHING)
    prepared = ready(env, place.worktree, "scout")
    first = prepared.plan.warnings[0]
    assert first.startswith("sandbox: not confined, only the guard limits this agent: ")
    assert "no Landlock of ABI 3" in first
    result = played(prepared)
    assert isinstance(result.guard, GuardReport)
    assert result.guard.sandbox is None


def test_nor_a_builder_in_a_plain_repository_on_landlock_alone(
    env: dict[str, str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, msgspec.structs.replace(preflight(), mounts=False))
    prepared = ready(env, place.repo, "builder")
    assert "cannot be protected from the agent" in prepared.plan.warnings[0]
    prepared.run.close()
    # Readers need nothing of the repository, and stay held.
    prepared = ready(env, place.repo, "scout")
    assert launcher.__file__ in prepared.plan.spec.argv
    prepared.run.close()


def test_a_run_at_the_terminal_is_held_too(
    env: dict[str, str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []

    def start(spec: Any) -> int:
        started.append(spec.argv)
        return 0

    monkeypatch.setattr("bridle.process.terminal.run_at_terminal", start)
    options = RunOptions(prompt="x", cwd=str(place.worktree), guard="lead")
    assert run_interactive(ScriptedRuntime(), options, env) == 0
    assert launcher.__file__ in started[0]


@pytest.mark.parametrize("drive", ["rpc", "print"])
@pytest.mark.parametrize("can", [True, False])
def test_the_record_of_a_session_says_how_it_is_held(
    place: Place,
    drive: Any,
    can: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTSIDE", str(place.outside))
    if not can:
        pretend(monkeypatch, NOTHING)
    try:
        session = SyncSession.start(
            "scripted",
            cwd=place.worktree,
            drive=drive,
            guard="coordinator",
            permission_mode="bypass",
            provider_options={"script": [{"shell": "./gate.sh"}, {"text": "Finished."}]},
        )
        session.prompt("Do it.")
        session.wait_idle(timeout=60)
        record = session.stop()
    finally:
        close_hosts()
    assert record.sandbox == ("commit" if can else None)
    told = any("only the guard limits this agent" in text for text in record.warnings)
    assert told is not can
    assert left_by_the_gate(place) == (MAY["commit"] if can else (True, True, True))


@pytest.mark.parametrize("name", ["codex", "codex-acp"])
@pytest.mark.parametrize(
    ("capability", "permission", "mode", "told"),
    [
        ("scout", "bypass", "read-only", False),
        ("scout", "ask", "read-only", False),
        ("builder", "bypass", "worktree", False),
        ("builder", "ask", None, False),
        ("coordinator", "bypass", "read-only", True),
    ],
)
def test_an_agent_that_confines_itself_is_told_to(
    tmp_path: Path, name: str, capability: str, permission: Any, mode: str | None, told: bool
) -> None:
    options = RunOptions(prompt="x", cwd=str(tmp_path), permission_mode=permission)
    options, warnings = held_as(get_adapter(name), options, capability)
    assert options.sandbox == mode
    assert any("cannot commit" in text for text in warnings) is told


def test_codex_refuses_a_sandbox_that_it_cannot_make() -> None:
    options = RunOptions(prompt="x", sandbox="commit", permission_mode="bypass")
    with pytest.raises(UnsupportedOption, match="sandbox=commit"):
        sandbox_mode(options)
    lenient = msgspec.structs.replace(options, ignore_unsupported=True)
    assert sandbox_mode(lenient) == "read-only"


def test_a_commit_takes_what_is_staged_and_changes_no_file(place: Place) -> None:
    for means in ("all", "landlock"):
        (place.worktree / "note.txt").write_text(means)
        work = "git add note.txt && git commit -qm kept"
        assert place.run(work, mode="commit", means=means) == 0, place.last
        assert place.run("echo bad > note.txt", mode="commit", means=means) != 0
        assert place.run("echo bad > new.txt", mode="commit", means=means) != 0
    subprocess.run(["git", "-C", str(place.worktree), "diff", "--quiet", "HEAD"], check=True)
