"""Sessions of real agents on the scripted model: a place of their own, begun and taken up again."""

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridle.core.events import Drive
from bridle.core.options import ModelServer, RunOptions
from bridle.runtimes.contract import Adapter
from bridle.sessions import verbs
from bridle.sessions.start import resume_session, start_session
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.testing import ScriptedModel
from tests.sessions.place import Host, Place

LONG = 150.0
SCRATCH = Path(__file__).parents[2] / ".tmp" / "sessions"
KEY = "bridle-scripted-key"


@contextmanager
def real_place() -> Iterator[Place]:
    """A home in which a real agent can work, with a repository."""
    # Codex refuses to keep its files below the system's folder for temporary ones.
    folder = SCRATCH / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)
    here = Place(folder)
    (folder / "home").mkdir()
    here.env["TERM"] = "xterm-256color"
    subprocess.run(["git", "init", "-q"], cwd=here.work, env=here.env, check=True)
    try:
        yield here
    finally:
        here.close()


def begin(
    place: Place, runtime: Adapter, drive: Drive, model: ScriptedModel, **more: Any
) -> SessionRecord:
    """Start a session; `more` are further options."""
    options = RunOptions(
        prompt="",
        cwd=str(place.work),
        permission_mode="bypass",
        model_server=ModelServer(url=model.url, api_key=KEY),
        **more,
    )
    store = SessionStore(place.home)
    try:
        record = start_session(place.home, store, runtime, options, env=place.env, drive=drive)
    finally:
        store.close()
    place.sessions.append(record.session_id)
    return record


def go_on(place: Place, runtime: Adapter, record: SessionRecord) -> SessionRecord:
    """Start the session's next process."""
    env = {**place.env, "BRIDLE_MODEL_SERVER_KEY": KEY}
    store = SessionStore(place.home)
    try:
        known = store.get(record.session_id)
        return resume_session(place.home, store, runtime, known, env=env)
    finally:
        store.close()


def rest(host: Host, record: SessionRecord) -> str:
    """Wait until the agent is idle; returns the last text."""
    verb = verbs.WaitIdle(session=record.session_id, timeout=LONG)
    report = host.engine.call(lambda: host.service.call(verb)).result(LONG + 10)
    assert report is not None, "it never came to rest"
    assert (report.state, report.status) == ("ready", "completed"), report
    return report.text
