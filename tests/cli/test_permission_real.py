"""`--permission ask` on a terminal with the real CLIs: each asks, and keeps to the answer."""

from collections.abc import Iterator
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentRun
from bridle.testing.contract import check_event_order
from tests.sandbox.bench import Bench, bench
from tests.support.permission_run import PRODUCTS, at_terminal
from tests.support.real_cli import newest, pinned, versions

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]

ENDS = ("copilot", "opencode")
"""Products that end their turn when a call is refused."""


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.mark.parametrize("runtime", PRODUCTS)
def test_a_product_asks_the_person_and_keeps_to_the_answers(runtime: str, place: Bench) -> None:
    seen = at_terminal(place, runtime, versions(runtime)[-1])
    screen = seen.screen
    assert (seen.asked, seen.status) == (2, 0), screen
    assert (place.worktree / "first.txt").read_text() == "one\n"
    assert not (place.worktree / "second.txt").exists()
    # Each question comes after the words that explain it, and names the command.
    first, second = (at for at in range(len(screen)) if screen.startswith("Allow it?", at))
    assert screen.index("I write the first file.") < screen.index("echo one > first.txt") < first
    asked = screen[screen.rindex("The agent asks", 0, second) : second]
    assert screen.index("Now the second.") < second
    assert "echo two > second.txt" in asked
    assert screen.count("refused: refused at the terminal") == 1
    assert "failed:" not in screen
    assert "completed, 1 tool call refused in" in screen
    assert ("That is all." in screen) is (runtime not in ENDS)
    assert "warning" not in screen
    assert "tokens in" in screen


def played(
    place: Bench, runtime: Any, script: list[dict[str, Any]], **options: Any
) -> tuple[AgentRun, list[ev.PermissionDecision]]:
    """A run where nobody can be asked, and its decisions."""
    with ScriptedModel(script) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        outcome = place.run(runtime, model_server=server, **options)
    assert check_event_order(outcome.events) == []
    assert outcome.result.status == "completed", outcome.result.error
    return outcome, [each for each in outcome.events if isinstance(each, ev.PermissionDecision)]


@pytest.mark.parametrize("version", versions("codex"))
def test_codex_shows_a_patch_that_it_refused_by_itself(version: str, place: Bench) -> None:
    """With nobody there it only reads; its stream says nothing of the patch."""
    patch = "*** Begin Patch\n*** Add File: patch.txt\n+hello\n*** End Patch"
    script = [
        {"text": "I write.", "shell": f"apply_patch <<'EOF'\n{patch}\nEOF\n"},
        {"text": "Done."},
    ]
    outcome, (refused,) = played(
        place, pinned("codex", version), script, permission_mode="ask", model="gpt-5.5"
    )
    assert not (place.worktree / "patch.txt").exists()
    assert (refused.tool_name, refused.decision, refused.by) == ("file_change", "deny", "codex")
    assert refused.reason.startswith("patch rejected")
    assert outcome.result.refusals == 1
    warning = outcome.plan.warnings[-1]
    assert warning.startswith("codex: nobody is there to give permission: it only reads")


def test_copilot_with_bypass_acts_outside_the_folder(place: Bench) -> None:
    script = [
        {"text": "I write.", "shell": f"echo hi > {place.outside}/out.txt"},
        {"text": "Done."},
    ]
    outcome, decisions = played(place, newest("copilot"), script)
    assert (place.outside / "out.txt").read_text() == "hi\n"
    assert (decisions, outcome.result.refusals) == ([], 0)


@pytest.mark.parametrize("runtime", ["copilot", "gemini"])
def test_one_refusal_of_the_guard_is_told_once(runtime: str, place: Bench) -> None:
    """Both also report the hook's refusal as one of their own."""
    script = [{"text": "I push.", "shell": "git push -q origin task"}, {"text": "Done."}]
    outcome, (refused,) = played(place, newest(runtime), script, guard="builder")
    assert (refused.decision, refused.by) == ("deny", "guard")
    assert outcome.result.refusals == 1
