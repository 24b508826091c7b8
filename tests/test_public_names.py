"""The package's public face: every name is there, and none costs anything before it is used."""

import subprocess
import sys

import pytest

import bridle


def test_every_public_name_is_there_and_sorted() -> None:
    assert bridle.__all__ == sorted(bridle.__all__)
    for name in bridle.__all__:
        assert getattr(bridle, name) is not None
        assert name in dir(bridle)
    with pytest.raises(AttributeError):
        _ = bridle.no_such_name


@pytest.mark.parametrize(
    ("use", "unwanted"),
    [
        (
            "import bridle",
            {"typing", "msgspec", "bridle.run", "anyio", "subprocess"},
        ),
        ("import bridle; bridle.run_sync", {"asyncio", "anyio", "logging", "dataclasses", "json"}),
        (
            "from bridle.core.redaction import Redactor; Redactor(['sk-0123456789'])",
            {"json", "base64", "urllib"},
        ),
    ],
)
def test_what_is_not_needed_is_not_imported(use: str, unwanted: set[str]) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"import sys; sys.path[:0] = {sys.path!r}; {use}\nprint(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert unwanted & set(done.stdout.split()) == set()
