"""Writes values as TOML for `-c key=value`; the standard library only reads it."""

from typing import Any

from bridle.core.errors import WrongUse

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f"} | {
    "\r": "\\r"
}
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def toml_string(text: str) -> str:
    """`text` as a TOML basic string on one line; lone surrogates become U+FFFD."""
    out = []
    for char in text:
        code = ord(char)
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\u{code:04X}")
        elif 0xD800 <= code <= 0xDFFF:
            out.append("\ufffd")
        else:
            out.append(char)
    return f'"{"".join(out)}"'


def toml_key(name: str) -> str:
    """`name` as a key: bare where that is allowed, else quoted."""
    return name if name and _BARE.issuperset(name) else toml_string(name)


def toml_value(value: Any, where: str) -> str:
    """A value as inline TOML; `WrongUse` names `where` when TOML cannot say it (null)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _toml_float(value)
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(each, where) for each in value)}]"
    if isinstance(value, dict):
        pairs = (f"{toml_key(k)} = {toml_value(v, f'{where}.{k}')}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise WrongUse(f"{where}: TOML has no way to write {type(value).__name__}")


def _toml_float(value: float) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if any(mark in text for mark in ".e") else f"{text}.0"
