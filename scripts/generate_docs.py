"""Writes the parts of the documentation that the code knows best.

`python scripts/generate_docs.py` rewrites them; a test fails when they are out of date.
"""

from collections.abc import Callable
from pathlib import Path

from bridle.cli.reference import command_reference
from bridle.config.json_schema import config_json_schema_text, config_key_table
from bridle.testing.conformance.pages import capability_tables, check_table, tool_name_table

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "runtimes" / "conformance.json"
"""What `scripts/conformance.py` found on the pinned CLIs."""


def between(page: str, name: str, text: str) -> str:
    """`page` with what stands between the marks of `name` replaced by `text`."""
    start, end = f"<!-- {name}: generated -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(start)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the marks of {name} are missing")
    return f"{before}{start}\n{text}\n{end}{after}"


def pages() -> dict[Path, str]:
    """Each generated file with what it should hold."""
    found = {DOCS / "config.schema.json": config_json_schema_text()}
    parts: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("cli.md", "commands", command_reference),
        ("configuration.md", "keys", config_key_table),
        ("conformance.md", "checks", check_table),
        ("tools.md", "names", tool_name_table),
        ("runtimes/capabilities.md", "tables", lambda: capability_tables(RESULTS.read_bytes())),
    )
    for file, name, make in parts:
        path = DOCS / file
        found[path] = between(path.read_text(encoding="utf-8"), name, make())
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
