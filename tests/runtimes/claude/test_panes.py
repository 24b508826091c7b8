"""Every captured pane is classified, and no dialog gets a blind Enter."""

import pytest

from bridle.core.results import Dialog
from bridle.runtimes.claude import ClaudeRuntime
from tests.runtimes.claude.captures import TESTDATA

PANES = TESTDATA / "panes"


def pane(name: str) -> str:
    return (PANES / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "shown", "instead", "action"),
    [
        ("03_apikey_approval", "  1. Yes\n  ❯ 2. No", "❯ 1. Yes\n    2. No", "Enter"),
        ("05_bypass_warning", "❯ 1. No, exit\n    2.", "  1. No, exit\n  ❯ 2.", "Enter"),
        ("02_trust_dialog", "❯ 1. Yes", "  1. Yes", None),
        ("05_bypass_warning", "Yes, I accept", "Maybe", None),
    ],
)
def test_the_key_follows_the_rows(name: str, shown: str, instead: str, action: str | None) -> None:
    text = pane(name)
    assert shown in text
    state = ClaudeRuntime().detect_ready(text.replace(shown, instead))
    assert isinstance(state, Dialog)
    assert state.action == action


def test_a_dialog_nobody_knows_gets_no_key() -> None:
    text = " Accept the new terms?\n ❯ 1. Yes\n   2. No\n\n Enter to confirm · Esc to cancel\n"
    assert ClaudeRuntime().detect_ready(text) == Dialog(name="unknown", action=None)
