"""Loading scripts: from YAML, JSON or plain data, with the line of every mistake.

msgspec stops at the first mistake and knows no lines, so `Checker` walks the struct definitions
itself and asks msgspec only about single values.
"""

import types
import typing
from collections.abc import Callable
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from bridle.core import structs
from bridle.testing.script import (
    Conversation,
    Fault,
    Script,
    ScriptError,
    ScriptProblem,
    StopReason,
    ToolCall,
    Turn,
)
from bridle.testing.script_source import FaultSource, ScriptData, ScriptSource, TurnSource

_NO_FILE = "<script>"


def load_script(source: "str | PathLike[str] | ScriptData | Script") -> Script:
    """Read a script and check it.

    `source` is a path, YAML or JSON text (several lines, or one that starts with `[`, `{` or
    `- `), plain data, or a `Script`, which is returned unchanged.
    Raises `ScriptError` with every mistake found.
    """
    if isinstance(source, Script):
        return source
    if isinstance(source, dict | list):
        return _build(source, _NO_FILE)
    name, text = _read(source)
    return _build(_parse(text, name), name)


def _read(source: "str | PathLike[str]") -> tuple[str, str]:
    if isinstance(source, str) and ("\n" in source or source.lstrip()[:1] in ("[", "{", "-")):
        return _NO_FILE, source
    name = str(source)
    try:
        return name, Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise _error(name, None, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _error(name, None, "is not UTF-8 text") from error


def _parse(text: str, name: str) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if text.lstrip()[:1] in ("[", "{"):
        # Raw tabs are only layout in JSON (within strings they must be escaped), but YAML's
        # flow style refuses them.
        text = text.replace("\t", " ")
    try:
        return YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        reason = str(error.problem or error.context or "is not valid YAML").splitlines()[0]
        raise _error(name, line, reason) from error
    except YAMLError as error:
        raise _error(name, None, str(error).splitlines()[0]) from error


def _build(document: object, name: str) -> Script:
    checker = Checker(name, _line_of)
    if document is None or document in ([], {}):
        raise _error(name, None, "the script is empty: it needs at least one turn")
    if not isinstance(document, dict | list):
        raise _error(name, 1, "a script is a list of turns, or a mapping with `turns`")
    whole = document if isinstance(document, dict) else {"turns": document}
    checker.check(whole, ScriptSource, 1, "script")
    if not checker.problems:
        _check_meaning(whole, checker)
    if checker.problems:
        raise ScriptError(checker.problems)
    source = structs.convert(_plain(whole), ScriptSource)
    return Script(
        turns=tuple(_turn(turn) for turn in source.turns),
        conversations=tuple(
            Conversation(
                name=each.name or f"conversation-{index + 1}",
                match=each.match,
                turns=tuple(_turn(turn) for turn in each.turns),
            )
            for index, each in enumerate(source.conversations)
        ),
    )


def _check_meaning(whole: dict[str, Any], checker: "Checker") -> None:
    """Check what types cannot express."""
    _check_turns(whole, checker, "script")
    names: set[str] = set()
    conversations = whole.get("conversations", [])
    if not whole.get("turns") and not conversations:
        checker.add(1, "the script is empty: it needs at least one turn")
    for index, each in enumerate(conversations):
        line = checker.line(conversations, index, 1)
        name = each.get("name") or f"conversation-{index + 1}"
        if name in names:
            checker.add(line, f"two conversations are named {name!r}")
        names.add(name)
        _check_turns(each, checker, f"conversations[{index}]")


def _check_turns(parent: dict[str, Any], checker: "Checker", where: str) -> None:
    turns = parent.get("turns", [])
    for index, turn in enumerate(turns):
        line = checker.line(turns, index, None)
        for message in _turn_mistakes(turn):
            checker.add(line, f"{where}.turns[{index}] {message}")
        if index + 1 < len(turns) and _never_ends(turn):
            checker.add(
                line,
                f"{where}.turns[{index}] is a fault that never ends, so the turns after it are "
                "never played: give it `times`",
            )


_WAITS = ("delay", "until", "slow")
_MANNERS = ("cut", "malformed", "stall", *_WAITS)
_SAYS = ("text", "thinking", "tool_calls", "shell", "read_file", "write_file", "edit_file")
_EFFECTS = ("kind", "status", "body", "context_overflow", *_MANNERS)


def _given(fault: dict[str, Any], key: str) -> bool:
    # Not `in (None, False)`: a cut after 0 bytes equals False but is still a cut.
    return fault.get(key) is not None and fault[key] is not False


def _only_slow(fault: dict[str, Any]) -> bool:
    given = {key for key in _EFFECTS if _given(fault, key)}
    return bool(given) and given <= set(_WAITS)


def _never_ends(turn: dict[str, Any]) -> bool:
    if any(turn.get(key) for key in _SAYS):
        return False
    fault = turn.get("fault") or {}
    spoils = turn.get("context_overflow") or any(
        _given(fault, key) for key in _EFFECTS if key not in _WAITS
    )
    return bool(spoils) and fault.get("times") is None


def _turn_mistakes(turn: dict[str, Any]) -> list[str]:
    mistakes = []
    fault = turn.get("fault")
    if not any(turn.get(key) for key in (*_SAYS, "fault", "context_overflow")):
        mistakes.append("says nothing: give it text, thinking, a tool call or a fault")
    elif not any(turn.get(key) for key in _SAYS) and _only_slow(fault or {}):
        mistakes.append("only waits: give it something to say after the wait")
    if turn.get("chunks") is not None and turn.get("chunk_size") is not None:
        mistakes.append("has both `chunks` and `chunk_size`: give one of them")
    if fault is not None:
        if turn.get("context_overflow"):
            mistakes.append("has both `fault` and `context_overflow`: use `kind` in the fault")
        if not any(_given(fault, key) for key in _EFFECTS):
            mistakes.append(f"has a fault without effect: give one of {', '.join(_EFFECTS)}")
        if fault.get("resets_at") is not None and fault.get("resets_in") is not None:
            mistakes.append("has both `resets_at` and `resets_in`: give one of them")
    usage = turn.get("usage") or {}
    if usage.get("reasoning_tokens", 0) > usage.get("output_tokens", 20):
        mistakes.append("reports more reasoning_tokens than output_tokens, which include them")
    return mistakes


def _turn(source: TurnSource) -> Turn:
    calls = [*source.tool_calls]
    if source.shell is not None:
        calls.append(ToolCall(name="shell", args={"command": source.shell}))
    if source.read_file is not None:
        calls.append(ToolCall(name="read_file", args={"path": source.read_file}))
    if source.write_file is not None:
        calls.append(ToolCall(name="write_file", args=msgspec.to_builtins(source.write_file)))
    if source.edit_file is not None:
        calls.append(ToolCall(name="edit_file", args=msgspec.to_builtins(source.edit_file)))
    usual: StopReason = "tool_use" if calls else "end_turn"
    fault = Fault(kind="context_overflow") if source.context_overflow else _fault(source.fault)
    return Turn(
        text=source.text,
        thinking=source.thinking,
        tool_calls=tuple(calls),
        usage=source.usage,
        stop_reason=source.stop_reason or usual,
        chunks=source.chunks or 1,
        chunk_size=source.chunk_size,
        model=source.model,
        fault=fault,
    )


def _fault(source: FaultSource | None) -> Fault | None:
    if source is None:
        return None
    values = {name: getattr(source, name) for name in Fault.__struct_fields__}
    if source.context_overflow:
        values["kind"] = "context_overflow"
    return Fault(**values)


def _line_of(parent: object, key: object) -> int | None:
    """Ask ruamel for the line of a key or item; plain data has none."""
    places = getattr(parent, "lc", None)
    data = getattr(places, "data", None)
    if not isinstance(data, dict) or key not in data:
        return None
    return int(data[key][0]) + 1


def _plain(value: object) -> Any:
    """Turn ruamel's annotated values into plain ones."""
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        # JSON writes characters beyond the BMP as surrogate pairs, which YAML keeps apart.
        return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return value


def _error(name: str, line: int | None, message: str) -> ScriptError:
    return ScriptError([ScriptProblem(source=name, line=line, message=message)])


# -- checking -------------------------------------------------------------------------------------

Lines = Callable[[object, object], int | None]
"""Returns the line of a key or index within a mapping or list."""


class Checker:
    """Compares one document with its types and collects the mistakes."""

    def __init__(self, source: str, line_of: Lines) -> None:
        self.source = source
        self.problems: list[ScriptProblem] = []
        self._line_of = line_of

    def add(self, line: int | None, message: str) -> None:
        """Add one mistake."""
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
            # ruamel keeps how a number was written in a subclass of float, which msgspec refuses.
            structs.convert(float(value) if isinstance(value, float) else value, kind)
        except msgspec.ValidationError as error:
            self.add(line, f"{where}: {_without_path(str(error))}{_nearest_value(value, kind)}")


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


def _without_path(message: str) -> str:
    """The message without msgspec's own path: ours names the place in the script."""
    return message.split(" - at `", 1)[0]
