"""The generated parts of the documentation are current."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import bridle

ROOT = Path(__file__).parents[1]


def loaded(name: str) -> ModuleType:
    """A module of `scripts`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    for path, text in loaded("generate_docs").pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} is out of date: run `python scripts/generate_docs.py`"
        )


def test_the_reference_covers_every_command_and_verb() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for title in ("## `bridle run`", "### `bridle runtime set`", "## `bridle model-server`"):
        assert title in page


def test_the_api_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    headings = {line[4:] for line in page.splitlines() if line.startswith("### ")}
    # Modules have sections of their own, and the union of all events is their table.
    names = set(bridle.__all__) - {"__version__", "errors", "events", "usage", "AnyEvent"}
    names |= {f"usage.{name}" for name in bridle.usage.__all__}
    raised = {"AgentError", "BridleError", "WrongUse"}  # in the table of errors
    assert names - raised == headings


def test_the_api_reference_has_every_event_and_error() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for cls in bridle.AnyEvent.__args__:
        assert f"| `{cls.__name__}` | `{cls.type}` |" in page
    for kind in bridle.errors.AGENT_ERRORS:
        assert f"| `{kind}` |" in page


def test_every_field_that_callers_read_or_fill_is_explained() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for cls in (
        bridle.RunOptions,
        bridle.RunResult,
        bridle.Question,
        bridle.Receipt,
        bridle.TurnReport,
    ):
        part = page.split(f"\n### {cls.__name__}\n")[1].split("\n### ")[0]
        rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", part, re.MULTILINE))
        assert set(rows) == set(cls.__struct_fields__)
        assert all(rows.values()), [name for name, meaning in rows.items() if not meaning]
