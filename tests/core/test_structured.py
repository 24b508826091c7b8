"""Answers that fit a JSON Schema: what is read of a text, and what is refused before a start."""

import sys
from typing import Any

import msgspec
import pytest

from bridle.core.errors import WrongUse
from bridle.core.structured import AnswerCheck, check_schema

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"$ref": "#/$defs/size"}},
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"size": {"type": "integer", "minimum": 0}},
}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "size": 1}',
        '  \n{"name": "a", "size": 1}\n',
        '```json\n{"name": "a", "size": 1}\n```',
        'First:\n```\n{"name": "b"}\n```\nThen:\n```json\n{"name": "a", "size": 1}\n```\nDone.',
        'Here it is: {"name": "a", "size": 1}. I hope it helps.',
    ],
)
def test_the_value_of_a_text(text: str) -> None:
    check = AnswerCheck(SCHEMA)
    assert check.take(text) is None
    assert check.value == {"name": "a", "size": 1}


@pytest.mark.parametrize("value", [None, True, 3, "words", [1, 2], {}])
def test_any_kind_of_value(value: Any) -> None:
    check = AnswerCheck({})
    assert check.take(msgspec.json.encode(value).decode()) is None
    assert check.value == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("All done.", "not JSON"),
        ("{'name': 'a'}", "not JSON"),
        ('{"name": "a"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"size": 1}', "'name' is a required property"),
        ('{"name": "a", "size": -1}', "$.size"),
        ('{"name": "a", "more": 1}', "more"),
        ('["a"]', "object"),
    ],
)
def test_what_does_not_fit(text: str, problem: str) -> None:
    check = AnswerCheck(SCHEMA, hint="do this")
    assert check.take('{"name": "earlier"}') is None
    error = check.take(text)
    assert error is not None
    assert problem in error.message
    assert (error.kind, error.hint, error.retryable) == ("schema_mismatch", "do this", True)
    assert check.value is msgspec.UNSET


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "objekt"}, "not a valid JSON Schema"),
        ({"properties": {"a": {"minimum": "3"}}}, "not a valid JSON Schema"),
        ({"$ref": "#/$defs/missing"}, "which is not in it"),
        ({"items": {"$ref": "https://example.com/schema.json"}}, "which is not in it"),
    ],
)
def test_a_schema_that_is_wrong(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(WrongUse, match=problem):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        SCHEMA,
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"},
        {"$id": "https://example.com/a.json", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"const": {"$ref": "https://example.com/not-a-reference"}},
        {"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"},
    ],
)
def test_a_schema_that_is_right(schema: dict[str, Any]) -> None:
    check_schema(schema)


def test_the_library_is_asked_for_when_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(WrongUse, match="jsonschema") as caught:
        check_schema(SCHEMA)
    assert "extra `schema`" in caught.value.hint
