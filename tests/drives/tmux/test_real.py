"""The terminal interfaces of real CLIs on the scripted model, in a private tmux server."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.core.usage import Usage
from bridle.drives.live import Outgoing
from bridle.drives.tmux.conversation import TerminalConversation
from bridle.running import new_session_id
from bridle.runtimes.base import AgentRuntime
from bridle.runtimes.registry import get_runtime
from bridle.testing import ScriptedModel
from tests.support.driving import COMMON_SCRIPT, Place, check_order, drive, kinds, own_place
from tests.support.live import last_end
from tests.support.panes import DEADLINE, in_terminal, say
from tests.support.real_cli import real_cli

pytestmark = pytest.mark.real_cli

AGENTS = [
    ("claude", "2.1.197"),
    ("claude", "2.1.325"),
    ("codex", "0.166.0"),
    ("codex", "0.120.0"),
    ("pi", "1.5.0"),
    ("copilot", "1.0.102"),
]
KEY = "sk-ant-scripted-0123456789abcdefghij"


@pytest.fixture(params=AGENTS, ids=lambda agent: "-".join(agent))
def runtime(request: pytest.FixtureRequest) -> AgentRuntime:
    return found(*request.param)


@pytest.fixture
def place() -> Iterator[Place]:
    with own_place("tmux") as made:
        yield made


def found(name: str, version: str) -> AgentRuntime:
    runtime = get_runtime(name)
    runtime.use_binary(str(real_cli(name, version)))
    return runtime


def options(place: Place, model: ScriptedModel, account_dir: str | None = None) -> RunOptions:
    return RunOptions(
        prompt="",
        cwd=str(place.repo),
        permission_mode="bypass",
        model_server=ModelServer(url=model.url, api_key=KEY),
        account_dir=account_dir,
    )


def turn_kinds(events: list[ev.Event]) -> list[str]:
    """What happened in the first turn; pieces of text left out, they are as long as they are."""
    told = [kind for kind in kinds(events) if kind != "text_delta"]
    return told[told.index("agent_start") : told.index("agent_end") + 1]


def test_the_same_events_as_in_a_run_and_a_person_may_type(
    runtime: AgentRuntime, place: Place
) -> None:
    with ScriptedModel(COMMON_SCRIPT) as model:
        printed = drive(runtime, place, model, permission_mode="bypass")
    (place.repo / "hello.txt").unlink()
    script = [*COMMON_SCRIPT, {"text": "Two."}, {"text": "Three."}]
    with (
        ScriptedModel(script) as model,
        in_terminal(runtime, options(place, model), place.env()) as talk,
    ):
        first = say(talk, "Do it.")
        assert (first.status, first.marker_detected) == ("completed", True)
        assert first.usage is not None
        # One version's transcript does not tell reasoning apart.
        assert without_reasoning(first.usage) == without_reasoning(printed.result.usage)
        assert turn_kinds(talk.events) == turn_kinds(printed.events)
        assert (place.repo / "hello.txt").read_text() == "hello\n"
        lines = 'Line one, it\'s "quoted" $HOME\n\tline two: äöü 漢字 🙂\n\nlast'
        assert say(talk, lines).text == "Two."
        typed = by_a_person(talk, "typed by a person")
        assert (typed.turn, typed.text) == (3, "Three.")
        prompts = [" ".join(prompt.split()) for prompt in given(model)]
        assert prompts == ["Do it.", " ".join(lines.split()), "typed by a person"]
        kill_server(talk)
    assert talk.recorder.state == "lost"
    check_order(talk.events)


def test_an_interrupted_turn_a_long_text_and_a_good_end(
    runtime: AgentRuntime, place: Place
) -> None:
    script = [
        {"text": "Hello."},
        {"text": "Too late.", "fault": {"delay": 15}},
        {"text": "After."},
        {"text": "Long."},
    ]
    with (
        ScriptedModel(script) as model,
        in_terminal(runtime, options(place, model), place.env()) as talk,
    ):
        say(talk, "Hello.")
        message = Outgoing(id=new_session_id(), text="take your time")
        talk.prompt(message)
        talk.wait(lambda: message.id in talk.deliveries, DEADLINE)
        model.wait_for_request(lambda request: "take your time" in str(request.body), DEADLINE)
        talk.abort("seen enough")
        talk.wait(lambda: talk.recorder.is_ready, DEADLINE)
        ended = last_end(talk.events)
        assert (ended.turn, ended.status) == (2, "aborted")
        assert ended.error is not None
        assert ended.error.message == "seen enough"
        # That version draws for minutes after a hundred kilobytes, and takes no key meanwhile.
        lines = 500 if runtime.installation().version == "0.120.0" else 40_000
        long = "".join(f"line {number} of a long text\n" for number in range(lines)) + "the end"
        assert len(long) > lines * 20
        # The slow answer may be told again, to the next who asks.
        assert say(talk, long).status == "completed"
        assert whole(given(model)[-1]) == long
        talk.leave()
        run_out(talk)
    assert talk.recorder.state == "stopped"
    assert talk.terminal.exit() is not None
    check_order(talk.events)


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])
def test_the_dialogs_of_a_first_start_are_answered(place: Place, version: str) -> None:
    account = place.home / "account"
    account.mkdir()
    (account / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    (account / "settings.json").write_text("{}")
    runtime = found("claude", version)
    with (
        ScriptedModel([{"text": "Hello."}]) as model,
        in_terminal(runtime, options(place, model, str(account)), place.env()) as talk,
    ):
        assert talk.recorder.state == "ready"
        if version != "2.1.197":
            # That version loses lines of its transcript in a home it has never seen, about one
            # start in four; what an answer looks like there is no matter of dialogs.
            answer = say(talk, "Hello?")
            assert (answer.text, answer.error) == ("Hello.", None)
    state = json.loads((account / ".claude.json").read_text())
    assert state["projects"][str(place.repo)]["hasTrustDialogAccepted"]
    assert state["customApiKeyResponses"]["approved"] == [KEY[-20:]]


def test_an_agent_that_dies_is_seen_dead(place: Place) -> None:
    with (
        ScriptedModel([{"text": "Never.", "fault": {"delay": 60}}]) as model,
        in_terminal(found("codex", "0.166.0"), options(place, model), place.env()) as talk,
    ):
        talk.prompt(Outgoing(id=new_session_id(), text="work"))
        talk.wait(lambda: talk.recorder.turn_open, DEADLINE)
        os.kill(talk.terminal.process().pid, signal.SIGKILL)
        run_out(talk)
    ended = last_end(talk.events)
    assert (ended.status, ended.error and ended.error.kind) == ("failed", "crashed")
    assert talk.recorder.state == "failed"
    assert isinstance(talk.events[-1], ev.SessionEnd)
    assert talk.events[-1].signal == "SIGKILL"


def without_reasoning(usage: Usage | None) -> Usage:
    assert usage is not None
    return msgspec.structs.replace(usage, reasoning_tokens=0)


def by_a_person(talk: TerminalConversation, text: str) -> ev.AgentEnd:
    """Type as somebody who looks at the pane."""
    server, name, turn = talk.terminal.server, talk.terminal.name, talk.recorder.turn
    server.type_text(name, text)
    talk.wait(lambda: talk.terminal.facts.holds(server.capture(name), text), DEADLINE)
    server.send_keys(name, "Enter")
    talk.wait(lambda: talk.recorder.turn > turn and talk.recorder.is_ready, DEADLINE)
    return last_end(talk.events)


def given(model: ScriptedModel) -> list[str]:
    """What the model was prompted with; one agent tells it the time before each."""
    clock = re.compile(r"^<current_datetime>[^<]*</current_datetime>\s*")
    return [clock.sub("", prompt) for prompt in model.prompts()]


def whole(prompt: str) -> str:
    """A long text as it was given; one agent keeps it as a file and names that."""
    if prompt.startswith("<pasted_content file="):
        prompt = Path(prompt.split('"')[1]).read_text()
    return prompt.strip()


def kill_server(talk: TerminalConversation) -> None:
    asked = ["tmux", "-S", talk.terminal.server.socket, "display-message", "-p", "#{pid}"]
    pid = int(subprocess.run(asked, capture_output=True, check=True, timeout=20).stdout)
    os.kill(pid, signal.SIGKILL)
    run_out(talk)


def run_out(talk: TerminalConversation) -> None:
    """Work until the conversation is over."""
    talk.wait(lambda: isinstance(talk.events[-1], ev.SessionEnd), DEADLINE)
