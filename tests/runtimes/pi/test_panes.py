"""Every capture of Pi's terminal interface, classified."""

import pytest

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.runtimes.pi import PiRuntime
from tests.runtimes.pi.support import TESTDATA

EXPECTED: dict[str, ReadyState] = {
    "tui-aborted-1.5.0.txt": Ready(),
    "tui-done-0.74.2.txt": Ready(),
    "tui-done-1.5.0.txt": Ready(),
    "tui-ext-confirm-1.5.0.txt": Busy(what="permission"),
    "tui-no-model-1.5.0.txt": Dialog(name="no-model", action=None),
    "tui-queued-0.74.2.txt": Busy(what="working"),
    "tui-queued-1.5.0.txt": Busy(what="working"),
    "tui-quiet-1.5.0.txt": Ready(),
    "tui-ready-1.5.0.txt": Ready(),
    "tui-trust-dialog-1.5.0.txt": Dialog(name="trust", action="Escape"),
    "tui-working-1.5.0.txt": Busy(what="working"),
}


def test_every_capture_is_here() -> None:
    assert {path.name for path in TESTDATA.glob("tui-*.txt")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_capture(name: str) -> None:
    assert PiRuntime().detect_ready((TESTDATA / name).read_text()) == EXPECTED[name]


@pytest.mark.parametrize("pane", ["", "\n\n", "$ pi\n", "Error: nothing\n"])
def test_a_pane_without_pi_is_loading(pane: str) -> None:
    assert PiRuntime().detect_ready(pane) == Loading()


def test_a_window_of_a_million_is_ready_too() -> None:
    pane = (TESTDATA / "tui-ready-1.5.0.txt").read_text().replace("0.0%/200k", "0.0%/1.0M")
    assert PiRuntime().detect_ready(pane) == Ready()


def test_a_footer_quoted_far_above_proves_nothing() -> None:
    assert PiRuntime().detect_ready("12.0%/200k\n" + "text\n" * 20) == Loading()


def test_nothing_is_sent_twice() -> None:
    assert PiRuntime().requires_beacon_verification() is False
