"""Token counts of a turn, by what each agent means with them."""

from typing import Any

from bridle.core.usage import Usage
from bridle.runtimes.acp import wire
from bridle.runtimes.acp.agents import AcpAgent


def usage_of(done: wire.PromptDone, agent: AcpAgent) -> Usage | None:
    """What the only prompt of a process used; None where the agent tells nothing of use."""
    if agent.usage == "none" or done.usage is None:
        return None
    told = done.usage
    read, written = told.cached_read_tokens or 0, told.cached_write_tokens or 0
    fresh = told.input_tokens - (read + written if agent.cached_in_input else 0)
    return Usage(
        input_tokens=max(0, fresh),
        output_tokens=told.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=told.thought_tokens or 0,
    )


def model_of(done: wire.PromptDone) -> str | None:
    """The model that a prompt's quota names, where exactly one did the work."""
    used = _part(_part(done.meta, "quota"), "model_usage")
    if isinstance(used, list) and len(used) == 1:
        name = _part(used[0], "model")
        return name if isinstance(name, str) else None
    return None


def asked_no_model(done: wire.PromptDone) -> bool:
    """Whether a prompt's quota says that no model was asked."""
    used = _part(_part(done.meta, "quota"), "model_usage")
    return isinstance(used, list) and not used


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
