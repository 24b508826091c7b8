"""The lifecycle by handles, as a runtime offers it."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.config import load_config
from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.handles import Message, SessionFilter, SessionHandle, StartOptions
from bridle.core.options import RunOptions, SpawnOptions
from bridle.process.process_tree import kill_marked, look
from bridle.runtime import create_acp_runtime, get_runtime
from bridle.sessions.home import homes
from bridle.sessions.lock import SessionOver
from bridle.sessions.manager import SessionManager
from bridle.sessions.store import UnknownSession
from bridle.sessions.sync_session import SyncSession
from tests.sessions.place import wait
from tests.sessions.studio import DEADLINE, Studio
from tests.sessions.test_daemon import end_daemon


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Studio]:
    monkeypatch.setenv("BRIDLE_DAEMON_IDLE", "30")
    made = Studio(tmp_path)
    yield made
    end_daemon(made.home)
    made.close()


def start_options(studio: Studio, script: str, **fields: Any) -> StartOptions:
    options = studio.options(script)
    return StartOptions(
        work_dir=str(options.pop("cwd")),
        env={"BRIDLE_SCRIPT": options.pop("provider_options")["script"], "MINE": "yes"},
        options=options,
        **fields,
    )


async def test_a_life(studio: Studio) -> None:
    runtime = get_runtime("scripted")
    script = '- shell: "echo $MINE > env"\n- text: one\n- text: two\n- text: three\n'
    options = start_options(studio, script, initial_prompt="go", name="worker")
    handle = await runtime.start(options)
    assert (handle.runtime, handle.work_dir) == ("scripted", str(studio.work))
    assert handle.pid is not None
    assert handle.started_at <= (handle.ready_at or "")
    assert await runtime.detect_running(handle)
    os.kill(handle.pid, 0)
    receipt = await runtime.send_message(handle, Message(text="more", delivery="rpc"))
    assert receipt.error is None
    assert (await runtime.list_sessions())[0].session_id == handle.session_id
    assert await runtime.list_sessions(SessionFilter(living=False)) == []
    assert len(await runtime.list_sessions(SessionFilter(name="worker", living=True))) == 1
    assert await runtime.list_sessions(SessionFilter(work_dir=str(studio.work.parent))) == []
    with pytest.raises(WrongUse, match="not by tmux"):
        await runtime.send_message(handle, Message(text="more", delivery="tmux"))
    with pytest.raises(WrongUse, match="is alive"):
        await runtime.resume(handle)
    # What the daemon drives can be taken over, and is ready when its turns are over.
    session = SyncSession.open(handle.session_id)
    assert session.wait_idle(timeout=DEADLINE).text == "two"
    session.detach()
    assert await runtime.is_ready(handle)
    await runtime.stop(handle, "enough")
    await runtime.stop(handle, "again")
    assert not await runtime.detect_running(handle)
    assert not await runtime.is_ready(handle)
    with pytest.raises(SessionOver):
        await runtime.send_message(handle, Message(text="too late"))
    resumed = await runtime.resume(handle)
    assert (resumed.session_id, resumed.pid != handle.pid) == (handle.session_id, True)
    assert (await runtime.send_message(resumed, Message(text="go on"))).delivered
    await runtime.stop(resumed)
    assert (studio.work / "env").read_text() == "yes\n"  # a file of a few bytes
    assert studio.processes() == {}


def test_the_sync_twin_and_wrong_use(studio: Studio) -> None:
    runtime = get_runtime("scripted")
    options = start_options(studio, "- text: one\n", runtime_name="scripted")
    handle = runtime.start_sync(options)
    assert runtime.is_ready_sync(handle)
    assert runtime.detect_running_sync(handle)
    assert runtime.send_message_sync(handle, Message(text="hello", delivery="stdin")).delivered
    with pytest.raises(WrongUse, match="belongs to scripted"):
        get_runtime("claude").stop_sync(handle)
    runtime.stop_sync(handle)
    assert runtime.resume_sync(handle).session_id == handle.session_id
    runtime.stop_sync(handle)
    assert [each.session_id for each in runtime.list_sessions_sync()] == [handle.session_id]
    assert get_runtime("claude").list_sessions_sync() == []
    nobody = SessionHandle(runtime="scripted", session_id="nobody", work_dir=str(studio.work))
    assert not runtime.detect_running_sync(nobody)
    assert not runtime.is_ready_sync(nobody)
    with pytest.raises(UnknownSession):
        runtime.stop_sync(nobody)


def test_a_session_within_an_agent_has_its_own_names(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    (studio.work / ".bridle").mkdir()
    (studio.work / ".bridle" / "config.yaml").write_text("profiles: [gastown]\n")
    outer = "BRIDLE_SESSION_ID BRIDLE_AGENT_NAME BRIDLE_TASK BRIDLE_ACTOR GT_SESSION_ID GT_POLECAT"
    for name in (*outer.split(), "GT_WORKDIR", "GT_ROLE", "BD_ACTOR"):
        monkeypatch.setenv(name, "outer")
    runtime = get_runtime("scripted")
    options = start_options(studio, '- shell: "env > seen"\n- text: one\n', initial_prompt="go")
    options = msgspec.structs.replace(options, env={**options.env, "BRIDLE_AGENT_NAME": "ivy"})
    handle = runtime.start_sync(options)
    home = homes(str(studio.work), os.environ)[0]
    try:
        with SessionManager(str(studio.work)) as manager:
            manager.wait(handle.session_id, DEADLINE)
            record = manager.show(handle.session_id)
        text = (studio.work / "seen").read_text()
        seen = dict(line.partition("=")[::2] for line in text.splitlines())
        rig = studio.work.name
        assert (record.agent, record.task, record.actor) == ("ivy", None, f"{rig}/ivy")
        assert seen["GT_SESSION_ID"] == handle.session_id
        assert (seen["GT_POLECAT"], seen["GT_RIG"]) == ("ivy", rig)
        assert seen["GT_WORKDIR"] == str(studio.work)
        assert seen["BD_ACTOR"] == seen["BRIDLE_ACTOR"] == f"{rig}/ivy"
        assert not {"BRIDLE_TASK", "GT_ROLE"} & seen.keys()
        runtime.stop_sync(handle)
    finally:
        end_daemon(home)
        kill_marked(handle.session_id)


def test_who_the_agent_is_by_its_environment(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flags and `Identity` are not the only ways to say so: an orchestrator that has only handles
    says it by the canonical variables."""
    (studio.work / ".bridle").mkdir()
    monkeypatch.setenv("BRIDLE_ACTOR", "gp/ivy")
    runtime = get_runtime("scripted")
    options = start_options(studio, '- shell: "env > seen"\n- text: one\n', initial_prompt="go")
    told = {"BRIDLE_AGENT_NAME": "ivy", "BRIDLE_TASK": "gp-1", "BRIDLE_CAPABILITY": "builder"}
    options = msgspec.structs.replace(options, env={**options.env, **told})
    handle = runtime.start_sync(options)
    home = homes(str(studio.work), os.environ)[0]
    try:
        assert home.project == str(studio.work)
        with SessionManager(str(studio.work)) as manager:
            manager.wait(handle.session_id, DEADLINE)
            record = manager.show(handle.session_id)
        seen = dict(
            line.partition("=")[::2] for line in (studio.work / "seen").read_text().splitlines()
        )
        assert (record.agent, record.task, record.actor) == ("ivy", "gp-1", "gp/ivy")
        assert (record.capability, record.guard) == ("builder", "hook command")
        assert record.project == seen["BRIDLE_PROJECT"] == str(studio.work)
        assert (seen["BRIDLE_AGENT_NAME"], seen["BRIDLE_ACTOR"]) == ("ivy", "gp/ivy")
        found = runtime.list_sessions_sync(SessionFilter(work_dir=str(studio.work), agent="ivy"))
        assert [each.session_id for each in found] == [handle.session_id]
        runtime.stop_sync(handle)
    finally:
        end_daemon(home)
        kill_marked(handle.session_id)


@pytest.mark.parametrize(
    ("name", "fields", "problem"),
    [
        ("scripted", {"runtime_name": "codex"}, WrongUse),
        ("scripted", {"mode": "tmux"}, UnsupportedOption),
        ("aider", {"mode": "tmux"}, UnsupportedOption),
        ("", {}, WrongUse),
    ],
)
def test_what_is_refused_starts_nothing(
    studio: Studio, name: str, fields: dict[str, str], problem: type[Exception]
) -> None:
    unknown = create_acp_runtime(id="mine-alone", binary="true")
    runtime = get_runtime(name) if name else unknown
    with pytest.raises(problem):
        runtime.start_sync(start_options(studio, "- text: one\n", **fields))
    assert studio.processes() == {}


def configure(studio: Studio, text: str) -> None:
    (studio.work / ".bridle").mkdir()
    (studio.work / ".bridle" / "config.yaml").write_text(text)


def test_a_runtime_that_only_the_configuration_declares(studio: Studio) -> None:
    agent = Path(__file__).parents[1] / "runtimes" / "acp" / "bad_agent.py"
    configure(
        studio,
        "runtime:\n  adapters:\n    toy:\n      protocol: acp\n"
        f"      binary: {sys.executable}\n      flags: [{agent}, silent]\n",
    )
    runtime = get_runtime("toy", load_config(str(studio.work)))
    handle = runtime.start_sync(StartOptions(work_dir=str(studio.work)))
    home = homes(str(studio.work), os.environ)[0]
    try:
        assert (handle.runtime, runtime.is_ready_sync(handle)) == ("toy", True)
        runtime.stop_sync(handle)
    finally:
        end_daemon(home)
        kill_marked(handle.session_id)


def test_the_configured_delivery_is_honoured(studio: Studio) -> None:
    configure(studio, "runtime: {adapters: {scripted: {delivery: tmux}}}\n")
    home = homes(str(studio.work), os.environ)[0]
    with pytest.raises(UnsupportedOption, match="tmux"):
        get_runtime("scripted").start_sync(start_options(studio, "- text: one\n"))
    try:
        with SessionManager(str(studio.work)) as manager:
            wanted = RunOptions(
                prompt="",
                cwd=str(studio.work),
                provider_options=studio.options("- text: one\n")["provider_options"],
            )
            record = manager.start(get_runtime("scripted").adapter, wanted, drive="rpc")
            # A hand-over honours it too.
            with pytest.raises(UnsupportedOption, match="tmux"):
                manager.hand_over(record.session_id, get_runtime("scripted").adapter, wanted)
            manager.stop(record.session_id)
    finally:
        end_daemon(home)


def test_a_session_takes_a_runtime_or_its_adapter(studio: Studio) -> None:
    runtime = get_runtime("scripted")
    for chosen in (runtime, runtime.adapter):
        options = studio.options("- text: one\n")
        with SyncSession.start(chosen, "go", **options) as session:
            assert session.wait_idle(timeout=DEADLINE).text == "one"
            name = session.session_id
            with pytest.raises(WrongUse, match="not to claude"):
                SyncSession.open(name, runtime=get_runtime("claude"))


def test_a_killed_agent_is_not_running(studio: Studio) -> None:
    runtime = get_runtime("scripted")
    handle = runtime.start_sync(start_options(studio, "- text: one\n"))
    assert handle.pid is not None
    assert runtime.detect_running_sync(handle)
    os.kill(handle.pid, signal.SIGKILL)
    wait(lambda: look(handle.pid or 0) is None)
    assert not runtime.detect_running_sync(handle)


@pytest.mark.parametrize(
    ("made", "fields", "field"),
    [
        (StartOptions, {"work_dir": ".", "mode": "foo"}, "StartOptions.mode cannot be 'foo'"),
        (SessionFilter, {"state": "bogus"}, "SessionFilter.state cannot be 'bogus'"),
        (Message, {"text": "x", "delivery": "mail"}, "Message.delivery cannot be 'mail'"),
        (
            RunOptions,
            {"prompt": "x", "permission_mode": "allways"},
            "RunOptions.permission_mode cannot be 'allways'",
        ),
        (RunOptions, {"prompt": "x", "sandbox": "on"}, "RunOptions.sandbox cannot be 'on'"),
        (SpawnOptions, {"model": "m", "permission_mode": ""}, "permission_mode cannot be ''"),
    ],
)
def test_closed_values_are_checked_in_python(
    made: Callable[..., object], fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(WrongUse, match=field) as raised:
        made(**fields)
    assert raised.value.hint.startswith("it is one of: ")
    assert SessionFilter().state is None
