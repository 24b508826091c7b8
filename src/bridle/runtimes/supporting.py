"""Which other runtimes can do what one cannot: the hint of a refusal."""

from collections.abc import Callable

from bridle.core.errors import ConfigError
from bridle.core.features import Features


def supporters(option: str, besides: str) -> list[str]:
    """Names of the other runtimes that honour `option` (or `interactive`, which is a feature)."""
    return _runtimes_whose(
        lambda features: (
            option in features.options or (option == "interactive" and features.interactive)
        ),
        besides,
    )


def live_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can be driven by a protocol."""
    return _runtimes_whose(lambda features: "rpc" in features.drives, besides)


def terminal_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can be driven in a terminal."""
    return _runtimes_whose(lambda features: "tmux" in features.drives, besides)


def printing_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes whose sessions can have a process for each turn."""
    from bridle.runtimes.registry import get_runtime

    found = _runtimes_whose(lambda features: True, besides)
    return [name for name in found if get_runtime(name).session_by_print]


def compacting_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can be asked to shorten their context."""
    return _runtimes_whose(lambda features: features.compact, besides)


def forking_runtimes(besides: str, drive: str | None = None) -> list[str]:
    """Names of the other runtimes that can go on in a copy of a conversation, in `drive`."""
    return _runtimes_whose(
        lambda features: features.fork and (drive is None or drive in features.drives), besides
    )


def _runtimes_whose(holds: Callable[[Features], bool], besides: str) -> list[str]:
    from bridle.runtimes.registry import available_runtimes, get_runtime

    names = []
    for name in available_runtimes():
        if name == besides:
            continue
        try:
            runtime = get_runtime(name)
        except ConfigError:
            # A stranger's adapter that does not load must not hide the answer for the others.
            continue
        if holds(runtime.features_of(runtime.dialect(None)[0])):
            names.append(name)
    return names
