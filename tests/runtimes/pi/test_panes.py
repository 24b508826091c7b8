"""Every capture of Pi's terminal interface, classified."""

from bridle.core.results import Loading, Ready
from bridle.runtimes.pi import PiRuntime
from tests.runtimes.pi.captures import TESTDATA


def test_a_window_of_a_million_is_ready_too() -> None:
    pane = (TESTDATA / "tui-ready-1.5.0.txt").read_text().replace("0.0%/200k", "0.0%/1.0M")
    assert PiRuntime().detect_ready(pane) == Ready()


def test_a_footer_quoted_far_above_proves_nothing() -> None:
    assert PiRuntime().detect_ready("12.0%/200k\n" + "text\n" * 20) == Loading()
