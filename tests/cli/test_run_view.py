"""What a person sees of events that are not the agent's plain text."""

import pytest

from bridle.cli.run_view import HumanView
from bridle.core import events as ev


def test_a_tool_that_was_cut_off_has_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    view = HumanView()
    view.event(ev.ToolExecutionEnd(tool_call_id="1", tool_name="shell", is_error=True))
    view.event(
        ev.ToolExecutionEnd(tool_call_id="2", tool_name="shell", is_error=True, result="no file")
    )
    assert capsys.readouterr().err.splitlines() == ["  shell cut off", "  shell failed: no file"]


def test_what_a_person_typed_elsewhere_is_not_the_agents_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = HumanView()
    monkeypatch.setattr(view, "_live", True)
    said: list[tuple[str, ev.Role, str]] = [
        ("user_1", "user", "typed"),
        ("msg_1", "assistant", "answered"),
    ]
    for name, role, text in said:
        view.event(ev.MessageStart(message_id=name, role=role))
        view.event(ev.MessageUpdate(message_id=name, kind="text_delta", text=text))
        view.event(ev.MessageEnd(message_id=name, role=role, text=text))
    told = capsys.readouterr()
    assert (told.out.strip(), told.err.strip()) == ("answered", "> typed")


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"output": "no room\n", "exit_code": 1}, "no room"),
        (
            [{"query": "ls", "result": "[stderr]", "error": "exited 3", "success": False}],
            "exited 3",
        ),
        ({"output": "", "exit_code": 1}, '{"output":"","exit_code":1}'),
        ([1, 2], "[1,2]"),
    ],
)
def test_a_failed_tool_shows_the_text_of_its_result(
    capsys: pytest.CaptureFixture[str], result: object, shown: str
) -> None:
    view = HumanView()
    view.event(
        ev.ToolExecutionEnd(tool_call_id="1", tool_name="shell", is_error=True, result=result)
    )
    assert capsys.readouterr().err == f"  shell failed: {shown}\n"
