"""The async face of sessions, on both event loops."""

import base64
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from bridle.core import events as ev
from bridle.core.errors import Crashed, ResumeRefused, TimedOut, UnsupportedOption, WrongUse
from bridle.core.events import Drive, Event
from bridle.core.handles import SessionHints
from bridle.runtimes.registry import get_adapter
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.sessions import feed as feed_module
from bridle.sessions.clocks import Clocks
from bridle.sessions.history import AgentStep
from bridle.sessions.lock import SessionOver
from bridle.sessions.session import Session
from bridle.sessions.store import UnknownSession
from bridle.sessions.user_messages import UserMessage
from bridle.testing.contract import check_event_order
from bridle.turns.wire import Allow, Question
from tests.runtimes.products import ONE_PNG
from tests.sessions.place import wait
from tests.sessions.studio import DEADLINE, LONG, Studio, numbered, of_kind

WAIT: dict[str, Any] = {"timeout": DEADLINE}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    made = Studio(tmp_path)
    yield made
    made.close()


async def until(holds: Callable[[], object]) -> None:
    """Wait until something is so, with the loop free."""
    await to_thread.run_sync(lambda: wait(holds))


async def appear(path: Path) -> None:
    await until(path.exists)


async def test_a_conversation(studio: Studio) -> None:
    options = studio.options("- text: one\n- text: two\n- text: three\n")
    async with Session.start("scripted", "first", name="talk", **options) as session:
        report = await session.wait_idle(**WAIT)
        assert (report.turn, report.status, report.text) == (1, "completed", "one")
        assert (session.state, session.is_streaming, session.is_compacting) == (
            "ready",
            False,
            False,
        )
        receipt = await session.prompt("second", **WAIT)
        assert (receipt.delivered, receipt.turn) == (True, 2)
        await session.wait_idle(**WAIT)
        await session.follow_up("third", **WAIT)
        assert (await session.wait_idle(**WAIT)).text == "three"
        assert session.native_session_id == session.record.native_session_id is not None
        assert (session.record.name, session.features.steer) == ("talk", True)
        assert session.hints == SessionHints()
        said = [
            (part.text if isinstance(part, UserMessage | AgentStep) else "")
            for part in session.messages
        ]
        assert said == ["first", "one", "second", "two", "third", "three"]
        assert session.messages == session.messages
        name = session.session_id
    assert session.state == "stopped"
    assert studio.processes() == {}
    events = studio.events(name)
    assert check_event_order(events) == []
    assert len(session.messages) == 6
    with pytest.raises(WrongUse, match="was released"):
        await session.prompt("too late")


async def test_steer_follow_up_and_abort(studio: Studio) -> None:
    async with Session.start("scripted", "begin", **studio.options(LONG)) as session:
        await appear(studio.work / "began")
        assert session.is_streaming
        follow = await session.follow_up("afterwards", **WAIT)
        assert (follow.delivered, follow.queued) == (False, True)
        steer = await session.steer("look there too", timeout=0.1)
        assert (steer.delivered, steer.queued, steer.error) == (False, False, None)
        with pytest.raises(TimedOut):
            await session.wait_idle(timeout=0.2)
        with pytest.raises(WrongUse, match="works"):
            await session.set_model("other")
        studio.go()
        report = await session.wait_idle(**WAIT)
        assert (report.turn, report.text) == (2, "after that")
        assert await session.abort() is False
        (studio.work / "go").unlink()


async def test_abort_ends_the_turn_and_the_conversation_goes_on(studio: Studio) -> None:
    async with Session.start("scripted", "begin", **studio.options(LONG)) as session:
        await appear(studio.work / "began")
        await session.follow_up("never", **WAIT)
        assert await session.abort("enough", clear=True)
        report = await session.wait_idle(**WAIT)
        assert (report.turn, report.status) == (1, "aborted")
        assert report.error is not None
        assert report.error["message"] == "enough"
        studio.go()
        await session.prompt("go on", **WAIT)
        assert (await session.wait_idle(**WAIT)).status == "completed"


async def test_every_reader_hears_everything_once(studio: Studio) -> None:
    heard: list[Event] = []
    slow: list[Event] = []

    async def slowly(event: Event) -> None:
        await checkpoint()
        slow.append(event)

    async with Session.start("scripted", **studio.options("- text: a b c\n" * 5)) as session:
        since = len(studio.events(session.session_id))
        session.subscribe(heard.append)
        session.subscribe(slowly)
        followed: list[Event] = []

        async def follow() -> None:
            followed.extend([event async for event in session.events()])

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            for _ in range(5):
                await session.prompt("go", **WAIT)
                await session.wait_idle(**WAIT)
            late = session.events(after=10)
            await session.stop()
        assert [event.seq async for event in late] == list(range(11, len(followed) + 1))
        # Told by threads of their own: they may be a moment behind.
        await until(lambda: heard and slow and heard[-1] == slow[-1] == followed[-1])
        on_disk = studio.events(session.session_id)
    assert numbered(followed)
    assert followed == on_disk
    assert heard == slow == on_disk[since:]
    again = [event async for event in session.events(after=len(on_disk) - 2)]
    assert again == on_disk[-2:]


async def test_a_reader_that_falls_behind_loses_nothing(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "MOST", 7)
    async with Session.start("scripted", **studio.options("- text: a b c d e\n" * 6)) as session:
        events = session.events()
        seen = [await anext(events)]
        for _ in range(6):
            await session.prompt("go", **WAIT)
            await session.wait_idle(**WAIT)
            seen.append(await anext(events))
        await session.stop()
        seen += [event async for event in events]
    assert seen == studio.events(session.session_id)
    assert len(seen) > 50


async def test_a_subscriber_that_stops_or_fails(
    studio: Studio, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Event] = []
    rest: list[Event] = []

    def once(event: Event) -> None:
        heard.append(event)
        stop()

    def fails(event: Event) -> None:
        rest.append(event)
        raise ValueError("no good")

    async with Session.start("scripted", **studio.options("- text: one\n")) as session:
        stop = session.subscribe(once)
        session.subscribe(fails)
        await session.prompt("go", **WAIT)
        await session.wait_idle(**WAIT)
        await until(lambda: of_kind(rest, "agent_end"))
    assert len(heard) == 1
    assert "a subscriber of session" in caplog.text


async def test_a_dropped_reader_is_forgotten(studio: Studio) -> None:
    async with Session.start("scripted", **studio.options("- text: one\n")) as session:
        async for _ in session.events():
            break
        gc.collect()
        assert len(session._link._feeds) == 0


ASKS = '- text: may I?\n  shell: "touch allowed"\n- text: done\n'


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_policy_answers(studio: Studio, is_async: bool) -> None:
    asked: list[str] = []

    async def decide(question: Question) -> tuple[bool, str, str]:
        await checkpoint()
        asked.append(question.tool_name)
        return True, "policy", "fine"

    def at_once(question: Question) -> Allow:
        asked.append(question.tool_name)
        return Allow("fine", by="policy")

    options = studio.options(ASKS, permission_mode="ask")
    policy: Any = decide if is_async else at_once
    async with Session.start("scripted", "go", permission=policy, **options) as session:
        await session.wait_idle(**WAIT)
    assert asked == ["shell"]
    assert (studio.work / "allowed").exists()
    [decision] = of_kind(studio.events(session.session_id), "permission_decision")
    assert isinstance(decision, ev.PermissionDecision)
    assert (decision.decision, decision.by) == ("allow", "policy")


async def test_a_policy_that_fails_refuses(
    studio: Studio, caplog: pytest.LogCaptureFixture
) -> None:
    async def decide(question: Question) -> bool:
        raise ValueError("no idea")

    options = studio.options(ASKS, permission_mode="ask")
    async with Session.start("scripted", "go", permission=decide, **options) as session:
        await session.wait_idle(**WAIT)
    [decision] = of_kind(studio.events(session.session_id), "permission_decision")
    assert isinstance(decision, ev.PermissionDecision)
    assert (decision.decision, decision.by) == ("deny", "bridle")
    assert "ValueError" in decision.reason
    assert "no idea" in caplog.text


async def test_answers_without_a_policy_and_from_who_takes_over(studio: Studio) -> None:
    options = studio.options(ASKS * 2, permission_mode="ask")
    async with Session.start("scripted", "go", **options) as session:
        async for event in session.events():
            if isinstance(event, ev.PermissionRequest):
                assert session.state == "waiting_permission"
                await session.answer(event.request_id, True, reason="go on")
            elif isinstance(event, ev.AgentEnd):
                break
        with pytest.raises(WrongUse, match="no permission request"):
            await session.answer("nobody", True)
        await session.prompt("again", **WAIT)
        async for later in session.events(after=event.seq):
            if isinstance(later, ev.PermissionRequest):
                break
        await session.detach()

        def decide(question: Question) -> tuple[bool, str, str]:
            return True, "the next one", ""

        async with Session.open(session.session_id, permission=decide) as other:
            await other.wait_idle(**WAIT)
    decisions = of_kind(studio.events(session.session_id), "permission_decision")
    assert [getattr(each, "by", "") for each in decisions] == ["user", "the next one"]


async def test_leaving_while_a_person_is_asked(studio: Studio) -> None:
    asked = anyio.Event()
    given_up = False

    async def decide(question: Question) -> tuple[bool, str, str]:
        nonlocal given_up
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            given_up = True
        raise AssertionError

    options = studio.options(ASKS, permission_mode="ask")
    async with Session.start("scripted", "go", permission=decide, **options) as session:
        with anyio.fail_after(DEADLINE):
            await asked.wait()
    assert given_up
    assert session.state == "stopped"
    assert studio.processes() == {}


async def test_detach_open_and_resume(studio: Studio) -> None:
    options = studio.options("- text: one\n- text: two\n- text: three\n")
    first = await Session.start("scripted", "a", name="kept", **options)
    await first.wait_idle(**WAIT)
    rest = first.events(after=3)
    await first.detach()
    await first.detach()
    await first.dispose()
    assert [event.seq async for event in rest][-1] == len(studio.events(first.session_id))
    assert studio.processes() != {}
    second = await Session.open("kept")
    assert (second.session_id, second.state) == (first.session_id, "ready")
    await second.prompt("b", **WAIT)
    assert (await second.wait_idle(**WAIT)).text == "two"
    with pytest.raises(WrongUse, match="is alive"):
        await Session.resume("kept")
    ended = await second.stop("for now")
    assert (ended.state, second.state) == ("stopped", "stopped")
    with pytest.raises(SessionOver):
        await second.prompt("c")
    assert (await second.wait_idle()).state == "stopped"
    old = second.events()
    async with Session.resume("kept") as third:
        assert third.native_session_id == second.native_session_id
        await third.prompt("c", **WAIT)
        assert (await third.wait_idle(**WAIT)).text == "three"
        assert third.record.run == 2
        events = third.events()
        # A reader of the process before sees its end, and no more.
        seen = [event async for event in old]
        assert seen[-1].__struct_config__.tag == "session_end"
        await third.stop()
        everything = [event async for event in events]
        assert numbered(everything)
        assert everything[: len(seen)] == seen
    async with Session.open("kept") as over:
        assert over.state == "stopped"
        assert len([event async for event in over.events()]) == len(everything)
        assert len(over.messages) == 6


async def test_two_faces_of_one_session(studio: Studio) -> None:
    options = studio.options("- text: one\n- text: two\n")
    async with Session.start("scripted", **options) as session:
        other = await Session.open(session.session_id)
        await other.prompt("hello", **WAIT)
        await other.detach()
        assert (await session.wait_idle(**WAIT)).text == "one"
        await session.prompt("again", **WAIT)
        assert (await session.wait_idle(**WAIT)).text == "two"


async def test_cancellation_leaves_nothing(studio: Studio) -> None:
    options = studio.options("- text: one\n", provider_options={"behave": "never-answer"})
    options["clocks"] = Clocks(leave=0.1)
    for seconds in (0.0, 0.05, 0.3):
        with anyio.move_on_after(seconds) as scope:
            async with Session.start("scripted", "go", **options) as session:
                await session.wait_idle()
        assert scope.cancelled_caught
        assert studio.processes() == {}


async def test_a_cancelled_wait_costs_nothing(studio: Studio) -> None:
    async with Session.start("scripted", "begin", **studio.options(LONG)) as session:
        events = session.events()
        for _ in range(3):
            with anyio.move_on_after(0.05):
                await session.wait_idle()
        seen: list[Event] = []
        for _ in range(50):
            with anyio.move_on_after(0.005):
                while True:
                    seen.append(await anext(events))
        studio.go()
        await session.wait_idle(**WAIT)
        await session.stop()
        seen += [event async for event in events]
    assert seen == studio.events(session.session_id)


async def test_a_message_that_is_sent_twice_arrives_once(studio: Studio) -> None:
    async with Session.start("scripted", **studio.options("- text: one\n- text: two\n")) as session:
        first = await session.prompt("hello", message_id="m-1", **WAIT)
        again = await session.prompt("hello", message_id="m-1", **WAIT)
        assert first == again
        assert (await session.wait_idle(**WAIT)).turn == 1


def contents(files: tuple[str, ...]) -> list[bytes]:
    return [Path(file).read_bytes() for file in files]


async def test_images(studio: Studio) -> None:
    file = studio.work / "one.png"
    file.write_bytes(ONE_PNG)
    block = {
        "type": "image",
        "media_type": "image/png",
        "data": base64.b64encode(ONE_PNG).decode(),
    }
    async with Session.start("scripted", **studio.options("- text: seen\n")) as session:
        await session.prompt("look", images=[file, block, {**block, "data": ONE_PNG}], **WAIT)
        await session.wait_idle(**WAIT)
        file.unlink()
        [message] = [part for part in session.messages if isinstance(part, UserMessage)]
        assert contents(message.images) == [ONE_PNG] * 3
        for wrong in ({**block, "media_type": "text/html"}, {**block, "data": "§"}, "none.png"):
            with pytest.raises(WrongUse):
                await session.prompt("look", images=[wrong])


async def test_what_the_runtime_cannot(studio: Studio) -> None:
    async with Session.start("scripted", **studio.options("- text: one\n")) as session:
        with pytest.raises(UnsupportedOption, match="embedded"):
            session.replace_messages([])
        with pytest.raises(UnsupportedOption, match=r"compact.*claude"):
            await session.compact()
        assert await session.abort_compaction() is False
        with pytest.raises(UnsupportedOption, match=r"fork.*claude"):
            await session.fork()
        await session.set_model("another")


async def test_clocks_stay_with_the_session(studio: Studio) -> None:
    options = studio.options("- text: begun\n  fault: {stall: 60}\n")
    clocks = Clocks(inactivity=0.4, abort=0.4)
    session = await Session.start("scripted", "go", clocks=clocks, **options)
    await session.detach()
    async with Session.open(session.session_id) as other:
        report = await other.wait_idle(**WAIT)
    assert report.error is not None
    assert report.error["kind"] == "timeout"


async def test_wrong_use_starts_nothing(studio: Studio) -> None:
    options = studio.options("- text: one\n")
    with pytest.raises(UnknownSession):
        await Session.open("nobody")
    with pytest.raises(UnknownSession):
        await Session.resume("nobody")
    with pytest.raises(WrongUse, match="unknown option"):
        await Session.start("scripted", modle="x", **options)  # type: ignore[call-arg]
    with pytest.raises(WrongUse, match="empty"):
        await Session.start("scripted", " ", **options)
    with pytest.raises(UnsupportedOption):
        await Session.start("scripted", drive="tmux", **options)
    assert studio.processes() == {}
    async with Session.start("scripted", name="one", **options) as session:
        with pytest.raises(WrongUse, match="is alive"):
            await Session.start("scripted", name="one", **options)
        with pytest.raises(WrongUse, match="empty"):
            await session.prompt("")
        with pytest.raises(WrongUse, match="unknown option"):
            await Session.resume("one", modle="x")  # type: ignore[call-arg]
        with pytest.raises(WrongUse, match="belongs to scripted"):
            await Session.open("one", runtime=get_adapter("codex"))


async def test_an_agent_that_does_not_come_up(studio: Studio) -> None:
    runtime = ScriptedRuntime()
    runtime.use_binary("false")
    with pytest.raises(Crashed, match="exited 1"):
        await Session.start(runtime, **studio.options("- text: one\n"))
    assert studio.processes() == {}


async def test_a_conversation_that_is_gone_is_not_resumed(studio: Studio) -> None:
    account = studio.work.parent / "account"
    options = studio.options("- text: one\n", account_dir=str(account))
    async with Session.start("scripted", "go", **options) as session:
        await session.wait_idle(**WAIT)
    for file in account.rglob("*"):
        if file.is_file():
            file.unlink()
    with pytest.raises(ResumeRefused):
        await Session.resume(session.session_id)
    assert studio.processes() == {}


@pytest.mark.parametrize("drive", ["rpc", "print"])
async def test_a_repeated_instruction_file_is_no_marker(studio: Studio, drive: Drive) -> None:
    rule = "Finish with a summary. ORCHESTRA_COMPLETE"
    (studio.work / "AGENTS.md").write_text(f"{rule}\n")
    options = studio.options(f"- text: '{rule}'\n- text: 'All pass. ORCHESTRA_COMPLETE'\n")
    async with Session.start("scripted", "go", drive=drive, **options) as session:
        await session.wait_idle(**WAIT)
        # What counts is what the agent was started with.
        (studio.work / "AGENTS.md").unlink()
        await session.prompt("on")
        await session.wait_idle(**WAIT)
    ends = of_kind(studio.events(session.session_id), "agent_end")
    assert [getattr(end, "marker_detected", None) for end in ends] == [False, True]


@pytest.mark.parametrize("drive", ["rpc", "print"])
async def test_a_budget_ends_the_turn_that_exceeds_it(studio: Studio, drive: Drive) -> None:
    script = "- text: cheap\n- {text: dear, shell: 'sleep 60; touch late'}\n- text: never\n"
    options = studio.options(script, budget_usd=0.015)
    options["provider_options"]["cost_per_turn"] = 0.01
    async with Session.start("scripted", "go", drive=drive, **options) as session:
        assert (await session.wait_idle(**WAIT)).status == "completed"
        await session.prompt("on")
        report = await session.wait_idle(**WAIT)
        assert report.status == "budget_exceeded"
        if drive == "print":
            # Nothing is left for another turn: it ends before its model is asked.
            await session.prompt("more")
            report = await session.wait_idle(**WAIT)
            assert (report.turn, report.status) == (3, "budget_exceeded")
    events = studio.events(session.session_id)
    assert [getattr(end, "text", "") for end in of_kind(events, "message_end")] == ["cheap", "dear"]
    assert not (studio.work / "late").exists()
    assert check_event_order(events) == []
