"""Where the replies to a prompt come from: the script that fits it, or a model server."""

from __future__ import annotations

from .parts import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .interrupt import Interrupt
    from .parts import Source
    from .player import Player
    from .server import ServerModel
    from .store import Store


class Sources:
    """The sources of one conversation. A script that was begun goes on where it stopped, also
    after another was played in between."""

    def __init__(self, request: dict[str, Any], store: Store, interrupt: Interrupt) -> None:
        self._request = request
        self._store = store
        self._interrupt = interrupt
        self._server: ServerModel | None = None
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
            from .player import Player

            known = self._store.script()
            if known is None or known["digest"] != digest:
                self._store.add("script", digest=digest, steps=script["steps"])
            start = self._store.next_step(digest)
            ended = self._request["ended"]
            self._player = Player(script["steps"], ended, start, self._interrupt)
            self._digest = digest
        return digest, self._player

    def set_model(self, model: str) -> None:
        """Ask for this model from now on."""
        self._request["model"] = model
        if self._server is not None:
            self._server.set_model(model)

    def _asked_server(self) -> ServerModel:
        # Made with the first prompt: an agent that is not used yet weighs half as much without it.
        if self._server is None:
            from .server import ServerModel

            self._server = ServerModel(self._request, self._interrupt)
        return self._server

    def _script(self, prompt: str) -> dict[str, Any]:
        scripts: list[dict[str, Any]] = self._request["scripts"]
        if not scripts:
            # Only a conversation that is gone on with may come without a script.
            return self._store.script() or _counted(self._request["built_in"], prompt)
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
    """The built-in script, which tells how long the prompt is."""
    step = built_in["steps"][0]
    text = step["reply"]["text"][0].replace("{characters}", str(len(prompt)))
    return {**built_in, "steps": [{**step, "reply": {**step["reply"], "text": [text]}}]}
