"""Every captured screen is taken for what it shows; the project's own command says so."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import panes

from bridle.core.results import Loading
from bridle.runtimes.registry import available_runtimes, get_adapter


def run(*words: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(panes.ROOT / "scripts" / "panes.py"), *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_the_table_has_every_capture_and_no_wrong() -> None:
    status, lines = run()
    known = [what for each in panes.expectations().values() for what in each.values() if what]
    assert [line for line in lines if line.endswith("NO")] == []
    assert lines[-1] == f"{len(known)} captures: {len(known)} right, 0 wrong"
    assert status == 0


@pytest.mark.parametrize("row", list(panes.own_rows()), ids=lambda row: str(row.capture))
def test_a_capture(row: panes.Row) -> None:
    assert row.got == row.expected


ENTER = [row.capture for row in panes.own_rows() if row.got.endswith(": Enter")]


@pytest.mark.parametrize("capture", ENTER)
def test_enter_is_sent_only_where_yes_is_chosen(capture: str) -> None:
    runtime, _, name = capture.partition("/")
    text = (panes.RUNTIMES / runtime / "testdata" / name).read_text()
    assert re.search(r"^[ │]*[❯›] (?:\d\. )?(?:Yes|Trust)", text, re.MULTILINE)


def test_a_capture_of_another_folder_must_be_one_of_ours(tmp_path: Path) -> None:
    known = panes.RUNTIMES / "gemini/testdata/tui-ready.txt"
    folder = tmp_path / "gemini"
    folder.mkdir()
    shutil.copy(known, folder / "tui-same.txt")
    assert run(str(tmp_path))[0] == 0
    (folder / "tui-new.txt").write_text("nobody knows this one\n")
    status, lines = run(str(tmp_path))
    assert status == 1
    assert [line.split()[:2] for line in lines if line.endswith("NO")] == [
        ["gemini/tui-new.txt", "?"]
    ]


def test_a_wrong_one_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spoilt = tmp_path / "panes.json"
    text = panes.EXPECTED.read_text()
    spoilt.write_text(text.replace('"dialog trust: Escape"', '"dialog trust: Enter"'))
    monkeypatch.setattr(panes, "EXPECTED", spoilt)
    assert [row.capture for row in panes.own_rows() if not row.right] == [
        "pi/tui-trust-dialog-1.5.0.txt"
    ]
    assert panes.main([]) == 1


def test_a_missing_capture_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spoilt = tmp_path / "panes.json"
    spoilt.write_text(panes.EXPECTED.read_text().replace('"tui-quiet-', '"tui-loud-'))
    monkeypatch.setattr(panes, "EXPECTED", spoilt)
    assert [(row.expected, row.got) for row in panes.own_rows() if not row.right] == [
        ("ready", "not there"),
        ("?", "ready"),
    ]


LOADING = {
    "claude": ("$ claude\n", "❯", "Bypass Permissions\n❯ 1. No"),
    "cline": ("$ cline", "❯"),
    "codex": ("$ codex", "  loading · something"),
    "copilot": ("$ copilot", "❯ half a screen"),
    "pi": ("$ pi\n", "Error: nothing\n"),
    "scripted": ("$ python -m something",),
}
"""Screens on which a product has not come up, beside the empty ones."""

VERIFIED = {"claude", "cline", "copilot"}
"""Products whose first prompt may be lost, so that it is looked for."""


@pytest.mark.parametrize(
    "name", [each for each in available_runtimes() if not each.endswith("-acp")]
)
def test_a_pane_without_the_agent_is_loading(name: str) -> None:
    runtime = get_adapter(name)
    for pane in ("", "\n\n\n", *LOADING.get(name, ())):
        assert runtime.detect_ready(pane) == Loading(), pane


@pytest.mark.parametrize("name", sorted(LOADING))
def test_only_a_prompt_that_may_be_lost_is_looked_for(name: str) -> None:
    assert get_adapter(name).requires_beacon_verification() is (name in VERIFIED)
