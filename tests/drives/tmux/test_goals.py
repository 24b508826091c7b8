"""Readiness and delivery, decided on captures with a clock that the test controls."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest

from bridle.core.errors import WrongUse
from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.errors import NotDelivered, NotReady
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.goals import (
    DELIVER_SECONDS,
    Act,
    Done,
    Failed,
    Paste,
    Press,
    Readiness,
    TextDelivery,
    Wait,
)
from bridle.runtimes.claude.tui import TERMINAL as CLAUDE
from bridle.runtimes.codex.tui import TERMINAL as CODEX
from bridle.runtimes.copilot.tui import TERMINAL as COPILOT
from bridle.runtimes.pi.tui import TERMINAL as PI

RULE = "─" * 60
Pane = Callable[[list[Act]], str]


def claude(typed: str) -> str:
    body = "\n  ".join(typed.split("\n"))
    return f"❯ earlier words\n● Answer.\n{RULE}\n❯ {body}\n{RULE}\n  ⏵⏵ bypass permissions on"


PANES = {
    "claude": (CLAUDE, claude),
    "codex": (
        CODEX,
        lambda typed: (
            f"› earlier words\n• Answer.\n› {typed or 'Ask Codex to do anything'}\n\n"
            "  GPT-6 default · {{WORKTREE}}\n  ? for shortcuts"
        ),
    ),
    "pi": (PI, lambda typed: f" earlier words\n{RULE}\n{typed}\n{RULE}\n0.0%/200k (auto)"),
    "copilot": (
        COPILOT,
        lambda typed: f" ❯ earlier words\n{RULE}\n❯ {typed}\n{RULE}\n Interactive · / commands",
    ),
}


def play(goal: Readiness | TextDelivery, pane: Pane, *, most: int = 3000) -> list[Act]:
    """All acts until the end, without the waits; time advances by what is waited for."""
    now = 0.0
    acts: list[Act] = []
    for _ in range(most):
        act = goal.saw(pane(acts), now)
        now = act.until if isinstance(act, Wait) else now + 0.001
        if not isinstance(act, Wait):
            acts.append(act)
        if isinstance(act, Done | Failed):
            return acts
    raise AssertionError(f"no end: {acts}")


def states(*told: ReadyState) -> Callable[[str], ReadyState]:
    """Each look sees the next state; the last one stays."""
    left = list(told)
    return lambda pane: left.pop(0) if len(left) > 1 else left[0]


# -- readiness ------------------------------------------------------------------------------------


def test_a_prompt_that_stands_is_readiness() -> None:
    goal = Readiness(states(Loading(), Loading(), Ready()), TerminalFacts(), 0.0)
    assert play(goal, lambda acts: "") == [Done("the pane shows its prompt")]


def test_a_prompt_that_flashes_up_is_none() -> None:
    asks = Dialog(name="trust", action="Escape")
    goal = Readiness(states(Ready(), asks), TerminalFacts(), 0.0, seconds=4.0)
    first, *_, last = play(goal, lambda acts: "")
    assert first == Press(("Escape",))
    assert isinstance(last, Failed)
    assert isinstance(last.error, NotReady)


def test_a_dialog_is_answered_only_when_it_stands_still() -> None:
    moving = [Dialog(name="menu", action=key) for key in ("End", "Home") * 8]
    still = Dialog(name="menu", action="End")
    goal = Readiness(states(*moving, *[still] * 5, Ready()), TerminalFacts(), 0.0)
    assert play(goal, lambda acts: "") == [
        Press(("End",)),
        Done("the pane shows its prompt"),
    ]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Dialog(name="login", action=None), "login"),
        (Dialog(name="stubborn", action="n Enter"), "stubborn"),
        (Busy(what="permission"), "permission"),
        (Loading(), "starts"),
    ],
)
def test_what_never_gets_ready_is_told_in_bounded_time(state: ReadyState, words: str) -> None:
    *keys, last = play(Readiness(lambda pane: state, TerminalFacts(), 0.0), lambda acts: "")
    assert isinstance(last, Failed)
    assert words in last.error.message
    assert all(key == Press(("n", "Enter")) for key in keys)


def test_without_a_mark_a_fixed_time_is_waited() -> None:
    facts = TerminalFacts(ready="warmup", warmup=7.0)
    goal = Readiness(lambda pane: Loading(), facts, 0.0)
    assert isinstance(goal.saw("", 6.9), Wait)
    assert goal.saw("", 7.0) == Done("warm-up time is over")


def test_a_long_warm_up_is_waited_for() -> None:
    facts = TerminalFacts(ready="warmup", warmup=500.0)
    goal = Readiness(lambda pane: Loading(), facts, 0.0)
    assert play(goal, lambda acts: "") == [Done("warm-up time is over")]


# -- delivery -------------------------------------------------------------------------------------


def typing(show: Callable[[str], str], *, swallowed: int = 0, lost: int = 0) -> Pane:
    """A pane that takes pastes and Enter; the first few of each may go astray."""

    def pane(acts: list[Act]) -> str:
        pastes = [act.text for act in acts if isinstance(act, Paste)][lost:]
        enters = sum(act == Press(("Enter",)) for act in acts)
        return show("" if enters > swallowed or not pastes else "".join(pastes))

    return pane


@pytest.mark.parametrize("name", sorted(PANES))
@pytest.mark.parametrize("text", ["hello", "two\n\nlines, 'quoted'", "wide " * 60 + "end"])
def test_a_text_is_pasted_seen_and_submitted(name: str, text: str) -> None:
    facts, show = PANES[name]
    acts = play(TextDelivery(text, facts, 0.0, verify=False), typing(show))
    assert acts == [Paste(text), Press(("Enter",)), Done("the text left the input line")]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("claude", "[Pasted text #3 +80 lines]"),
        ("codex", "[Pasted Content 3203 chars]"),
        ("pi", "[paste #1 +81 lines]"),
        ("copilot", "[Paste #1 - 81 lines]"),
        ("copilot", "[Saved pasted content to workspace (780.2 KB) id=1]"),
    ],
)
def test_a_long_text_may_show_as_something_short(name: str, shown: str) -> None:
    facts, show = PANES[name]
    pane = typing(lambda typed: show(shown if typed else ""))
    acts = play(TextDelivery("long\n" * 2000, facts, 0.0, verify=False), pane)
    assert acts[1:] == [Press(("Enter",)), Done("the text left the input line")]


def test_a_swallowed_enter_is_given_again_and_the_text_is_not() -> None:
    acts = play(TextDelivery("words", CLAUDE, 0.0, verify=True), typing(claude, swallowed=3))
    assert [act for act in acts if isinstance(act, Paste)] == [Paste("words")]
    assert acts.count(Press(("Enter",))) == 4
    assert isinstance(acts[-1], Done)


def test_a_program_that_takes_a_long_text_slowly_is_waited_for() -> None:
    goal = TextDelivery("words", CLAUDE, 0.0, verify=False)
    now, acts = 0.0, list[Act]()
    while not isinstance(
        act := goal.saw(claude("words" if acts and now < 20.0 else ""), now), Done
    ):
        assert not isinstance(act, Failed)
        acts += [] if isinstance(act, Wait) else [act]
        now += 0.05
    assert 20.0 <= now < 21.0
    assert acts == [Paste("words"), Press(("Enter",)), Press(("Enter",))]


def test_enter_is_never_pressed_blindly() -> None:
    acts = play(TextDelivery("words", CLAUDE, 0.0, verify=True), lambda acts: claude(""))
    assert Press(("Enter",)) not in acts
    assert isinstance(acts[-1], Failed)
    assert isinstance(acts[-1].error, NotDelivered)


@pytest.mark.parametrize(("verify", "pastes"), [(False, 1), (True, 2)])
def test_a_lost_text_is_pasted_again_only_where_that_is_known(verify: bool, pastes: int) -> None:
    acts = play(TextDelivery("words", CLAUDE, 0.0, verify=verify), typing(claude, lost=1))
    assert acts.count(Paste("words")) == pastes
    assert isinstance(acts[-1], Done if verify else Failed)


@pytest.mark.parametrize("retries", [0, 2, 6])
def test_the_budget_of_retries_is_used_with_growing_waits(retries: int) -> None:
    facts = msgspec.structs.replace(CLAUDE, ready="warmup", retries=retries)
    pasted: list[float] = []
    goal, now = TextDelivery("words", facts, 0.0, verify=False), 0.0
    for _ in range(100_000):
        act = goal.saw(claude(""), now)
        if isinstance(act, Paste):
            pasted.append(now)
        elif isinstance(act, Wait):
            now = act.until
        else:
            break
    assert isinstance(act, Failed)
    assert "did not show" in act.error.message
    assert len(pasted) == retries + 1
    waits = [later - sooner for sooner, later in pairwise(pasted)]
    assert all(later > sooner for sooner, later in pairwise(waits))


def test_a_text_that_shows_otherwise_is_not_pasted_again() -> None:
    def pane(acts: list[Act]) -> str:
        return claude("#" * 20 if acts else "")

    acts = play(TextDelivery("words", CLAUDE, 0.0, verify=True), pane)
    assert acts.count(Paste("words")) == 1
    assert isinstance(acts[-1], Failed)


def test_what_a_person_is_typing_is_left_alone() -> None:
    acts = play(TextDelivery("words", PI, 0.0, verify=True), lambda acts: PANES["pi"][1]("a draft"))
    (last,) = acts
    assert isinstance(last, Failed)
    assert "contains other text" in last.error.message


def test_our_own_text_that_came_back_is_cleared() -> None:
    def pane(acts: list[Act]) -> str:
        cleared = acts.count(Press(("C-u",)))
        return typing(claude)(acts) if cleared >= 2 else claude("interrupted words")

    goal = TextDelivery("words", CLAUDE, 0.0, verify=True, own=("interrupted words",))
    assert play(goal, pane) == [
        Press(("C-u",)),
        Press(("C-u",)),
        Paste("words"),
        Press(("Enter",)),
        Done("the text left the input line"),
    ]


@pytest.mark.parametrize("text", ["", " \n\t", "\x1b[201~", "a\x00b"])
def test_a_text_that_no_terminal_takes_is_refused(text: str) -> None:
    with pytest.raises(WrongUse):
        TextDelivery(text, CLAUDE, 0.0, verify=True)


# -- delivery, capture by capture -----------------------------------------------------------------

PLAIN = TerminalFacts(input_line=lambda pane: pane, paste_settled=0.0)
WORDS = "count the files in this folder"


def delivery_of(text: str = WORDS) -> TextDelivery:
    return TextDelivery(text, PLAIN, 0.0, verify=False)


def test_a_text_is_pasted_into_an_empty_line_and_submitted() -> None:
    goal = delivery_of()
    assert goal.saw("", 0.0) == Paste(WORDS)
    assert isinstance(goal.saw(WORDS, 0.1), Wait)
    assert goal.saw(WORDS, 0.2) == Press(("Enter",))
    assert isinstance(goal.saw("", 0.3), Done)


def test_a_text_that_a_killed_driver_pasted_is_removed_and_pasted_again() -> None:
    goal = delivery_of()
    assert goal.saw(WORDS, 0.0) == Press(PLAIN.clear)
    assert goal.saw("", 0.1) == Paste(WORDS)


def test_text_of_a_person_stays_in_the_input_line() -> None:
    goal = delivery_of()
    assert isinstance(goal.saw("my own words", 0.0), Wait)
    assert isinstance(goal.saw(f"my own words and then {WORDS}", 1.0), Wait)
    assert isinstance(goal.saw("my own words", DELIVER_SECONDS + 1), Failed)
