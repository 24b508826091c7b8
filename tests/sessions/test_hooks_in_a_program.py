"""The configured hooks of sessions that a program drives itself, without a daemon."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import bridle
from bridle.core.events import Drive
from bridle.sessions.host import close_hosts
from tests.sessions.place import wait
from tests.sessions.studio import DEADLINE, Studio


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    made = Studio(tmp_path)
    yield made
    made.close()


def configured(studio: Studio, *names: str) -> Path:
    """Make the folder a project whose hooks write into a file, which is returned."""
    told = studio.work.parent / "told.jsonl"
    lines = "".join(f"  {name}:\n    - cat >> {told}\n" for name in names)
    (studio.work / ".bridle").mkdir()
    (studio.work / ".bridle" / "config.yaml").write_text(f"hooks:\n{lines}")
    return told


def names_in(told: Path) -> list[str]:
    return [json.loads(line)["event"] for line in told.read_text().splitlines()]


@pytest.mark.parametrize("drive", ["rpc", "print"])
def test_a_program_that_drives_a_session_runs_its_hooks(studio: Studio, drive: Drive) -> None:
    told = configured(studio, "SessionStart", "OnMessage", "OnError", "SessionStop")
    script = "- text: one\n- fault: {status: 500, message: broken}\n"
    options = studio.options(script)
    with bridle.SyncSession.start("scripted", "go", drive=drive, **options) as session:
        session.wait_idle(timeout=DEADLINE)
        session.prompt("again", timeout=DEADLINE)
        session.wait_idle(timeout=DEADLINE)
    wait(lambda: told.exists() and "SessionStop" in told.read_text())
    assert names_in(told) == ["SessionStart", "OnMessage", "OnError", "SessionStop"]


def test_a_program_hears_of_its_own_sessions(studio: Studio) -> None:
    heard: list[bridle.HookEvent] = []
    stop = bridle.on_hook(heard.append, cwd=str(studio.work))
    who = bridle.Identity(agent="ivy", capability="builder", task="gp-1", actor="gp/ivy")
    options = studio.options("- text: one\n", unguarded=True)
    with bridle.SyncSession.start("scripted", "go", identity=who, **options) as session:
        session.wait_idle(timeout=DEADLINE)
    wait(lambda: bool(heard) and heard[-1].event == "SessionStop")
    assert [each.event for each in heard] == ["SessionStart", "OnMessage", "SessionStop"]
    assert {each.session_id for each in heard} == {session.session_id}
    assert {(each.role, each.task, each.actor) for each in heard} == {
        ("builder", "gp-1", "gp/ivy"),
    }
    stop()
    with bridle.SyncSession.start("scripted", **studio.options("- text: two\n")):
        pass
    close_hosts()
    assert len(heard) == 3


def test_hooks_that_wait_run_before_the_program_ends(studio: Studio) -> None:
    told = configured(studio, "OnMessage")
    with bridle.SyncSession.start("scripted", "go", **studio.options("- text: one\n")) as session:
        session.wait_idle(timeout=DEADLINE)
    close_hosts()
    assert names_in(told) == ["OnMessage"]


def test_a_wrong_configuration_stops_no_session_that_runs(studio: Studio) -> None:
    from bridle.sessions.home import StateHome
    from bridle.sessions.host import host_of

    (studio.work / ".bridle").mkdir()
    (studio.work / ".bridle" / "config.yaml").write_text("hooks: nonsense\n")
    host = host_of(StateHome(str(studio.work / ".bridle" / "state"), str(studio.work)))
    assert host.is_open
    host.close()
