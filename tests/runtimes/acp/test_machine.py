"""The state machine against agents that do what no good agent does."""

from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.errors import Aborted
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import quirks
from bridle.runtimes.gemini.stream import GeminiLog
from tests.runtimes.acp.captures import Message, RunBench, update

CAN = {"loadSession": True, "sessionCapabilities": {"close": {}}}


def test_the_steps_of_a_session() -> None:
    desk = RunBench()
    assert desk.answer(0, {"protocolVersion": 1, "agentCapabilities": CAN}) == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "session/new",
            "params": {"cwd": "/work", "mcpServers": []},
        }
    ]
    (prompt,) = desk.answer(1, {"sessionId": "s1"})
    assert prompt["method"] == "session/prompt"
    desk.text("Hello.")
    (close,) = desk.answer(2, {"stopReason": "end_turn"})
    assert (close["method"], close["params"]) == ("session/close", {"sessionId": "s1"})
    assert not desk.recorder.input_done
    desk.answer(3, {})
    assert desk.recorder.input_done
    assert desk.end().text == "Hello."


def test_mode_and_model_are_set_before_the_prompt() -> None:
    desk = RunBench(session={"mode": "auto", "model": "big"})
    desk.answer(0, {"protocolVersion": 1})
    told = {
        "modes": {"currentModeId": "read-only", "availableModes": [{"id": "auto"}]},
        "configOptions": [
            {"id": "provider", "category": "model", "currentValue": "x"},
            {"id": "model", "category": "model", "currentValue": "small"},
        ],
    }
    (first,) = desk.answer(1, {"sessionId": "s1", **told})
    assert (first["method"], first["params"]["modeId"]) == ("session/set_mode", "auto")
    (second,) = desk.answer(2, {})
    assert second["method"] == "session/set_config_option"
    assert second["params"] == {"sessionId": "s1", "configId": "model", "value": "big"}
    (third,) = desk.answer(3, {"configOptions": []})
    assert third["method"] == "session/prompt"


def test_a_model_by_the_older_way() -> None:
    desk = RunBench(session={"model": "big"})
    desk.answer(0, {"protocolVersion": 1})
    (sent,) = desk.answer(1, {"sessionId": "s1", "models": {"currentModelId": "small"}})
    assert (sent["method"], sent["params"]["modelId"]) == ("session/set_model", "big")
    desk.answer(2, code=-32602, message="unknown model big")
    assert desk.recorder.input_done
    result = desk.end()
    assert result.error is not None
    assert result.error.kind == "unavailable"


@pytest.mark.parametrize(
    ("session", "told", "words"),
    [
        ({}, {"protocolVersion": 2}, "version 2"),
        ({"resume": "s0"}, {"protocolVersion": 1}, "earlier session"),
        ({"prompt": [{"type": "image"}]}, {"protocolVersion": 1}, "no images"),
        ({"mcp_servers": [{"type": "http"}]}, {"protocolVersion": 1}, "over http"),
    ],
)
def test_what_an_agent_cannot_do_ends_the_run(
    session: dict[str, Any], told: dict[str, Any], words: str
) -> None:
    desk = RunBench(session=session)
    assert desk.answer(0, told) == []
    result = desk.end()
    assert result.error is not None
    assert (result.error.kind, words in result.error.message) == ("protocol_drift", True)


def test_a_session_that_is_gone_is_refused() -> None:
    desk = RunBench(session={"resume": "s0"})
    (load,) = desk.answer(0, {"protocolVersion": 1, "agentCapabilities": CAN})
    assert load["params"]["sessionId"] == "s0"
    desk.answer(1, code=-32002, message="Resource not found: s0")
    result = desk.end()
    assert result.error is not None
    assert result.error.kind == "resume_refused"


def test_a_copy_is_proved_or_refused() -> None:
    can: dict[str, Any] = {"sessionCapabilities": {"fork": {}}}

    def forked(opened: Any, told: Any = can) -> RunBench:
        desk = RunBench(session={"resume": "s0", "fork": True})
        sent = desk.answer(0, {"protocolVersion": 1, "agentCapabilities": told})
        if sent:
            assert sent[0]["method"] == "session/fork"
            assert sent[0]["params"] == {"cwd": "/work", "mcpServers": [], "sessionId": "s0"}
            # Old turns are told under the new id, before it is known.
            desk.machine.feed(
                update("s1", "agent_message_chunk", content={"type": "text", "text": "old"})
            )
            desk.answer(1, opened)
        return desk

    desk = forked({"sessionId": "s1"})
    desk.text("Hello.")
    desk.answer(2, {"stopReason": "end_turn"})
    result = desk.end()
    assert (result.native_session_id, result.text) == ("s1", "Hello.")
    for refused in (forked({"sessionId": "s0"}), forked({}), forked({}, CAN)):
        error = refused.end().error
        assert error is not None
        assert error.kind == "resume_refused"


def test_a_replay_that_goes_on_after_the_answer_is_waited_for() -> None:
    desk = RunBench(quirks.GEMINI, session={"resume": "s1"})
    desk.answer(0, {"protocolVersion": 1, "agentCapabilities": CAN})
    assert desk.answer(1, {}) == []
    desk.text("an old answer")
    (prompt,) = desk.update("available_commands_update", availableCommands=[])
    assert prompt["method"] == "session/prompt"
    desk.text("new")
    desk.answer(2, {"stopReason": "end_turn"})
    assert desk.end().text == "new"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": -32000, "message": "Authentication required"}, "not_authenticated"),
        ({"code": 401, "message": "no"}, "not_authenticated"),
        ({"code": 403, "message": "no"}, "not_authenticated"),
        ({"code": 400, "message": "API key not valid."}, "not_authenticated"),
        ({"code": -32603, "message": "Internal error: HTTP 401"}, "not_authenticated"),
        ({"code": -32603, "message": "x", "data": {"errorKind": "rate_limit"}}, "rate_limited"),
        ({"code": 429, "message": "slow down"}, "rate_limited"),
        ({"code": 429, "message": "You exceeded your current quota exceeded"}, "billing"),
        ({"code": -32603, "message": "Internal error", "data": "overloaded"}, "overloaded"),
        ({"code": 503, "message": "later"}, "overloaded"),
        ({"code": 500, "message": "oops"}, "unavailable"),
        ({"code": -32603, "message": "prompt is too long"}, "context_overflow"),
        ({"code": -32603, "message": "fetch failed"}, "unavailable"),
        ({"code": -32603, "message": "Internal error", "data": {"a": [1]}}, "unavailable"),
    ],
)
def test_errors_of_a_prompt(error: dict[str, Any], kind: str) -> None:
    desk = RunBench()
    desk.open()
    desk.answer(2, **error)
    result = desk.end()
    assert result.error is not None
    assert result.error.kind == kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("max_tokens", "context_overflow"),
        ("max_turn_requests", "budget_exceeded"),
        ("refusal", "unavailable"),
        ("cancelled", "aborted"),
        ("paused", "protocol_drift"),
        ("", "protocol_drift"),
    ],
)
def test_stop_reasons_that_are_no_success(reason: str, kind: str) -> None:
    desk = RunBench()
    desk.open()
    desk.text("half")
    desk.answer(2, {"stopReason": reason})
    result = desk.end()
    assert result.error is not None
    assert (result.error.kind, result.text) == (kind, "half")


def test_a_turn_that_brings_nothing_is_a_failure() -> None:
    desk = RunBench()
    desk.open()
    desk.update("session_info_update")
    desk.answer(2, {"stopReason": "end_turn"})
    result = desk.end()
    assert result.error is not None
    assert result.error.kind == "unavailable"


def test_an_error_that_looks_like_text_needs_a_silent_model_or_known_words() -> None:
    for text, output, status in (
        ("Error: something new", 0, "failed"),
        ("Error: is what the program printed.", 20, "completed"),
        ("Error: Could not connect to local model provider", 20, "failed"),
    ):
        desk = RunBench(quirks.COPILOT)
        desk.open()
        desk.text(text)
        usage = {"inputTokens": output, "outputTokens": output}
        desk.answer(2, {"stopReason": "end_turn", "usage": usage})
        assert desk.end().status == status


def test_unknown_calls_are_refused_at_once() -> None:
    desk = RunBench()
    desk.open()
    for method in ("fs/read_text_file", "terminal/create", "_vendor/thing"):
        call: Message = {"jsonrpc": "2.0", "id": "a-7", "method": method, "params": {}}
        (sent,) = desk.say(msgspec.json.encode(call))
        assert (sent["id"], sent["error"]["code"]) == ("a-7", -32601)
    assert len(desk.of(ev.Unknown)) == 3


@pytest.mark.parametrize(
    "line",
    [
        b"plain text noise",
        b"\x00\xff\xfe",
        b"{}",
        b"[]",
        b"null",
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":3}}',
        b'{"jsonrpc":"2.0","method":"session/update"}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
        b'{"sessionUpdate":"brand_new_kind","foo":1}}}',
        b'{"jsonrpc":"2.0","method":"$/progress","params":{}}',
        b'{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"options":3}}',
        b'{"jsonrpc":"2.0","id":"x',
    ],
)
def test_what_nobody_knows_is_kept_and_ends_nothing(line: bytes) -> None:
    desk = RunBench()
    desk.say(line)
    desk.open()
    desk.text("be")
    desk.say(line)
    desk.text("fore")
    desk.answer(2, {"stopReason": "end_turn"})
    result = desk.end()
    assert (result.status, result.text) == ("completed", "before")
    assert len(desk.of(ev.Unknown)) == 2


def test_updates_of_another_session_are_kept_apart() -> None:
    desk = RunBench()
    desk.open()
    desk.say(update("other", "agent_message_chunk", content={"type": "text", "text": "x"}))
    desk.text("ours")
    desk.answer(2, {"stopReason": "end_turn"})
    assert desk.end().text == "ours"
    assert len(desk.of(ev.Unknown)) == 1


def test_odd_values_inside_an_update_are_taken() -> None:
    desk = RunBench()
    desk.open()
    desk.update("tool_call", toolCallId="t", title="x", kind="weird", status="exotic")
    desk.text("done")
    desk.answer(2, {"stopReason": "end_turn"})
    desk.end()
    (start,), (end,) = desk.of(ev.ToolExecutionStart), desk.of(ev.ToolExecutionEnd)
    assert (start.tool_name, end.is_error, end.synthetic) == ("weird", True, True)


def test_an_answer_of_the_wrong_shape_ends_the_run() -> None:
    desk = RunBench()
    desk.answer(0, {"protocolVersion": "one"})
    assert desk.recorder.input_done
    result = desk.end()
    assert result.error is not None
    assert result.error.kind == "protocol_drift"


@pytest.mark.parametrize(
    ("allowed", "kinds", "chosen"),
    [
        (True, ["allow_always", "allow_once", "reject_once"], "allow_once"),
        (True, ["allow_always", "reject_once"], "allow_always"),
        (True, ["reject_once"], None),
        (False, ["allow_once", "reject_always", "reject_once"], "reject_once"),
        (False, ["allow_once", "reject_always"], "reject_always"),
        (False, ["allow_once"], None),
    ],
)
def test_permission_is_answered_by_kind(allowed: bool, kinds: list[str], chosen: str) -> None:
    desk = RunBench()
    desk.open()
    options = [{"optionId": f"id-{kind}", "kind": kind, "name": kind} for kind in kinds]
    call = {"toolCallId": "t", "title": "Remove it", "kind": "delete"}
    params = {"sessionId": "s1", "toolCall": call, "options": options}
    request = {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission"}
    desk.say(msgspec.json.encode({**request, "params": params}))
    (question,) = desk.recorder.questions
    assert (question.tool_name, question.args) == ("delete", {"title": "Remove it"})
    outcome = msgspec.json.decode(question.answer(allowed, "because"))["result"]["outcome"]
    assert outcome.get("optionId") == (f"id-{chosen}" if chosen else None)
    assert outcome["outcome"] == ("selected" if chosen else "cancelled")


def test_a_question_names_what_only_the_request_tells() -> None:
    """OpenCode may ask before it has told the command anywhere else."""
    desk = RunBench(agent=quirks.OPENCODE)
    desk.open()
    told = {"toolCallId": "t", "title": "bash", "kind": "execute", "status": "pending"}
    desk.update("tool_call", **told, rawInput={"cwd": "/repo"})
    call = {**told, "rawInput": {"command": "echo two"}}
    params = {"sessionId": "s1", "toolCall": call, "options": []}
    request = {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission"}
    desk.say(msgspec.json.encode({**request, "params": params}))
    (question,) = desk.recorder.questions
    assert question.args == {"command": "echo two", "cwd": "/repo"}
    (started,) = desk.of(ev.ToolExecutionStart)
    assert started.args == question.args


def test_clocks() -> None:
    desk = RunBench(session={"start_timeout": 5.0, "silence_timeout": 7.0})
    patience = desk.recorder.patience
    assert patience is not None
    assert (patience.seconds, "initialize" in str(patience.error)) == (5.0, True)
    desk.open()
    assert desk.recorder.patience is not None
    assert desk.recorder.patience.seconds == 7.0
    before = desk.recorder.patience
    desk.update("usage_update", used=1)
    assert desk.recorder.patience is before, "a sign of life is no progress"
    desk.update("tool_call", toolCallId="t", kind="execute", status="in_progress")
    assert desk.recorder.patience is None, "a tool may take its time"
    desk.update("tool_call_update", toolCallId="t", status="completed")
    assert desk.recorder.patience is not None
    desk.answer(2, {"stopReason": "end_turn"})
    assert desk.recorder.patience is not None
    assert desk.recorder.patience.error is None, "it may leave, and is not blamed if it does not"


LIMIT = (
    b"Attempt 1 failed: Resource has been exhausted (e.g. check quota).",
    b"Suggested retry after 60s.. Retrying after 62705ms...",
)


@pytest.mark.parametrize("told", [LIMIT, ()])
def test_silence_has_the_reason_that_the_log_tells_at_the_end(told: tuple[bytes, ...]) -> None:
    desk = RunBench(quirks.GEMINI, log=GeminiLog())
    desk.open()
    patience = desk.recorder.patience
    assert patience is not None
    assert patience.error is not None
    desk.recorder.request_stop(patience.error)
    for line in told:
        desk.machine.feed_stderr(line)
    error = desk.end().error
    assert error is not None
    assert error.kind == ("rate_limited" if told else "unavailable")
    assert (error.until is not None) == bool(told)


def test_a_failed_call_in_the_log_does_not_replace_another_reason() -> None:
    desk = RunBench(quirks.GEMINI, log=GeminiLog())
    desk.open()
    desk.recorder.fail(Aborted("enough"))
    for line in LIMIT:
        desk.machine.feed_stderr(line)
    error = desk.end().error
    assert error is not None
    assert error.kind == "aborted"


def test_thoughts_without_a_heading_lose_its_empty_place() -> None:
    desk = RunBench(quirks.GEMINI)
    desk.open()
    for text in ("****\nI think", "****\nso."):
        desk.update("agent_thought_chunk", content={"type": "text", "text": text})
    said = [event.text for event in desk.of(ev.MessageUpdate) if event.kind == "thinking_delta"]
    assert said == ["I think", "so."]


def test_a_death_before_anything_tells_why() -> None:
    for stderr, kind in (
        ("error: unknown option '--acp'", "protocol_drift"),
        ("Error: Cannot find module 'x'", "not_installed"),
        ("Error: No authentication information found.", "not_authenticated"),
        ("Error: something else", "crashed"),
    ):
        result = RunBench().end(ProcessExit(code=1, stderr_tail=stderr))
        assert result.error is not None
        assert result.error.kind == kind
    result = RunBench().end(ProcessExit(code=0))
    assert result.error is not None
    assert result.error.kind == "protocol_drift"


def test_a_death_in_the_turn_is_a_crash_with_the_last_words() -> None:
    desk = RunBench()
    desk.open()
    desk.text("half")
    result = desk.end(ProcessExit(code=3, stderr_tail="segfault"))
    assert result.error is not None
    assert (result.error.kind, result.error.stderr_tail) == ("crashed", "segfault")
    assert result.text == "half"


def test_a_sub_agents_steps_belong_to_its_tool() -> None:
    desk = RunBench(quirks.CLAUDE)
    desk.open()
    desk.update("tool_call", toolCallId="t", title="Task", status="pending", rawInput={"p": 1})
    inner = {"claudeCode": {"parentToolUseId": "t"}}
    desk.text("inner text", _meta=inner)
    desk.update("tool_call", toolCallId="u", title="Bash", status="pending", _meta=inner)
    desk.update("tool_call_update", toolCallId="t", status="completed", rawOutput="ok")
    desk.text("done")
    desk.answer(2, {"stopReason": "end_turn"})
    assert desk.end().text == "done"
    assert len(desk.of(ev.ToolExecutionStart)) == 1
    assert [event.text for event in desk.of(ev.ToolExecutionUpdate)] == ["inner text", "Bash\n"]


def test_message_ids_part_messages() -> None:
    desk = RunBench()
    desk.open()
    desk.text("one", messageId="a")
    desk.text(" more", messageId="a")
    desk.text("two", messageId="b")
    desk.answer(2, {"stopReason": "end_turn"})
    desk.end()
    assert [event.text for event in desk.of(ev.MessageEnd)] == ["one more", "two"]
