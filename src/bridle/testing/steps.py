"""A conversation's script as a player sees it: replies, each with the faults that precede it."""

import hashlib
import re
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from bridle.testing.script import Fault, Turn, Usage
from bridle.testing.tools import translate
from bridle.testing.wire.base import OfferedTool, PastReply, Reply

_FOREVER = 1 << 62
_CALL_ID = re.compile(r"_([0-9a-f]{6})s(\d+)c\d+x([0-9a-f]{16})")


class FaultStage(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that is served `times` times before the script continues."""

    fault: Fault
    times: int
    turn: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, after the faults before it; without a reply, the faults never end."""

    faults: tuple[FaultStage, ...] = ()
    reply: Turn | None = None
    turn: int
    """Index of the turn in the script that this step ends with."""


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """All steps of one conversation, with a digest that marks the ids of its tool calls."""

    steps: tuple[Step, ...]
    digest: str

    def identity_of(self, reply: PastReply) -> str | None:
        """The conversation that a reply in the history belongs to, by its tool-call ids."""
        for call_id in reply.call_ids:
            found = _CALL_ID.search(call_id)
            if found and found.group(1) == self.digest:
                return found.group(3)
        return None

    def step_of(self, reply: PastReply) -> int | None:
        """The step that a reply in the history came from, by its tool-call ids."""
        for call_id in reply.call_ids:
            found = _CALL_ID.search(call_id)
            if found and found.group(1) == self.digest:
                return int(found.group(2))
        return None

    def says(self, index: int, reply: PastReply) -> bool:
        """Whether a reply in the history may be what this step says."""
        if index >= len(self.steps):
            return False
        turn = self.steps[index].reply
        if turn is None:
            return False
        mine, theirs = _folded(turn.text), _folded(reply.text)
        # A reply that was interrupted is in the history with its beginning only.
        return mine == theirs or (bool(theirs) and mine.startswith(theirs))


def _folded(text: str) -> str:
    return " ".join(text.split())


def compile_steps(turns: Sequence[Turn]) -> Steps:
    """Fold faults without a reply into the step of the next reply."""
    steps: list[Step] = []
    pending: list[FaultStage] = []
    for index, turn in enumerate(turns):
        if turn.fault is not None and fails(turn.fault):
            usual = 1 if turn.has_reply else _FOREVER
            times = turn.fault.times or usual
            pending.append(FaultStage(fault=turn.fault, times=times, turn=index))
        if turn.has_reply or (turn.fault is not None and not fails(turn.fault)):
            steps.append(Step(faults=tuple(pending), reply=turn, turn=index))
            pending = []
    if pending:
        steps.append(Step(faults=tuple(pending), reply=None, turn=len(turns) - 1))
    digest = hashlib.sha256(msgspec.json.encode(tuple(turns))).hexdigest()[:6]
    return Steps(steps=tuple(steps), digest=digest)


def fails(fault: Fault) -> bool:
    """Whether a fault damages the answer; a slow or late answer is still an answer."""
    broken = fault.cut is not False or fault.malformed or is_refusal(fault)
    return broken or fault.stall is not None


def is_refusal(fault: Fault) -> bool:
    """Whether a fault is an error answer, not a damaged reply."""
    return fault.kind is not None or fault.status is not None or fault.body is not None


def make_reply(
    turn: Turn,
    *,
    model: str,
    tools: Sequence[OfferedTool],
    digest: str,
    step: int,
    identity: str,
    id_prefix: str,
) -> Reply:
    """Turn what the script says into a reply for the tools that are offered.

    Raises `UntranslatableError` when a tool call fits none of them.
    """
    calls = []
    for index, call in enumerate(turn.tool_calls):
        call_id = call.id or f"{id_prefix}_{digest}s{step}c{index}x{identity}"
        calls.append(msgspec.structs.replace(translate(call, tools), id=call_id))
    return Reply(
        model=turn.model or model,
        text_chunks=split_text(turn.text, turn.chunks, turn.chunk_size),
        thinking_chunks=split_text(turn.thinking, turn.chunks, turn.chunk_size),
        calls=tuple(calls),
        usage=turn.usage,
        stop_reason=turn.stop_reason,
    )


def say(text: str, *, model: str, usage: Usage) -> Reply:
    """Return a reply that is only text."""
    return Reply(model=model, text_chunks=(text,), usage=usage)


def split_text(text: str, chunks: int = 1, size: int | None = None) -> tuple[str, ...]:
    """Split text into non-empty deltas that join to the same text."""
    if not text:
        return ()
    if size is None:
        count = min(chunks, len(text))
        edges = [len(text) * index // count for index in range(count + 1)]
    else:
        edges = [*range(0, len(text), size), len(text)]
    return tuple(text[a:b] for a, b in pairwise(edges))
