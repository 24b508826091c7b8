"""User folders, private files, atomic writes and the cache."""

import contextlib
import os
import stat
from pathlib import Path

import pytest

from bridle.core.files import (
    Cache,
    atomic_file,
    cache_dir,
    cached_text,
    config_dir,
    forget_cached_text,
    new_private_dir,
    state_dir,
    write_atomic,
    write_new,
    write_private,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_user_folders_are_below_the_home_or_where_xdg_says() -> None:
    home = {"HOME": "/h"}
    folders = [config_dir(home), state_dir(home), cache_dir(home)]
    assert folders == ["/h/.config/bridle", "/h/.local/state/bridle", "/h/.cache/bridle"]
    assert state_dir({**home, "XDG_STATE_HOME": "/s"}) == "/s/bridle"
    assert cache_dir({**home, "XDG_CACHE_HOME": "relative"}) == "/h/.cache/bridle"


def test_a_run_folder_is_private_and_its_name_is_never_taken_twice(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    first, second = (Path(new_private_dir(env, "pi", "s1")) for _ in range(2))
    assert first.name == "pi-s1"
    assert first != second
    assert [mode_of(first), mode_of(second)] == [0o700, 0o700]


def test_a_private_file_and_its_folders_are_for_the_owner_alone(tmp_path: Path) -> None:
    path = Path(write_private(str(tmp_path), "a/b.txt", "text"))
    assert (mode_of(path), mode_of(path.parent), path.read_text()) == (0o600, 0o700, "text")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="link"):
        write_private(str(tmp_path), "link", "other")
    with pytest.raises(FileExistsError):
        write_new(str(path), "other")


def test_an_atomic_write_replaces_the_file_and_can_keep_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(str(path), "one")
    assert (mode_of(path), path.read_text()) == (0o600, "one")
    path.chmod(0o640)
    write_atomic(str(path), "two", keep_mode=True, sync=True)
    assert (mode_of(path), path.read_text()) == (0o640, "two")


def test_a_failed_atomic_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with contextlib.suppress(ZeroDivisionError), atomic_file(str(path)) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_cache_asks_again_for_what_was_forgotten_or_never_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    answers = iter([None, "one", "two"])
    asked = [cached_text("key", lambda: next(answers)) for _ in range(3)]
    forget_cached_text("key")
    assert [*asked, cached_text("key", lambda: next(answers))] == [None, "one", "one", "two"]


def test_the_cache_keeps_the_newest_entries_of_its_own_maker(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    cache = Cache("c.json", limit=2, made_by="1", env=env)
    for number in range(3):
        cache.put(str(number), number)
    assert [cache.get(str(number), int) for number in range(3)] == [None, 1, 2]
    assert cache.get("1", str) is None
    assert Cache("c.json", limit=2, made_by="2", env=env).get("1", int) is None
