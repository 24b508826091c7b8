"""Times and durations, as records store them and as people read them."""

from datetime import UTC, datetime


def seconds_of(text: str) -> float:
    """Seconds since 1970 for a time such as `2026-01-31T12:00:00.000Z`; 0 when `text` is not a
    time."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def age(seconds: float) -> str:
    """A duration in its largest unit: `5s`, `3m`, `2h`, `4d`."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
