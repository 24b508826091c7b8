"""What the refusal of an option says: nothing untrue about others, no way that leads nowhere."""

from bridle.core.errors import UnsupportedOption


def test_an_empty_list_says_nothing_about_other_runtimes() -> None:
    error = UnsupportedOption("claude", "mcp_config", [], reason="only in a headless run")
    assert error.message.endswith("(only in a headless run)")
    assert "no runtime" not in error.message
    assert error.hint == error.command_line_hint == "drop it"


def test_those_that_can_are_named() -> None:
    error = UnsupportedOption("claude", "drive print", ["codex", "pi"])
    assert error.message.endswith("; supported by: codex, pi")
    assert error.hint == "drop it or choose another runtime"


def test_the_way_to_ignore_it_is_named_where_there_is_one() -> None:
    error = UnsupportedOption("claude", "images", ["codex"], ignorable=True)
    assert error.hint == "drop it, choose another runtime or set `ignore_unsupported`"
    assert "--" not in error.hint
    assert error.command_line_hint.endswith("or pass --ignore-unsupported")
