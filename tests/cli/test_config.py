"""`bridle config show|check|init`."""

import json
import re
from pathlib import Path

import pytest

from bridle.cli.config import TEMPLATE
from bridle.config.yaml_check import read_file
from tests.support.preset_agent import CONFIG, Place


def settings(place: Place, *words: str, env: dict[str, str] | None = None) -> dict[str, object]:
    done = place.bridle("config", "show", "--json", *words, env=env)
    assert done.status == 0, done.err
    return {
        each["key"]: (each["value"], each["source"], each["line"])
        for each in json.loads(done.out)["settings"]
    }


def test_show_says_where_each_value_comes_from(place: Place) -> None:
    project = str(place.project / ".bridle/config.yaml")
    user = place.home / ".config/bridle/config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("budgets:\n  runUsd: 2\nruntime: scripted\n")
    found = settings(place)
    assert found["runtime.default"] == ("tiny", project, 2)
    assert found["budgets.runUsd"] == (2.0, str(user), 2)
    assert found["sessions.permission"] == (300.0, "default", None)
    assert found["runtime.adapters.feed.prompt"] == ("stdin", project, 9)
    assert "budgets.runSeconds" not in found
    by_variable = settings(place, env={"BRIDLE_RUNTIME": "feed", "BRIDLE_MODEL": "m"})
    assert by_variable["runtime.default"] == ("feed", "BRIDLE_RUNTIME", None)
    assert by_variable["model"] == ("m", "BRIDLE_MODEL", None)
    (place.project / ".bridle/config.yaml").unlink()
    assert settings(place)["runtime.default"] == ("scripted", str(user), 3)


def test_show_of_one_section_and_of_an_unknown_key(place: Place) -> None:
    assert set(settings(place, "runtime.adapters.absent")) >= {
        "runtime.adapters.absent.binary",
        "runtime.adapters.absent.install",
    }
    done = place.bridle("config", "show", "runtime.defualt")
    assert (done.status, "did you mean `runtime.default`?" in done.err) == (2, True)
    text = place.bridle("config", "show", "runtime.default").out
    assert re.fullmatch(r"runtime\.default  tiny  \(.*config\.yaml:2\)\n", text)


def test_show_hides_secrets(place: Place) -> None:
    provider = "{baseUrl: http://x, env: {MY_API_KEY: sk-1234567890abcdef}}"
    place.configure(f"{CONFIG}providers:\n  p: {provider}\n")
    done = place.bridle("config", "show")
    assert "providers.p.env.MY_API_KEY  [secret]" in re.sub(" +", "  ", done.out)
    assert "1234567890abcdef" not in done.out
    env = {"BRIDLE_MODEL_SERVER": "http://127.0.0.1:1", "BRIDLE_MODEL_SERVER_KEY": "keykeykey"}
    served = place.bridle("config", "show", env=env)
    assert "http://127.0.0.1:1" in served.out
    assert "keykeykey" not in served.out


def test_check_lists_every_mistake_with_its_place(place: Place) -> None:
    assert place.bridle("config", "check").status == 0
    place.configure("runtmie: x\nbudgets:\n  runUsd: much\n")
    done = place.bridle("config", "check")
    assert done.status == 2
    first, second = done.out.splitlines()
    assert re.search(r"config\.yaml:1: unknown key `runtmie`", first)
    assert re.search(r"config\.yaml:3: budgets\.runUsd: must be a number", second)
    found = json.loads(place.bridle("config", "check", "--json").out)
    assert [each["line"] for each in found["problems"]] == [1, 3]
    assert found["files"] == [str(place.project / ".bridle/config.yaml")]
    place.configure("runtime:\n  default: nope\n")
    wrong = place.bridle("config", "check")
    assert (wrong.status, "nope" in wrong.out) == (2, True)


def test_init_creates_a_valid_commented_file_once(place: Place, tmp_path: Path) -> None:
    exists = place.bridle("config", "init")
    assert (exists.status, "exists" in exists.err) == (2, True)
    path = place.project / ".bridle/config.yaml"
    assert path.read_text() == CONFIG
    path.unlink()
    assert json.loads(place.bridle("config", "init", "--json").out) == {"file": str(path)}
    assert path.read_text() == TEMPLATE
    assert place.bridle("config", "check").status == 0
    user = place.bridle("config", "init", "--user")
    assert user.out == f"{place.home}/.config/bridle/config.yaml\n"
    plain = tmp_path / "plain.yaml"
    plain.write_text(re.sub(r"(?m)^#(?! \S)", "", TEMPLATE))
    values, problems = read_file(str(plain))
    assert problems == []
    assert {"runtime", "providers", "models", "budgets", "guards", "hooks"} <= set(values)


def test_the_profile_forge_may_stand_in_a_file(place: Place) -> None:
    place.configure(f"{CONFIG}profiles: [forge]\n")
    env = {"FORGE_BACKEND": "feed"}
    assert settings(place, env=env)["runtime.default"] == ("feed", "FORGE_BACKEND", None)
    assert place.bridle("run", "echo a", env=env).out == "a\n"


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_backend_is_cut_only_when_its_whole_name_is_unknown(place: Place, how: str) -> None:
    place.configure(f"{CONFIG}    my-cli:\n      binary: ./agent\n")

    def run(name: str) -> str:
        if how == "flag":
            return place.bridle("run", "echo a", "--backend", name, "--json").out
        return place.bridle("run", "echo a", "--json", env={"BRIDLE_BACKEND": name}).out

    assert json.loads(run("my-cli"))["runtime"] == "my-cli"
    assert json.loads(run("tiny-cli"))["runtime"] == "tiny"


def test_a_backend_by_an_sdk_is_answered_with_the_right_name(place: Place) -> None:
    done = place.bridle("run", "a", "--backend", "codex-sdk")
    assert done.status == 2
    assert "hint: `codex` drives the same agent, by its CLI" in done.err
