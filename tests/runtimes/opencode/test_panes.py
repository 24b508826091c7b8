"""What a pane of OpenCode shows."""

from bridle.core.results import Loading, Ready
from bridle.runtimes.opencode import OpenCodeRuntime
from tests.runtimes.opencode.captures import TESTDATA


def test_a_blank_screen_is_loading_and_a_talk_is_ready() -> None:
    assert OpenCodeRuntime().detect_ready("\n\n\n") == Loading()
    talk = (TESTDATA / "tui-busy.txt").read_text()
    idle = talk.replace("⬝■■■■■■⬝  esc interrupt", "")
    assert OpenCodeRuntime().detect_ready(idle) == Ready()
