"""Values written as TOML are read back unchanged."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.core.errors import WrongUse
from bridle.runtimes.toml import toml_key, toml_string, toml_value

VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_toml_says_what_was_meant(value: object) -> None:
    assert tomllib.loads(f"x = {toml_value(value, 'x')}") == {"x": value}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_toml_keys(name: str) -> None:
    assert tomllib.loads(f"{toml_key(name)} = 1") == {name: 1}


def test_toml_strings_stay_on_one_line() -> None:
    assert toml_string('a"b\\c\nd\x00\x7f') == '"a\\"b\\\\c\\nd\\u0000\\u007F"'
    assert toml_string("\ud800") == '"\ufffd"'


def test_toml_has_no_null() -> None:
    with pytest.raises(WrongUse, match=r"a\.b"):
        toml_value({"b": None}, "a")
