"""The agent's loop: ask for a reply, run the tools it calls, until it calls none."""

from __future__ import annotations

from .parts import Failure, Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .aids import Aids
    from .interrupt import Interrupt
    from .parts import Face, Inbox, Source
    from .store import Store
    from .tools import Toolbox

_LONGEST_WAIT = 5.0
"""Seconds: a service that asks to be left alone for longer is not waited for."""


class Limits:
    """What a run may use."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.max_turns: int | None = request.get("max_turns")
        self.cost_per_turn: float | None = request.get("cost_per_turn")
        self.max_retries: int = request.get("max_retries", 3)
        self.calls = 0

    def check(self) -> None:
        """Raise when the next model call would pass a limit."""
        if self.max_turns is not None and self.calls >= self.max_turns:
            raise Failure(f"reached the limit of {self.max_turns} turns", kind="budget_exceeded")


class Loop:
    """Works on prompts in one conversation."""

    def __init__(
        self,
        *,
        face: Face,
        interrupt: Interrupt,
        toolbox: Toolbox,
        store: Store,
        limits: Limits,
        aids: Aids,
        inbox: Inbox | None = None,
    ) -> None:
        self._face = face
        self._interrupt = interrupt
        self._toolbox = toolbox
        self._store = store
        self._limits = limits
        self._aids = aids
        self._inbox = inbox
        self._digest = ""
        self._messages = sum(1 for r in store.records if r["type"] == "assistant")

    def work(
        self,
        prompt: str,
        images: list[dict[str, str]],
        source: tuple[str, Source],
        message_id: str = "",
    ) -> None:
        """One turn, from its prompt to a reply that calls no tool, answered by `source` (with the
        digest of its script). Raises `Failure`."""
        self._digest, replies = source
        self._heard(prompt, images, message_id)
        self._face.emit({"type": "turn_start"})
        if message_id:
            self._face.emit({"type": "taken", "id": message_id})
        while True:
            self._interrupt.check()
            self._limits.check()
            reply = self._reply(replies)
            if reply.stop_reason == "max_tokens":
                raise Failure(
                    "the answer was cut at the model's output limit", kind="context_overflow"
                )
            if reply.stop_reason == "refusal":
                raise Failure("the model refused to go on", kind="unavailable")
            if not reply.calls:
                return
            for result in self._toolbox.run(reply.calls):
                self._store.add("tool_result", **result)
            self._interrupt.check()
            self._deliver()

    def _heard(self, text: str, images: list[dict[str, str]], message_id: str, **how: Any) -> None:
        """Write down what the user said, once: a process that was killed before it could say that
        it took a message is followed by one that is given the same again."""
        if message_id:
            if any(r["type"] == "user" and r.get("id") == message_id for r in self._store.records):
                return
            how["id"] = message_id
        self._store.add("user", text=text, images=images, **how)

    def _deliver(self) -> None:
        """Let what was said meanwhile reach the model, now that the tools are done."""
        for message in self._inbox.take() if self._inbox else ():
            self._heard(message["text"], message["images"], message["id"], steer=True)
            self._face.emit({"type": "taken", "id": message["id"]})

    def _reply(self, source: Source) -> Reply:
        try:
            return self._persist(source)
        except Failure:
            if self._interrupt.requested:
                self._store.add("aborted", step=source.give_up(), digest=self._digest)
                self._interrupt.check()
            raise

    def _persist(self, source: Source) -> Reply:
        """A reply, asked for again as often as that may help."""
        attempt = 0
        while True:
            try:
                return self._one_reply(source)
            except Failure as failure:
                attempt += 1
                wait = failure.retry_after
                if wait is None:
                    wait = min(1.0, 0.02 * 2**attempt)
                no_more = attempt > self._limits.max_retries or self._interrupt.requested
                if not failure.retryable or no_more or wait > _LONGEST_WAIT:
                    raise
                self._face.emit(
                    {
                        "type": "retry",
                        "attempt": attempt,
                        "delay_ms": int(wait * 1000),
                        "error": failure.fields,
                    }
                )
                self._interrupt.wait(wait)

    def _one_reply(self, source: Source) -> Reply:
        """One model call; the message is begun with the first thing that arrives."""
        name = f"msg_{self._messages + 1}"
        begun = False
        for piece in source.ask(self._store.records):
            self._interrupt.check()
            if not begun:
                begun = True
                self._messages += 1
                self._limits.calls += 1
                self._face.emit({"type": "message_start", "id": name})
                for text in self._aids.padding():
                    self._face.emit({"type": "text", "text": text})
            if isinstance(piece, Reply):
                self._keep(name, piece)
                return piece
            self._face.emit({"type": piece[0], "text": piece[1]})
        raise Failure("the reply never came", kind="unavailable", retryable=True)

    def _keep(self, name: str, reply: Reply) -> None:
        cost = self._limits.cost_per_turn
        self._store.add(
            "assistant",
            text=reply.text,
            calls=reply.calls,
            usage=reply.usage,
            model=reply.model,
            stop_reason=reply.stop_reason,
            cost_usd=cost,
            step=reply.step,
            digest=self._digest,
        )
        self._face.emit(
            {
                "type": "message_end",
                "id": name,
                "text": reply.text,
                "usage": reply.usage,
                "model": reply.model,
                "stop_reason": reply.stop_reason,
                "cost_usd": cost,
            }
        )
