"""What Copilot's panes show, and the captures behind its dialects."""

from bridle.core.results import Dialog
from bridle.runtimes.copilot import CopilotRuntime
from tests.runtimes.copilot.captures import TESTDATA


def test_no_key_is_sent_when_the_choice_has_moved() -> None:
    pane = (TESTDATA / "tui-trust.txt").read_text()
    moved = pane.replace("❯ 1. Yes", "  1. Yes").replace("  3. No", "❯ 3. No")
    assert CopilotRuntime().detect_ready(moved) == Dialog(name="trust", action=None)
