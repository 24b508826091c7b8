"""One value is changed; everything else of the user's file stays."""

import os
from pathlib import Path

import pytest

from bridle.config.edit import set_value
from bridle.core.errors import ConfigError, WrongUse

KEYS = ("runtime", "default")


def test_comments_order_and_quotes_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "# mine\nmodels:   # aliases\n  b: 'x'\n  a: \"y\"\n\nruntime:\n"
        "  # which one\n  default: claude   # for now\n  printCommand: pi\n# end\n"
    )
    set_value(str(path), KEYS, "codex")
    assert path.read_text() == (
        "# mine\nmodels:   # aliases\n  b: 'x'\n  a: \"y\"\n\nruntime:\n"
        "  # which one\n  default: codex    # for now\n  printCommand: pi\n# end\n"
    )


def test_a_missing_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "config.yaml"
    set_value(str(path), KEYS, "pi")
    assert path.read_text() == "runtime:\n  default: pi\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["config.yaml"]


def test_a_file_of_comments_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# nothing yet")
    set_value(str(path), KEYS, "pi")
    assert path.read_text() == "# nothing yet\nruntime:\n  default: pi\n"


def test_an_empty_section_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("runtime:\nmodels: {a: b}\n")
    set_value(str(path), KEYS, "pi")
    assert path.read_text() == "runtime:\n  default: pi\nmodels: {a: b}\n"


def test_mode_and_link_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "config.yaml"
    real.write_text("models: {a: b}\n")
    real.chmod(0o640)
    link.symlink_to(real)
    set_value(str(link), KEYS, "pi")
    assert link.is_symlink()
    assert "default: pi" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("text", ["runtime: [\n", "runtime: {defualt: a}\n"])
def test_a_wrong_file_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml:\d"):
        set_value(str(path), KEYS, "pi")
    assert path.read_text() == text


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUse, match=r"cannot (read|write)"):
        set_value(str(tmp_path / "file" / "config.yaml"), KEYS, "pi")
