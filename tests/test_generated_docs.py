"""The generated parts of the documentation are current."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_docs", ROOT / "scripts" / "generate_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate_docs"] = module
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    for path, text in generator().pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} is out of date: run `python scripts/generate_docs.py`"
        )


def test_the_reference_covers_every_command_and_verb() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for title in ("## `bridle run`", "### `bridle runtime set`", "## `bridle model-server`"):
        assert title in page
