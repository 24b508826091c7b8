"""The rules of ATIF-v1.7, written down from its RFC; says what is wrong with a trajectory."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

Shape = dict[str, tuple[Any, bool]]
"""Each field with its type or types, and whether it is required."""

TRAJECTORY: Shape = {
    "schema_version": (str, True),
    "session_id": (str, False),
    "trajectory_id": (str, False),
    "agent": (dict, True),
    "steps": (list, True),
    "notes": (str, False),
    "final_metrics": (dict, False),
    "continued_trajectory_ref": (str, False),
    "extra": (dict, False),
    "subagent_trajectories": (list, False),
}
AGENT: Shape = {
    "name": (str, True),
    "version": (str, True),
    "model_name": (str, False),
    "tool_definitions": (list, False),
    "extra": (dict, False),
}
STEP: Shape = {
    "step_id": (int, True),
    "timestamp": (str, False),
    "source": (str, True),
    "message": ((str, list), True),
    "model_name": (str, False),
    "reasoning_effort": ((str, float), False),
    "reasoning_content": (str, False),
    "tool_calls": (list, False),
    "observation": (dict, False),
    "metrics": (dict, False),
    "extra": (dict, False),
    "llm_call_count": (int, False),
    "is_copied_context": (bool, False),
}
TOOL_CALL: Shape = {
    "tool_call_id": (str, True),
    "function_name": (str, True),
    "arguments": (dict, True),
    "extra": (dict, False),
}
RESULT: Shape = {
    "source_call_id": (str, False),
    "content": ((str, list), False),
    "subagent_trajectory_ref": (list, False),
    "extra": (dict, False),
}
METRICS: Shape = {
    "prompt_tokens": (int, False),
    "completion_tokens": (int, False),
    "cached_tokens": (int, False),
    "cost_usd": ((int, float), False),
    "extra": (dict, False),
}
FINAL: Shape = {
    "total_prompt_tokens": (int, False),
    "total_completion_tokens": (int, False),
    "total_cached_tokens": (int, False),
    "total_cost_usd": ((int, float), False),
    "total_steps": (int, False),
    "extra": (dict, False),
}
AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def problems(trajectory: dict[str, Any]) -> list[str]:
    """All that is wrong, [] for a right one."""
    return list(_problems(trajectory))


def _problems(trajectory: dict[str, Any]) -> Iterator[str]:
    yield from _shape("trajectory", trajectory, TRAJECTORY)
    if trajectory.get("schema_version") != "ATIF-v1.7":
        yield "schema_version"
    yield from _shape("agent", trajectory.get("agent", {}), AGENT)
    steps = trajectory.get("steps", [])
    if not steps:
        yield "steps: at least one"
    for number, step in enumerate(steps, 1):
        yield from _step(number, step)
    final = trajectory.get("final_metrics", {})
    yield from _shape("final_metrics", final, FINAL)
    if final.get("total_steps", len(steps)) != len(steps) and not trajectory.get("notes"):
        yield "final_metrics.total_steps: differs from the steps without a note"


def _step(number: int, step: dict[str, Any]) -> Iterator[str]:
    where = f"steps[{number}]"
    yield from _shape(where, step, STEP)
    if step.get("step_id") != number:
        yield f"{where}.step_id: not in order from 1"
    if "timestamp" in step:
        try:
            datetime.fromisoformat(step["timestamp"])
        except ValueError:
            yield f"{where}.timestamp"
    if step.get("source") not in ("system", "user", "agent"):
        yield f"{where}.source"
    if step.get("source") != "agent":
        yield from (f"{where}.{name}: only for the agent" for name in AGENT_ONLY if name in step)
    yield from _content(f"{where}.message", step.get("message", ""))
    yield from _metrics(f"{where}.metrics", step.get("metrics", {}))
    calls = step.get("tool_calls", [])
    for call in calls:
        yield from _shape(f"{where}.tool_calls", call, TOOL_CALL)
    ids = [call.get("tool_call_id") for call in calls]
    if len(set(ids)) != len(ids):
        yield f"{where}.tool_calls: an id twice"
    observation = step.get("observation")
    if observation is None:
        return
    if list(observation) != ["results"]:
        yield f"{where}.observation"
    for result in observation.get("results", []):
        yield from _shape(f"{where}.observation", result, RESULT)
        yield from _content(f"{where}.observation", result.get("content", ""))
        if result.get("source_call_id") is not None and result["source_call_id"] not in ids:
            yield f"{where}.observation: {result['source_call_id']} is no call of this step"


def _content(where: str, content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "text":
            if set(part) != {"type", "text"} or not isinstance(part["text"], str):
                yield f"{where}: text part"
        elif part.get("type") == "image":
            source = part.get("source", {})
            if set(part) != {"type", "source"} or set(source) != {"media_type", "path"}:
                yield f"{where}: image part"
            elif source["media_type"] not in IMAGES:
                yield f"{where}: image type"
        else:
            yield f"{where}: part of no type"


def _metrics(where: str, metrics: dict[str, Any]) -> Iterator[str]:
    yield from _shape(where, metrics, METRICS)
    if metrics.get("cached_tokens", 0) > metrics.get("prompt_tokens", 0):
        yield f"{where}: cached tokens are a part of the prompt tokens"


def _shape(where: str, value: dict[str, Any], shape: Shape) -> Iterator[str]:
    for name, each in value.items():
        if name not in shape:
            yield f"{where}.{name}: unknown"
        elif not isinstance(each, shape[name][0]):
            yield f"{where}.{name}: of the wrong type"
    for name, (_, required) in shape.items():
        if required and name not in value:
            yield f"{where}.{name}: missing"
