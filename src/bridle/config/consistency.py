"""Mistakes that a schema cannot find: unknown names, and keys that do not go together.

`yaml_check` checks each file against the schema. This module compares the values with each other
and with what is installed: runtimes, providers, capabilities. It works on the plain values of a
file, which may still contain mistakes that `yaml_check` has reported: values of a wrong type are
skipped. It imports no YAML reader, because it also runs on cached values.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from bridle.config.schema import AdapterSection, RuntimeSection
from bridle.core import structs
from bridle.core.capabilities import (
    CAPABILITIES,
    branch_problem,
    command_problem,
    path_problem,
)
from bridle.core.entry_points import registered
from bridle.core.spelling import nearest

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


class Mistake(NamedTuple):
    """A value that cannot be right."""

    key: tuple[str | int, ...]
    """Its place: the keys from the root of the file, and the index in a list."""
    what: str
    hint: str = ""

    @property
    def where(self) -> str:
        """The key as a person writes it."""
        words = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.key)
        return words.removeprefix(".")

    @property
    def text(self) -> str:
        """The whole mistake on one line."""
        return f"{self.where}: {self.what}" + (f"; {self.hint}" if self.hint else "")


def find_mistakes(values: Mapping[str, Any], merged: Mapping[str, Any]) -> list[Mistake]:
    """Every mistake in the `values` of one file; `merged` are the values of all files."""
    return [
        *_runtime_names(values, merged),
        *adapter_mistakes(
            _mapping(values, "runtime", "adapters"), _mapping(merged, "runtime", "adapters")
        ),
        *_model_providers(values, merged),
        *_guard_rules(_mapping(values, "guards")),
    ]


def _runtime_names(values: Mapping[str, Any], merged: Mapping[str, Any]) -> Iterator[Mistake]:
    adapters = _mapping(merged, "runtime", "adapters")
    declared = {name for name in adapters if _mapping(adapters, name).get("binary")}
    known = sorted({*registered(), *declared})
    for key in ("default", "printCommand"):
        name = _mapping(values, "runtime").get(key)
        if isinstance(name, str) and name not in known:
            listed = f'Unknown runtime: "{name}". Available: {", ".join(known)}'
            yield Mistake(("runtime", key), listed, _meant(name, known))


def adapter_mistakes(
    adapters: Mapping[str, Any], merged: Mapping[str, Any] | None = None
) -> Iterator[Mistake]:
    """Mistakes in `runtime.adapters`: unknown runtimes, and keys of another kind of runtime.

    `adapters` are the plain values of one file and `merged` those of all files; without `merged`,
    `adapters` are the sections of a configuration.
    """
    for name in adapters:
        where = ("runtime", "adapters", name)
        section = _section(merged if merged is not None else adapters, name)
        if section is None:
            continue
        given = _mapping(adapters, name) if merged is not None else None
        if name not in registered():
            found = declaration_mistakes(name, section)
        else:
            found = _registered_mistakes(name, section)
        for mistake in found:
            own = mistake.key[len(where) :]
            if not own or given is None or own[0] in given:
                yield mistake


def _registered_mistakes(name: str, section: AdapterSection) -> Iterator[Mistake]:
    where = ("runtime", "adapters", name)
    for key in section.preset_keys():
        yield Mistake(
            (*where, key),
            "only for runtimes declared by configuration",
            f"the adapter of {name} takes binary, mode, model, delivery, options, and as ready "
            "prompt or warmup",
        )
    yield from _drive_mistakes(where, section)


def declaration_mistakes(name: str, section: AdapterSection) -> Iterator[Mistake]:
    """The mistakes in a `section` that declares a runtime called `name`."""
    where = ("runtime", "adapters", name)
    if not section.binary:
        known = sorted(registered())
        near = _meant(name, known)
        yield Mistake(
            where,
            "there is no such runtime, and no `binary` declares one",
            near or f"runtimes: {', '.join(known)}",
        )
        return
    if not name or not set(name) <= _NAME_CHARACTERS or name[0] in "-_":
        yield Mistake(where, "not a name for a runtime", "use lower-case letters, digits, - and _")
    if section.options:
        yield Mistake((*where, "options"), "only for runtimes that have an adapter", "leave it out")
    acp = section.protocol == "acp"
    yield from _acp_mistakes(where, section) if acp else _text_mistakes(where, section)
    if section.model_flag is not None and not section.model_flag.strip():
        yield Mistake((*where, "modelFlag"), "is empty", "name it, or leave the key out")
    file = section.instruction_file
    if not file or file.startswith("/") or ".." in file.split("/"):
        yield Mistake((*where, "instructionFile"), "must be a path inside the worktree")
    yield from _drive_mistakes(where, section)
    drive = section.drive_asked()
    if drive == "tmux":
        key = "delivery" if section.mode is None else "mode"
        yield Mistake((*where, key), "a declared runtime has no terminal that Bridle drives")
    elif drive == "rpc" and not acp:
        key = "delivery" if section.mode is None else "mode"
        yield Mistake((*where, key), "plain text has no protocol", "leave the key out")


def _acp_mistakes(where: tuple[str, ...], section: AdapterSection) -> Iterator[Mistake]:
    for key, given in (
        ("bypassFlags", section.bypass_flags),
        ("modelFlag", section.model_flag),
        ("prompt", section.prompt != "argument"),
        ("ready", section.ready),
    ):
        if given:
            yield Mistake(
                (*where, key),
                "not for a runtime with `protocol: acp`",
                "the protocol carries prompt, model and permissions; leave the key out",
            )


def _text_mistakes(where: tuple[str, ...], section: AdapterSection) -> Iterator[Mistake]:
    if section.asks:
        yield Mistake(
            (*where, "asks"),
            "only for a runtime with `protocol: acp`",
            "plain text has no questions; leave the key out",
        )
    ready = section.readiness()
    if ready is None:
        return
    if ready.text is not None and not ready.text.strip():
        yield Mistake((*where, "ready"), "is empty", "name it, or leave the key out")
    if ready.strategy == "prompt" and ready.text is None:
        yield Mistake(
            (*where, "ready"),
            "`prompt` needs the text that its terminal shows when it waits",
            "give that text instead, or `warmup`",
        )


def _drive_mistakes(where: tuple[str, ...], section: AdapterSection) -> Iterator[Mistake]:
    delivery = section.delivery if section.delivery != "stdin" else None
    if section.mode is not None and delivery not in (None, section.drive_asked()):
        yield Mistake(
            (*where, "mode"),
            f"`{section.mode}` and `delivery: {delivery}` ask for different drives",
            "keep one of them",
        )


def _model_providers(values: Mapping[str, Any], merged: Mapping[str, Any]) -> Iterator[Mistake]:
    known = sorted(_mapping(merged, "providers"))
    for alias in _mapping(values, "models"):
        provider = _mapping(values, "models", alias).get("provider")
        if isinstance(provider, str) and provider not in known:
            yield Mistake(
                ("models", alias, "provider"),
                f"provider {provider} is not configured",
                _meant(provider, known) or f"add providers.{provider} to the configuration",
            )


def _guard_rules(guards: Mapping[str, Any]) -> Iterator[Mistake]:
    prefix = guards.get("branchPrefix")
    if isinstance(prefix, str) and (problem := branch_problem(prefix)):
        yield Mistake(("guards", "branchPrefix"), problem)
    yield from _rule_lists(("guards",), guards)
    for name in _mapping(guards, "overrides"):
        where = ("guards", "overrides", name)
        if name not in CAPABILITIES:
            known = sorted(CAPABILITIES)
            hint = _meant(name, known) or f"capabilities are {', '.join(known)}"
            yield Mistake(where, f"unknown capability {name!r}", hint)
        yield from _rule_lists(where, _mapping(guards, "overrides", name))


def _rule_lists(where: tuple[str, ...], rules: Mapping[str, Any]) -> Iterator[Mistake]:
    for key in ("allowPaths", "allowCommands", "qualityGates", "denyCommands"):
        given = rules.get(key)
        for n, text in enumerate(given if isinstance(given, list) else ()):
            if not isinstance(text, str):
                continue
            if key == "allowPaths":
                problem = path_problem(text)
            else:
                problem = command_problem(text, allows=key != "denyCommands")
            if problem:
                yield Mistake((*where, key, n), problem)


def option_mistakes(
    values: Mapping[str, Any], merged: Mapping[str, Any]
) -> list[tuple[Mistake, type[msgspec.Struct] | None]]:
    """Mistakes in the adapters' own settings (`runtime.adapters.<name>.options`) of one file, each
    with the type that the section should fit, None when the adapter has no settings.

    An adapter is imported only when a file has settings for it.
    """
    found: list[tuple[Mistake, type[msgspec.Struct] | None]] = []
    for name in _mapping(values, "runtime", "adapters"):
        key = ("runtime", "adapters", name, "options")
        options = _mapping(values, *key)
        target = registered().get(name)
        if not options or target is None:
            continue
        try:
            shape = _options_type(target)
        except (ImportError, AttributeError):
            # An error for the users of that runtime only.
            continue
        if shape is None:
            own = f"see runtime.{name}" if hasattr(RuntimeSection, name) else "leave the key out"
            found.append((Mistake(key, f"the adapter of {name} takes no options", own), None))
        elif problem := _misfit(_mapping(merged, *key), shape) or _unknown(options, shape):
            found.append((Mistake(key, problem), shape))
    return found


def _options_type(target: str) -> type[msgspec.Struct] | None:
    """The type of the settings of the adapter at `target`; None when it has none."""
    module, _, attribute = target.partition(":")
    shape = getattr(getattr(import_module(module), attribute), "options_type", None)
    return shape if isinstance(shape, type) and issubclass(shape, msgspec.Struct) else None


def _misfit(options: Mapping[str, Any], shape: type[msgspec.Struct]) -> str:
    try:
        structs.convert(options, shape)
    except msgspec.ValidationError as problem:
        return str(problem)
    return ""


def _unknown(options: Mapping[str, Any], shape: type[msgspec.Struct]) -> str:
    known = shape.__struct_encode_fields__
    return next((f"unknown key {name}" for name in options if name not in known), "")


def _section(adapters: Mapping[str, Any], name: str) -> AdapterSection | None:
    """A section as its struct; None for one that `yaml_check` refuses."""
    found = adapters.get(name) or {}
    if isinstance(found, AdapterSection):
        return found
    try:
        return structs.convert(found, AdapterSection)
    except msgspec.ValidationError:
        return None


def _mapping(values: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The mapping at `keys`; empty when there is none."""
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _meant(word: str, known: list[str]) -> str:
    near = nearest(word, known)
    return f"did you mean `{near}`?" if near else ""
