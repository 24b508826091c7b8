"""What Copilot's panes show, and the captures behind its dialects."""

from bridle.core.results import Dialog, Loading
from bridle.runtimes.copilot import CopilotRuntime
from bridle.runtimes.copilot.product import DIALECTS
from tests.runtimes.copilot.captures import TESTDATA


def test_a_pane_without_a_prompt_is_loading() -> None:
    for pane in ("", "\n\n", "$ copilot", "❯ half a screen"):
        assert CopilotRuntime().detect_ready(pane) == Loading()


def test_no_key_is_sent_when_the_choice_has_moved() -> None:
    pane = (TESTDATA / "tui-trust.txt").read_text()
    moved = pane.replace("❯ 1. Yes", "  1. Yes").replace("  3. No", "❯ 3. No")
    assert CopilotRuntime().detect_ready(moved) == Dialog(name="trust", action=None)


def test_the_rows_of_the_table_have_their_proof() -> None:
    for row in DIALECTS:
        assert (TESTDATA / row.capture).exists()
        assert row.seen


def test_a_beacon_is_verified() -> None:
    assert CopilotRuntime().requires_beacon_verification()
