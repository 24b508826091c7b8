"""The documentation is true: its examples run, its traces are what happens."""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridle import running
from bridle.core import entry_points
from bridle.core import events as ev
from bridle.core.errors import Overloaded
from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.drives.processes import kill_marked
from bridle.drives.recorder import Recorder
from bridle.drives.spec import ProcessExit
from bridle.sessions.home import user_home
from bridle.sessions.hosting import close_hosts
from bridle.sessions.store import SessionStore
from bridle.streaming import stream_sync
from bridle.testing.contract import check_event_order
from tests.sessions.test_daemon import end_daemon
from tests.support.tiny_agent import TinyRuntime
from tests.support.trace import render

DOCS = Path(__file__).parent.parent / "docs"
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)
TRACE = re.compile(r"### (.*?)\n.*?```text\n(.*?)```", re.DOTALL)

EVERY = EXAMPLE.findall((DOCS / "library.md").read_text())
EXAMPLES = [example for example in EVERY if '"scripted"' not in example[0]]
SESSIONS = [example for example in EVERY if '"scripted"' in example[0]]
SESSIONS += EXAMPLE.findall((DOCS / "sessions.md").read_text())
PLAY = [
    {"text": "I will write it.", "shell": "echo hello > hello.txt"},
    {"text": "It is written."},
    {"text": "Nothing more to do."},
]


@pytest.mark.parametrize(("code", "shown"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_library_page(
    code: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_leftovers: Callable[[], str],
) -> None:
    from bridle import config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "new_session_id", no_leftovers)
    monkeypatch.setattr(
        entry_points, "_found", {"claude": "tests.support.standing:StandingRuntime"}
    )
    monkeypatch.setattr(config, "load_config", lambda cwd=None: config.Config(), raising=False)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "library.md", "exec"), {"__name__": "example"})
    assert shown, "an example without its output proves nothing"
    assert out.getvalue() == shown


@pytest.fixture
def sessions_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of a session's is left, whatever its example did."""
    monkeypatch.setenv("BRIDLE_DAEMON_IDLE", "30")
    home = user_home(os.environ)
    yield
    end_daemon(home)
    close_hosts()
    store = SessionStore(home)
    left = [record.session_id for record in store.all() if kill_marked(record.session_id)]
    store.close()
    assert left == []


@pytest.mark.usefixtures("sessions_end")
@pytest.mark.parametrize(("code", "shown"), SESSIONS, ids=range(len(SESSIONS)))
def test_an_example_of_sessions(
    code: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    playing = {"provider_options": {"script": PLAY}, "permission_mode": "bypass"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "sessions.md", "exec"), {"__name__": "example", "playing": playing})
    assert shown, "an example without its output proves nothing"
    assert out.getvalue() == shown


def played(script: str, *, abort_at: str = "") -> list[Event]:
    events = stream_sync(script, runtime=TinyRuntime())
    got: list[Event] = []
    for event in events:
        got.append(event)
        if abort_at and isinstance(event, ev.MessageUpdate) and event.text == abort_at:
            events.abort()
    return got


def recorder() -> Recorder:
    made = Recorder(runtime="test", session_id="s", options=RunOptions(prompt="x"))
    made.session_started("native")
    made.turn_started()
    return made


def said(made: Recorder, text: str) -> None:
    made.message_started()
    made.text_delta(text)
    made.message_ended()


def retried() -> list[Event]:
    made = recorder()
    made.retrying(1, 500, Overloaded("no capacity"))
    made.retrying(2, 1000, Overloaded("no capacity"))
    said(made, "here I am")
    made.turn_ended()
    made.finish(ProcessExit(code=0))
    return made.drain()


def several_turns() -> list[Event]:
    made = recorder()
    said(made, "started a build in the background")
    made.turn_ended()
    made.turn_started()
    said(made, "the build is done")
    made.turn_ended()
    made.finish(ProcessExit(code=0))
    return made.drain()


def died() -> list[Event]:
    made = recorder()
    said(made, "let me see")
    made.tool_started("t1", "shell", {"command": "make"})
    made.tool_updated("t1", "cc -c a.c")
    made.message_started()
    made.text_delta("meanwhile I thi")
    made.finish(ProcessExit(code=-9))
    return made.drain()


TRACES: dict[str, Callable[[], list[Event]]] = {
    "A turn with a tool": lambda: played("say I look\ntool ls\nsay done"),
    "A failure": lambda: played("say hm\nfail slow down"),
    "A death in the middle of a tool and a sentence": died,
    "Retries": retried,
    "An abort": lambda: played("hang", abort_at="hanging"),
    "Several turns in one process": several_turns,
}


def test_the_traces_are_what_happens() -> None:
    shown = dict(TRACE.findall((DOCS / "events.md").read_text()))
    for name, play in TRACES.items():
        events = play()
        assert check_event_order(events) == []
        assert shown.pop(name, "missing") == render(events), name
    assert shown == {}


def test_every_event_is_in_the_table() -> None:
    page = (DOCS / "events.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    for cls in ev.AnyEvent.__args__:
        tag = cls.__struct_config__.tag
        [row] = [row for row in rows if f"`{tag}`" in row.split("|")[1]]
        for field in cls.__struct_fields__:
            if field not in ev.Event.__struct_fields__:
                assert field in row.split("|")[2], (tag, field)
