"""Refuses what a runtime cannot do, and names the runtimes that can."""

from collections.abc import Callable

from bridle.core.errors import ConfigError, UnsupportedOption
from bridle.core.features import Features
from bridle.core.options import RunOptions
from bridle.runtimes.contract import Adapter, Interactive, Live, Terminal
from bridle.runtimes.registry import available_runtimes, get_adapter


def as_live(adapter: Adapter) -> Live:
    """The adapter of an agent with a protocol; raises `UnsupportedOption` for one without."""
    if isinstance(adapter, Live):
        return adapter
    raise UnsupportedOption(
        adapter.id,
        "drive rpc",
        live_runtimes(adapter.id),
        reason="it has no protocol for a conversation",
    )


def as_terminal(adapter: Adapter) -> Terminal:
    """The adapter of an agent that Bridle drives in a terminal; raises `UnsupportedOption` for any
    other."""
    if isinstance(adapter, Terminal):
        return adapter
    raise UnsupportedOption(
        adapter.id,
        "drive tmux",
        terminal_runtimes(adapter.id),
        reason="it is not driven in a terminal",
    )


def as_interactive(adapter: Adapter) -> Interactive:
    """The adapter of an agent with a terminal interface; raises `UnsupportedOption` for one
    without."""
    if isinstance(adapter, Interactive):
        return adapter
    raise UnsupportedOption(
        adapter.id,
        "interactive",
        supporters("interactive", adapter.id),
        reason="it has no terminal interface",
    )


def supporters(option: str, besides: str) -> list[str]:
    """Names of the other runtimes that support `option` (or the feature `interactive`)."""
    return _runtimes_whose(
        lambda features: (
            option in features.options or (option == "interactive" and features.interactive)
        ),
        besides,
    )


def live_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that have a protocol for a conversation."""
    return _runtimes_whose(lambda features: "rpc" in features.drives, besides)


def terminal_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can be driven in a terminal."""
    return _runtimes_whose(lambda features: "tmux" in features.drives, besides)


def print_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes whose sessions can have one process for each turn."""
    return _runtimes_that(lambda runtime: runtime.session_by_print, besides)


def compacting_runtimes(besides: str) -> list[str]:
    """Names of the other runtimes that can compact their context on request."""
    return _runtimes_whose(lambda features: features.compact, besides)


def forking_runtimes(besides: str, drive: str | None = None) -> list[str]:
    """Names of the other runtimes that can continue in a copy of a conversation, in `drive`."""
    return _runtimes_whose(
        lambda features: features.fork and (drive is None or drive in features.drives), besides
    )


def refuse_fork(runtime: str, options: RunOptions, fork: bool, reason: str) -> None:
    """Refuse to continue in a copy where the runtime cannot copy. Never ignored, whatever the
    caller allows to be ignored: the original conversation would be continued and changed."""
    if fork and options.resume is not None:
        others = forking_runtimes(runtime)
        raise UnsupportedOption(runtime, "provider option fork", others, reason=reason)


def _runtimes_whose(holds: Callable[[Features], bool], besides: str) -> list[str]:
    return _runtimes_that(
        lambda runtime: holds(runtime.features_of(runtime.dialect(None)[0])), besides
    )


def _runtimes_that(holds: Callable[[Adapter], bool], besides: str) -> list[str]:
    names = []
    for name in available_runtimes():
        if name == besides:
            continue
        try:
            runtime = get_adapter(name)
        except ConfigError:
            # A refused adapter must not hide the others.
            continue
        if holds(runtime):
            names.append(name)
    return names
