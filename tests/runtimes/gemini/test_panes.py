"""What a pane of Gemini shows."""

from bridle.core.results import Loading
from bridle.runtimes.gemini import GeminiRuntime


def test_a_blank_screen_is_loading() -> None:
    assert GeminiRuntime().detect_ready("\n\n") == Loading()
