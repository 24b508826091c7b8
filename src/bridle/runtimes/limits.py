"""When a limit of a service ends, as its messages tell it."""

import time


def reset_time(text: str, now: float | None = None) -> str | None:
    """When a limit ends, as RFC 3339 in UTC, if the text says so.

    Known: `try again in 1.5s`, and a moment in local time, `try again at 5:46 PM` (today or
    tomorrow) or `try again at Mar 17th, 2030 5:46 PM`.
    """
    now = time.time() if now is None else now
    lowered = text.lower()
    _, found, rest = lowered.partition("try again in ")
    if found:
        seconds = _seconds(rest.split()[0].rstrip(".,")) if rest.split() else None
        return None if seconds is None else _utc(now + seconds)
    _, found, rest = lowered.partition("try again at ")
    return _moment(rest.strip().rstrip("."), now) if found else None


def _seconds(word: str) -> float | None:
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)):
        number = word.removesuffix(unit)
        if number != word and number.replace(".", "", 1).isdigit():
            return float(number) * factor
    return None


def _moment(words: str, now: float) -> str | None:
    parts = words.replace(",", " ").split()
    try:
        if len(parts) >= 5:
            day = parts[1].rstrip("stndrh")
            told = time.strptime(" ".join((parts[0], day, *parts[2:5])), "%b %d %Y %I:%M %p")
            return _utc(time.mktime((*told[:8], -1)))
        clock = time.strptime(" ".join(parts[:2]), "%I:%M %p")
    except (ValueError, OverflowError, IndexError):
        return None
    today = time.localtime(now)
    at = time.mktime((*today[:3], clock.tm_hour, clock.tm_min, 0, 0, 0, -1))
    return _utc(at if at >= now else at + 86400)


def _utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
