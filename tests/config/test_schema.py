"""The published JSON schema says what the code says."""

from pathlib import Path
from typing import Any

from bridle.config.json_schema import config_json_schema, config_json_schema_text, field_docs
from bridle.config.schema import Config, RuntimeSection

PUBLISHED = Path(__file__).parents[2] / "docs" / "config.schema.json"


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == config_json_schema_text(), (
        "run `python scripts/generate_docs.py`"
    )


def test_unknown_keys_are_not_allowed_and_every_key_is_described() -> None:
    sections: dict[str, Any] = config_json_schema()["$defs"]
    assert "RuntimeSection" in sections
    for name, section in sections.items():
        assert section["additionalProperties"] is False, name
        for key, shape in section["properties"].items():
            assert shape.get("description"), f"{name}.{key} says nothing"


def test_what_only_the_environment_says_is_not_in_the_schema() -> None:
    assert "modelServer" not in config_json_schema()["$defs"]["ConfigFile"]["properties"]
    assert "model_server" in Config.__struct_fields__


def test_field_docs_use_the_written_names() -> None:
    assert set(field_docs()["RuntimeSection"]) == set(RuntimeSection.__struct_encode_fields__)
