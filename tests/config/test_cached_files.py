"""An unchanged file is not parsed twice, and a changed one always is."""

import json
import os
import sys
from pathlib import Path

import pytest

from bridle.config import load, load_config, yaml_check
from bridle.core.errors import ConfigError


class Project:
    """A project folder whose configuration is read, with every parse of a file noted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / ".bridle/config.yaml"
        self.file.parent.mkdir()
        self.env = {"HOME": str(folder / "home")}
        self.cache = folder / "home/.cache/bridle/config.json"
        self.parsed: list[str] = []
        real = yaml_check.read_file

        def noted(path: str) -> object:
            self.parsed.append(path)
            return real(path)

        monkeypatch.setattr(yaml_check, "read_file", noted)

    def default(self) -> str | None:
        return load_config(str(self.file.parents[1]), self.env).runtime.default


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


def test_an_unchanged_file_is_parsed_once(project: Project) -> None:
    project.file.write_text("runtime: {default: pi}\n")
    assert [project.default() for _ in range(3)] == ["pi"] * 3
    assert len(project.parsed) == 1
    assert project.cache.stat().st_mode & 0o777 == 0o600
    assert project.cache.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(project.cache.parent) == ["config.json"]


def test_a_change_counts_even_when_the_time_of_the_file_does_not_show_it(
    project: Project,
) -> None:
    project.file.write_text("runtime: {default: codex}\n")
    os.utime(project.file, (1, 1))
    assert project.default() == "codex"
    project.file.write_text("runtime: {default: aider}\n")
    os.utime(project.file, (1, 1))
    assert project.default() == "aider"


def test_mistakes_are_reported_every_time(project: Project) -> None:
    project.file.write_text("nope: 1\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match="unknown key `nope`"):
            project.default()
    assert not project.cache.exists()


def test_another_schema_makes_a_new_cache(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.file.write_text("runtime: {default: pi}\n")
    project.default()
    monkeypatch.setattr(load, "__version__", "99")
    project.default()
    assert len(project.parsed) == 2


@pytest.mark.parametrize("damage", ["", "{", '{"entries": 3}', "\x00"])
def test_a_damaged_cache_is_written_again(project: Project, damage: str) -> None:
    project.file.write_text("runtime: {default: pi}\n")
    project.default()
    project.cache.write_text(damage)
    assert project.default() == "pi"
    assert project.default() == "pi"
    assert len(project.parsed) == 2


def test_a_cache_that_cannot_be_written_only_costs_time(project: Project) -> None:
    Path(project.env["HOME"]).write_text("not a folder")
    project.file.write_text("runtime: {default: pi}\n")
    assert [project.default(), project.default()] == ["pi", "pi"]
    assert len(project.parsed) == 2


def test_the_cache_keeps_a_limited_number_of_files(project: Project, tmp_path: Path) -> None:
    for number in range(load._MOST_CACHED + 5):
        file = tmp_path / f"{number}.yaml"
        file.write_text(f"runtime: {{default: r{number}}}\n")
        load._cached_values(str(file), project.env)
    kept = json.loads(project.cache.read_text())["entries"]
    assert len(kept) == load._MOST_CACHED
    assert str(file) in kept


def test_a_cached_file_imports_no_yaml_reader(project: Project) -> None:
    import subprocess

    project.file.write_text("runtime: {default: pi}\n")
    project.default()
    code = (
        "import sys; from bridle.config import load_config;"
        "print(load_config().runtime.default, 'ruamel.yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.file.parents[1],
        env=project.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "pi False\n"
