"""Writes the parts of the documentation that the code knows best.

`python scripts/generate_docs.py` rewrites them; a test fails when they are out of date.
"""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import bridle
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


def field_tables() -> str:
    """A table of the fields of each struct that callers of the library read or fill."""
    kinds = (
        bridle.RunOptions,
        bridle.RunResult,
        bridle.Question,
        bridle.Receipt,
        bridle.TurnReport,
    )
    return "\n".join(_field_table(kind) for kind in kinds)


def _field_table(kind: type) -> str:
    [tree] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    rows = [f"### {kind.__name__}", "", "| field | type | default | meaning |", "|---|---|---|---|"]
    for number, node in enumerate(tree.body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        after = tree.body[number + 1] if number + 1 < len(tree.body) else None
        meaning = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            meaning = " ".join(str(after.value.value).split())
        default = "" if node.value is None else f"`{ast.unparse(node.value)}`"
        kind_text = ast.unparse(node.annotation).replace("|", "\\|")
        meaning = meaning.replace("|", "\\|")
        rows.append(f"| `{node.target.id}` | `{kind_text}` | {default} | {meaning} |")
    return "\n".join([*rows, ""])


def pages() -> dict[Path, str]:
    """Each generated file with what it should hold."""
    found = {DOCS / "config.schema.json": config_json_schema_text()}
    parts: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("cli.md", "commands", command_reference),
        ("configuration.md", "keys", config_key_table),
        ("library.md", "fields", field_tables),
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
