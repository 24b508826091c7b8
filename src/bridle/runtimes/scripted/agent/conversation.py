"""One conversation: asks for a reply, runs the tools it calls, until it calls none.

Replies come from the script that fits the prompt, or from a model server.
"""

from __future__ import annotations

import os

from .guard import Guard
from .replies import Failure, Player, Reply
from .tools import Toolbox
from .transcript import Transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .model_client import ModelClient
    from .output import Face, Misbehaviour
    from .replies import Interrupt, Source

    class Inbox(Protocol):
        """Messages that came while a turn is played."""

        def take(self) -> list[dict[str, Any]]:
            """Those that the turn can still deliver, each with `id`, `text` and `images`."""


_LONGEST_WAIT = 5.0
"""Seconds; a service that asks for a longer pause is not called again."""


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
        transcript: Transcript,
        limits: Limits,
        misbehaviour: Misbehaviour,
        inbox: Inbox | None = None,
    ) -> None:
        self._face = face
        self._interrupt = interrupt
        self._toolbox = toolbox
        self._transcript = transcript
        self._limits = limits
        self._misbehaviour = misbehaviour
        self._inbox = inbox
        self._digest = ""
        self._messages = sum(1 for r in transcript.records if r["type"] == "assistant")

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
        self._record(prompt, images, message_id)
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
                self._transcript.add("tool_result", **result)
            self._interrupt.check()
            self._deliver()

    def _record(self, text: str, images: list[dict[str, str]], message_id: str, **how: Any) -> None:
        """Record what the user said, once: after a process that was killed before it acknowledged a
        message, the next one gets the same message again."""
        if message_id:
            if any(
                r["type"] == "user" and r.get("id") == message_id for r in self._transcript.records
            ):
                return
            how["id"] = message_id
        self._transcript.add("user", text=text, images=images, **how)

    def _deliver(self) -> None:
        """Give the model the messages that came while the tools ran."""
        for message in self._inbox.take() if self._inbox else ():
            self._record(message["text"], message["images"], message["id"], steer=True)
            self._face.emit({"type": "taken", "id": message["id"]})

    def _reply(self, source: Source) -> Reply:
        try:
            return self._persist(source)
        except Failure:
            if self._interrupt.requested:
                self._transcript.add("aborted", step=source.give_up(), digest=self._digest)
                self._interrupt.check()
            raise

    def _persist(self, source: Source) -> Reply:
        """A reply; a failed call is made again as often as that may help."""
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
        """One model call; its message begins with the first piece that arrives."""
        name = f"msg_{self._messages + 1}"
        begun = False
        for piece in source.ask(self._transcript.records):
            self._interrupt.check()
            if not begun:
                begun = True
                self._messages += 1
                self._limits.calls += 1
                self._face.emit({"type": "message_start", "id": name})
                for text in self._misbehaviour.padding():
                    self._face.emit({"type": "text", "text": text})
            if isinstance(piece, Reply):
                self._complete(name, piece)
                return piece
            self._face.emit({"type": piece[0], "text": piece[1]})
        raise Failure("the reply never came", kind="unavailable", retryable=True)

    def _complete(self, name: str, reply: Reply) -> None:
        cost = self._limits.cost_per_turn
        self._transcript.add(
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


class Sources:
    """The sources of one conversation. A script that was begun continues where it stopped, also
    after another was played in between."""

    def __init__(
        self, request: dict[str, Any], transcript: Transcript, interrupt: Interrupt
    ) -> None:
        self._request = request
        self._transcript = transcript
        self._interrupt = interrupt
        self._server: ModelClient | None = None
        self._player: Player | None = None
        self._digest = ""

    def of(self, prompt: str) -> tuple[str, Source]:
        """The source for `prompt`, with the digest of its script. Raises `Failure` when no
        conversation of the script fits."""
        if self._request.get("server"):
            return "", self._asked_server()
        script = self._script(prompt)
        digest = script["digest"]
        if self._player is None or self._digest != digest:
            known = self._transcript.script()
            if known is None or known["digest"] != digest:
                self._transcript.add("script", digest=digest, steps=script["steps"])
            start = self._transcript.next_step(digest)
            ended = self._request["ended"]
            self._player = Player(script["steps"], ended, start, self._interrupt)
            self._digest = digest
        return digest, self._player

    def set_model(self, model: str) -> None:
        """Ask for this model from now on."""
        self._request["model"] = model
        if self._server is not None:
            self._server.set_model(model)

    def _asked_server(self) -> ModelClient:
        # Made with the first prompt: an idle agent needs half the memory without it.
        if self._server is None:
            from .model_client import ModelClient

            self._server = ModelClient(self._request, self._interrupt)
        return self._server

    def _script(self, prompt: str) -> dict[str, Any]:
        scripts: list[dict[str, Any]] = self._request["scripts"]
        if not scripts:
            # Only a resumed conversation may come without a script.
            return self._transcript.script() or _counted(self._request["built_in"], prompt)
        for script in scripts:
            if self._fits(script.get("match") or {}, prompt):
                return script
        raise Failure("no conversation of the script fits the prompt", kind="unavailable")

    def _fits(self, match: dict[str, Any], prompt: str) -> bool:
        return (
            (match.get("prompt_contains") or "") in prompt
            and (match.get("system_contains") or "") in self._request["system"]
            and match.get("model") in (None, self._request.get("model"))
        )


def _counted(built_in: dict[str, Any], prompt: str) -> dict[str, Any]:
    """The built-in script, with the length of the prompt in its text."""
    step = built_in["steps"][0]
    text = step["reply"]["text"][0].replace("{characters}", str(len(prompt)))
    return {**built_in, "steps": [{**step, "reply": {**step["reply"], "text": [text]}}]}


def conversation(
    request: dict[str, Any],
    face: Face,
    misbehaviour: Misbehaviour,
    interrupt: Interrupt,
    inbox: Inbox | None = None,
) -> tuple[Loop, Sources]:
    """Begin the conversation that `request` asks for, or resume it; announces it on `face`."""
    native, version = request["native_id"], request["version"]
    transcript = Transcript(request["state_dir"], native, resume=request["resume"])
    if not request["resume"]:
        transcript.add("session", id=native, cwd=os.getcwd(), version=version)
    sources = Sources(request, transcript, interrupt)
    face.emit(
        {
            "type": "session",
            "id": native,
            "model": (request.get("server") and request.get("model")) or "scripted",
            "version": version,
            "scripted": True,
            "resumed": request["resume"],
            "images": len(request.get("images", [])),
        }
    )
    guard = Guard(request["guard"], face) if request.get("guard") else None
    if guard is not None:
        guard.begin()
    asks = request["permission"] == "ask"
    loop = Loop(
        face=face,
        interrupt=interrupt,
        toolbox=Toolbox(face, request["tools"], interrupt, ask=asks, guard=guard),
        transcript=transcript,
        limits=Limits(request),
        misbehaviour=misbehaviour,
        inbox=inbox,
    )
    return loop, sources
