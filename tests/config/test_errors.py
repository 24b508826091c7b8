"""Every mistake in a file is named with its line and the nearest right key."""

import os
from pathlib import Path

import pytest

from bridle.config import load_config
from bridle.config.yaml_check import read_file
from bridle.core.errors import ConfigError
from bridle.core.spelling import nearest


def problems(tmp_path: Path, text: str | bytes) -> list[str]:
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return [line.removeprefix(f"{path}:") for line in read_file(str(path))[1]]


CASES: dict[str, tuple[str | bytes, str]] = {
    "unknown key, near one": (
        "runtime:\n  defualt: pi\n",
        "2: unknown key `runtime.defualt`; did you mean `default`?",
    ),
    "unknown key, snake case": (
        "runtime:\n  pi:\n    model_map: {a: b}\n",
        "3: unknown key `runtime.pi.model_map`; did you mean `modelMap`?",
    ),
    "unknown key, far": (
        "xyzzy: 1\n",
        "1: unknown key `xyzzy`; known keys: runtime, providers, models, budgets, prices, guards, "
        "sessions, hooks, profiles",
    ),
    "unknown key below an open name": (
        "models:\n  fast:\n    model: m\n    provdier: p\n",
        "4: unknown key `models.fast.provdier`; did you mean `provider`?",
    ),
    "number for a text": (
        "runtime:\n  default: 3\n",
        "2: runtime.default: must be a string, not 3",
    ),
    "text for a number": (
        'budgets:\n  runUsd: "1"\n',
        '2: budgets.runUsd: must be a number, not "1"',
    ),
    "yes is a text": (
        "budgets: {runSeconds: yes}\n",
        '1: budgets.runSeconds: must be a number, not "yes"',
    ),
    "true is no number": (
        "budgets: {runSeconds: true}\n",
        "1: budgets.runSeconds: must be a number, not true",
    ),
    "number out of range": (
        "budgets: {runSeconds: -1}\n",
        "1: budgets.runSeconds: must be a number above 0, not -1",
    ),
    "number without end": (
        "budgets: {runSeconds: .inf}\n",
        "1: budgets.runSeconds: must be a number above 0, not .inf",
    ),
    "number below the least": (
        "sessions: {startup: -1}\n",
        "1: sessions.startup: must be a number of 0 or more, not -1",
    ),
    "a clock that must run": (
        "sessions: {abort: 0}\n",
        "1: sessions.abort: must be a number above 0, not 0",
    ),
    "whole number below the least": (
        "runtime: {adapters: {pi: {ready: {retries: -2}}}}\n",
        "1: runtime.adapters.pi.ready.retries: must be a whole number of 0 or more, not -2",
    ),
    "unknown delivery": (
        "runtime: {adapters: {pi: {delivery: stdni}}}\n",
        "1: runtime.adapters.pi.delivery: must be rpc or stdin or tmux, not "
        '"stdni"; did you mean `stdin`?',
    ),
    "one command instead of a list": (
        "hooks: {SessionStart: notify}\n",
        '1: hooks.SessionStart: must be a list, not "notify"',
    ),
    "unknown hook": (
        "hooks:\n  sessionStart: [notify]\n",
        "2: unknown key `hooks.sessionStart`; did you mean `SessionStart`?",
    ),
    "unknown profile": (
        "profiles: [gastwon]\n",
        '1: profiles[0]: must be forge or gastown or overstory, not "gastwon"; '
        "did you mean `gastown`?",
    ),
    "a number for the runtime": (
        "runtime: 3\n",
        "1: runtime: must be a string, not 3",
    ),
    "wrong choice": (
        "runtime:\n  adapters:\n    a:\n      binary: b\n      prompt: stdni\n",
        '5: runtime.adapters.a.prompt: must be argument or stdin, not "stdni"; '
        "did you mean `stdin`?",
    ),
    "list for a mapping": (
        "runtime: [a]\n",
        "1: runtime: must be a mapping, not a list",
    ),
    "text for a list": (
        "runtime: {adapters: {a: {flags: -x}}}\n",
        '1: runtime.adapters.a.flags: must be a list, not "-x"',
    ),
    "wrong item": (
        "runtime: {adapters: {a: {flags: [a, 2]}}}\n",
        "1: runtime.adapters.a.flags[1]: must be a string, not 2",
    ),
    "neither form of a model": (
        "models:\n  a: 3\n",
        "2: models.a: must be a string or a mapping, not 3",
    ),
    "missing key": ("models:\n  a: {provider: p}\n", "2: models.a: `model` is missing"),
    "duplicate key": (
        "runtime:\n  default: a\n  default: b\n",
        "3: duplicate key `runtime.default` (first on line 2)",
    ),
    "duplicate key in an open section": (
        "runtime: {adapters: {pi: {options:\n  {a: 1,\n  a: 2}}}}\n",
        "3: duplicate key `runtime.adapters.pi.options.a` (first on line 2)",
    ),
    "key that is no text": ("1: a\n", "1: the file: a key must be a string; quote it"),
    "not a mapping": ("- a\n", "1: the file: must be a mapping, not a list"),
    "unknown tag": (
        "runtime: {default: !secret x}\n",
        "1: runtime.default: must be a string, not x",
    ),
    "not utf-8": (b"runtime:\n  default: \xff\n", "2: is not UTF-8 text"),
    "endless alias": ("models: &a\n  b: *a\n", "1: nested too deeply, or too many aliases"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    text, wanted = CASES[name]
    assert problems(tmp_path, text) == [wanted]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("runtime:\n  default: [a\nmodels: {}\n", 3),
        ("runtime:\n\tdefault: a\n", 2),
        ("runtime: {}\n---\nmodels: {}\n", 2),
        ("a: b: c\n", 1),
        ("a: \x01\n", None),
    ],
)
def test_broken_yaml_is_told_with_its_line(tmp_path: Path, text: str, line: int | None) -> None:
    (told,) = problems(tmp_path, text)
    assert "not valid YAML: " in told
    assert len(told.splitlines()) == 1
    if line is not None:
        assert told.startswith(f"{line}: not valid YAML: ")


def test_all_mistakes_are_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "budgets: {runUsd: x}\nruntime:\n  defalt: a\nwatchdgo: {}\n"
    assert [line.split(":")[0] for line in problems(tmp_path, text)] == ["1", "3", "4"]


def test_a_bomb_of_aliases_is_refused_in_bounded_work(tmp_path: Path) -> None:
    lines = ["runtime: {adapters: {pi: {options: {", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x],"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]," for n in range(1, 9)]
    lines += ["}}}}"]
    assert problems(tmp_path, "\n".join(lines)) == ["1: nested too deeply, or too many aliases"]


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    assert "larger than 1 MiB" in problems(tmp_path, "# " + "x" * (1 << 20))[0]


@pytest.mark.parametrize("text", ["", "# nothing\n", "runtime:\n", "---\n", "models:\nguards:\n"])
def test_empty_files_and_sections_say_nothing(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == []


def test_a_right_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "runtime: {pi: {modelMap: {opus: a/b}}, adapters: {pi: {options:"
        " {deep: [1, 2.5, true, null, {a: b}]}}}}\nmodels: {x: y, z: {model: m, env: {A: '1'}}}\n"
    )
    values, wrong = read_file(str(path))
    assert wrong == []
    assert values == {
        "runtime": {
            "pi": {"modelMap": {"opus": "a/b"}},
            "adapters": {"pi": {"options": {"deep": [1, 2.5, True, None, {"a": "b"}]}}},
        },
        "models": {"x": "y", "z": {"model": "m", "env": {"A": "1"}}},
    }


def test_mistakes_of_both_files_are_told_at_once(tmp_path: Path) -> None:
    user = tmp_path / ".config/bridle/config.yaml"
    project = tmp_path / ".bridle/config.yaml"
    for path in (user, project):
        path.parent.mkdir(parents=True)
        path.write_text("nope: 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(str(tmp_path), {"HOME": str(tmp_path)})
    assert str(user) in caught.value.message
    assert str(project) in caught.value.message
    assert caught.value.exit_code == 2


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".bridle/config.yaml").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(str(tmp_path), {"HOME": str(tmp_path)})


def test_a_dangling_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".bridle").mkdir()
    os.symlink("nowhere", tmp_path / ".bridle/config.yaml")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config(str(tmp_path), {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("word", "near"), [("DEFAULT", "default"), ("print-command", "printCommand"), ("zzz", None)]
)
def test_nearest(word: str, near: str | None) -> None:
    assert nearest(word, ["default", "printCommand"]) == near
