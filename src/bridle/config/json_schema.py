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
            key: {**shape, "description": texts[key]} if key in texts else shape
            for key, shape in component["properties"].items()
        },
    }


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
        if "$ref" in shape:
            lines += _rows(sections, _referred(shape), f"{path}.")
            continue
        items = shape.get("additionalProperties", {})
        default = msgspec.json.encode(shape.get("default")).decode()
        shown = "" if default in ("null", "{}", "[]") else f"`{default}`"
        lines.append(f"| `{path}` | {_type(shape)} | {shown} | {shape['description']} |")
        for below in items.get("anyOf", [items]):
            if "$ref" in below:
                lines += _rows(sections, _referred(below), f"{path}.<name>.")
    return lines


def _referred(shape: dict[str, Any]) -> str:
    return str(shape["$ref"]).rpartition("/")[2]


def _type(shape: dict[str, Any]) -> str:
    """The type of a key in a reader's words."""
    if "enum" in shape:
        return " or ".join(f"`{each}`" for each in shape["enum"])
    kinds = {"string": "text", "array": "list", "object": "mapping"}
    choices = shape.get("anyOf", [shape])
    words = [kinds.get(each["type"], each["type"]) for each in choices if each["type"] != "null"]
    if shape.get("type") == "array":
        return f"list of {kinds.get(shape['items']['type'], shape['items']['type'])}s"
    return " or ".join(words)
