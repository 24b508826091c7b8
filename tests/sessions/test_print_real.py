"""Print sessions of real agents on the scripted model: a process for each turn, one memory."""

import os
import signal
import uuid
from collections.abc import Iterator

import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption
from bridle.core.options import RunOptions
from bridle.process.process_tree import marked_processes
from bridle.sessions import verbs
from bridle.sessions.print_plan import plan_session
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.sessions.place import Place, wait
from tests.sessions.real import LONG, begin, go_on, real_place, rest
from tests.support.real_cli import newest

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(400)]

AGENTS = ("claude", "codex", "pi", "copilot", "opencode", "gemini", "aider")
WITH_TOOLS = tuple(name for name in AGENTS if name != "aider")


@pytest.fixture
def place() -> Iterator[Place]:
    with real_place() as made:
        yield made


def asked_of(model: ScriptedModel) -> str:
    """The last request of the conversation's own."""
    return str([each for each in model.requests if each.outcome in ("turn", "overrun")][-1].body)


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_a_copy_is_refused_where_each_turn_resumes_the_last(place: Place, name: str) -> None:
    given = RunOptions(
        prompt="",
        cwd=str(place.work),
        resume=str(uuid.uuid4()),
        provider_options={"fork": "true"},
        ignore_unsupported=True,
    )
    with pytest.raises(UnsupportedOption, match=r"fork.*not in a print session"):
        plan_session(newest(name), given, place.env, "session")


@pytest.mark.parametrize("name", AGENTS)
def test_the_next_turn_remembers_and_so_does_a_resumed_session(place: Place, name: str) -> None:
    runtime = newest(name)
    turns = [{"text": "The first answer."}, {"text": "The second."}, {"text": "Back again."}]
    with ScriptedModel(turns) as model:
        record = begin(place, runtime, "print", model)
        host = place.host()
        host.send(record, "Please begin.")
        assert rest(host, record) == "The first answer."
        assert place.record(record).pid is None
        host.send(record, "And then this.")
        assert rest(host, record) == "The second."
        asked = asked_of(model)
        for text in ("Please begin.", "The first answer.", "And then this."):
            assert asked.count(text) == 1, f"{text} reached the model {asked.count(text)} times"
        native = place.record(record).native_session_id
        assert native is not None
        host.stop(record)
        resumed = go_on(place, runtime, record)
        host.send(resumed, "Do you remember?")
        assert rest(host, resumed) == "Back again."
        asked = asked_of(model)
        for text in ("Please begin.", "And then this.", "Do you remember?"):
            assert asked.count(text) == 1, f"{text} reached the model {asked.count(text)} times"
        assert place.record(record).native_session_id == native
        host.stop(resumed)
        wait(lambda: not marked_processes(record.session_id))
    events = place.events(record)
    assert check_event_order(events) == []
    totals = [event.usage for event in events if isinstance(event, ev.UsageTotals)]
    turned = [event.usage for event in events if isinstance(event, ev.AgentEnd)]
    # Every answer of the script costs the same, so no turn counts what one before it used.
    assert turned[0] is not None
    assert turned == [turned[0]] * 3
    assert totals[-1] == turned[0] + turned[0] + turned[0]
    assert totals[-1].output_tokens > 0


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_driver_and_agent_are_killed_in_a_turn(place: Place, name: str) -> None:
    runtime = newest(name)
    turns = [
        {"text": "I run a tool.", "shell": "touch began; sleep 2; echo one"},
        {"text": "The tool has run."},
        # An agent that is killed before it wrote this down has it told again.
        {"text": "Once more.", "shell": "test -e again && exit; touch again; sleep 100"},
        {"text": "Still here."},
    ]
    with ScriptedModel(turns) as model:
        record = begin(place, runtime, "print", model)
        first = place.host()
        first.send(record, "Please begin.")
        wait((place.work / "began").exists, LONG)
        first.close()
        second = place.host()
        assert rest(second, record) == "The tool has run."
        second.send(record, "Run the long one.")
        wait((place.work / "again").exists, LONG)
        wait(lambda: place.record(record).pid is not None, LONG)
        pid = place.record(record).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        report = second.idle(record)
        assert (report.state, report.status) == ("ready", "failed")
        second.send(record, "Are you there?")
        assert rest(second, record) == "Still here."
        asked = asked_of(model)
        assert asked.count("Please begin.") == asked.count("Are you there?") == 1
        second.stop(record)
        wait(lambda: not marked_processes(record.session_id))
    assert check_event_order(place.events(record)) == []


@pytest.mark.parametrize("name", ["codex", "copilot"])
def test_a_turn_is_counted_once_whoever_drives_it(place: Place, name: str) -> None:
    """Both tell what was used in files that hold the whole conversation."""
    runtime = newest(name)
    turns = [
        {"text": "The first."},
        {"text": "I run a tool.", "shell": "touch began; sleep 2"},
        {"text": "The tool has run."},
    ]
    with ScriptedModel(turns) as model:
        record = begin(place, runtime, "print", model)
        first = place.host()
        first.send(record, "Please begin.")
        assert rest(first, record) == "The first."
        first.send(record, "Now the tool.")
        wait((place.work / "began").exists, LONG)
        first.close()
        second = place.host()
        assert rest(second, record) == "The tool has run."
        second.stop(record)
    turned = [each.usage for each in place.events(record) if isinstance(each, ev.AgentEnd)]
    assert turned[0] is not None
    assert turned[1] == turned[0] + turned[0]


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_abort_leaves_the_session_usable(place: Place, name: str) -> None:
    runtime = newest(name)
    turns = [
        {"text": "I work.", "shell": "touch began; sleep 100"},
        {"text": "Still here."},
    ]
    with ScriptedModel(turns) as model:
        record = begin(place, runtime, "print", model)
        host = place.host()
        host.send(record, "Please begin.")
        wait((place.work / "began").exists, LONG)
        host.do(verbs.Abort(session=record.session_id, reason="enough"))
        report = host.idle(record)
        assert (report.state, report.status) == ("ready", "aborted")
        host.send(record, "Are you there?")
        assert rest(host, record) == "Still here."
        assert asked_of(model).count("Are you there?") == 1
        host.stop(record)
    assert check_event_order(place.events(record)) == []


@pytest.mark.parametrize("name", ["claude", "codex", "opencode", "gemini"])
def test_abort_before_the_agent_kept_anything(place: Place, name: str) -> None:
    runtime = newest(name)
    with ScriptedModel([{"text": "Here I am."}]) as model:
        record = begin(place, runtime, "print", model)
        host = place.host()
        host.send(record, "Please begin.")
        host.do(verbs.Abort(session=record.session_id, reason="at once"))
        assert host.idle(record).status in ("aborted", "completed")
        host.send(record, "Are you there?")
        assert rest(host, record)
        assert asked_of(model).count("Are you there?") == 1
        host.stop(record)
    assert check_event_order(place.events(record)) == []


@pytest.mark.parametrize("name", ["claude", "codex", "pi", "copilot", "gemini", "opencode"])
def test_each_process_is_guarded(place: Place, name: str) -> None:
    runtime = newest(name)
    turns = [
        {"text": "I break out.", "shell": "echo bad > ../outside.txt"},
        {"text": "It was refused."},
        {"text": "Once more.", "shell": "echo bad > ../outside.txt"},
        {"text": "Refused again."},
    ]
    with ScriptedModel(turns) as model:
        record = begin(place, runtime, "print", model, guard="builder")
        host = place.host()
        host.send(record, "Please begin.")
        assert rest(host, record) == "It was refused."
        host.send(record, "Try once more.")
        assert rest(host, record) == "Refused again."
        host.stop(record)
    events = place.events(record)
    assert check_event_order(events) == []
    denied = [each for each in events if isinstance(each, ev.PermissionDecision)]
    assert [(each.decision, each.by) for each in denied] == [("deny", "guard")] * 2
    assert not (place.folder / "outside.txt").exists()


def test_cline_has_one_turn_and_says_so(place: Place) -> None:
    runtime = newest("cline")
    assert not runtime.features.resume
    with ScriptedModel([{"text": "The only answer."}]) as model:
        record = begin(place, runtime, "print", model)
        host = place.host()
        host.send(record, "Please begin.")
        assert rest(host, record) == "The only answer."
        receipt = host.send(record, "And then this.")
        assert receipt is not None
        assert not receipt.delivered
        assert "cannot resume a conversation" in (receipt.error or "")
        host.stop(record)
    assert check_event_order(place.events(record)) == []
