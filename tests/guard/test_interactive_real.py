"""`bridle run --interactive` with a guard, on real agents at a terminal of their own."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.drives.tmux.server import TmuxServer
from bridle.drives.tmux.terminal import Terminal
from bridle.runtimes.alternatives import as_terminal
from bridle.runtimes.contract import Adapter
from bridle.testing import ScriptedModel
from tests.conftest import wait_until
from tests.sandbox.bench import Bench, bench, claude_user, pi_user
from tests.support.panes import private_server, reach
from tests.support.real_cli import pinned, real_cli

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]

AGENTS = [
    ("claude", "2.1.197"),
    ("claude", "2.1.325"),
    ("codex", "0.166.0"),
    ("pi", "1.5.0"),
    ("pi", "0.74.2"),
]
SECONDS = 90.0


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.fixture
def server() -> Iterator[TmuxServer]:
    with private_server() as made:
        yield made


def codex_user(place: Bench, model: ScriptedModel) -> None:
    """A user of Codex with a provider of their own."""
    (place.home / ".codex").mkdir()
    (place.home / ".codex/config.toml").write_text(
        'model = "gpt-5.5"\nmodel_provider = "lab"\n'
        f'[model_providers.lab]\nname = "lab"\nbase_url = "{model.url}/v1"\n'
        'env_key = "LAB_KEY"\nwire_api = "responses"\nrequires_openai_auth = false\n'
    )
    place.env |= {"LAB_KEY": model.api_key}


def at_home(place: Bench, name: str, model: ScriptedModel) -> list[str]:
    """A home in which the agent talks to the scripted model; returns what else is to be said."""
    if name == "claude":
        claude_user(place, model)
        settings = place.home / ".claude/settings.json"
        settings.write_text('{"skipDangerousModePermissionPrompt": true}')
    elif name == "codex":
        codex_user(place, model)
        return ["--sandbox", "off"]
    else:
        pi_user(place, model)
        return ["--model", "lab/scripted"]
    return []


def started(
    server: TmuxServer, place: Bench, name: str, version: str, *words: str
) -> tuple[Terminal, Adapter]:
    """The command at a terminal, brought to the agent's prompt."""
    runtime = begin(server, place, name, version, *words)
    terminal = Terminal(server, "run", as_terminal(runtime).terminal_facts(), runtime.detect_ready)
    terminal.begin_ready(SECONDS)
    reach(terminal)
    return terminal, runtime


def begin(server: TmuxServer, place: Bench, name: str, version: str, *words: str) -> Adapter:
    """The command at a terminal."""
    runtime = pinned(name, version)
    binary = real_cli(name, version)
    config = place.home / ".config/bridle"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text(
        f"runtime: {{adapters: {{{name}: {{binary: {binary}}}}}}}\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    env = {**place.env, "PYTHONPATH": source}
    argv = [sys.executable, "-m", "bridle", "run", "--interactive", "--runtime", name, *words]
    shell = ("/bin/sh", "-c", '"$@"; echo "status $?"; sleep 60', "sh", *argv)
    server.new_session("run", shell, cwd=str(place.worktree), env=env)
    return runtime


def left(terminal: Terminal) -> str:
    """Leave the agent; returns what the terminal shows then."""
    until = time.monotonic() + SECONDS
    press_at = 0.0
    while "status " not in (shown := terminal.server.capture("run")):
        now = time.monotonic()
        assert now < until, shown
        if now >= press_at:
            # An interface may take the first keys for something else.
            press_at = now + 3.0
            terminal.leave()
        terminal.step()
        time.sleep(0.05)
    return shown


@pytest.mark.parametrize(("name", "version"), AGENTS, ids=lambda word: word)
def test_the_guard_holds_a_person_s_own_agent(
    server: TmuxServer, place: Bench, name: str, version: str
) -> None:
    outside = place.outside / "bad.txt"
    script = [
        {"text": "Inside.", "shell": "echo hi > inside.txt"},
        {"text": "Outside.", "shell": f"echo bad > {outside}"},
        {"text": "Finished."},
    ]
    with ScriptedModel(script) as model:
        more = at_home(place, name, model)
        words = ("--guard", "builder", "--permission", "bypass", *more)
        terminal, _ = started(server, place, name, version, *words)
        terminal.begin_delivery("Do it.", SECONDS)
        reach(terminal)
        wait_until(lambda: len(model.tool_results()) == 2, seconds=SECONDS)
        results = [each.text for each in model.tool_results()]
        wait_until(lambda: "Finished." in server.capture("run"), seconds=SECONDS)
        shown = left(terminal)
    assert (place.worktree / "inside.txt").read_text() == "hi\n"
    assert not outside.exists()
    assert "outside" in results[1], results
    assert "status 0" in shown
    assert "not seen to fire" not in shown
    nothing_left(place)


def nothing_left(place: Bench) -> None:
    run = place.home / ".local/state/bridle/run"
    assert not run.exists() or os.listdir(run) == []


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])
@pytest.mark.parametrize("where", ["user", "project"])
def test_settings_elsewhere_do_not_switch_it_off(
    server: TmuxServer, place: Bench, version: str, where: str
) -> None:
    script = [
        {"text": "Outside.", "shell": f"touch {place.outside}/bad.txt"},
        {"text": "Finished."},
    ]
    with ScriptedModel(script) as model:
        at_home(place, "claude", model)
        folder = (place.home if where == "user" else place.worktree) / ".claude"
        folder.mkdir(exist_ok=True)
        off = '{"skipDangerousModePermissionPrompt": true, "disableAllHooks": true}'
        (folder / "settings.json").write_text(off)
        words = ("--guard", "builder", "--permission", "bypass")
        terminal, _ = started(server, place, "claude", version, *words)
        terminal.begin_delivery("Do it.", SECONDS)
        reach(terminal)
        wait_until(lambda: "Finished." in server.capture("run"), seconds=SECONDS)
        left(terminal)
    assert not (place.outside / "bad.txt").exists()


def test_codex_without_its_hooks_is_not_started(server: TmuxServer, place: Bench) -> None:
    with ScriptedModel([{"text": "Never."}]) as model:
        codex_user(place, model)
        off = ("--raw-arg=-c", "--raw-arg=features.hooks=false")
        held = ("--sandbox", "off", "--permission", "bypass")
        begin(server, place, "codex", "0.166.0", "--guard", "builder", *held, *off)
        wait_until(lambda: "status " in server.capture("run"), seconds=SECONDS)
        shown = server.capture("run")
    assert "status 9" in shown
    assert "cannot be guarded with its hooks disabled" in shown
    assert model.prompts() == []
    nothing_left(place)
