"""The session as a trajectory in the Agent Trajectory Interchange Format, ATIF-v1.7.

The format is Harbor's (the harness of Terminal-Bench): RFC 0001 "Agent Trajectory Interchange
Format", changelog v1.7 of April 2026. One JSON object: `agent`, `steps` numbered from 1, each from
`user`, `agent` or `system`, `final_metrics`. The rules that matter here:

- One step for each message of the agent, with the tools that it called (`tool_calls`) and what
  those returned (`observation`) in the same step: a result must name a call of its own step.
- `prompt_tokens` counts all input, from the cache or not; `cached_tokens` is the part that was.
- Only steps of the agent have a model, reasoning, tool calls and metrics.
- There is at least one step. Fields that are not in the schema go into `extra`.

Not every runtime reports how many model calls a message took, so `llm_call_count` is left out,
which means that it is unknown.
"""

from typing import Any, BinaryIO

import msgspec

from bridle.core import events as ev
from bridle.core.usage import NO_USAGE, Usage
from bridle.sessions.event_log import EventLog
from bridle.sessions.history import AgentStep, Notice, Part, ToolUse, conversation
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import TextCleaner, UserMessage

SCHEMA_VERSION = "ATIF-v1.7"
_IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


def write(home: StateHome, record: SessionRecord, cleaner: TextCleaner, out: BinaryIO) -> None:
    """Write the trajectory, step by step."""
    encode = msgspec.json.encode
    head = {
        "schema_version": SCHEMA_VERSION,
        "session_id": record.session_id,
        "trajectory_id": record.session_id,
        "agent": _agent(record),
    }
    out.write(encode(head)[:-1] + b',\n"steps":[')
    trajectory = _Trajectory()
    between = b"\n"
    for part in conversation(home, record, cleaner):
        step = trajectory.step(part)
        if step is not None:
            out.write(between + encode(step))
            between = b",\n"
    if trajectory.count == 0:
        out.write(b"\n" + encode(trajectory.empty(record)))
    total = _last_totals(home, record)
    tail: dict[str, Any] = {"final_metrics": trajectory.final_metrics(total)}
    if notes := trajectory.notes(total):
        tail["notes"] = notes
    tail["extra"] = {"bridle": _about(record)}
    out.write(b"],\n" + encode(tail)[1:] + b"\n")


def _agent(record: SessionRecord) -> dict[str, Any]:
    agent = {"name": record.runtime, "version": record.runtime_version or "unknown"}
    return {**agent, "model_name": record.model} if record.model else agent


def _about(record: SessionRecord) -> dict[str, Any]:
    names = ("name", "drive", "state", "native_session_id", "workdir", "parent", "task", "run")
    found = {name: getattr(record, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _last_totals(home: StateHome, record: SessionRecord) -> ev.UsageTotals | None:
    found = None
    for line in EventLog(home.folder(record.session_id)).lines():
        if line.startswith(b'{"type":"usage"'):
            found = ev.decode_event(line)
    return found if isinstance(found, ev.UsageTotals) else None


class _Trajectory:
    """Numbers the steps and sums up their usage."""

    def __init__(self) -> None:
        self.count = 0
        self._usage = NO_USAGE
        self._undelivered = 0

    def step(self, part: Part) -> dict[str, Any] | None:
        """The step of a part of the conversation; None for a part without a step."""
        if isinstance(part, UserMessage):
            if part.fate != "delivered":
                self._undelivered += 1
                return None
            return self._new("user", part.sent_at, _message(part), _user_extra(part))
        if isinstance(part, AgentStep):
            return self._agent_step(part)
        return self._notice(part)

    def empty(self, record: SessionRecord) -> dict[str, Any]:
        """The step of an empty session: the format requires one."""
        return self._new("system", record.started_at or None, "Nothing was said in this session.")

    def _new(
        self, source: str, ts: str | None, message: Any, extra: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        self.count += 1
        step: dict[str, Any] = {"step_id": self.count}
        if ts:
            step["timestamp"] = ts
        step |= {"source": source, "message": message}
        return {**step, "extra": extra} if extra else step

    def _agent_step(self, part: AgentStep) -> dict[str, Any]:
        extra: dict[str, Any] = {"turn": part.turn}
        if part.stop_reason:
            extra["stop_reason"] = part.stop_reason
        step = self._new("agent", part.ts, part.text, extra)
        if part.model:
            step["model_name"] = part.model
        if part.thinking:
            step["reasoning_content"] = part.thinking
        if part.tools:
            step["tool_calls"] = [_tool_call(tool) for tool in part.tools]
            results = [_result(tool) for tool in part.tools if tool.output or not tool.is_open]
            if results:
                step["observation"] = {"results": results}
        if part.usage is not None:
            self._usage += part.usage
            step["metrics"] = _metrics(part.usage)
        return step

    def _notice(self, notice: Notice) -> dict[str, Any] | None:
        extra: dict[str, Any] = {"turn": notice.turn}
        match notice.kind:
            case "compaction":
                extra["context_management"] = {"type": "compaction"}
                message = f"Context compaction performed: {notice.text}".rstrip(": ")
            case "error":
                message = f"The turn failed: {notice.text}"
            case "permission":
                message = f"Permission: {notice.text}"
            case _:
                return None
        return self._new("system", notice.ts, message, extra)

    def final_metrics(self, total: ev.UsageTotals | None) -> dict[str, Any]:
        """The totals of the session, by the runtime's own count where it has one."""
        usage = total.usage if total is not None else self._usage
        found: dict[str, Any] = {f"total_{k}": v for k, v in _tokens(usage).items()}
        if total is not None and total.cost_usd is not None:
            found["total_cost_usd"] = total.cost_usd
        found["total_steps"] = max(1, self.count)
        return {**found, "extra": _token_extra(usage)} if _token_extra(usage) else found

    def notes(self, total: ev.UsageTotals | None) -> str:
        """Notes on the numbers."""
        found = []
        if total is not None and _tokens(total.usage) != _tokens(self._usage):
            found.append(
                "Totals are the runtime's own; it does not report the tokens of every step."
            )
        if self._undelivered:
            found.append(
                f"User messages that reached no turn and are not steps: {self._undelivered}."
            )
        return " ".join(found)


def _message(message: UserMessage) -> Any:
    """The text, or text and images as parts where the format supports the images."""
    pictures = []
    for path in message.images:
        kind = _IMAGE_TYPES.get(path[path.rfind(".") :].lower())
        if kind is not None:
            pictures.append({"type": "image", "source": {"media_type": kind, "path": path}})
    return [{"type": "text", "text": message.text}, *pictures] if pictures else message.text


def _user_extra(message: UserMessage) -> dict[str, Any]:
    return {"turn": message.turn, "kind": message.kind}


def _tool_call(tool: ToolUse) -> dict[str, Any]:
    args = tool.args
    if not isinstance(args, dict):
        args = {} if args is None else {"value": args}
    return {"tool_call_id": tool.id, "function_name": tool.name, "arguments": args}


def _result(tool: ToolUse) -> dict[str, Any]:
    result: dict[str, Any] = {"source_call_id": tool.id, "content": tool.result_text}
    extra = {"is_error": tool.is_error, "still_running": tool.is_open}
    notes = {name: True for name, holds in extra.items() if holds}
    return {**result, "extra": notes} if notes else result


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }


def _token_extra(usage: Usage) -> dict[str, int]:
    counts = {
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    return {name: count for name, count in counts.items() if count}


def _metrics(usage: Usage) -> dict[str, Any]:
    extra = _token_extra(usage)
    return {**_tokens(usage), "extra": extra} if extra else dict(_tokens(usage))
