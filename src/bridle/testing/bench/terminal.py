"""An agent's own terminal interface, in a tmux that only the test knows."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping

from bridle.core.results import Dialog, Ready, ReadyState
from bridle.drives.tmux.server import TmuxServer
from bridle.runtimes.contract import Adapter

_NAME = "agent"
_DEADLINE = 180.0
_TICK = 0.1
_SETTLED = 0.7
"""Seconds that a dialog must stand still before it is answered."""


class AgentTerminal:
    """One pane with one agent; `AgentBench.terminal` makes it.

    Contract: every wait has a deadline and raises `AssertionError` with the screen.
    """

    def __init__(self, runtime: Adapter, command: str, cwd: str, env: Mapping[str, str]) -> None:
        self.command = command
        """The command that was started, as a shell reads it."""
        self._runtime, self._cwd, self._env = runtime, cwd, dict(env)
        # A socket's path must be short, so it is not below the bench's folder.
        self._folder = tempfile.mkdtemp(prefix="bench-")
        self._server = TmuxServer(f"{self._folder}/s")

    def start(self) -> None:
        """Start the agent in its pane."""
        self._server.start()
        argv = ["/bin/sh", "-c", self.command]
        self._server.new_session(_NAME, argv, cwd=self._cwd, env=self._env)

    def close(self) -> None:
        """End the server and the agent in it. Safe to call twice."""
        self._server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def screen(self) -> str:
        """What the pane shows."""
        return self._server.capture(_NAME)

    @property
    def state(self) -> ReadyState:
        """What the adapter reads off the screen."""
        return self._runtime.detect_ready(self.screen)

    def press(self, *keys: str) -> None:
        """Press keys, given by their tmux names."""
        self._server.send_keys(_NAME, *keys)

    def type(self, text: str) -> None:
        """Paste a text and press Enter."""
        self._server.paste(_NAME, text)
        self.press("Enter")

    def wait(self, fits: Callable[[ReadyState], bool], seconds: float = _DEADLINE) -> ReadyState:
        """The state, once it fits."""
        until = time.monotonic() + seconds
        while not fits(state := self.state):
            if time.monotonic() > until:
                raise AssertionError(f"still {state}:\n{self.screen}")
            time.sleep(_TICK)
        return state

    def wait_for_text(self, text: str, seconds: float = _DEADLINE) -> None:
        """Wait until the screen shows `text`."""
        self.wait(lambda _: text in self.screen, seconds)

    def wait_ready(self, seconds: float = _DEADLINE) -> list[str]:
        """Answer each dialog as the adapter says until the agent waits for a prompt; returns the
        names of the dialogs."""
        answered: list[str] = []
        until = time.monotonic() + seconds
        last, since = None, time.monotonic()
        while not isinstance(state := self.state, Ready):
            now = time.monotonic()
            if now > until:
                raise AssertionError(f"not ready, but {state}:\n{self.screen}")
            if state != last:
                last, since = state, now
            elif isinstance(state, Dialog) and now - since > _SETTLED:
                if state.action is None:
                    raise AssertionError(f"a dialog without an answer: {state}:\n{self.screen}")
                answered.append(state.name)
                self.press(*state.action.split())
                # The screen may take a while to change; a key must not be sent twice meanwhile.
                since = now if state.action in ("Home", "End") else now + 5 * _SETTLED
            time.sleep(_TICK)
        return answered
