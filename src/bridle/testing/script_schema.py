"""The published JSON Schema of scripts."""

from typing import Any

import msgspec

from bridle.testing.script_source import AnyScriptSource

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def script_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that every script file obeys."""
    schema = msgspec.json.schema(AnyScriptSource)
    return {"$schema": SCHEMA_ID, "title": "A script for Bridle's scripted model", **schema}
