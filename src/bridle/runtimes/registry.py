"""Finds adapters by entry point; the only module that knows which there are.

Entry points are read straight from the `entry_points.txt` files on the import path: the standard
library's reader costs forty milliseconds of every start, more than the rest of a run's own work.
"""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from bridle.core.errors import ConfigError, UnknownRuntime

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.config.schema import AdapterSection
    from bridle.runtimes.base import AdapterSettings, AgentRuntime

GROUP = "bridle.runtimes"
DEFAULT_RUNTIME = "claude"


def available_runtimes(config: "Config | None" = None) -> list[str]:
    """Names of all registered runtimes, sorted; those declared in `config` included."""
    return sorted({*_entries(), *(config.presets() if config else ())})


def is_registered(name: str) -> bool:
    """Whether an adapter is registered under `name`, beside what a configuration declares."""
    return name in _entries()


def get_runtime(name: str | None = None, config: "Config | None" = None) -> "AgentRuntime":
    """The runtime called `name`; else the configuration's default; else `claude`.

    Raises `UnknownRuntime` for a name nobody registered, `ConfigError` for an adapter that does
    not load. Never falls back to another runtime.
    """
    wanted = name or (config.runtime.default if config else None) or DEFAULT_RUNTIME
    preset = config.preset(wanted) if config else None
    target = _entries().get(wanted)
    if config is not None:
        _check_sections(config)
    if target is None and preset is not None:
        return _declared(wanted, preset)
    if target is None:
        raise UnknownRuntime(wanted, available_runtimes(config))
    cls = _load(wanted, target)
    return cls(_settings(wanted, config) if config else None)


def _declared(name: str, section: "AdapterSection") -> "AgentRuntime":
    """The runtime that a section of the configuration declares, by the protocol that it names."""
    from bridle.runtimes.preset import PresetRuntime, check_acp_section

    if section.protocol != "acp":
        return PresetRuntime(name, section)
    check_acp_section(name, section)
    return create_acp_runtime(
        id=name,
        binary=section.binary or "",
        acp_flag=section.flags,
        instruction_file=section.instruction_file,
        install=section.install or "",
        asks=section.asks,
    )


def create_acp_runtime(
    *,
    id: str,
    binary: str,
    acp_flag: str | tuple[str, ...] = (),
    instruction_file: str = "AGENTS.md",
    install: str = "",
    asks: bool = False,
) -> "AgentRuntime":
    """A runtime for any agent that speaks the Agent Client Protocol.

    `acp_flag` is what makes it speak it (`--acp`, `acp`), one word or several. Its tool calls, text
    and permission requests are seen like any other's. Nothing is known of how it counts tokens, so
    its usage stays zero and its cost unknown; a model is chosen by the protocol, if it lets one.
    `asks` says that it asks for permission before every call that changes anything: only then can
    it be guarded, and one that ran a tool unasked is stopped.
    """
    from bridle.runtimes.acp import declared_agent

    flags = (acp_flag,) if isinstance(acp_flag, str) else tuple(acp_flag)
    return declared_agent(
        id,
        command=binary,
        flags=tuple(flag for flag in flags if flag),
        instruction_file=instruction_file,
        install=install,
        guard="asks" if asks else "",
    )


def _check_sections(config: "Config") -> None:
    """Refuse sections that nothing would ever read: a name nobody has, keys of another kind."""
    entries = _entries()
    for name, section in config.runtime.adapters.items():
        where = f"runtime.adapters.{name}"
        if name not in entries and not section.binary:
            known = ", ".join(sorted(entries))
            raise ConfigError(
                f"{where}: there is no such runtime, and no `binary` declares one",
                hint=f"runtimes: {known}",
            )
        if name in entries and (keys := section.preset_keys()):
            raise ConfigError(
                f"{where}.{keys[0]}: only for runtimes declared by configuration",
                hint=f"the adapter of {name} takes binary, mode, model, delivery, and as ready "
                "prompt or warmup",
            )


def _settings(name: str, config: "Config") -> "AdapterSettings":
    from bridle.runtimes.base import AdapterSettings
    from bridle.runtimes.contract import ReadySettings

    section = config.runtime.adapters.get(name)
    ready = section.readiness() if section else None
    wanted = None
    if ready is not None:
        wanted = ReadySettings(
            strategy=ready.strategy, warmup=ready.warmup_seconds, retries=ready.retries
        )
    return AdapterSettings(
        binary=section.binary if section else None,
        mode=section.mode if section else None,
        options=config.own_section(name),
        ready=wanted,
    )


def _load(name: str, target: str) -> "type[AgentRuntime]":
    from bridle.runtimes.base import AgentRuntime

    module_name, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as problem:
        raise ConfigError(f"runtime {name}: cannot load {target}: {problem}") from problem
    if not (isinstance(found, type) and issubclass(found, AgentRuntime)):
        raise ConfigError(f"runtime {name}: {target} is not an AgentRuntime")
    if found.id != name:
        raise ConfigError(f"runtime {name}: {target} calls itself {found.id}")
    return found


_found: dict[str, str] | None = None


def _entries() -> dict[str, str]:
    global _found
    if _found is None:
        found: dict[str, str] = {}
        for file in _entry_point_files():
            for name, target in _group_of(file):
                found.setdefault(name, target)
        # Only when it is whole: another thread may look at the same time.
        _found = found
    return _found


def _entry_point_files() -> Iterator[str]:
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield os.path.join(folder, name, "entry_points.txt")


def _group_of(file: str) -> Iterator[tuple[str, str]]:
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, UnicodeDecodeError):
        return
    if f"[{GROUP}]" not in text:
        return
    inside = False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith("#"):
            name, _, target = line.partition("=")
            yield name.strip(), target.split("[")[0].strip()
