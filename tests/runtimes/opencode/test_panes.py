"""What a pane of OpenCode shows."""

from bridle.core.results import Ready
from bridle.runtimes.opencode import OpenCodeRuntime
from tests.runtimes.opencode.captures import TESTDATA


def test_a_talk_at_rest_is_ready() -> None:
    talk = (TESTDATA / "tui-busy.txt").read_text()
    idle = talk.replace("⬝■■■■■■⬝  esc interrupt", "")
    assert OpenCodeRuntime().detect_ready(idle) == Ready()
