"""The shapes in which authors write scripts, shorthands included.

The published JSON Schema is made from these structs, and the checker walks along them, so the
schema, the checks and the documentation cannot drift apart.
"""

from typing import Any, Literal

import msgspec

from bridle.testing.script import (
    Fault,
    Match,
    Positive,
    StopReason,
    ToolCall,
    Usage,
)


class WriteFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the `write_file` shorthand."""

    path: str
    content: str


class EditFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the `edit_file` shorthand."""

    path: str
    old: str
    new: str


class FaultSource(Fault, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault as written."""

    context_overflow: bool = False
    """The same as `kind: context_overflow`."""


class TurnSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn as written: text, thinking, tool calls, and perhaps a fault."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    shell: str | None = None
    read_file: str | None = None
    write_file: WriteFile | None = None
    edit_file: EditFile | None = None
    usage: Usage = Usage()
    stop_reason: StopReason | None = None
    chunks: Positive | None = None
    chunk_size: Positive | None = None
    model: str | None = None
    fault: FaultSource | None = None
    context_overflow: bool = False


class ConversationSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation as written."""

    name: str | None = None
    match: Match | None = None
    turns: tuple[TurnSource, ...]


class ScriptSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The mapping form of a script file."""

    version: Literal[1] = 1
    turns: tuple[TurnSource, ...] = ()
    conversations: tuple[ConversationSource, ...] = ()


AnyScriptSource = ScriptSource | tuple[TurnSource, ...]
"""A script file holds the mapping form, or just the list of turns."""

ScriptData = dict[str, Any] | list[Any]
"""A script given as plain data."""

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def script_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that every script file obeys."""
    schema = msgspec.json.schema(AnyScriptSource)
    return {"$schema": SCHEMA_ID, "title": "A script for Bridle's scripted model", **schema}
