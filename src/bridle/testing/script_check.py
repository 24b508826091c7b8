"""Checks a script against its shapes and names the line of every mistake.

msgspec stops at the first mistake and knows no lines, so this walks along the struct definitions
itself and asks msgspec only about single values.
"""

import types
import typing
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import msgspec

from bridle.testing.script_errors import ScriptProblem

Lines = Callable[[object, object], int | None]
"""Tells the line of a key or index within a mapping or list."""


class Checker:
    """Walks one document and collects its problems."""

    def __init__(self, source: str, line_of: Lines) -> None:
        self.source = source
        self.problems: list[ScriptProblem] = []
        self._line_of = line_of

    def add(self, line: int | None, message: str) -> None:
        """Note one mistake."""
        self.problems.append(ScriptProblem(source=self.source, line=line, message=message))

    def line(self, parent: object, key: object, otherwise: int | None) -> int | None:
        """Return the line of a key in its parent, or the line given."""
        found = self._line_of(parent, key)
        return otherwise if found is None else found

    def check(self, value: object, kind: Any, line: int | None, where: str) -> None:
        """Compare a value with the type it should have."""
        struct = _struct_of(kind)
        item = _item_of(kind)
        if struct is not None and not (value is None and _allows_none(kind)):
            self._check_struct(value, struct, line, where)
        elif item is not None:
            self._check_list(value, item, line, where)
        else:
            self._check_leaf(value, kind, line, where)

    def _check_struct(
        self, value: object, struct: type[msgspec.Struct], line: int | None, where: str
    ) -> None:
        if not isinstance(value, dict):
            self.add(line, f"{where} must be a mapping, not {_describe(value)}")
            return
        fields = {field.name: field for field in msgspec.structs.fields(struct)}
        for key, inner in value.items():
            here = self.line(value, key, line)
            if not isinstance(key, str) or key not in fields:
                self.add(here, f"{where} has no key {key!r}{_nearest(str(key), list(fields))}")
                continue
            self.check(inner, fields[key].type, here, f"{where}.{key}")
        for name, field in fields.items():
            if field.required and name not in value:
                self.add(line, f"{where} needs the key {name!r}")

    def _check_list(self, value: object, item: Any, line: int | None, where: str) -> None:
        if not isinstance(value, list):
            self.add(line, f"{where} must be a list, not {_describe(value)}")
            return
        for index, inner in enumerate(value):
            self.check(inner, item, self.line(value, index, line), f"{where}[{index}]")

    def _check_leaf(self, value: object, kind: Any, line: int | None, where: str) -> None:
        try:
            # A number of a YAML document knows how it was written, and is none to msgspec.
            msgspec.convert(float(value) if isinstance(value, float) else value, kind)
        except msgspec.ValidationError as error:
            self.add(line, f"{where}: {_plain(str(error))}{_nearest_value(value, kind)}")


def _members(kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return typing.get_args(kind)
    return (kind,)


def _allows_none(kind: Any) -> bool:
    return type(None) in _members(kind)


def _struct_of(kind: Any) -> type[msgspec.Struct] | None:
    for member in _members(kind):
        if isinstance(member, type) and issubclass(member, msgspec.Struct):
            return member
    return None


def _item_of(kind: Any) -> Any | None:
    if typing.get_origin(kind) is tuple:
        return typing.get_args(kind)[0]
    return None


def _describe(value: object) -> str:
    if value is None:
        return "nothing"
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a truth value"}
    for kind, name in names.items():
        if isinstance(value, kind):
            return name
    return "a number" if isinstance(value, int | float) else type(value).__name__


def _nearest(key: str, known: list[str]) -> str:
    close = get_close_matches(key, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(sorted(known))})"


def _nearest_value(value: object, kind: Any) -> str:
    for member in _members(kind):
        if typing.get_origin(member) is typing.Literal and isinstance(value, str):
            return _nearest(value, [str(choice) for choice in typing.get_args(member)])
    return ""


def _plain(message: str) -> str:
    """Drop msgspec's own path, which is told in the script's words instead."""
    return message.split(" - at `", 1)[0]
