"""Finds adapters by entry point; the only module that knows which there are."""

from importlib import import_module
from typing import TYPE_CHECKING

from bridle.core.entry_points import registered
from bridle.core.errors import ConfigError, UnknownRuntime

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.config.schema import AdapterSection
    from bridle.runtimes.contract import Adapter, AdapterSettings

DEFAULT_RUNTIME = "claude"


def available_runtimes(config: "Config | None" = None) -> list[str]:
    """Names of all registered runtimes, sorted; those declared in `config` included."""
    return sorted({*registered(), *(config.presets() if config else ())})


def is_registered(name: str) -> bool:
    """Whether an adapter is registered under `name`, beside what a configuration declares."""
    return name in registered()


def get_adapter(name: str | None = None, config: "Config | None" = None) -> "Adapter":
    """The runtime called `name`; else the configuration's default; else `claude`.

    Raises `UnknownRuntime` for a name nobody registered, `ConfigError` for an adapter that does
    not load. Never falls back to another runtime.
    """
    wanted = name or (config.runtime.default if config else None) or DEFAULT_RUNTIME
    preset = config.preset(wanted) if config else None
    target = registered().get(wanted)
    if config is not None and not config.files:
        _check_sections(config)
    if target is None and preset is not None:
        return _declared(wanted, preset)
    if target is None:
        raise UnknownRuntime(wanted, available_runtimes(config))
    cls = _load(wanted, target)
    return cls(_settings(wanted, config) if config else None)


def _declared(name: str, section: "AdapterSection") -> "Adapter":
    """The runtime that a section of the configuration declares, by the protocol that it names."""
    from bridle.runtimes.preset import PresetRuntime, check_declaration

    if section.protocol != "acp":
        return PresetRuntime(name, section)
    check_declaration(name, section)
    return create_acp_adapter(
        id=name,
        binary=section.binary or "",
        acp_flag=section.flags,
        instruction_file=section.instruction_file,
        install=section.install or "",
        asks=section.asks,
    )


def create_acp_adapter(
    *,
    id: str,
    binary: str,
    acp_flag: str | tuple[str, ...] = (),
    instruction_file: str = "AGENTS.md",
    install: str = "",
    asks: bool = False,
) -> "Adapter":
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
    """Raise `ConfigError` for sections that nothing would ever read. A configuration that was read
    from files is checked by then; this is for one made in Python."""
    from bridle.config.meaning import adapter_mistakes

    for mistake in adapter_mistakes(config.runtime.adapters):
        raise ConfigError(f"{mistake.where}: {mistake.what}", hint=mistake.hint)


def _settings(name: str, config: "Config") -> "AdapterSettings":
    from bridle.runtimes.contract import AdapterSettings, ReadySettings

    section = config.runtime.adapters.get(name)
    ready = section.readiness() if section else None
    wanted = None
    if ready is not None:
        wanted = ReadySettings(
            strategy=ready.strategy, warmup=ready.warmup_seconds, retries=ready.retries
        )
    return AdapterSettings(
        binary=section.binary if section else None,
        options=config.own_section(name),
        ready=wanted,
    )


def _load(name: str, target: str) -> "type[Adapter]":
    from bridle.runtimes.contract import Adapter

    module_name, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as problem:
        raise ConfigError(f"runtime {name}: cannot load {target}: {problem}") from problem
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise ConfigError(f"runtime {name}: {target} is not an Adapter")
    if found.id != name:
        raise ConfigError(f"runtime {name}: {target} calls itself {found.id}")
    return found
