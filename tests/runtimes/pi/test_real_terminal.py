"""Pi's own terminal interface, in a tmux of the test's own."""

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from bridle.core.options import SpawnOptions
from bridle.core.results import Busy, Dialog, Ready, ReadyState
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.pi import PiRuntime
from bridle.testing import ScriptedModel
from tests.runtimes.pi.support import Place, place
from tests.support.real_cli import real_cli, versions

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("version", versions("pi")),
]

__all__ = ["place"]

EXTENSION = """
import { writeFileSync } from "node:fs";
export default function (pi) { writeFileSync(process.env.HOME + "/witness", "loaded"); }
"""


class Terminal:
    """One pane on a private socket."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._tmux = ["tmux", "-S", str(place.home / "tmux"), "-f", "/dev/null"]

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words], env=self.place.env(), capture_output=True, timeout=20, check=True
        )
        return done.stdout.decode()

    def start(self, command: str) -> None:
        size = ("-x", "160", "-y", "40")
        self("new-session", "-d", *size, "-c", str(self.place.repo), "-s", "pi", command)

    def wait(self, runtime: PiRuntime, fits: Callable[[ReadyState], bool]) -> ReadyState:
        """What the pane shows, once it is what was waited for."""
        until = time.monotonic() + 180
        while True:
            pane = self("capture-pane", "-p", "-t", "pi")
            state = runtime.detect_ready(pane)
            if fits(state):
                return state
            assert time.monotonic() < until, f"{state}\n{pane}"
            time.sleep(0.1)


@pytest.fixture
def terminal(place: Place) -> Iterator[Terminal]:
    made = Terminal(place)
    yield made
    subprocess.run([*made._tmux, "kill-server"], capture_output=True, check=False)


def test_a_spawned_session_takes_a_prompt(version: str, place: Place, terminal: Terminal) -> None:
    runtime = PiRuntime(AdapterSettings(binary=str(real_cli("pi", version))))
    script = [{"text": "first answer"}, {"text": "I ask.", "shell": "touch asked.txt"}]
    with ScriptedModel(script) as model:
        place.login(model)
        command = runtime.build_spawn_command(
            SpawnOptions(
                model="lab/scripted",
                env={"HOME": str(place.home), "XDG_STATE_HOME": ""},
                append_system_prompt="marker-$HOME-'quoted'",
                initial_prompt="-a first prompt",
            )
        )
        terminal.start(command)
        model.wait_for_request(lambda request: request.body is not None)
        terminal.wait(runtime, lambda state: state == Ready())
        terminal("send-keys", "-t", "pi", "-l", "a second prompt")
        terminal("send-keys", "-t", "pi", "Enter")
        model.wait_for_request(lambda request: "a second prompt" in str(request.body))
        assert [said.strip() for said in model.prompts()] == ["-a first prompt", "a second prompt"]
        assert "marker-$HOME-'quoted'" in str(model.requests[0].body)
        # It asks the person, as the default of a spawned session says.
        terminal.wait(runtime, lambda state: state == Busy(what="permission"))
        assert not (place.repo / "asked.txt").exists()


def test_the_safe_key_does_not_trust_a_project(
    version: str, place: Place, terminal: Terminal
) -> None:
    runtime = PiRuntime(AdapterSettings(binary=str(real_cli("pi", version))))
    if not runtime.dialect(version)[0].trust_flags:
        plain = SpawnOptions(model="sonnet", permission_mode="bypass")
        assert "--no-approve" not in runtime.build_spawn_command(plain)
        return
    (place.repo / ".pi" / "extensions").mkdir(parents=True)
    (place.repo / ".pi" / "extensions" / "witness.ts").write_text(EXTENSION)
    with ScriptedModel([{"text": "ok"}]) as model:
        place.login(model)
        binary = shlex.quote(str(real_cli("pi", version)))
        terminal.start(f"{binary} --model lab/scripted")
        dialog = terminal.wait(runtime, lambda state: isinstance(state, Dialog))
        assert isinstance(dialog, Dialog)
        assert dialog.action is not None
        terminal("send-keys", "-t", "pi", dialog.action)
        terminal.wait(runtime, lambda state: state == Ready())
    assert not (place.agent_dir / "trust.json").exists()
    assert not (place.home / "witness").exists()
