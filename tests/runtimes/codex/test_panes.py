"""Every captured screen of Codex's terminal interface is classified."""

from bridle.core.results import Busy, Dialog, Ready
from bridle.runtimes.codex import CodexRuntime
from tests.runtimes.codex.captures import TESTDATA

LOGIN = Dialog(name="login", action=None)
TRUST = Dialog(name="trust", action="Enter")
MIGRATION = Dialog(name="model_migration", action=None)
WORKING = Busy(what="working")
ASKING = Busy(what="permission")


def test_a_dialog_is_never_answered_by_an_old_screen() -> None:
    trust = (TESTDATA / "0.166.0/tui/02_trust_dialog.txt").read_text()
    working = (TESTDATA / "0.166.0/tui/05_working_command_running.txt").read_text()
    assert CodexRuntime().detect_ready(trust + "\n" * 5 + "text\n" * 30 + working) == WORKING


def test_trust_is_given_only_while_that_row_is_chosen() -> None:
    trust = (TESTDATA / "0.166.0/tui/02_trust_dialog.txt").read_text()
    moved = trust.replace("› 1. Trust", "  1. Trust").replace("  2. Quit", "› 2. Quit")
    assert CodexRuntime().detect_ready(moved) == Dialog(name="trust", action=None)


def test_an_answer_is_over_when_its_last_line_says_so() -> None:
    streaming = (TESTDATA / "0.166.0/tui/12_streaming_text_looks_idle.txt").read_text()
    over = streaming.replace("• one\n", "• one two\n  Worked for 3s • 18:58\n")
    assert CodexRuntime().detect_ready(streaming) == WORKING
    assert over != streaming
    assert CodexRuntime().detect_ready(over) == Ready()
