"""Checks an adapter when it is registered: an adapter that promises what it cannot do is refused.

A promise is a drive or a flag in its features, a method of an ability, or a row of its dialects.
The checks need no installed CLI and start nothing.
"""

from collections.abc import Iterator

from bridle.core.errors import AdapterRefused
from bridle.runtimes.contract import (
    Adapter,
    Guarded,
    History,
    Interactive,
    Live,
    Terminal,
    is_derived,
)

ABILITIES: dict[type[Adapter], tuple[str, ...]] = {
    ability: tuple(name for name in vars(ability) if not name.startswith("_"))
    for ability in (Live, Terminal, Interactive, Guarded, History)
}
"""The methods of each ability."""

DRIVES: dict[str, type[Adapter] | None] = {
    "print": None,
    "rpc": Live,
    "tmux": Terminal,
    "embedded": None,
}
"""The ability that each drive needs."""

_HINT = "see the page `Writing an adapter` in Bridle's documentation"
_FACTS = ("id", "binary", "instruction_path", "dialects")

_checked: set[type[Adapter]] = set()


def check_class(name: str, found: object) -> type[Adapter]:
    """The class that is registered as `name`; raises `AdapterRefused` if it is not a complete
    adapter."""
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise refusal(name, [f"{found!r} is not a subclass of Adapter"])
    if found in _checked:
        return found
    missing = [fact for fact in _FACTS if not getattr(found, fact, None)]
    reasons = [f"it has no `{fact}`" for fact in missing]
    if "id" not in missing and found.id != name:
        reasons.append(f"its id is `{found.id}`")
    if found.__abstractmethods__:
        reasons.append(f"it does not define {_listed(found.__abstractmethods__)}")
    if reasons:
        raise refusal(name, reasons)
    return found


def check_adapter(adapter: Adapter) -> Adapter:
    """`adapter`, which keeps its promises; raises `AdapterRefused` with every reason if not."""
    kind = type(adapter)
    # Facts of an adapter that a configuration declares are those of the object, not of the class.
    declared = "id" in vars(adapter)
    if kind in _checked and not declared:
        return adapter
    try:
        reasons = list(_mistakes(adapter))
    except Exception as problem:
        # Third-party code: whatever it raises must not end a list of all runtimes.
        reasons = [f"asked for its features, it raises {type(problem).__name__}: {problem}"]
    if reasons:
        raise refusal(adapter.id, reasons)
    if not declared:
        _checked.add(kind)
    return adapter


def refusal(name: str, reasons: list[str]) -> AdapterRefused:
    """The error of an adapter that is refused."""
    return AdapterRefused(
        f"runtime {name}: the adapter is refused: {'; '.join(reasons)}", hint=_HINT
    )


def _mistakes(adapter: Adapter) -> Iterator[str]:
    for fact in _FACTS:
        if not getattr(adapter, fact, None):
            yield f"it has no `{fact}`"
    for row in adapter.dialects:
        if row.seen and not row.capture:
            yield f"dialect `{row.name}` names tested versions and no capture that proves them"
    for ability, methods in ABILITIES.items():
        own = {name: getattr(type(adapter), name, None) for name in methods}
        defined = [name for name, each in own.items() if each and not is_derived(each)]
        if defined and not isinstance(adapter, ability):
            yield f"it defines {_listed(defined)} and is not {ability.__name__}"
    yield from _broken_promises(adapter)


def _broken_promises(adapter: Adapter) -> Iterator[str]:
    """What the features promise, in any dialect, that the adapter has no ability for."""
    said: set[str] = set()
    for row in adapter.dialects:
        features = adapter.features_of(row)
        wanted = {f"the drive `{drive}`": DRIVES.get(drive) for drive in features.drives}
        if features.interactive:
            wanted["a terminal interface"] = Interactive
        said |= {
            f"it promises {promise} and is not {ability.__name__}"
            for promise, ability in wanted.items()
            if ability is not None and not isinstance(adapter, ability)
        }
        said |= {f"there is no drive `{drive}`" for drive in features.drives if drive not in DRIVES}
    yield from sorted(said)


def _listed(names: "frozenset[str] | list[str]") -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
