"""Scripts are read, normalised and checked, with the line of each mistake."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.testing import (
    ScriptedModel,
    ScriptError,
    load_script,
    script_json_schema,
    script_to_json,
)
from bridle.testing.script import Fault, ToolCall, Turn, Usage

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "scripted-model.schema.json"


def test_shorthands_are_folded_into_tool_calls() -> None:
    script = load_script(
        """
- text: hi
  tool_calls: [{name: Grep, args: {pattern: x}, id: own}]
  shell: ls
  read_file: a
  write_file: {path: b, content: c}
  edit_file: {path: d, old: e, new: f}
"""
    )
    assert script.turns == (
        Turn(
            text="hi",
            stop_reason="tool_use",
            tool_calls=(
                ToolCall(name="Grep", args={"pattern": "x"}, id="own"),
                ToolCall(name="shell", args={"command": "ls"}),
                ToolCall(name="read_file", args={"path": "a"}),
                ToolCall(name="write_file", args={"path": "b", "content": "c"}),
                ToolCall(name="edit_file", args={"path": "d", "old": "e", "new": "f"}),
            ),
        ),
    )


def test_the_plain_form_has_every_default() -> None:
    script = load_script([{"text": "hi"}, {"context_overflow": True}])
    data = script_to_json(script)
    assert json.loads(json.dumps(data)) == data
    assert data["turns"][0] == {
        "text": "hi",
        "thinking": "",
        "tool_calls": [],
        "usage": {
            "input_tokens": 100,
            "output_tokens": 20,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "reasoning_tokens": 0,
        },
        "stop_reason": "end_turn",
        "chunks": 1,
        "chunk_size": None,
        "model": None,
        "fault": None,
    }
    assert data["turns"][1]["fault"]["kind"] == "context_overflow"
    assert data["version"] == 1
    assert data["conversations"] == []


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    data = {"version": 1, "turns": [{"text": "a \U0001f600", "fault": {"status": 500, "times": 2}}]}
    expected = load_script(data)
    assert expected.turns[0].fault == Fault(status=500, times=2)
    for indent in (None, 2, "\t"):
        assert load_script(json.dumps(data, indent=indent)) == expected
    file = tmp_path / "script.yaml"
    file.write_text(
        'version: 1\nturns:\n  - text: "a \U0001f600"\n    fault: {status: 500, times: 2}\n'
    )
    assert load_script(file) == expected
    assert load_script(str(file)) == expected
    assert load_script(expected) is expected


def test_yaml_is_version_1_2() -> None:
    assert load_script("- text: no\n").turns[0].text == "no"


def test_all_mistakes_are_told_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(
        """turns:
  - txet: hi
  - text: 3
    usage:
      input_token: 5
      output_tokens: -1
  - fault:
      kind: ratelimit
      times: 0
  - tool_calls:
      - args: {}
  - text: [a]
conversation: []
"""
    )
    with pytest.raises(ScriptError) as caught:
        load_script(file)
    told = [(problem.line, problem.message) for problem in caught.value.problems]
    assert told == [
        (2, "script.turns[0] has no key 'txet' (did you mean 'text'?)"),
        (3, "script.turns[1].text: Expected `str`, got `int`"),
        (5, "script.turns[1].usage has no key 'input_token' (did you mean 'input_tokens'?)"),
        (6, "script.turns[1].usage.output_tokens: Expected `int` >= 0"),
        (
            8,
            "script.turns[2].fault.kind: Invalid enum value 'ratelimit' "
            "(did you mean 'rate_limit'?)",
        ),
        (9, "script.turns[2].fault.times: Expected `int` >= 1"),
        (11, "script.turns[3].tool_calls[0] needs the key 'name'"),
        (12, "script.turns[4].text: Expected `str`, got `array`"),
        (13, "script has no key 'conversation' (did you mean 'conversations'?)"),
    ]
    assert str(caught.value).startswith(f"{file}:2: script.turns[0]")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("- text: a\n  text: b\n", 2, "duplicate key"),
        ("- text: a\n- {}\n", 2, "says nothing"),
        ("- text: a\n  chunks: 2\n  chunk_size: 3\n", 1, "both `chunks` and `chunk_size`"),
        ("- text: a\n- fault: {times: 2}\n", 2, "fault without effect"),
        ("- fault: {delay: 1}\n", 1, "only waits"),
        ("- fault: {status: 500}\n- text: a\n", 1, "never ends"),
        ("- context_overflow: true\n- text: a\n", 1, "never ends"),
        ("- context_overflow: true\n  fault: {status: 500}\n", 1, "both `fault`"),
        ("- fault: {kind: quota, resets_at: 5, resets_in: 5}\n", 1, "both `resets_at`"),
        ("- text: a\n  usage: {output_tokens: 5, reasoning_tokens: 6}\n", 1, "reasoning_tokens"),
        ("- fault: {status: 200}\n", 1, ">= 400"),
        ("- fault: {stall: 601}\n", 1, "<= 600"),
        ("- text: a\n- hello\n", 2, "must be a mapping, not text"),
        ("turns: 5\nversion: 1\n", 1, "must be a list, not a number"),
        ("turns:\n- text: a\nversion: 2\n", 3, "Invalid enum value 2"),
        ("turns: []\nversion: 1\n", 1, "script is empty"),
        ("\n\n", None, "script is empty"),
        ("hello\nthere\n", 1, "a list of turns, or a mapping"),
        ("- text: [\n", 2, "expected the node content"),
        ("- text: a\n  tool_calls:\n    - name: x\n      arg: 1\n", 4, "did you mean 'args'?"),
        (
            "conversations:\n- {name: a, turns: [{text: x}]}\n- {name: a, turns: [{text: x}]}\n",
            3,
            "two conversations are named 'a'",
        ),
        ("conversations:\n- match: {model: a}\n", 2, "needs the key 'turns'"),
    ],
)
def test_mistakes(text: str, line: int | None, message: str) -> None:
    with pytest.raises(ScriptError) as caught:
        load_script(text)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.line == line


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="No such file"):
        load_script(tmp_path / "absent.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScriptError, match="is not UTF-8"):
        load_script(binary)


def test_a_wrong_script_starts_no_server() -> None:
    with pytest.raises(ScriptError):
        ScriptedModel([{"txet": "x"}])


def test_the_published_schema_is_current() -> None:
    published = json.loads(SCHEMA_FILE.read_text())
    assert published == json.loads(json.dumps(script_json_schema()))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 9))
def test_the_plain_form_reads_back(text: str, chunks: int) -> None:
    script = load_script([{"text": text, "chunks": chunks, "shell": text}])
    data: Any = json.loads(json.dumps(script_to_json(script)))
    data["turns"][0].pop("chunk_size")
    assert load_script(data) == script


def test_usage_defaults() -> None:
    assert load_script([{"text": "x", "usage": {"input_tokens": 7}}]).turns[0].usage == Usage(
        input_tokens=7
    )
