"""`bridle runtime`: what is listed, shown and set."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.runtimes.registry import get_adapter
from tests.support import asker
from tests.support.preset_agent import CONFIG, Place
from tests.support.terminal import Terminal


@pytest.fixture
def lib(tmp_path: Path) -> dict[str, str]:
    return {"PYTHONPATH": asker.install(tmp_path / "lib")}


def listed(place: Place, env: dict[str, str]) -> dict[str, dict[str, Any]]:
    done = place.bridle("runtime", "list", "--json", env=env)
    assert done.status == 0
    return {each["name"]: each for each in json.loads(done.out)["runtimes"]}


def test_every_runtime_is_listed_with_what_is_known(place: Place, lib: dict[str, str]) -> None:
    found = listed(place, lib)
    assert {"asker", "tiny", "feed", "absent", "broken"} <= set(found)
    assert [name for name, each in found.items() if each["default"]] == ["tiny"]
    mine = found["asker"]
    assert (mine["installed"], mine["version"], mine["dialect"]) == (True, "1.0", "asker 1")
    assert (mine["tested"], mine["declared_by"]) == (True, "adapter")
    assert mine["options"] == ["model_server", "settings"]
    assert mine["features"]["interactive"] is True
    assert found["feed"]["options"] == ["model"]
    assert found["tiny"]["declared_by"] == "configuration"
    assert found["absent"]["installed"] is False
    assert found["absent"]["hints"] == ["install it with `get no-such-agent`"]


def test_an_adapter_that_does_not_load_does_not_hide_the_others(
    place: Place, lib: dict[str, str]
) -> None:
    broken = listed(place, lib)["broken"]
    assert broken["installed"] is False
    assert "cannot load no_such_module:Nothing" in broken["reasons"][0]
    done = place.bridle("runtime", "show", "broken", env=lib)
    assert (done.status, "cannot load no_such_module:Nothing" in done.err) == (2, True)


def test_the_list_for_people(place: Place, lib: dict[str, str]) -> None:
    done = place.bridle("runtime", "list", env=lib)
    rows = {line[3:].split()[0]: line for line in done.out.splitlines()[1:-1]}
    assert rows["tiny"].startswith("*  tiny")
    assert "1.0" in rows["asker"]
    assert "not installed" in rows["absent"]
    assert "install it with `get no-such-agent`" in rows["absent"]


@pytest.mark.parametrize(
    ("runtime", "variable"),
    [
        ("claude", "ANTHROPIC_API_KEY"),
        ("codex", "CODEX_API_KEY"),
        ("copilot", "COPILOT_GITHUB_TOKEN"),
        ("gemini", "GEMINI_API_KEY"),
        ("cline", "CLINE_API_KEY"),
        ("pi", "ANTHROPIC_API_KEY"),
    ],
)
def test_the_hint_for_a_missing_login_names_the_key_variable(runtime: str, variable: str) -> None:
    assert f"set {variable}" in get_adapter(runtime).login_hint()


def test_the_list_fits_the_terminal(place: Place, lib: dict[str, str]) -> None:
    env = place.environment(**lib)
    with Terminal(place.command("runtime", "list"), env, place.project, columns=60) as seen:
        assert seen.finish() == 0
    assert max(map(len, seen.screen.splitlines())) <= 60


def test_doctor_shows_how_to_install_what_is_missing(place: Place) -> None:
    done = place.bridle("runtime", "doctor")
    assert "hint: install it with `get no-such-agent`" in done.out


def test_one_runtime_is_shown(place: Place, lib: dict[str, str]) -> None:
    shown = json.loads(place.bridle("runtime", "show", "asker", "--json", env=lib).out)
    assert shown == listed(place, lib)["asker"]
    text = place.bridle("runtime", "show", "asker", env=lib).out
    assert "asker 1" in text
    assert "model_server, settings" in text


def test_an_unknown_runtime_is_told_with_those_there_are(place: Place) -> None:
    done = place.bridle("runtime", "show", "x")
    assert done.status == 2
    assert done.err.startswith('bridle: error: Unknown runtime: "x". Available: absent, ')
    assert place.bridle("runtime", "set", "default", "x").status == 2


def test_the_default_is_set_in_the_users_file(place: Place) -> None:
    place.configure(CONFIG.replace("  default: tiny\n", ""))
    done = place.bridle("runtime", "set", "default", "feed", "--json")
    file = place.home / ".config/bridle/config.yaml"
    assert json.loads(done.out) == {
        "file": str(file),
        "key": "runtime.default",
        "value": "feed",
        "in_force": "feed",
    }
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(place.bridle("run", "echo a", "--json").out)["runtime"] == "feed"


def test_the_default_is_set_in_the_projects_file(place: Place) -> None:
    place.configure(f"# keep me\n{CONFIG}")
    (place.project / "sub").mkdir()
    assert place.bridle("runtime", "set", "default", "feed", "--project").status == 0
    text = (place.project / ".bridle/config.yaml").read_text()
    assert text == f"# keep me\n{CONFIG}".replace("default: tiny", "default: feed")
    assert not (place.home / ".config").exists()


def test_a_stronger_word_is_told(place: Place) -> None:
    done = place.bridle("runtime", "set", "default", "feed")
    assert done.status == 0
    assert "tiny stays the default here" in done.err


@pytest.mark.parametrize("words", [("runtime", "list"), ("runtime", "doctor"), ("run", "hi")])
def test_a_default_that_no_runtime_has_is_named_with_its_file(
    place: Place, words: tuple[str, ...]
) -> None:
    place.configure(CONFIG.replace("  default: tiny\n", "  default: tinny\n"))
    done = place.bridle(*words)
    file = place.project / ".bridle/config.yaml"
    line = CONFIG.splitlines().index("  default: tiny") + 1
    lead = f'bridle: error: {file}:{line}: runtime.default: Unknown runtime: "tinny". Available: '
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(lead)
    assert "did you mean `tiny`?" in done.err


def test_a_wrong_default_can_be_set_right(place: Place) -> None:
    place.configure(CONFIG.replace("  default: tiny\n", "  default: tinny\n"))
    done = place.bridle("runtime", "set", "default", "feed", "--project")
    assert done.status == 0
    assert json.loads(place.bridle("run", "echo a", "--json").out)["runtime"] == "feed"


@pytest.mark.parametrize("words", [["frobnicate"], ["set", "other", "x"], ["set", "default"]])
def test_wrong_use(place: Place, words: list[str]) -> None:
    done = place.bridle("runtime", *words)
    assert done.status == 2
    assert done.err.startswith("bridle: error: ")
    assert len(done.err.splitlines()) == 2
