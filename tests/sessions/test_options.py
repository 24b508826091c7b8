"""No option is silent in a session: each is honoured or refused by name, in every drive."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.events import Drive
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.drives.print_session.records import Order
from bridle.process.private_folders import remove_folders
from bridle.runtimes.alternatives import compacting_runtimes
from bridle.runtimes.contract import Adapter
from bridle.runtimes.install import Installation
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.runtimes.sandbox_plan import planned, planned_live, planned_tmux
from bridle.sessions.clocks import Clocks
from bridle.sessions.ledger import Begin
from bridle.sessions.print_plan import _options
from bridle.sessions.replay import wire_of as wire_of_session
from bridle.sessions.start import _kept_options
from bridle.turns.recorder import Recorder
from bridle.turns.usage_totals import Before
from bridle.turns.wire import CompactionControl, LiveFacts
from tests.drives.tmux.test_transcript_wires import NAMES, lines_of, wire_of
from tests.sessions.place import Place

DRIVES: tuple[Drive, ...] = ("rpc", "print", "tmux")
KEY = "k" * 20

SAMPLES: dict[str, dict[str, Any]] = {
    "system_prompt": {"system_prompt": "Be brief."},
    "append_system_prompt": {"append_system_prompt": "Be brief."},
    "append_system_prompt_file": {"append_system_prompt_file": "FILE"},
    "env": {"env": {"MINE": "yes"}},
    "model": {"model": "openai/big"},
    "provider": {
        "model": "openai/big",
        "provider": Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="MY_KEY"),
    },
    "max_turns": {"max_turns": 3},
    "allowed_tools": {"allowed_tools": ("read_file",)},
    "denied_tools": {"denied_tools": ("shell",)},
    "settings": {"settings": '{"zz": 1}'},
    "mcp_config": {"mcp_config": '{"mcpServers": {"x": {"command": "true"}}}'},
    "raw_args": {"raw_args": ("--mine",)},
    "budget_usd": {"budget_usd": 0.5},
    "account_dir": {"account_dir": "FOLDER"},
}
BY_BRIDLE = {"max_turns", "budget_usd"}
"""Limits that the recorder keeps to itself, where the agent cannot."""
ELSEWHERE = {
    # Sent, or checked, with each message.
    *("prompt", "images"),
    # Kept by the session: below, and in the tests of resuming, sandbox, guard and marker.
    *("cwd", "timeout", "include_raw", "marker", "resume", "ignore_unsupported", "sandbox"),
    *("guard", "unguarded", "permission_mode", "provider_options", "model_server"),
    # Refused in every session: below.
    "output_schema",
}


def test_every_option_is_in_the_table() -> None:
    assert {*SAMPLES, *ELSEWHERE} == set(RunOptions.__struct_fields__)


class Planner:
    """Plans sessions of a runtime whose CLI is not installed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.runtime: Adapter = get_adapter(name)
        # It lists no flags, so none is left out.
        found = Installation(binary="/dev/null", version=None)
        self.runtime.find = lambda: found  # type: ignore[method-assign]
        (folder / "work").mkdir()
        (folder / "FOLDER").mkdir()
        (folder / "FOLDER" / "auth.json").write_text("{}")
        (folder / "FILE").write_text("Be brief.")
        self._folder = folder
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "MY_KEY": KEY,
            # The product that a bridge starts.
            "CODEX_PATH": "/bin/true",
            "IS_SANDBOX": "1",
            "BRIDLE_MODEL_SERVER_KEY": KEY,
        }

    def shape(self, drive: Drive, **fields: Any) -> str:
        """All that the process of a session, or of its turn, is given, as one text."""
        given: dict[str, Any] = {
            name: str(self._folder / value) if value in ("FILE", "FOLDER") else value
            for name, value in fields.items()
        }
        options = RunOptions(
            prompt="",
            cwd=str(self._folder / "work"),
            sandbox="off",
            permission_mode="bypass",
            model_server=ModelServer(url="http://127.0.0.1:9", api_key=KEY),
            **given,
        )
        session_id = new_session_id()
        plan = self._plan(drive, options, session_id)
        try:
            return _as_text(plan, session_id)
        finally:
            remove_folders(plan.private_dirs)

    def _plan(self, drive: Drive, options: RunOptions, session_id: str) -> RunPlan:
        if drive == "print":
            # As each turn is planned: from what the ledger holds.
            facts = LiveFacts(
                runtime=self.runtime.id, runtime_version="", dialect="", cwd=options.cwd or ""
            )
            kept = Begin(
                run=1, drive=drive, facts=facts, before=Before(), options=_kept_options(options)
            )
            turn = _options(kept, Order(do="turn", text="x"), None, self._env)
            return planned(self.runtime, turn, self._env, session_id)
        plan_it = planned_live if drive == "rpc" else planned_tmux
        return plan_it(self.runtime, options, self._env, session_id)


def _as_text(plan: RunPlan, session_id: str) -> str:
    files = [
        (str(path.relative_to(folder)), path.read_bytes())
        for folder in plan.private_dirs
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    ]
    spec = plan.spec
    env = sorted(spec.env.items())
    text = repr((spec.argv, env, spec.stdin, plan.live, files))
    for number, folder in enumerate((*plan.private_dirs, session_id)):
        text = text.replace(folder, f"<{number}>")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|scripted-[0-9a-f]{16}", "<id>", text)
    return re.sub(r"'began': [0-9.]+", "", text)


def cases() -> Iterator[tuple[str, Drive]]:
    for name in available_runtimes():
        runtime = get_adapter(name)
        for drive in DRIVES:
            if drive in runtime.features.drives and (drive != "print" or runtime.session_by_print):
                yield name, drive


@pytest.mark.parametrize(("name", "drive"), list(cases()))
def test_each_option_changes_the_plan_or_is_refused(
    tmp_path: Path, name: str, drive: Drive
) -> None:
    planner = Planner(tmp_path, name)
    plain = planner.shape(drive)
    assert planner.shape(drive) == plain
    silent = []
    for option, fields in SAMPLES.items():
        try:
            honoured = planner.shape(drive, **fields) != plain
        except UnsupportedOption as problem:
            honoured = option in problem.message
        except WrongUse as problem:
            # An agent without prices cannot keep a budget.
            honoured = option == "budget_usd" and "a budget cannot be kept" in problem.message
        if not honoured and option in BY_BRIDLE:
            honoured = option in planner.runtime.features.options
        if not honoured:
            silent.append(option)
    assert silent == []


@pytest.mark.parametrize("name", [name for name, drive in cases() if drive == "tmux"])
@pytest.mark.parametrize("option", ["images", "max_turns", "mcp_config", "budget_usd"])
def test_what_a_terminal_ignores_on_request_is_reported(
    tmp_path: Path, name: str, option: str
) -> None:
    planner = Planner(tmp_path, name)
    (tmp_path / "FILE").write_bytes(b"")
    fields = {**SAMPLES, "images": {"images": (str(tmp_path / "FILE"),)}}[option]
    try:
        plain, given = planner.shape("tmux"), planner.shape("tmux", **fields)
    except UnsupportedOption:
        options = RunOptions(
            prompt="",
            cwd=str(tmp_path / "work"),
            model_server=ModelServer(url="http://127.0.0.1:9", api_key=KEY),
            ignore_unsupported=True,
            **fields,
        )
        plan = planner._plan("tmux", options, new_session_id())
        remove_folders(plan.private_dirs)
        assert option in plan.ignored_options
    else:
        assert plain != given or option in BY_BRIDLE


# -- what the session itself keeps ----------------------------------------------------------------

SLOW = '- shell: "touch began; while [ ! -e go ]; do sleep 0.02; done"\n- text: the end\n'


@pytest.mark.parametrize("drive", ["rpc", "print"])
def test_a_timeout_holds_for_each_turn(place: Place, drive: Drive) -> None:
    host = place.host()
    record = place.start(SLOW, drive=drive, options={"timeout": 1.5})
    host.send(record, "go")
    report = host.idle(record)
    assert report.status == "timed_out"
    assert report.error is not None
    assert (report.error["kind"], report.error["message"]) == (
        "timeout",
        "the turn did not end within 1.5 s",
    )
    assert report.state == "ready"


def test_the_shorter_limit_of_a_turn_holds() -> None:
    assert Clocks(turn=5.0).with_turn(9.0).turn == 5.0
    assert Clocks(turn=5.0).with_turn(3.0).turn == 3.0
    assert Clocks().with_turn(3.0).turn == 3.0
    assert Clocks().with_turn(None).turn is None


@pytest.mark.parametrize("drive", ["rpc", "print"])
def test_raw_messages_are_kept_on_request(place: Place, drive: Drive) -> None:
    host = place.host()
    told = {}
    for wanted in (True, False):
        record = place.start("- text: one\n", drive=drive, options={"include_raw": wanted})
        host.send(record, "go")
        host.idle(record)
        host.stop(record)
        told[wanted] = place.events(record)
    assert not [event for event in told[False] if event.raw]
    [end] = [event for event in told[True] if isinstance(event, ev.MessageEnd)]
    assert isinstance(end.raw, dict)
    assert end.raw["type"] == "message_end"
    # What the driver decided comes from no message of the agent's.
    assert not told[True][-1].raw


@pytest.mark.parametrize("name", NAMES)
def test_raw_entries_of_a_transcript_are_kept_on_request(name: str) -> None:
    wire, recorder = wire_of(name, include_raw=True)
    for line in lines_of(name):
        wire.feed(line)
    ends = [event for event in recorder.drain() if isinstance(event, ev.MessageEnd)]
    assert ends
    assert all(isinstance(event.raw, dict) for event in ends)


@pytest.mark.parametrize(("name", "drive"), list(cases()))
def test_the_features_of_a_session_are_those_of_its_wire(
    tmp_path: Path, name: str, drive: Drive
) -> None:
    planner = Planner(tmp_path, name)
    runtime = planner.runtime
    features = runtime.features.in_session(drive)
    if drive == "print":
        assert (features.compact, features.fork, features.steer) == (False, False, False)
        assert features.follow_up == features.resume
        return
    options = RunOptions(
        prompt="",
        cwd=str(tmp_path / "work"),
        sandbox="off",
        permission_mode="bypass",
        model_server=ModelServer(url="http://127.0.0.1:9", api_key=KEY),
    )
    plan = planner._plan(drive, options, new_session_id())
    remove_folders(plan.private_dirs)
    assert plan.live is not None
    recorder = Recorder(runtime=name, session_id="s", options=options, drive=drive)
    wire = wire_of_session(drive, runtime, plan.live, recorder)
    assert features.compact == isinstance(wire, CompactionControl)
    assert features.fork == (drive == "rpc" and runtime.features.fork)
    assert features.follow_up
    if drive == "rpc":
        # The hint of a refusal names those that can, and no other.
        assert (name in compacting_runtimes("")) == features.compact


@pytest.mark.parametrize("version", ["0.120.0", "0.166.0"])
def test_every_dialect_of_codex_names_its_terminal(version: str) -> None:
    runtime = get_adapter("codex")
    assert "tmux" in runtime.features_of(runtime.dialect(version)[0]).drives


def test_opencode_reports_no_compaction() -> None:
    assert not get_adapter("opencode").features.compaction
