"""The library reads the same configuration as the command line, by the same function."""

from pathlib import Path

import pytest

import bridle
from tests.support.preset_agent import CONFIG, Place, make_place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = make_place(tmp_path)
    monkeypatch.chdir(place.project)
    return place


def test_runtime_and_model_come_from_files_and_environment(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.configure(CONFIG + "models: {fast: small-1}\n")
    assert bridle.run_sync("echo a").runtime == "tiny"
    monkeypatch.setenv("BRIDLE_RUNTIME", "feed")
    monkeypatch.setenv("BRIDLE_MODEL", "fast")
    assert bridle.run_sync("args").text == "['--stdin', '--model', 'small-1']"
    assert bridle.run_sync("args", model="x").text == "['--stdin', '--model', 'x']"


def test_the_configuration_of_the_runs_own_folder_counts(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(bridle.errors.UnknownRuntime):
        bridle.run_sync("echo a", runtime="tiny", cwd=str(other))


def test_budgets_hold(place: Place) -> None:
    place.configure(CONFIG + "budgets: {runSeconds: 0.5}\n")
    result = bridle.run_sync("wait")
    assert (result.status, result.exit_status) == ("timed_out", 7)


@pytest.mark.anyio
async def test_the_async_face_does_the_same(place: Place) -> None:
    assert (await bridle.run("echo a")).text == "a"
    async with bridle.stream("echo b") as events:
        kinds = [type(event).__name__ async for event in events]
    assert kinds[0] == "SessionStart"
    assert events.result is not None
    assert events.result.text == "b"
