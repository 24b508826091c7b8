"""The package's face: every public name is there, sorted, and costs nothing until it is used."""

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

import bridle


def test_all_names_exist_and_are_sorted() -> None:
    assert bridle.__all__ == sorted(bridle.__all__)
    for name in bridle.__all__:
        assert getattr(bridle, name) is not None


def test_all_equals_the_visible_names() -> None:
    for name in bridle.__all__:
        getattr(bridle, name)
    faces = {"errors", "events", "usage"}
    visible = {
        name
        for name, value in vars(bridle).items()
        if not name.startswith("_") and (not isinstance(value, ModuleType) or name in faces)
    }
    assert visible | {"__version__"} == set(bridle.__all__)
    assert set(bridle.__all__) <= set(dir(bridle))


@pytest.mark.parametrize("name", ["errors", "events"])
def test_the_faces_of_errors_and_events_are_whole(name: str) -> None:
    face = importlib.import_module(f"bridle.{name}")
    home = importlib.import_module(f"bridle.core.{name}")
    own = {
        each
        for each, value in vars(home).items()
        if not each.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", home.__name__) == home.__name__
    }
    assert own <= set(face.__all__)
    assert face.__all__ == sorted(face.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bridle.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import bridle; print(set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(eval(done.stdout)) == {"bridle", "bridle._version"}
