"""Events as an indented text, the way the documentation shows them."""

from collections.abc import Iterable

from bridle.core import events as ev


def render(events: Iterable[ev.Event]) -> str:
    """One line an event, indented by what it stands in."""
    rows: list[str] = []
    depth = 0
    for event in events:
        if isinstance(event, ev.SessionEnd | ev.AgentEnd | ev.MessageEnd):
            depth -= 1
        inner = isinstance(event, ev.ToolExecutionUpdate)
        rows.append("  " * (depth + inner) + _words(event))
        if isinstance(event, ev.SessionStart | ev.AgentStart | ev.MessageStart):
            depth += 1
    return "\n".join(rows) + "\n"


def _words(event: ev.Event) -> str:
    name = str(type(event).__struct_config__.tag)
    mark = " (synthetic)" if event.synthetic else ""
    match event:
        case ev.AgentStart():
            return f"{name} turn={event.turn}{mark}"
        case ev.AgentEnd():
            error = f" error={event.error.kind}" if event.error else ""
            return f"{name} turn={event.turn} status={event.status}{error}"
        case ev.MessageUpdate():
            text = f' "{event.text.strip()}"' if event.text else ""
            return f"{name} {event.kind}{text}{mark}"
        case ev.MessageEnd():
            return f'{name} "{event.text.strip()}"{mark}'
        case ev.ToolExecutionStart():
            return f"{name} {event.tool_name}{mark}"
        case ev.ToolExecutionEnd():
            return f"{name} {event.tool_name} is_error={str(event.is_error).lower()}{mark}"
        case ev.StateChange():
            return f"{name} {event.old} -> {event.new}"
        case ev.ErrorRaised():
            return f"{name} {event.kind}"
        case ev.Retry():
            return f"{name} attempt={event.attempt} error={event.error.kind}"
        case ev.SessionEnd():
            return f"{name} {event.reason}"
    return name + mark
