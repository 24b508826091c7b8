"""The guard of a session: proved at its start, in force whoever drives it, told again alike."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.guard.hooks.guard_folder import read_notes
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.scripted import hooks as guarding
from bridle.runtimes.scripted.adapter import ScriptedRuntime
from bridle.sessions import verbs
from bridle.sessions.ledger import Begin, Ledger
from bridle.sessions.replay import replayed
from bridle.sessions.store import SessionRecord
from bridle.turns import permissions
from bridle.turns.guard_contract import NOTES, GuardHook
from tests.sessions.place import Place, wait

BUILDER = {"options": {"guard": "builder"}}
SCRIPT = """\
- shell: "echo hi > inside.txt"
- shell: "echo bad > ../outside.txt"
- text: done
"""
WAITING = """\
- shell: "touch waits; until [ -e go-on ]; do sleep 0.05; done"
- shell: "echo bad > ../outside.txt"
- write_file: {path: late.txt, content: fine}
- text: done
"""


def verdicts(events: list[ev.Event]) -> list[tuple[str, str]]:
    return [
        (each.decision, each.reason.partition(":")[0])
        for each in events
        if isinstance(each, ev.PermissionDecision) and each.by == "guard"
    ]


def guard_folder(place: Place, record: SessionRecord) -> Path:
    entries = Ledger(os.path.join(place.home.folder(record.session_id), "ledger.jsonl")).read()
    begin = [entry for entry in entries if isinstance(entry, Begin)][-1]
    assert begin.guard is not None
    return Path(begin.guard.folder)


def without_times(events: list[ev.Event]) -> list[Any]:
    plain: list[Any] = [msgspec.to_builtins(event) for event in events]
    for each in plain:
        del each["ts"]
    return plain


@pytest.mark.parametrize("drive", ["rpc", "print"])
def test_verdicts_are_events_and_told_again_alike(place: Place, drive: str) -> None:
    host = place.host()
    record = place.start(SCRIPT, drive=drive, **BUILDER)
    host.driver(record)
    host.send(record, "go")
    assert host.idle(record).status == "completed"
    folder = guard_folder(place, record)
    assert folder.exists()
    host.stop(record)
    events = place.events(record)
    assert verdicts(events) == [("allow", "allowed"), ("deny", "path-outside")]
    assert without_times(events) == without_times(
        replayed(place.home, place.record(record), get_adapter("scripted"))
    )
    assert not folder.exists()
    assert not (place.folder / "outside.txt").exists()


def test_each_process_of_a_print_session_is_guarded(place: Place) -> None:
    host = place.host()
    record = place.start(SCRIPT * 2, drive="print", **BUILDER)
    for _ in range(2):
        host.send(record, "go")
        assert host.idle(record).status == "completed"
    host.stop(record)
    events = place.events(record)
    assert verdicts(events) == [("allow", "allowed"), ("deny", "path-outside")] * 2
    assert not (place.folder / "outside.txt").exists()
    assert place.record(record).guard == "hook command"


def test_a_process_without_its_guard_is_stopped(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was proved in the first turn; that does not count for the second process."""
    host = place.host()
    # Without a guard nothing stops the first call; the run is stopped when that call shows.
    slow = SCRIPT.replace("echo bad", "sleep 30; echo bad")
    record = place.start(SCRIPT + slow, drive="print", **BUILDER)
    host.send(record, "go")
    assert host.idle(record).status == "completed"

    def dead(plan: RunPlan, hook: GuardHook) -> RunPlan:
        return msgspec.structs.replace(plan, guard=guarding.COMMAND)

    monkeypatch.setattr(ScriptedRuntime, "guard_plan", lambda self, plan, hook: dead(plan, hook))
    host.send(record, "again")
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "failed")
    assert report.error is not None
    assert report.error["kind"] == "guard_refused"
    assert not (place.folder / "outside.txt").exists()
    host.stop(record)


@pytest.mark.parametrize("drive", ["rpc", "print"])
def test_hooks_judge_alone_while_nobody_drives(place: Place, drive: str) -> None:
    host = place.host()
    record = place.start(WAITING, drive=drive, **BUILDER)
    host.driver(record)
    host.send(record, "go")
    wait(lambda: (place.work / "waits").exists())
    host.close()
    before = place.events(record)
    (place.work / "go-on").touch()
    wait(lambda: (place.work / "late.txt").exists())
    after = place.host()
    after.driver(record)
    assert after.idle(record).status == "completed"
    after.stop(record)
    events = place.events(record)
    assert events[: len(before)] == before
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert verdicts(events) == [
        ("allow", "allowed"),
        ("deny", "path-outside"),
        ("allow", "allowed"),
    ]
    assert without_times(events) == without_times(
        replayed(place.home, place.record(record), get_adapter("scripted"))
    )
    assert not (place.folder / "outside.txt").exists()


@pytest.mark.parametrize("broken", ["policy", "notes", "script", "everything"])
def test_a_guard_whose_files_are_broken_refuses(place: Place, broken: str) -> None:
    """Nobody drives, so the hook is on its own."""
    host = place.host()
    record = place.start(WAITING, **BUILDER)
    host.driver(record)
    host.send(record, "go")
    wait(lambda: (place.work / "waits").exists())
    host.close()
    folder = guard_folder(place, record)
    if broken == "policy":
        (folder / "fallback.json").write_text("{}")
    elif broken == "notes":
        (folder / NOTES).unlink()
    elif broken == "script":
        (folder / "hook.sh").unlink()
    else:
        for path in folder.iterdir():
            path.unlink()
    (place.work / "go-on").touch()
    journal = place.run_file(record, "journal")
    wait(lambda: b'"turn_end"' in journal.read_bytes())
    assert not (place.work / "late.txt").exists()
    assert not (place.folder / "outside.txt").exists()


def test_forged_and_torn_notes_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / NOTES
    path.write_bytes(b'garbage\n{"kind":"live","event":"SessionStart"}\n\xff\xfe\n{"kind":"live"')
    [(note, upto)] = read_notes(str(path), 0)
    assert (note.kind, note.event) == ("live", "SessionStart")
    assert read_notes(str(path), upto) == []
    assert read_notes(str(tmp_path / "absent"), 0) == []


def test_a_guard_that_does_not_fire_lets_no_session_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deaf(plan: RunPlan, hook: GuardHook) -> RunPlan:
        hook.command(guarding.COMMAND.shape)
        return msgspec.structs.replace(plan, guard=guarding.COMMAND)

    monkeypatch.setattr(ScriptedRuntime, "guard_plan", lambda self, plan, hook: deaf(plan, hook))
    monkeypatch.setattr(permissions, "PROOF_SECONDS", 0.5)
    host = place.host()
    record = place.start(SCRIPT, **BUILDER)
    ended = host.do(verbs.WaitReady(session=record.session_id, timeout=60))
    assert ended is not None
    assert (ended.state, ended.ready_at) == ("failed", None)
    assert ended.error is not None
    assert ended.error["kind"] == "guard_refused"
    assert "does not fire" in ended.error["message"]
