"""How a run is driven, by who answers the agent's permission requests, and what warns the user.

One meaning of `ask` for every runtime: where somebody can answer and the runtime can ask in any of
its drives, the run takes that drive. Where nobody is asked, the run says so before it starts.
"""

import msgspec

from bridle.core.options import RunOptions, options_in_use
from bridle.runtimes.contract import Adapter


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is planned and played."""

    runtime: Adapter
    """The adapter that does it, under the id of the one that was asked for."""
    live: bool = False
    """Whether it is played over the protocol of conversations (`plan_live`)."""
    warnings: tuple[str, ...] = ()
    """What the user should know before the start."""


def way_of(runtime: Adapter, options: RunOptions, *, answered: bool) -> Way:
    """How to drive a run of `options`; `answered` says that somebody answers requests.

    Contract: starts nothing and raises nothing; the plan that follows does.
    """
    if options.permission_mode != "ask":
        return Way(runtime=runtime)
    asks = runtime.features.asks
    if not asks:
        return _unasked(runtime, options, "it cannot ask for permission")
    if not answered:
        return _unasked(runtime, options, "nobody is there to give permission")
    if not runtime.asks_under(options):
        return _unasked(runtime, options, "it asks nobody in the sandbox that was named")
    if "print" in asks:
        return Way(runtime=runtime)
    if "rpc" not in asks:
        return _unasked(runtime, options, "it asks for permission only at its own terminal")
    lost = _lost(runtime, options)
    if lost:
        return _unasked(runtime, options, f"it cannot ask and honour {', '.join(lost)} in one run")
    return Way(runtime=runtime, live=True)


def unasked_in(runtime: Adapter, options: RunOptions, drive: str) -> tuple[str, ...]:
    """What the user should know about a session of `drive` in which the agent asks nobody; empty if
    it asks."""
    if options.permission_mode != "ask" or drive in runtime.features.asks:
        return ()
    return _unasked(runtime, options, f"it asks nobody in a session with drive {drive}").warnings


def _lost(runtime: Adapter, options: RunOptions) -> list[str]:
    """Options that a run honours without asking and would lose in the drive `rpc`."""
    lost = ["raw_args"] if options.raw_args else []
    # Only the one-shot command takes a schema.
    lost += ["output_schema"] if options.output_schema is not None else []
    features = runtime.features
    if "rpc" not in features.over:
        return lost
    missing = features.options - features.over["rpc"].options
    # The same field, but with other keys.
    missing |= {"provider_options"}
    return [*(name for name in options_in_use(options) if name in missing), *lost]


def _unasked(runtime: Adapter, options: RunOptions, why: str) -> Way:
    instead = runtime.unasked(options)
    if not instead:
        return Way(runtime=runtime)
    hint = "" if "--permission bypass" in instead else " (--permission bypass lets it act)"
    return Way(runtime=runtime, warnings=(f"{runtime.id}: {why}: {instead}{hint}",))
