"""Every captured pane is classified, and no dialog gets a blind Enter."""

import pytest

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.runtimes.claude import ClaudeRuntime
from tests.runtimes.claude.support import TESTDATA

PANES = TESTDATA / "panes"

EXPECTED: dict[str, ReadyState] = {
    "01_onboarding_offline": Dialog(name="offline", action=None),
    "02_trust_dialog": Dialog(name="trust", action="Enter"),
    "03_apikey_approval": Dialog(name="api_key", action="1"),
    "04_ready_default": Ready(),
    "05_bypass_warning": Dialog(name="bypass_warning", action="2"),
    "06_ready_bypass": Ready(),
    "07_pasted_multiline": Ready(),
    "08_working_a": Busy(what="working"),
    "09_done": Ready(),
    "10_typed": Ready(),
    "11_working_stream": Busy(what="working"),
    "12_queued_while_working": Busy(what="working"),
    "13_after_esc": Busy(what="working"),
    "14_permission_prompt_bash": Busy(what="permission"),
    "15_permission_rejected": Ready(),
    "16_working_default": Busy(what="working"),
    "17_error_401": Ready(),
    "18_retrying_529": Busy(what="retrying"),
    "20_ready_acceptEdits": Ready(),
    "20_ready_auto": Ready(),
    "20_ready_bypassPermissions": Ready(),
    "20_ready_default": Ready(),
    "20_ready_dontAsk": Ready(),
    "20_ready_plan": Ready(),
    "30_fullscreen_offer_2.1.325": Dialog(name="fullscreen_offer", action="2"),
    "31_ready_bypass_2.1.325": Ready(),
    "32_trust_dialog_2.1.325": Dialog(name="trust", action="End"),
    "33_trust_chosen_2.1.325": Dialog(name="trust", action="Enter"),
    "34_apikey_approval_2.1.325": Dialog(name="api_key", action="Home"),
    "35_apikey_chosen_2.1.325": Dialog(name="api_key", action="Enter"),
    "36_bypass_warning_2.1.325": Dialog(name="bypass_warning", action="End"),
    "37_bypass_chosen_2.1.325": Dialog(name="bypass_warning", action="Enter"),
    "38_ready_default_2.1.325": Ready(),
}


def pane(name: str) -> str:
    return (PANES / f"{name}.txt").read_text()


def test_every_capture_has_an_expectation() -> None:
    assert {path.name.removesuffix(".txt") for path in PANES.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_pane_is_classified(name: str) -> None:
    assert ClaudeRuntime().detect_ready(pane(name)) == EXPECTED[name]


@pytest.mark.parametrize("text", ["", "\n\n", "$ claude\n", "❯", "Bypass Permissions\n❯ 1. No"])
def test_nothing_known_is_loading(text: str) -> None:
    assert ClaudeRuntime().detect_ready(text) == Loading()


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


def test_enter_is_only_sent_to_a_row_that_says_yes() -> None:
    for name, state in EXPECTED.items():
        if isinstance(state, Dialog) and state.action == "Enter":
            assert "❯ Yes" in pane(name) or "❯ 1. Yes" in pane(name)


def test_claude_needs_its_first_prompt_verified() -> None:
    assert ClaudeRuntime().requires_beacon_verification()
