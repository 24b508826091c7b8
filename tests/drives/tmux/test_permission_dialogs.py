"""Permission dialogs: the key that answers each, and which dialog an answer belongs to."""

from pathlib import Path

import pytest

from bridle.core.results import Busy, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.permission_dialogs import PermissionWatch, dialog_text
from bridle.drives.tmux.records import Observation, Order
from bridle.runtimes.alternatives import as_terminal
from bridle.runtimes.registry import get_adapter

RUNTIMES = Path(__file__).parents[3] / "src/bridle/runtimes"
CAPTURES = [
    ("claude", "panes/14_permission_prompt_bash.txt", ("1",)),
    ("codex", "0.166.0/tui/09_approval_command.txt", ("y",)),
    ("pi", "tui-ext-confirm-1.5.0.txt", ("Enter",)),
    ("copilot", "tui-perm.txt", ("1",)),
]
MARKED_OTHERWISE = """
│ Do you want to allow this?
│   1. Yes
│ ❯ 2. Yes, and remember this path for this session
│   3. No (Esc)
│ ↑/↓ to navigate · enter to select · esc to cancel
"""


@pytest.mark.parametrize(("name", "capture", "keys"), CAPTURES, ids=lambda word: str(word))
def test_the_key_of_each_dialog(name: str, capture: str, keys: tuple[str, ...]) -> None:
    runtime = as_terminal(get_adapter(name))
    pane = (RUNTIMES / name / "testdata" / capture).read_text()
    assert runtime.detect_ready(pane) == Busy(what="permission")
    facts = runtime.terminal_facts()
    assert facts.permission_keys(pane, True) == keys
    assert facts.permission_keys(pane, False) == ("Escape",)


def test_yes_with_something_behind_it_is_never_meant() -> None:
    facts = as_terminal(get_adapter("copilot")).terminal_facts()
    assert facts.permission_keys(MARKED_OTHERWISE, True) == ("1",)
    only_more = MARKED_OTHERWISE.replace("│   1. Yes\n", "")
    assert facts.permission_keys(only_more, True) is None
    pi = as_terminal(get_adapter("pi")).terminal_facts()
    # Enter would take the row that is marked.
    assert pi.permission_keys("   Yes\n → No\n", True) is None


def dialog(command: str) -> str:
    return f"● working\n──────\n Run {command}?\n ❯ 1. Yes\n   2. No\n"


def detect(pane: str) -> ReadyState:
    return Busy(what="permission") if "1. Yes" in pane else Ready()


def keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    return ("1",) if allowed else ("Escape",)


class Watched:
    """A watch, and what it told."""

    def __init__(self) -> None:
        self.told: list[Observation] = []
        facts = TerminalFacts(permission_keys=keys)
        self.watch = PermissionWatch(facts, detect, self.told.append)

    def kinds(self) -> list[str]:
        return [seen.kind for seen in self.told]

    def answer(self, pane: str, now: float, *, allow: bool = True) -> tuple[str, ...]:
        order = Order(do="answer", id=self.watch.open, allow=allow)
        return self.watch.keys(order, pane, now)


def test_a_dialog_must_stand_before_it_is_asked_about() -> None:
    made = Watched()
    made.watch.saw(dialog("ls"), 0.0)
    assert made.told == []
    made.watch.saw("prompt", 0.2)
    made.watch.saw(dialog("ls"), 0.4)
    made.watch.saw(dialog("ls"), 0.6)
    assert made.told == []
    made.watch.saw(dialog("ls"), 0.9)
    assert made.kinds() == ["permission"]
    assert made.answer(dialog("ls"), 1.0) == ("1",)
    assert (made.kinds(), made.watch.open) == (["permission", "answered"], "")


def test_an_answer_is_never_given_to_the_next_dialog() -> None:
    made = Watched()
    for now in (0.0, 0.5):
        made.watch.saw(dialog("ls"), now)
    assert made.answer(dialog("rm -rf x"), 1.0) == ()
    assert made.kinds() == ["permission", "gone"]
    for now in (1.5, 2.0):
        made.watch.saw(dialog("rm -rf x"), now)
    assert made.kinds() == ["permission", "gone", "permission"]


def test_a_key_that_was_lost_makes_it_ask_again() -> None:
    made = Watched()
    for now in (0.0, 0.5):
        made.watch.saw(dialog("ls"), now)
    made.answer(dialog("ls"), 1.0)
    made.watch.saw(dialog("ls"), 2.0)
    made.watch.saw(dialog("ls"), 2.9)
    assert made.kinds() == ["permission", "answered"]
    for now in (3.1, 3.6):
        made.watch.saw(dialog("ls"), now)
    assert made.kinds() == ["permission", "answered", "permission"]


def test_a_dialog_that_goes_away_by_itself() -> None:
    made = Watched()
    for now in (0.0, 0.5):
        made.watch.saw(dialog("ls"), now)
    made.watch.saw("prompt", 1.0)
    assert made.kinds() == ["permission"]
    made.watch.saw("prompt", 1.5)
    assert made.kinds() == ["permission", "gone"]


def test_another_driver_knows_what_was_asked_and_answered() -> None:
    made = Watched()
    for now in (0.0, 0.5):
        made.watch.saw(dialog("ls"), now)
    after = Watched()
    for seen in made.told:
        after.watch.take_up(seen)
    assert after.watch.open == made.watch.open
    assert after.answer(dialog("ls"), 9.0, allow=False) == ("Escape",)
    third = Watched()
    for seen in (*made.told, *after.told):
        third.watch.take_up(seen)
    assert third.watch.open == ""


def test_what_moves_above_a_dialog_is_no_part_of_it() -> None:
    moved = dialog("ls").replace("● working", "○ working")
    assert dialog_text(moved) == dialog_text(dialog("ls"))
    assert dialog_text(dialog("ls")) != dialog_text(dialog("rm"))
