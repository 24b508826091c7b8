"""Every captured screen of Codex's terminal interface is classified."""

import pytest

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.runtimes.codex import CodexRuntime
from tests.runtimes.codex.wires import TESTDATA

LOGIN = Dialog(name="login", action=None)
TRUST = Dialog(name="trust", action="Enter")
MIGRATION = Dialog(name="model_migration", action=None)
WORKING = Busy(what="working")
ASKING = Busy(what="permission")

SEEN: dict[str, ReadyState] = {
    "0.120.0/tui/01_onboarding_login.txt": LOGIN,
    "0.120.0/tui/02_trust_dialog.txt": TRUST,
    "0.120.0/tui/04_ready.txt": Ready(),
    "0.120.0/tui/05_working.txt": WORKING,
    "0.120.0/tui/06_idle_after_turn.txt": Ready(),
    "0.120.0/tui/09_approval_command.txt": ASKING,
    "0.120.0/tui/13_failed_turn.txt": Ready(),
    "0.120.0/tui/14_interrupted.txt": Ready(),
    "0.166.0/tui/01_onboarding_login_no_provider.txt": LOGIN,
    "0.166.0/tui/02_trust_dialog.txt": TRUST,
    "0.166.0/tui/03_model_migration_prompt.txt": MIGRATION,
    "0.166.0/tui/04_ready_all_dialogs_preseeded.txt": Ready(),
    "0.166.0/tui/05_working_command_running.txt": WORKING,
    "0.166.0/tui/06_working_with_text_typed.txt": WORKING,
    "0.166.0/tui/07_working_message_pending.txt": WORKING,
    "0.166.0/tui/08_esc_sends_pending_message.txt": Ready(),
    "0.166.0/tui/09_approval_command.txt": ASKING,
    "0.166.0/tui/10_approval_denied.txt": Ready(),
    "0.166.0/tui/11_approval_patch.txt": ASKING,
    # The screen cannot tell this one from idle; the pane's title can.
    "0.166.0/tui/12_streaming_text_looks_idle.txt": Ready(),
    "0.166.0/tui/13_interrupted.txt": Ready(),
    "0.166.0/tui/14_text_plus_enter_swallowed.txt": Ready(),
    "0.166.0/tui/15_bracketed_paste.txt": Ready(),
    "0.166.0/tui/16_big_paste_placeholder.txt": Ready(),
    "0.166.0/tui/17_status.txt": Ready(),
    "0.166.0/tui/18_quit.txt": Busy(what="error"),
    "0.166.0/tui/19_remote_attach.txt": Ready(),
    "0.166.0/tui/20_remote_watching_driver_turn.txt": WORKING,
    "0.166.0/tui/21_codex_queue_delivered.txt": Ready(),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_captured_pane(name: str) -> None:
    pane = (TESTDATA / name).read_text()
    assert CodexRuntime().detect_ready(pane) == SEEN[name]


def test_no_capture_is_left_out() -> None:
    captures = {str(path.relative_to(TESTDATA)) for path in TESTDATA.glob("*/tui/[0-9]*.txt")}
    assert captures == set(SEEN)


@pytest.mark.parametrize("pane", ["", "\n\n\n", "$ codex", "  loading · something"])
def test_a_pane_without_codex_is_loading(pane: str) -> None:
    assert CodexRuntime().detect_ready(pane) == Loading()


def test_a_dialog_is_never_answered_by_an_old_screen() -> None:
    trust = (TESTDATA / "0.166.0/tui/02_trust_dialog.txt").read_text()
    working = (TESTDATA / "0.166.0/tui/05_working_command_running.txt").read_text()
    assert CodexRuntime().detect_ready(trust + "\n" * 5 + "text\n" * 30 + working) == WORKING


def test_the_first_prompt_needs_no_check() -> None:
    assert CodexRuntime().requires_beacon_verification() is False
