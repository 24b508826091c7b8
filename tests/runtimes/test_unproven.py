"""A version that was never run goes without the words it does not know; one that is too old is
refused before anything starts."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from bridle.core.errors import GuardRefused, NotSupported
from bridle.core.features import Features
from bridle.core.options import Provider, RunOptions
from bridle.doctor import examine
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.dialects import Dialect, Word, oldest_supported
from bridle.runtimes.guards import RunGuarding
from bridle.runtimes.install import find_npm_cli
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.planner import CliAdapter, Command, Environment, Launch
from bridle.runtimes.product import Product
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer


class PlainDialect(Dialect, frozen=True, kw_only=True):
    """A dialect with a field of each kind."""

    counted: bool = True
    flags: tuple[str, ...] = ("--quiet", "--hooks")
    log: str = "trace"


FEATURES = ("features", "list")
ROW = PlainDialect(
    name="plain-2",
    since=(2, 1),
    seen=("2.1.0", "3.0.0"),
    capture="",
    words=(
        Word("--count", "counted", "tokens are not counted"),
        Word("--quiet", "flags"),
        Word("--hooks", "flags", "hooks do not fire", guard=True),
        Word("tracing", "log", "retries are not reported", listed_by=FEATURES),
    ),
)


class Plain(CliAdapter):
    """An adapter whose command shows its dialect."""

    product = Product(
        id="plain",
        binary="plain",
        find=lambda name: find_npm_cli(name, "plain"),
        install_hint="npm install -g plain",
        dialects=(ROW,),
        features=Features(options=frozenset()),
        instruction_path="AGENTS.md",
    )

    def environment(self, launch: Launch) -> Environment:
        return Environment(dict(launch.env))

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        row = launch.dialect
        return Command(words=(*row.flags, *(["--count"] if row.counted else []), row.log))

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        return {}

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> Normalizer:
        raise NotImplementedError


class Desk:
    """A made-up CLI that notes each of its starts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.program = root / "bin" / "plain"
        self.program.parent.mkdir()
        self.starts = root / "starts"

    def install(
        self, version: str, *, flags: str, features: str = "tracing", status: int = 0
    ) -> None:
        self.program.write_text(
            f'#!/bin/sh\necho "$* in $HOME" >> {self.starts}\n'
            f'case "$1" in --help) echo "{flags}"; exit {status};; --version) echo {version};;\n'
            f'features) echo "{features}   stable  true";; esac\n'
        )
        self.program.chmod(0o755)
        (self.root / "package.json").write_text(f'{{"name": "plain", "version": "{version}"}}')
        self.starts.write_text("")

    @property
    def runtime(self) -> Plain:
        return Plain(AdapterSettings(binary=str(self.program)))

    def plan(self) -> RunPlan:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root)}
        return self.runtime.plan_run(RunOptions(prompt="x", cwd=str(self.root)), env, "session-1")

    def started(self) -> list[str]:
        return [line.partition(" in ")[0] for line in self.starts.read_text().splitlines()]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Desk(tmp_path)


ALL = "--count, --quiet --hooks=WHAT"


def test_a_tested_version_is_not_asked(desk: Desk) -> None:
    desk.install("3.0.0", flags="none of them")
    assert desk.plan().spec.argv[1:] == ("--quiet", "--hooks", "--count", "trace")
    assert desk.started() == []


def test_an_untested_version_that_knows_every_word_gets_them(desk: Desk) -> None:
    desk.install("3.1.0", flags=ALL)
    plan = desk.plan()
    assert plan.spec.argv[1:] == ("--quiet", "--hooks", "--count", "trace")
    (only,) = plan.warnings
    assert "never tested" in only


def test_unknown_words_are_left_out_with_what_is_lost(desk: Desk) -> None:
    desk.install("2.5.0", flags="--counter, --hooks=WHAT", features="tracing_v2")
    plan = desk.plan()
    assert plan.spec.argv[1:] == ("--hooks", "")
    assert plan.warnings[1:] == (
        "plain 2.5.0 does not know `--count`: tokens are not counted",
        "plain 2.5.0 does not know `tracing`: retries are not reported",
    )


def test_each_list_is_asked_for_once_for_each_binary(desk: Desk) -> None:
    desk.install("2.5.0", flags=ALL)
    for _ in range(3):
        desk.plan()
    assert sorted(desk.started()) == ["--help", "features list"]
    homes = [line.partition(" in ")[2] for line in desk.starts.read_text().splitlines()]
    assert str(desk.root) not in homes
    desk.install("2.6.0", flags="--quiet")
    assert desk.plan().spec.argv[1:] == ("--quiet", "trace")


def test_a_cli_that_prints_no_list_gets_every_word(desk: Desk) -> None:
    desk.install("2.5.0", flags="--quiet", status=1)
    assert desk.plan().spec.argv[1:] == ("--quiet", "--hooks", "--count", "trace")


def test_a_guard_is_refused_where_its_word_is_unknown(desk: Desk, tmp_path: Path) -> None:
    desk.install("2.5.0", flags="--count --quiet")
    plan = desk.plan()
    guarding = RunGuarding(desk.runtime, "builder", plan.spec.env, stdio=True)
    try:
        with pytest.raises(GuardRefused, match="`--hooks`, which the guard needs") as caught:
            guarding.adapt(plan)
    finally:
        guarding.close()
    assert caught.value.exit_code == 9


def test_a_version_that_is_too_old_is_refused_by_name(desk: Desk) -> None:
    desk.install("2.0.9", flags=ALL)
    with pytest.raises(NotSupported) as caught:
        desk.plan()
    assert caught.value.message == "plain 2.0.9 is too old: the oldest version that works is 2.1.0"
    assert caught.value.hint == "install a newer one with `npm install -g plain`"
    assert caught.value.exit_code == 3
    here = desk.runtime.is_available()
    assert not here.available
    assert here.reasons == (caught.value.message,)
    assert desk.started() == []


def test_doctor_says_what_is_too_old_and_what_is_lost(desk: Desk) -> None:
    desk.install("2.0.9", flags=ALL)
    found = examine(desk.runtime, machine=())
    (version,) = [each for each in found.checks if each.name == "version"]
    assert (found.broken, found.supported, version.status) == (True, False, "fail")
    assert "2.1.0" in version.detail
    desk.install("2.5.0", flags="--quiet --hooks")
    found = examine(desk.runtime, machine=())
    (version,) = [each for each in found.checks if each.name == "version"]
    assert version.status == "warn"
    assert "tokens are not counted" in version.detail


@pytest.mark.parametrize(
    ("version", "oldest"),
    [("2.0.9", "2.1.0"), ("2.1.0", ""), ("2.1", ""), ("9.0", ""), (None, ""), ("dev", "")],
)
def test_only_an_older_number_is_too_old(version: str | None, oldest: str) -> None:
    assert oldest_supported((ROW,), version) == oldest
