"""`bridle run` on a real tiny agent: what is printed, what is refused, with which status."""

import json
from typing import Any

import pytest

from bridle.cli.run_arguments import split_tools
from tests.support.preset_agent import CONFIG, Place

RESULT_KEYS = [
    "runtime",
    "runtime_version",
    "session_id",
    "native_session_id",
    "model",
    "status",
    "exit_code",
    "text",
    "marker_detected",
    "usage",
    "cost_usd",
    "cost_source",
    "duration_ms",
    "ignored_options",
    "error",
    "refusals",
]
BYPASS = ("--permission", "bypass")


def result_of(out: str) -> dict[str, Any]:
    (line,) = out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_piped_output_is_the_final_text_alone(place: Place) -> None:
    done = place.bridle("run", "echo hello\nyou", *BYPASS)
    assert (done.status, done.out) == (0, "hello\nyou\n")
    assert done.err.startswith("completed in ")
    assert "\x1b" not in done.err


def test_json_is_one_object_with_exactly_the_promised_keys(place: Place) -> None:
    done = place.bridle("run", "echo done\nORCHESTRA_COMPLETE", "--json", *BYPASS)
    result = result_of(done.out)
    assert list(result) == RESULT_KEYS
    assert (done.status, done.err) == (0, "")
    assert result["status"] == "completed"
    assert result["marker_detected"] is True
    assert result["text"] == "done\nORCHESTRA_COMPLETE"
    assert result["cost_source"] == "unknown"
    assert list(result["usage"]) == [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    ]


def test_stream_json_is_every_event_and_the_result(place: Place) -> None:
    done = place.bridle("run", "lines 3", "--stream-json")
    *events, last = [json.loads(line) for line in done.out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "session_start"
    assert events[-1]["type"] == "session_end"
    assert list(last) == ["type", *RESULT_KEYS]
    assert last["type"] == "run_end"
    assert last["text"] == "line 0\nline 1\nline 2"
    assert {event["session_id"] for event in events} == {last["session_id"]}


def test_a_failed_run_has_status_1_and_says_why(place: Place) -> None:
    done = place.bridle("run", "fail no disk", *BYPASS)
    assert (done.status, done.out) == (1, "half done\n")
    closing, error, hint = done.err.splitlines()
    assert closing.startswith("failed in ")
    assert error == "bridle: error: tiny exited 3: cannot go on: no disk"
    assert hint.startswith("hint: ")
    result = result_of(place.bridle("run", "fail x", "--json").out)
    assert (result["status"], result["error"]["kind"]) == ("failed", "crashed")
    assert result["exit_code"] == 3
    assert "cannot go on: x" in result["error"]["stderr_tail"]


def test_the_prompt_may_come_on_stdin(place: Place) -> None:
    assert place.bridle("run", stdin="echo piped").out == "piped\n"
    assert place.bridle("run", "-", "--runtime", "feed", stdin="echo piped").out == "piped\n"
    assert place.bridle("run", "echo given", stdin="").out == "given\n"


@pytest.mark.parametrize(
    ("words", "stdin", "status", "said"),
    [
        ([""], b"", 2, "the prompt is empty"),
        (["  \n"], b"", 2, "the prompt is empty"),
        ([], b"", 2, "the prompt is empty"),
        (["-"], b"\xff", 2, "not UTF-8"),
        (["a", "b"], b"", 2, "unexpected argument: b"),
        (["a", "--cwd", "nowhere"], b"", 2, "no such directory"),
        (["a", "--runtime", "x"], b"", 2, 'Unknown runtime: "x". Available: absent, '),
        (["a", "--runtime", ""], b"", 2, "name is empty"),
        (["a", "--runtime", "tiny", "--backend", "feed"], b"", 2, "name different agents"),
        (["a", "--runtime", "absent"], b"", 3, "absent: `no-such-agent` was not found"),
        (["a", "--model", "m"], b"", 4, "runtime tiny does not support option model"),
        (["a", "--image", "x.png"], b"", 4, "does not support option images"),
        (["a", "--settings", "x.json"], b"", 4, "does not support option settings"),
        (["a", "--timeout", "0"], b"", 2, "argument --timeout: must be a number above 0"),
        (["a", "--timeout", "nan"], b"", 2, "argument --timeout: must be a number above 0"),
        (["a", "--budget", "inf"], b"", 2, "argument --budget: must be a number above 0"),
        (["a", "--max-turns", "1.5"], b"", 2, "argument --max-turns: must be a whole number"),
        (["a", "--env", "X"], b"", 2, "argument --env: must be KEY=VALUE"),
        (["a", "--permission", "maybe"], b"", 2, '--permission cannot be "maybe"'),
        (["a", "--json", "--stream-json"], b"", 2, "not allowed with argument"),
        (["a", "--model-server", "http://127.0.0.1:1"], b"", 2, "BRIDLE_MODEL_SERVER_KEY"),
        (["a", "--interactive"], b"", 2, "--interactive needs a terminal"),
        (["a", "--interactive", "--json"], b"", 2, "prints no JSON"),
        (["x" * 131_072], b"", 2, None),
    ],
)
def test_wrong_use_is_one_line_with_a_hint(
    place: Place, words: list[str], stdin: bytes, status: int, said: str | None
) -> None:
    if said is None:
        # The system itself refuses so long an argument: it can only come on stdin.
        words, stdin, said = [], words[0].encode(), "longer than an argument may be"
    done = place.bridle("run", *words, stdin=stdin)
    assert done.status == status
    error, *hint = done.err.splitlines()
    assert error.startswith("bridle: error: ")
    assert said in error
    assert len(hint) <= 1
    assert all(line.startswith("hint: ") for line in hint)
    assert done.out == "" or "--json" in words


def test_a_refused_run_prints_a_result_too(place: Place) -> None:
    done = place.bridle("run", "a", "--runtime", "absent", "--json")
    result = result_of(done.out)
    assert list(result) == RESULT_KEYS
    assert (done.status, result["status"], result["runtime"]) == (3, "failed", "absent")
    assert result["error"]["kind"] == "not_installed"
    assert result["error"]["hint"] == "install it with `get no-such-agent`"
    streamed = place.bridle("run", "a", "--stream-json", "--bogus")
    (line,) = streamed.out.splitlines()
    assert json.loads(line)["type"] == "run_end"
    assert streamed.status == 2


def test_a_broken_configuration_is_told_line_by_line(place: Place) -> None:
    place.configure("runtime:\n  defualt: tiny\nmodles: {}\n")
    done = place.bridle("run", "echo a")
    file = place.project / ".bridle/config.yaml"
    assert done.status == 2
    assert done.err.splitlines() == [
        f"bridle: error: {file}:2: unknown key `runtime.defualt`; did you mean `default`?",
        f"bridle: error: {file}:3: unknown key `modles`; did you mean `models`?",
    ]


def test_ignored_options_are_reported(place: Place) -> None:
    words = ("--model", "m", "--ignore-unsupported", "--json", *BYPASS)
    done = place.bridle("run", "echo a", *words)
    assert done.status == 0
    assert done.err == "bridle: warning: not supported, ignored: model\n"
    assert result_of(done.out)["ignored_options"] == ["model"]


def test_the_way_to_ignore_an_option_is_named_as_a_flag(place: Place) -> None:
    done = place.bridle("run", "echo a", "--model", "m")
    assert done.status == 4
    assert done.err.splitlines()[1].endswith("or pass --ignore-unsupported")


def test_precedence_of_the_runtime(place: Place) -> None:
    def runtime(*words: str, **env: str) -> str:
        out = place.bridle("run", "echo a", "--json", *words, env=env).out
        return str(result_of(out)["runtime"])

    assert runtime() == "tiny"
    assert runtime(BRIDLE_RUNTIME="feed") == "feed"
    assert runtime(BRIDLE_BACKEND="feed-cli") == "feed"
    assert runtime("--runtime", "tiny", BRIDLE_RUNTIME="feed") == "tiny"
    assert runtime("--backend", "feed-cli") == "feed"


def test_the_model_of_the_environment_goes_through_aliases(place: Place) -> None:
    place.configure(CONFIG + "models: {fast: small-1}\n")
    args = ("run", "args", "--runtime", "feed")
    assert "'small-1'" in place.bridle(*args, env={"BRIDLE_MODEL": "fast"}).out
    assert "'x'" in place.bridle(*args, "--model", "x", env={"BRIDLE_MODEL": "fast"}).out


def test_raw_arguments_variables_and_folder(place: Place) -> None:
    out = place.bridle("run", "args", "--runtime", "feed", "--raw-arg=--deep", "--raw-arg", "3").out
    assert out == "['--stdin', '--deep', '3']\n"
    assert place.bridle("run", "env PLUM", "--env", "PLUM=a=b").out == "a=b\n"
    (place.project / "sub").mkdir()
    assert place.bridle("run", "cwd", "--cwd", "sub").out == f"{place.project / 'sub'}\n"


def test_flags_of_older_callers_are_translated(place: Place) -> None:
    old = ("-p", "args", "--backend", "feed-cli", "--dangerously-skip-permissions")
    out = place.bridle("run", *old, "--output-format", "json").out
    assert result_of(out)["text"] == "['--stdin', '--yolo']"
    bypass = place.bridle(
        "run", "args", "--runtime", "feed", "--permission-mode", "bypassPermissions"
    )
    assert bypass.out == "['--stdin', '--yolo']\n"
    for flag, option in (
        ("--append-system-prompt", "append_system_prompt"),
        ("--system-prompt", "system_prompt"),
        ("--allowedTools", "allowed_tools"),
        ("--disallowedTools", "denied_tools"),
    ):
        done = place.bridle("run", "a", flag, "x")
        assert (done.status, option in done.err) == (4, True)


def test_lists_of_tools_split_outside_of_parentheses() -> None:
    assert split_tools("Read,Bash(git log *) Edit, ") == ["Read", "Bash(git log *)", "Edit"]
    assert split_tools("") == []


def test_verbose_shows_the_command_without_secrets(place: Place) -> None:
    secret = "sk-very 'secret\\value-123456"
    done = place.bridle(
        "run",
        "args",
        "--runtime=feed",
        "--verbose",
        f"--env=MY_API_KEY={secret}",
        f"--raw-arg={secret}",
        "--model=m",
    )
    assert done.status == 0
    for form in (secret, "very 'secret", "secret"):
        assert form not in done.err
        assert form not in done.out
    told = dict(line.split(":", 1) for line in done.err.splitlines() if ":" in line)
    assert told["runtime"].strip() == "feed (version unknown)"
    assert told["dialect"].strip() == "plain text"
    assert told["cwd"].strip() == str(place.project)
    assert "prompt (4 characters)" in told["options"]
    assert 'model="m"' in told["options"]
    assert "env (MY_API_KEY)" in told["options"]
    agent = place.project / "agent"
    assert told["command"].strip() == f"{agent} --stdin --model m '[redacted]'"


def test_bad_output_of_an_agent_is_no_error_of_ours(place: Place) -> None:
    garbage = place.bridle("run", "garbage", "--json")
    assert garbage.status == 0
    assert result_of(garbage.out)["text"].endswith("ok")
    big = result_of(place.bridle("run", "big", "--json").out)
    assert (big["status"], len(big["text"])) == ("completed", 10_000_004)
    dying = place.bridle("run", "die", "--json")
    result = result_of(dying.out)
    assert (dying.status, result["error"]["kind"], result["exit_code"]) == (1, "crashed", -9)
    assert result["text"] == "first line\nhalf a li"


def test_a_run_of_an_agent_tells_how_it_was_guarded(place: Place) -> None:
    for words, state in ((["--guard", "builder"], "live"), (["--unguarded"], "unguarded")):
        done = place.bridle("run", "a", "--runtime", "scripted", "--json", *words)
        result = result_of(done.out)
        assert list(result) == [*RESULT_KEYS, "guard"]
        assert result["guard"]["state"] == state


def test_an_agent_that_cannot_be_guarded_is_not_started(place: Place) -> None:
    done = place.bridle("run", "a", "--runtime", "scripted", "--guard", "nobody", "--json")
    assert done.status == 2
    assert "unknown capability" in result_of(done.out)["error"]["message"]


def test_a_structured_answer(place: Place) -> None:
    schema, script = place.project / "schema.json", place.project / "script.yaml"
    schema.write_text('{"type": "object", "required": ["files"]}')
    script.write_text("- text: none\n- text: '{\"files\": []}'\n")
    scripted = ("--runtime", "scripted", "--provider-option", f"script={script}", "--json")
    done = place.bridle("run", "List them.", *scripted, "--schema", str(schema))
    assert (done.status, result_of(done.out)["structured"]) == (0, {"files": []})
    script.write_text("- text: none\n- text: nor now\n")
    done = place.bridle("run", "List them.", *scripted, "--schema", str(schema))
    result = result_of(done.out)
    assert (done.status, result["error"]["kind"]) == (1, "schema_mismatch")
    assert "structured" not in result
    schema.write_text('{"type": "objekt"}')
    done = place.bridle("run", "List them.", *scripted, "--schema", str(schema))
    assert (done.status, result_of(done.out)["error"]["kind"]) == (2, "wrong_use")
    schema.write_text("{}")
    done = place.bridle("session", "start", "--runtime", "scripted", "--schema", str(schema))
    assert done.status == 4
    assert "output_schema" in done.err
