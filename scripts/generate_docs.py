"""Writes the parts of the documentation that the code knows best.

`python scripts/generate_docs.py` rewrites them; a test fails when they are out of date.
"""

import ast
import html
import inspect
import sys
import textwrap
from collections.abc import Callable
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from types import FunctionType, UnionType
from typing import Any, get_args, is_typeddict

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.drift.tables import kept_rows, version_table  # noqa: E402 - path first

import bridle  # noqa: E402 - path first
from bridle import errors, events  # noqa: E402 - path first
from bridle.cli.reference import command_reference  # noqa: E402 - path first
from bridle.config.json_schema import (  # noqa: E402 - path first
    config_json_schema_text,
    config_key_table,
)
from bridle.testing.conformance.pages import (  # noqa: E402 - path first
    capability_tables,
    check_table,
    tool_name_table,
)

DOCS = ROOT / "docs"
RESULTS = DOCS / "runtimes" / "conformance.json"
"""What `scripts/conformance.py` found on the pinned CLIs."""
RELEASES = DOCS / "runtimes" / "versions.json"
"""What `scripts/drift` found on the releases of a year."""


def between(page: str, name: str, text: str) -> str:
    """`page` with what stands between the marks of `name` replaced by `text`."""
    start, end = f"<!-- {name}: generated -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(start)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the marks of {name} are missing")
    return f"{before}{start}\n{text}\n{end}{after}"


GROUPS: tuple[tuple[str, str, str], ...] = (
    (
        "Run a prompt",
        "One prompt, one result. [The library](library.md) shows them at work.",
        "run run_sync stream stream_sync EventStream SyncEventStream RunOptions "
        "RunOptionsDict RunResult Usage ErrorInfo DEFAULT_MARKER print_once "
        "run_interactive",
    ),
    (
        "Permissions",
        "What a `permission` callback gets and returns.",
        "Question PermissionAnswer Allow Deny",
    ),
    (
        "Sessions",
        "Conversations of many prompts. [Sessions](sessions.md) explains them.",
        "Session SyncSession SessionOptionsDict ResumeOptionsDict Receipt TurnReport "
        "SessionRecord UserMessage AgentStep ToolUse SessionHints Clocks Identity "
        "on_hook HookEvent",
    ),
    (
        "Handles and connections",
        "For orchestrators: sessions as plain data, and agents on pipes of your own.",
        "StartOptions Message SessionHandle SessionFilter RuntimeConnection "
        "RpcProcess ConnectionState",
    ),
    (
        "Runtimes",
        "Find an agent, and what it can do.",
        "get_runtime available_runtimes create_acp_runtime AgentRuntime Availability "
        "Features SpawnOptions HooksDef QualityGate OverlayContent TranscriptSummary",
    ),
    (
        "Usage",
        "What agents used and what it cost. [What it cost](usage.md) explains the counts.",
        "normalize_usage usage.report usage.Report usage.Line usage.Sum usage.Skipped "
        "usage.Filter usage.parse_time usage.requests usage.ModelRequest usage.sessions "
        "usage.PastSession usage.price usage.PriceList usage.Prices usage.Tiers",
    ),
    (
        "Configuration",
        "What the files say; [configuration](configuration.md) lists the keys.",
        "load_config Config apply_config Provider ResolvedModel ModelServer",
    ),
)
"""The sections of the API reference, with the public names in each. Events and errors have their
own."""


def api_reference() -> str:
    """The public names by section: signature, docstring, and a table of a struct's fields."""
    parts = []
    for title, about, names in GROUPS:
        parts += [f"## {title}", "", about, ""]
        for name in names.split():
            parts += [_described(name, attrgetter(name)(bridle)), ""]
    parts += [_event_section(), _error_section()]
    return "\n".join(parts)


def _described(name: str, value: Any) -> str:
    """One public name: heading, signature, docstring, fields or methods."""
    if isinstance(value, str):
        return f"### {name}\n\n`{value!r}`"
    if isinstance(value, UnionType):
        members = " | ".join(_type_text(each) for each in value.__args__)
        return f"### {name}\n\nOne of: `{members}`"
    if inspect.isfunction(value):
        return f"### {name}\n\n{_signature(name, value)}\n\n{inspect.getdoc(value)}"
    lines = [f"### {name}", "", inspect.getdoc(value) or ""]
    if issubclass(value, msgspec.Struct):
        return "\n".join([*lines, "", _field_table(value)])
    if is_typeddict(value):
        return "\n".join(lines)
    for method, function in _methods(value):
        doc = inspect.getdoc(function) or ""
        if isinstance(function, property):
            lines += ["", f"**`{method}`**: {doc}"]
        else:
            lines += ["", f"**`{method}`**", "", _signature(method, function), "", doc]
    return "\n".join(lines)


def _methods(kind: type) -> list[tuple[str, Any]]:
    """The public methods and properties that a class documents, in the order of its source."""
    found = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("bridle."):
            found.update(vars(base))
    members = []
    for name, value in found.items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        documented = isinstance(function, FunctionType | property) and function.__doc__
        if not name.startswith("_") and documented:
            members.append((name, function))
    return members


def _signature(name: str, function: Any) -> str:
    """The head of a function as its source has it, in a block of code."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = tree.args
    for group in (arguments.posonlyargs, arguments.args):
        if group and group[0].arg in ("self", "cls"):
            del group[0]
    words = _argument_texts(arguments)
    prefix = "async " if isinstance(tree, ast.AsyncFunctionDef) else ""
    result = f" -> {_annotated(tree.returns)}" if tree.returns is not None else ""
    line = f"{prefix}{name}({', '.join(words)}){result}"
    if len(line) > 88:
        inner = "".join(f"    {word},\n" for word in words)
        line = f"{prefix}{name}(\n{inner}){result}"
    return f"```py\n{line}\n```"


def _argument_texts(arguments: ast.arguments) -> list[str]:
    """Each argument as text, markers included."""
    for each in ast.walk(arguments):
        if isinstance(each, ast.arg) and each.annotation is not None:
            each.annotation = ast.parse(_annotated(each.annotation), mode="eval").body
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = len(plain) - len(arguments.defaults)
    texts = [
        ast.unparse(each)
        + (f" = {ast.unparse(arguments.defaults[number - missing])}" if number >= missing else "")
        for number, each in enumerate(plain)
    ]
    if arguments.vararg:
        texts.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        texts.append("*")
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        texts.append(ast.unparse(each) + ("" if default is None else f" = {ast.unparse(default)}"))
    if arguments.kwarg:
        texts.append(f"**{ast.unparse(arguments.kwarg)}")
    return texts


class _Unquoted(ast.NodeTransformer):
    """Annotations without the quotes of a forward reference."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A quoted annotation as what it says."""
        if isinstance(node.value, str):
            return ast.parse(node.value, mode="eval").body
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Texts in a literal type stay texts."""
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            return node
        self.generic_visit(node)
        return node


def _annotated(node: ast.expr) -> str:
    unquoted = _Unquoted().visit(node)
    assert isinstance(unquoted, ast.expr)
    return ast.unparse(unquoted)


def _type_text(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _event_section() -> str:
    rows = [
        "## Events",
        "",
        "Each event is a frozen struct in `bridle.events`; `type` is its name in JSON. All have",
        "the fields of [the envelope](#event). [Events](events.md) promises their order.",
        "",
        _described("Event", bridle.Event),
        "",
        "| class | `type` | fields besides the envelope | meaning |",
        "|---|---|---|---|",
    ]
    for kind in bridle.AnyEvent.__args__:
        fields = [name for name in kind.__struct_fields__ if name not in _ENVELOPE]
        types = {node.target.id: _annotated(node.annotation) for node in _field_nodes(kind)}
        shown = "<br>".join(_code(f"{name}: {types[name]}") for name in fields)
        rows.append(
            f"| `{kind.__name__}` | `{kind.type}` | {shown} | {_cell(inspect.getdoc(kind))} |"
        )
    rows += ["", "| type | values |", "|---|---|"]
    for name in ("Drive", "Role", "UpdateKind", "SessionState", "RunStatus"):
        values = ", ".join(f"`{each}`" for each in get_args(getattr(events, name)))
        rows.append(f"| `{name}` | {values} |")
    rows += ["", _described("encode_event", bridle.encode_event)]
    rows += ["", _described("decode_event", bridle.decode_event), ""]
    return "\n".join(rows)


_ENVELOPE = bridle.Event.__struct_fields__


def _error_section() -> str:
    rows = [
        "## Errors",
        "",
        "All are in `bridle.errors`. A class is below the one that it is listed under by `base`;",
        "`kind` is its name in JSON and in `ErrorInfo`.",
        "",
        "| class | base | `kind` | exit status | meaning |",
        "|---|---|---|---|---|",
    ]
    kinds = [getattr(errors, name) for name in errors.__all__]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, errors.BridleError):
            meaning = _cell((inspect.getdoc(kind) or "").split("\n\n")[0])
            rows.append(
                f"| `{kind.__name__}` | `{kind.__base__.__name__}` | `{kind.kind}` "
                f"| {kind.exit_code} | {meaning} |"
            )
    return "\n".join([*rows, ""])


def _cell(text: str | None) -> str:
    """Text for a cell of a table."""
    return " ".join((text or "").split()).replace("|", "&#124;")


def _code(text: str) -> str:
    """Code for a cell of a table. Renderers disagree on `|` between backticks, but not in HTML."""
    text = " ".join(text.split())
    return f"<code>{_cell(html.escape(text, quote=False))}</code>" if "|" in text else f"`{text}`"


def _field_nodes(kind: type) -> list[Any]:
    """The fields that a struct's own source declares."""
    [tree] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    return [
        node
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not ast.unparse(node.annotation).startswith("ClassVar")
    ]


def _field_table(kind: type) -> str:
    """A table of a struct's fields: type, default, and the docstring below each."""
    [tree] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    said = {
        node.lineno: after.value.value
        for node, after in pairwise(tree.body)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for node in _field_nodes(kind):
        default = "" if node.value is None else _code(ast.unparse(node.value))
        rows.append(
            f"| `{node.target.id}` | {_code(_annotated(node.annotation))} | {default} "
            f"| {_cell(str(said.get(node.lineno, '')))} |"
        )
    return "\n".join(rows) if len(rows) > 2 else ""


def pages() -> dict[Path, str]:
    """Each generated file with what it should hold."""
    found = {DOCS / "config.schema.json": config_json_schema_text()}
    parts: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("cli.md", "commands", command_reference),
        ("configuration.md", "keys", config_key_table),
        ("api.md", "names", api_reference),
        ("conformance.md", "checks", check_table),
        ("tools.md", "names", tool_name_table),
        ("runtimes/capabilities.md", "tables", lambda: capability_tables(RESULTS.read_bytes())),
        (
            "runtimes/capabilities.md",
            "releases",
            lambda: version_table(kept_rows(RELEASES.read_bytes())) + "\n",
        ),
    )
    for file, name, make in parts:
        path = DOCS / file
        page = found.get(path) or path.read_text(encoding="utf-8")
        found[path] = between(page, name, make())
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
