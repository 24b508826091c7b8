"""What Cline's panes show, and the captures behind its dialects."""

from bridle.core.results import Loading
from bridle.runtimes.cline import ClineRuntime
from bridle.runtimes.cline.product import DIALECTS
from tests.runtimes.cline.captures import TESTDATA


def test_a_pane_without_a_prompt_is_loading() -> None:
    for pane in ("", "\n\n", "$ cline", "❯"):
        assert ClineRuntime().detect_ready(pane) == Loading()


def test_the_rows_of_the_table_have_their_proof() -> None:
    for row in DIALECTS:
        assert (TESTDATA / row.capture).exists()
        assert row.seen


def test_a_beacon_is_verified() -> None:
    assert ClineRuntime().requires_beacon_verification()
