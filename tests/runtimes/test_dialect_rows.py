"""Each row of a dialect table has its proof, and the rows are in order."""

import os
from pathlib import Path

import pytest

import bridle.runtimes
from bridle.runtimes.dialects import Dialect, version_numbers
from bridle.runtimes.registry import available_runtimes, get_adapter

FOLDER = Path(bridle.runtimes.__file__).parent


def _rows() -> list[tuple[str, Dialect]]:
    names = [name for name in available_runtimes() if name != "scripted"]
    return [(name, row) for name in names for row in get_adapter(name).dialects]


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, row in _rows() if row.seen])
def test_a_row_has_a_capture_and_was_run_in_its_range(name: str, row: Dialect) -> None:
    product = name if (FOLDER / name).is_dir() else "acp"
    places = [FOLDER / each / "testdata" / row.capture for each in (product, "acp")]
    assert any(os.path.isfile(each) for each in places)
    later = [other.since for other in get_adapter(name).dialects if other.since > row.since]
    for seen in row.seen:
        assert row.since <= version_numbers(seen)
        assert not later or version_numbers(seen) < min(later)


@pytest.mark.parametrize("name", sorted({name for name, _ in _rows()}))
def test_each_word_is_in_the_field_that_stands_for_it_in_a_row_that_names_it(name: str) -> None:
    rows = get_adapter(name).dialects
    for word in {word for row in rows for word in row.words}:
        values = [getattr(row, word.field) for row in rows if word in row.words]
        assert any(value is True or (value and word.text in value) for value in values), word
