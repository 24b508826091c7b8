"""Why a verdict is what it is: the parse, each part's own verdict, and the rule."""

from typing import Any

import msgspec

from bridle.guard.budget import limited
from bridle.guard.judge import Judge
from bridle.guard.policy import Policy
from bridle.guard.shell.parse import parse
from bridle.guard.shell.shfmt import ParseError
from bridle.guard.verdict import Blocked, Call, Part, Verdict, block

MAX_PAYLOAD = 64 << 20


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with what led to it."""

    verdict: Verdict
    action: str
    """The neutral action of the tool."""
    parts: list[Part]
    parse: Any
    """The shell tree as plain data, None when there is no command or it cannot be parsed."""


def explain(call: Call, policy: Policy) -> Explanation:
    """The verdict on the call with what led to it. Never raises."""
    from bridle.guard import tools

    ready = Judge(policy)
    verdict = ready.judge(call)
    tool = tools.lookup(call.tool) if isinstance(call.tool, str) else None
    action = tool.action if tool is not None else "unknown"
    parts: list[Part] = []
    if verdict.rule not in ("no-agent", "policy-error"):
        try:
            with limited():
                ready.decide(call, parts)
        except Blocked as blocked:
            seen = blocked.verdict()
            parts.append(Part(blocked.detail, "block", seen.rule, seen.reason))
        except Exception as error:
            failed = block("internal-error", f"the guard failed ({type(error).__name__})")
            parts.append(Part("", "block", failed.rule, failed.reason))
    return Explanation(verdict=verdict, action=action, parts=parts, parse=_parse(call))


def _parse(call: Call) -> Any:
    fields = call.input if isinstance(call.input, dict) else {}
    for name in ("command", "cmd"):
        text = fields.get(name)
        if isinstance(text, str):
            try:
                return plain(parse(text))
            except ParseError:
                return None
    return None


def plain(node: Any) -> Any:
    """A tree as plain data: a dict with its `type` for each node, defaults left out."""
    if isinstance(node, msgspec.Struct):
        data: dict[str, Any] = {"type": type(node).__name__}
        for name in node.__struct_fields__:
            value = getattr(node, name)
            if value not in (None, (), "", False):
                data[name] = plain(value)
        return data
    if isinstance(node, tuple):
        return [plain(item) for item in node]
    return node


def read_call(payload: bytes | str | dict[str, Any]) -> Call | Verdict:
    """The call in a payload, or the refusal of a payload that is not a call."""
    if isinstance(payload, bytes | str):
        if len(payload) > MAX_PAYLOAD:
            return block("bad-input", "the call is too large")
        try:
            payload = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeError):
            return block("bad-input", "the call is not JSON")
    if not isinstance(payload, dict) or "tool" not in payload:
        return block("bad-input", "the call is not an object with tool and input")
    runtime = payload.get("runtime")
    return Call(
        tool=payload.get("tool"),
        input=payload.get("input"),
        runtime=runtime if isinstance(runtime, str) else None,
    )
