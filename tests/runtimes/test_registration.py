"""Adapters are checked when they register."""

import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import msgspec
import pytest

from bridle.adapter import (
    Adapter,
    Dialect,
    Features,
    GuardHook,
    RunOptions,
    RunPlan,
)
from bridle.config.schema import Config
from bridle.core import entry_points
from bridle.core.errors import AdapterRefused, ConfigError
from bridle.doctor.diagnosis import examine_all
from bridle.runtimes import registration
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.alternatives import supporters
from bridle.runtimes.contract import derived
from bridle.runtimes.inventory import report_runtimes
from bridle.runtimes.registry import available_runtimes, create_acp_adapter, get_adapter
from bridle.runtimes.scripted import ScriptedRuntime
from tests.support.tiny_agent import TinyRuntime

ROW = Dialect(name="one", since=(1,), seen=("1.0",), capture="one.jsonl")


class Good(TinyRuntime):
    id = "mine"
    dialects: ClassVar[tuple[Dialect, ...]] = (ROW,)


class ClaimsRpc(Good):
    def features_of(self, dialect: Dialect) -> Features:
        return Features(drives=("print", "rpc"))


class ClaimsTmux(Good):
    def features_of(self, dialect: Dialect) -> Features:
        return Features(drives=("print", "tmux"))


class ClaimsATerminal(Good):
    def features_of(self, dialect: Dialect) -> Features:
        return Features(interactive=True)


class ClaimsAnyDrive(Good):
    def features_of(self, dialect: Dialect) -> Features:
        return Features(drives=("print", "telepathy"))


class ClaimsItInOneDialect(Good):
    dialects = (ROW, msgspec.structs.replace(ROW, name="two", since=(2,)))

    def features_of(self, dialect: Dialect) -> Features:
        return Features(drives=("rpc",) if dialect.name == "one" else ("print",))


class GuardsWithoutSayingSo(Good):
    def guard_plan(self, plan: RunPlan, hook: GuardHook) -> RunPlan:
        return plan


class SpeaksWithoutSayingSo(Good):
    def plan_live(self, options: RunOptions, env: dict[str, str], session_id: str) -> RunPlan:
        raise NotImplementedError


class NoCapture(Good):
    dialects = (ROW, msgspec.structs.replace(ROW, name="two", capture=""))


class NoDialect(Good):
    dialects = ()


class NoBinary(Good):
    binary = ""


class NoInstructions(Good):
    instruction_path = ""


class OtherId(Good):
    id = "yours"


class Unfinished(Adapter):
    id = "mine"
    binary = "mine"
    instruction_path = "MINE.md"
    dialects = (ROW,)


class Raises(Good):
    def features_of(self, dialect: Dialect) -> Features:
        raise ZeroDivisionError("oops")


REFUSED = {
    ClaimsRpc: "it promises the drive `rpc` and is not Live",
    ClaimsTmux: "it promises the drive `tmux` and is not Terminal",
    ClaimsATerminal: "it promises a terminal interface and is not Interactive",
    ClaimsAnyDrive: "there is no drive `telepathy`",
    ClaimsItInOneDialect: "it promises the drive `rpc` and is not Live",
    GuardsWithoutSayingSo: "it defines `guard_plan` and is not Guarded",
    SpeaksWithoutSayingSo: "it defines `plan_live` and is not Live",
    NoCapture: "dialect `two` names tested versions and no capture that proves them",
    NoDialect: "it has no `dialects`",
    NoBinary: "it has no `binary`",
    NoInstructions: "it has no `instruction_path`",
    OtherId: "its id is `yours`",
    Unfinished: "it does not define `build_env`, `build_print_command`, `build_spawn_command`, "
    "`credentials`, `features_of`, `find`, `normalizer`, `plan_run`",
    Raises: "asked for its features, it raises ZeroDivisionError: oops",
}


def register(patch: pytest.MonkeyPatch, name: str, target: str) -> None:
    """Register an adapter as an installed plugin does."""
    patch.setattr(entry_points, "_found", {**entry_points.registered(), name: target})
    patch.setattr(registration, "_checked", set())


@pytest.mark.parametrize("cls", REFUSED, ids=lambda cls: str(cls.__name__))
def test_a_broken_promise_is_refused_with_the_reason(
    cls: type[Adapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, "mine", f"{__name__}:{cls.__name__}")
    with pytest.raises(AdapterRefused) as caught:
        get_adapter("mine")
    assert caught.value.message == f"runtime mine: the adapter is refused: {REFUSED[cls]}"
    assert "Writing an adapter" in caught.value.hint
    assert isinstance(caught.value, ConfigError)


def test_what_keeps_its_promises_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "mine", f"{__name__}:Good")
    assert isinstance(get_adapter("mine"), Good)
    assert Good in registration._checked
    assert isinstance(get_adapter("mine"), Good)


def test_a_base_class_may_offer_what_only_some_adapters_take() -> None:
    """`CliAdapter` plans every mode; an adapter of a product without a protocol is whole
    without it, and one that plans a conversation itself must say so."""

    class Offering(Good):
        @derived
        def plan_live(self, options: RunOptions, env: dict[str, str], session_id: str) -> RunPlan:
            raise NotImplementedError

    class Plain(Offering):
        pass

    class Overriding(Offering):
        def plan_live(self, options: RunOptions, env: dict[str, str], session_id: str) -> RunPlan:
            raise NotImplementedError

    assert registration.check_adapter(Plain())
    with pytest.raises(AdapterRefused, match="it defines `plan_live` and is not Live"):
        registration.check_adapter(Overriding())


def test_every_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Both(GuardsWithoutSayingSo):
        dialects = (msgspec.structs.replace(ROW, capture=""),)

    with pytest.raises(AdapterRefused, match=r"no capture.*; it defines `guard_plan`"):
        registration.check_adapter(Both())


def test_what_is_no_adapter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "mine", f"{__name__}:REFUSED")
    with pytest.raises(AdapterRefused, match="is not a subclass of Adapter"):
        get_adapter("mine")


def test_a_module_that_raises_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raising_adapter.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    register(monkeypatch, "mine", "raising_adapter:Mine")
    with pytest.raises(AdapterRefused, match="cannot load raising_adapter:Mine: division by zero"):
        get_adapter("mine")


def test_the_others_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    register(monkeypatch, "mine", f"{__name__}:ClaimsRpc")
    reports = {each.name: each for each in report_runtimes(Config())}
    assert REFUSED[ClaimsRpc] in reports["mine"].reasons[0]
    assert "Writing an adapter" in reports["mine"].hints[0]
    assert reports["scripted"].installed
    assert "mine" not in supporters("images", "aider")
    assert isinstance(get_adapter("scripted"), ScriptedRuntime)


def test_the_doctor_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_points, "_found", {"mine": f"{__name__}:ClaimsRpc"})
    monkeypatch.setattr(registration, "_checked", set())
    (found,) = examine_all(Config())
    (check,) = found.checks
    assert (check.name, check.status) == ("adapter", "fail")
    assert REFUSED[ClaimsRpc] in check.detail


def test_a_declared_agent_is_checked() -> None:
    with pytest.raises(AdapterRefused, match="it has no `binary`"):
        create_acp_adapter(id="mine", binary="")
    with pytest.raises(AdapterRefused, match="it has no `instruction_path`"):
        create_acp_adapter(id="mine", binary="true", instruction_file="")


@pytest.mark.parametrize("name", [n for n in available_runtimes() if n != "broken"])
def test_every_built_in_adapter_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_checked", set())
    adapter = get_adapter(name)
    assert registration.check_adapter(adapter) is adapter
    for row in adapter.dialects:
        # Captures of the protocol are with the protocol, those of a product with the product.
        owner = row if isinstance(row, AcpQuirks) else adapter
        module: ModuleType = sys.modules[type(owner).__module__]
        testdata = Path(module.__file__ or "").parent / "testdata"
        assert (testdata / row.capture).exists(), row.name
