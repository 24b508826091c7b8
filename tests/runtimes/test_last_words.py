"""What a CLI prints on stdout before it dies is in the error, for every runtime and drive."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.core import events as ev
from bridle.core.errors import STDOUT_TAIL
from bridle.core.options import RunOptions, SandboxMode
from bridle.process.spec import ProcessExit
from bridle.runs import prepare
from bridle.runtimes.contract import Adapter
from bridle.runtimes.preset.stream import PlainTextNormalizer
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.sessions.start import start_session
from bridle.sessions.store import SessionStore
from bridle.turns.recorder import Recorder
from tests.doctor.fakes import fake_cli
from tests.sessions.place import Place

REASON = "the moon is not reachable from here"
KEY = "sk-ant-api03-" + "q1w2e3r4t5y6u7i8o9p0" * 4
SAYS = f"echo '{REASON}, key {KEY}'; exit 1"
VERSIONS = {
    "aider": "0.86.1",
    "claude": "2.1.325 (Claude Code)",
    "claude-agent-acp": "0.49.0",
    "cline": "3.0.0",
    "codex": "codex-cli 0.166.0",
    "codex-acp": "0.16.0",
    "copilot": "1.0.89",
    "gemini": "0.61.0",
    "opencode": "1.18.34",
    "pi": "1.5.8",
}
CLIS = [name for name in available_runtimes() if name != "scripted"]


def fake(folder: Path, name: str, then: str = SAYS) -> Adapter:
    """A runtime whose CLI does nothing but tell its version and do `then`."""
    binary = get_adapter(name).binary
    fake_cli(folder / "bin", binary, version=VERSIONS[binary], then=then)
    return get_adapter(name)


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "local")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "place").mkdir()
    here = Place(tmp_path / "place")
    try:
        yield here
    finally:
        here.close()


def options(name: str, prompt: str, cwd: Path) -> RunOptions:
    # The one agent whose own sandbox needs another program to be installed.
    sandbox: SandboxMode | None = "off" if name == "codex-acp" else None
    return RunOptions(prompt=prompt, cwd=str(cwd), sandbox=sandbox)


def check_reason(text: str) -> None:
    assert REASON in text
    assert KEY not in text


@pytest.mark.parametrize("name", CLIS)
def test_of_a_run(name: str, tmp_path: Path) -> None:
    runtime = fake(tmp_path, name)
    run = prepare(runtime, options(name, "go", tmp_path))
    events = list(run.run.events())
    error = run.run.result.error
    assert error is not None
    assert error.exit_status == 1
    check_reason(error.message)
    check_reason(error.stdout_tail)
    [told] = [event for event in events if isinstance(event, ev.ErrorRaised)]
    check_reason(told.last_words)


def sessions() -> list[tuple[str, str]]:
    """Every runtime with every drive that it has."""
    found = [(name, drive) for name in CLIS for drive in get_adapter(name).features.drives]
    return [each for each in found if get_adapter(each[0]).session_by_print or each[1] != "print"]


@pytest.mark.parametrize(("name", "drive"), sessions())
def test_of_a_session(name: str, drive: ev.Drive, tmp_path: Path, place: Place) -> None:
    # No program with a terminal interface dies within its first milliseconds.
    runtime = fake(tmp_path, name, f"sleep 0.2; {SAYS}")
    place.env["PATH"] = os.environ["PATH"]
    host = place.host()
    store = SessionStore(place.home)
    record = start_session(
        place.home,
        store,
        runtime,
        options(name, "", place.work),
        env={**os.environ, **place.env},
        drive=drive,
    )
    store.close()
    place.sessions.append(record.session_id)
    if drive == "print":
        host.send(record, "go")
    report = host.idle(record)
    told = [event for event in place.events(record) if isinstance(event, ev.ErrorRaised)]
    assert told
    check_reason(told[-1].message)
    check_reason(told[-1].last_words)
    assert report.error is not None
    check_reason(report.error["message"])


def test_only_the_end_is_kept(tmp_path: Path) -> None:
    many = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i; done; exit 1"
    run = prepare(fake(tmp_path, "claude", many), options("claude", "go", tmp_path))
    for _ in run.run.events():
        pass
    error = run.run.result.error
    assert error is not None
    assert len(error.stdout_tail) == STDOUT_TAIL
    assert error.stdout_tail.endswith("line 1999\nline 2000")


def test_an_agent_that_answered_has_no_last_words(tmp_path: Path) -> None:
    """What is printed beside the protocol of a run that ends well is in no error."""
    run = prepare(fake(tmp_path, "claude", "echo noise; exit 0"), options("claude", "go", tmp_path))
    for _ in run.run.events():
        pass
    error = run.run.result.error
    assert error is not None
    assert error.stdout_tail == ""


def test_of_a_program_that_prints_plain_text() -> None:
    recorder = Recorder(runtime="plain", session_id="s", options=RunOptions(prompt="go"))
    normalizer = PlainTextNormalizer(recorder)
    normalizer.feed(f"{REASON}, key [redacted]".encode())
    normalizer.finish(recorder.with_last_words(ProcessExit(code=1)))
    error = recorder.result().error
    assert error is not None
    check_reason(error.message)
    check_reason(error.stdout_tail)
