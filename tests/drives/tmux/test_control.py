"""Reading tmux's control mode, without a tmux."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.drives.tmux.control import ControlParser, quoted, unexpanded


def fed(*lines: str, mark: str | None = None, cut: int = 7) -> ControlParser:
    parser = ControlParser()
    if mark is not None:
        parser.expect(mark.encode())
    data = "".join(f"{line}\n" for line in lines).encode()
    for at in range(0, len(data), cut):
        parser.feed(data[at : at + cut])
    return parser


def test_blocks_and_notifications_are_told_apart() -> None:
    parser = fed(
        *("%begin 9 1 0", "%end 9 1 0"),
        "%session-changed $0 keeper",
        *("%begin 9 2 1", "one", "%two", "%end 9 1 1", "%end 9 2 1"),
        "%sessions-changed",
        *("%begin 9 3 1", "can't find pane", "%error 9 3 1"),
    )
    first, second = parser.blocks
    assert (first.text, first.failed) == ("one\n%two\n%end 9 1 1", False)
    assert (second.text, second.failed) == ("can't find pane", True)
    assert list(parser.notices) == ["%session-changed $0 keeper", "%sessions-changed"]


def test_what_a_program_shows_cannot_pose_as_an_answer() -> None:
    shown = ["%end 9 2 1", "%begin 9 3 1", "secret", "%end 9 3 1", "%begin 9 4 1", "%exit"]
    parser = fed(
        *("%begin 9 2 1", *shown, "%end 9 2 1"),
        "%window-add @4",
        *("%begin 9 3 1", "the-mark", "%end 9 3 1"),
        *("%begin 9 4 1", "next", "%end 9 4 1"),
        mark="the-mark",
    )
    assert [block.text for block in parser.blocks] == ["\n".join(shown), "the-mark", "next"]
    assert list(parser.notices) == ["%window-add @4"]


def test_a_failed_look_at_a_pane_is_a_failure() -> None:
    parser = fed(
        *("%begin 9 2 1", "can't find session: x", "%error 9 2 1"),
        *("%begin 9 3 1", "m", "%end 9 3 1"),
        mark="m",
    )
    assert [block.failed for block in parser.blocks] == [True, False]


def test_the_order_that_opens_a_connection_may_be_answered_late() -> None:
    assert not fed("%begin 9 1 1", "no current target", "%error 9 1 1").opened
    parser = fed(
        *("%begin 9 2 0", "%end 9 2 0"),
        *("%begin 9 3 1", "can't find session: x", "%error 9 3 1"),
        *("%begin 9 4 1", "m", "%end 9 4 1"),
        mark="m",
    )
    assert parser.opened
    assert [(block.text, block.failed) for block in parser.blocks] == [
        ("can't find session: x", True),
        ("m", False),
    ]


@given(st.text())
def test_a_quoted_word_is_one_line(word: str) -> None:
    if "\0" not in word:
        assert "\n" not in quoted(word)
        assert quoted(word)


def test_formats_in_paths_are_not_expanded() -> None:
    assert unexpanded("/a#(touch x)/#{pid}/##/#[b") == "/a##(touch x)/##{pid}/####/#[b"
