"""Following a file that another program writes."""

import os
from pathlib import Path

from bridle.drives.tmux.transcript_file import TranscriptFollower, lines_in
from bridle.drives.tmux.transcript_wire import UnseenMessages, plain


def test_only_whole_new_lines_come_each_once(tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    follower = TranscriptFollower(str(path))
    assert follower.read() == []
    path.write_bytes(b"one\ntw")
    assert follower.read() == [b"one"]
    assert follower.read() == []
    with path.open("ab") as file:
        file.write(b"o\n\nthree\n")
    assert follower.read() == [b"two", b"", b"three"]
    assert (follower.count, follower.rewound) == (4, False)


def test_long_lines_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    lines = [b"x" * (3 << 20), b"y", b"z" * (1 << 20)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert TranscriptFollower(str(path)).read() == lines


def test_a_cut_file_is_taken_up_where_it_still_stands(tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    path.write_bytes(b"one\ntwo\nthree\n")
    follower = TranscriptFollower(str(path))
    follower.read()
    path.write_bytes(b"one\ntwo\n4\n")
    assert follower.read() == [], "it may still be being written"
    assert follower.read() == [b"4"]
    assert follower.rewound
    assert follower.read() == []
    assert not follower.rewound


def test_a_replaced_file_is_taken_up_where_it_still_stands(tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    path.write_bytes(b"one\ntwo\n")
    follower = TranscriptFollower(str(path))
    follower.read()
    other = tmp_path / "other"
    other.write_bytes(b"one\ntwo\nthree\nfour\n")
    os.replace(other, path)
    assert follower.read() == [b"three", b"four"]
    assert not follower.rewound


def test_lines_put_in_at_the_front_move_nothing(tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    path.write_bytes(b"mode\nprompt\nmode\n")
    follower = TranscriptFollower(str(path))
    follower.read()
    path.write_bytes(b"title\nmode\nprompt\nmode\nanswer\nhal")
    assert follower.read() == []
    assert follower.read() == [b"title", b"answer"]
    assert not follower.rewound
    with path.open("ab") as file:
        file.write(b"f\nmode\n")
    assert follower.read() == [b"half", b"mode"]


def test_what_is_older_than_the_process_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    path.write_bytes(b"old\nolder\n")
    skip = lines_in(str(path))
    follower = TranscriptFollower(str(path), skip=skip)
    assert follower.read() == []
    with path.open("ab") as file:
        file.write(b"new\n")
    assert follower.read() == [b"new"]
    assert lines_in(str(tmp_path / "none")) == 0


def test_a_text_is_known_again_as_a_terminal_keeps_it() -> None:
    pending = UnseenMessages()
    pending.add("1", "same")
    pending.add("2", "\tsame  \nwords\n")
    pending.add("3", "same")
    assert pending.take("else") is None
    assert pending.take("same") == "1"
    assert pending.take("    same\nwords") == "2"
    assert pending.take("same") == "3"
    assert plain(" a\t \n") == "a"
