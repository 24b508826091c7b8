"""Questions of an app-server: which are permission requests, and how each is answered.

Every other question is answered with an error at once: Codex waits for ever for an answer, and
takes an error for a no.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.runtimes.codex import live_wire as wire
from bridle.runtimes.codex.items import tool_args, tool_name
from bridle.runtimes.codex.live_items import ItemPlayer
from bridle.turns.rpc import encode_line
from bridle.turns.wire import Question

_COMMAND = "item/commandExecution/requestApproval"
_PATCH = "item/fileChange/requestApproval"
_PERMISSIONS = "item/permissions/requestApproval"
_ELICITATION = "mcpServer/elicitation/request"
_TOOL_CALL = "mcp_tool_call"

Answers = Callable[[bool], dict[str, Any]]
_Asked = tuple[str, str, str | None, Any, Answers]
"""Thread, tool, tool call, arguments, answers."""


def refusal(request_id: wire.RequestId, method: str) -> bytes:
    """The answer to a question that nobody here can answer."""
    error = {"code": -32601, "message": f"{method} is not supported by this client"}
    return encode_line({"id": request_id, "error": error})


class Desk:
    """Keeps the questions that are open, so that an answer that comes too late is not sent."""

    def __init__(self, items: ItemPlayer) -> None:
        self._items = items
        self._open: dict[wire.RequestId, tuple[str, Answers]] = {}
        """Question -> the thread that asks, and how it is answered."""

    def question(self, request_id: wire.RequestId, method: str, params: bytes) -> Question | None:
        """The permission request in a question of Codex's; None when it is something else."""
        try:
            found = self._read(method, params)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if found is None:
            return None
        thread_id, name, call_id, args, answers = found
        self._open[request_id] = (thread_id, answers)
        return Question(
            request_id=str(request_id),
            tool_name=name,
            args=args,
            answer=lambda allowed, reason: self._answer(request_id, allowed),
            tool_call_id=call_id,
        )

    def _answer(self, request_id: wire.RequestId, allowed: bool) -> bytes:
        """The wire has no place for a reason: the model is told that the user refused."""
        known = self._open.pop(request_id, None)
        if known is None:
            return b""
        return encode_line({"id": request_id, "result": known[1](allowed)})

    def resolved(self, request_id: wire.RequestId) -> None:
        """A question needs no answer any more."""
        self._open.pop(request_id, None)

    def turn_over(self, thread_id: str) -> list[bytes]:
        """Nobody is asked any more. Codex drops the questions of the thread whose turn it was; for
        those of agents that it started, a no each."""
        others = [each for each, (thread, _) in self._open.items() if thread != thread_id]
        refusals = [self._answer(each, False) for each in others]
        self._open.clear()
        return refusals

    def _read(self, method: str, params: bytes) -> _Asked | None:
        if method == _ELICITATION:
            return self._tool_call(msgspec.json.decode(params, type=wire.Elicitation))
        if method not in (_COMMAND, _PATCH, _PERMISSIONS):
            return None
        asked = msgspec.json.decode(params, type=wire.Approval)
        known = self._items.asked_about(asked.item_id)
        if method == _PERMISSIONS:
            args: dict[str, Any] = {"permissions": asked.permissions}
            answers: Answers = _grant(asked.permissions)
            name = "request_permissions"
        else:
            args = dict(tool_args(known)) if known is not None else {}
            answers = _decide
            name = "command_execution" if method == _COMMAND else "file_change"
        more = {"command": asked.command, "cwd": asked.cwd, "reason": asked.reason}
        more["grant_root"] = asked.grant_root
        args |= {key: value for key, value in more.items() if value is not None}
        return asked.thread_id, name, asked.item_id, args, answers

    def _tool_call(self, asked: wire.Elicitation) -> _Asked | None:
        """Codex asks by this way whether a tool may be called; what servers ask is not for us."""
        if asked.meta is None or asked.meta.codex_approval_kind != _TOOL_CALL:
            return None
        call = self._items.mcp_call(asked.server_name)
        if call is None:
            args: Any = {"server": asked.server_name, "arguments": asked.meta.tool_params}
            args |= {"reason": asked.message}
            return asked.thread_id, _TOOL_CALL, None, args, _elicit
        self._items.asked_about(call.id)
        return asked.thread_id, tool_name(call), call.id, tool_args(call), _elicit


def _decide(allowed: bool) -> dict[str, Any]:
    return {"decision": "accept" if allowed else "decline"}


def _grant(permissions: Any) -> Answers:
    return lambda allowed: {"permissions": permissions if allowed else {}}


def _elicit(allowed: bool) -> dict[str, Any]:
    return {"action": "accept", "content": {}} if allowed else {"action": "decline"}
