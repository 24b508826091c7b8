"""The JSON schema of a configuration file, for editors and other programs."""

from itertools import pairwise
from typing import Any

import msgspec

from bridle.config import schema
from bridle.config.schema import ConfigFile


def config_json_schema() -> dict[str, Any]:
    """The schema of `.bridle/config.yaml` and of the user's file (JSON Schema 2020-12).

    Descriptions are the docstrings of the fields, so that an editor shows what the source says.
    """
    components: dict[str, Any]
    (root,), components = msgspec.json.schema_components(
        [ConfigFile], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bridle configuration",
        **root,
        "$defs": {name: _described(name, components[name]) for name in sorted(components)},
    }


def _described(name: str, component: dict[str, Any]) -> dict[str, Any]:
    """A component with its own description on one line, and one for each of its keys."""
    texts = field_docs().get(name, {})
    return {
        **component,
        "description": " ".join(component.get("description", "").split()),
        "properties": {
            key: {**_with_shorthand(shape), "description": texts[key]} if key in texts else shape
            for key, shape in component["properties"].items()
        },
    }


def _with_shorthand(shape: dict[str, Any]) -> dict[str, Any]:
    """Let a key accept a bare string if its section may be written as one."""
    section = getattr(schema, _referred(shape), None) if "$ref" in shape else None
    if section is None or not section.shorthand:
        return shape
    rest = {key: value for key, value in shape.items() if key != "$ref"}
    return {**rest, "anyOf": [{"type": "string"}, {"$ref": shape["$ref"]}]}


def field_docs() -> dict[str, dict[str, str]]:
    """For each section of the schema, its keys as written and what the source says of each."""
    import ast

    with open(schema.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found: dict[str, dict[str, str]] = {}
    for cls in tree.body:
        if not isinstance(cls, ast.ClassDef) or not cls.name.endswith(("Section", "ConfigFile")):
            continue
        written = _written_names(cls.name)
        texts = found[cls.name] = {}
        for field, text in pairwise(cls.body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and field.target.id in written
            ):
                texts[written[field.target.id]] = " ".join(str(text.value.value).split())
    return found


def _written_names(section: str) -> dict[str, str]:
    cls: type[msgspec.Struct] = getattr(schema, section)
    return dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))


def config_json_schema_text() -> str:
    """The schema as the text of the published file."""
    encoded = msgspec.json.encode(config_json_schema())
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def config_key_table() -> str:
    """Every key with its type, its default and what it does, as a Markdown table."""
    sections: dict[str, Any] = config_json_schema()["$defs"]
    lines = ["| key | type | default | what it does |", "|---|---|---|---|"]
    lines += _rows(sections, "ConfigFile", "")
    return "\n".join(lines) + "\n"


def _rows(sections: dict[str, Any], name: str, where: str) -> list[str]:
    lines: list[str] = []
    for key, shape in sections[name]["properties"].items():
        path = f"{where}{key}"
        own = next((each for each in shape.get("anyOf", [shape]) if "$ref" in each), None)
        if own is None or "anyOf" in shape:
            default = msgspec.json.encode(shape.get("default")).decode()
            shown = "" if default in ("null", "{}", "[]") else f"`{default}`"
            lines.append(f"| `{path}` | {_type(shape)} | {shown} | {shape['description']} |")
        if own is not None:
            lines += _rows(sections, _referred(own), f"{path}.")
        items = shape.get("additionalProperties", {})
        for below in items.get("anyOf", [items]):
            if "$ref" in below:
                lines += _rows(sections, _referred(below), f"{path}.<name>.")
    return lines


def _referred(shape: dict[str, Any]) -> str:
    return str(shape["$ref"]).rpartition("/")[2]


def _type(shape: dict[str, Any]) -> str:
    """The type of a key in a reader's words."""
    if shape.get("type") == "array":
        return f"list of {_plural(shape['items'])}"
    words = [_type_word(each) for each in shape.get("anyOf", [shape])]
    return " or ".join(word for word in words if word)


def _type_word(shape: dict[str, Any]) -> str:
    if "enum" in shape:
        return " or ".join(f"`{each}`" for each in shape["enum"] if each is not None)
    if "$ref" in shape:
        return "mapping"
    kinds = {"string": "text", "array": "list", "object": "mapping", "null": ""}
    return kinds.get(shape["type"], str(shape["type"]))


def _plural(shape: dict[str, Any]) -> str:
    return _type_word(shape) if "enum" in shape else f"{_type_word(shape)}s"
