"""The runtimes of this machine: which are installed, what they speak and can do. Starts none."""

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bridle.core.errors import BridleError
from bridle.core.options import ALWAYS_SUPPORTED
from bridle.runtimes.registry import DEFAULT_RUNTIME, available_runtimes, get_adapter, is_registered

if TYPE_CHECKING:
    from bridle.config import Config


class RuntimeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime: whether it is installed, what it speaks, what it can do."""

    name: str
    default: bool
    """Whether runs that name no runtime use this one."""
    declared_by: Literal["adapter", "configuration"] = "adapter"
    stability: str = ""
    installed: bool = False
    available: bool = False
    """Installed, and no known reason keeps it from working."""
    binary: str | None = None
    version: str | None = None
    dialect: str | None = None
    tested: bool = False
    """Whether the tests ever ran with this exact version."""
    credentials: str = "unknown"
    instruction_file: str = ""
    drives: tuple[str, ...] = ()
    features: dict[str, Any] = {}
    options: tuple[str, ...] = ()
    """Options it honours in addition to `always`."""
    always: tuple[str, ...] = ()
    """Options that every runtime honours."""
    reasons: tuple[str, ...] = ()
    """Why it is not available, or what to note."""
    hints: tuple[str, ...] = ()


def report_runtimes(config: "Config") -> list[RuntimeReport]:
    """All runtimes, by name. An adapter that does not load is reported, not raised."""
    reports = []
    for name in available_runtimes(config):
        try:
            reports.append(report_runtime(name, config))
        except BridleError as problem:
            reports.append(
                RuntimeReport(
                    name=name,
                    default=name == _default(config),
                    reasons=(problem.message,),
                    hints=(problem.hint,) if problem.hint else (),
                )
            )
    return reports


def report_runtime(name: str, config: "Config") -> RuntimeReport:
    """One runtime; raises `UnknownRuntime`, or `ConfigError` for an adapter that does not load."""
    runtime = get_adapter(name, config)
    here = runtime.is_available()
    features = runtime.features_of(runtime.dialect(here.version)[0])
    shown: dict[str, Any] = msgspec.to_builtins(features)
    for beside in ("options", "drives", "instruction_file", "over"):
        shown.pop(beside)
    return RuntimeReport(
        name=name,
        default=name == _default(config),
        declared_by="adapter" if is_registered(name) else "configuration",
        stability=runtime.stability,
        installed=here.binary is not None,
        available=here.available,
        binary=here.binary,
        version=here.version,
        dialect=here.dialect or runtime.dialect(None)[0].name,
        tested=here.version_seen,
        credentials=here.credentials,
        instruction_file=runtime.instruction_path,
        drives=features.drives,
        features=shown,
        options=tuple(sorted(features.options)),
        always=tuple(sorted(ALWAYS_SUPPORTED)),
        reasons=here.reasons,
        hints=here.hints,
    )


def _default(config: "Config") -> str:
    return config.runtime.default or DEFAULT_RUNTIME
