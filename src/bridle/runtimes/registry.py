"""Finds adapters by entry point; the only module that knows which there are.

Adapters that a configuration declares are found in the same way: by name, on request. Every adapter
is checked before a caller gets it (`registration`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bridle.core.entry_points import registered
from bridle.core.errors import ConfigError, UnknownRuntime
from bridle.runtimes.contract import Adapter, AdapterSettings, ReadySettings
from bridle.runtimes.registration import check_adapter, check_class, refusal

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.config.schema import AdapterSection

DEFAULT_RUNTIME = "claude"

_PLAIN_TEXT = "bridle.runtimes.preset:PresetRuntime"
_ACP = "bridle.runtimes.acp.declared:declared_agent"
"""What makes the adapters that a configuration declares."""


def available_runtimes(config: "Config | None" = None) -> list[str]:
    """Names of all registered runtimes, sorted; those that `config` declares included."""
    return sorted({*registered(), *(config.presets() if config else ())})


def is_registered(name: str) -> bool:
    """Whether an adapter is registered under `name`, not counting what a configuration declares."""
    return name in registered()


def get_adapter(name: str | None = None, config: "Config | None" = None) -> Adapter:
    """The adapter called `name`; else the configuration's default; else `claude`.

    Raises `UnknownRuntime` for a name that nobody registered, `AdapterRefused` for an adapter that
    does not load or does not keep its promises. Never falls back to another runtime.
    """
    wanted = name or (config.runtime.default if config else None) or DEFAULT_RUNTIME
    preset = config.preset(wanted) if config else None
    target = registered().get(wanted)
    if config is not None and config.runtime.adapters and not config.files:
        _check_sections(config)
    if target is None and preset is not None:
        return _declared(wanted, preset)
    if target is None:
        raise UnknownRuntime(wanted, available_runtimes(config))
    kind = check_class(wanted, _load(wanted, target))
    return check_adapter(kind(_settings(wanted, config) if config else None))


def _declared(name: str, section: "AdapterSection") -> Adapter:
    """The adapter that a section of the configuration declares, by the protocol that it names."""
    check_declaration(name, section)
    if section.protocol != "acp":
        return check_adapter(_load(name, _PLAIN_TEXT)(name, section))
    return create_acp_adapter(
        id=name,
        binary=section.binary or "",
        acp_flag=section.flags,
        instruction_file=section.instruction_file,
        install=section.install or "",
        asks=section.asks,
    )


def check_declaration(name: str, section: "AdapterSection") -> None:
    """Raise `ConfigError` for a declaration that could never run, when it is registered and not
    when it runs. Files are checked when they are read; this is for sections made in Python."""
    from bridle.config.consistency import declaration_mistakes

    for mistake in declaration_mistakes(name, section):
        raise ConfigError(f"{mistake.where}: {mistake.what}", hint=mistake.hint)


def create_acp_adapter(
    *,
    id: str,
    binary: str,
    acp_flag: str | tuple[str, ...] = (),
    instruction_file: str = "AGENTS.md",
    install: str = "",
    asks: bool = False,
) -> Adapter:
    """An adapter to any agent that speaks the Agent Client Protocol; `bridle.create_acp_runtime`
    says what the arguments mean."""
    flags = (acp_flag,) if isinstance(acp_flag, str) else tuple(acp_flag)
    adapter: Adapter = _load(id, _ACP)(
        id,
        command=binary,
        flags=tuple(flag for flag in flags if flag),
        instruction_file=instruction_file,
        install=install,
        asks=asks,
    )
    return check_adapter(adapter)


def _check_sections(config: "Config") -> None:
    """Raise `ConfigError` for sections that nothing would ever read. A configuration from files was
    checked when it was read; this is for one made in Python."""
    from bridle.config.consistency import adapter_mistakes

    for mistake in adapter_mistakes(config.runtime.adapters):
        raise ConfigError(f"{mistake.where}: {mistake.what}", hint=mistake.hint)


def _settings(name: str, config: "Config") -> AdapterSettings:
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


def _load(name: str, target: str) -> Any:
    """The object that `target` (`module:attribute`) names."""
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module_name), attribute)
    except Exception as problem:
        # Third-party code: whatever it raises on import must not end a list of all runtimes.
        raise refusal(name, [f"cannot load {target}: {problem}"]) from problem
