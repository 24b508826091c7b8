"""Packages that load their adapter on first use: their other modules can be imported without it."""

from collections.abc import Callable, Sequence


def from_adapter(package: str, names: Sequence[str]) -> Callable[[str], object]:
    """A module's `__getattr__` that takes `names` from the module `adapter` of `package`."""

    def load(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{package}.adapter"), name)

    return load
