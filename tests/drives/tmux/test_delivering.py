"""What is decided on the way of a text into an input line, look by look."""

from bridle.drives.tmux.acts import Done, Failed, Paste, Press, Wait
from bridle.drives.tmux.delivering import DELIVER_SECONDS, Delivering
from bridle.drives.tmux.facts import TerminalFacts

FACTS = TerminalFacts(input_line=lambda pane: pane, paste_settled=0.0)
TEXT = "count the files in this folder"


def delivering(text: str = TEXT) -> Delivering:
    return Delivering(text, FACTS, 0.0, verify=False)


def test_an_empty_line_is_pasted_into_and_submitted() -> None:
    goal = delivering()
    assert goal.saw("", 0.0) == Paste(TEXT)
    assert isinstance(goal.saw(TEXT, 0.1), Wait)
    assert goal.saw(TEXT, 0.2) == Press(("Enter",))
    assert isinstance(goal.saw("", 0.3), Done)


def test_a_text_that_a_killed_driver_pasted_is_taken_out_and_given_again() -> None:
    goal = delivering()
    assert goal.saw(TEXT, 0.0) == Press(FACTS.clear)
    assert goal.saw("", 0.1) == Paste(TEXT)


def test_what_somebody_typed_is_left_alone() -> None:
    goal = delivering()
    assert isinstance(goal.saw("my own words", 0.0), Wait)
    assert isinstance(goal.saw(f"my own words and then {TEXT}", 1.0), Wait)
    assert isinstance(goal.saw("my own words", DELIVER_SECONDS + 1), Failed)
