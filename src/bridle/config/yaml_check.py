"""One YAML file checked against the schema: its values, and every mistake with its line.

The check walks the YAML nodes instead of converting the file at once, because only nodes know their
lines, and because a person wants to see all mistakes, not the first.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect as shapes
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bridle.config.consistency import Mistake
from bridle.config.schema import ConfigFile
from bridle.core.spelling import nearest

_LARGEST = 1 << 20
"""Bytes; a configuration is written by hand."""
_HUGE = 1e300
_MOST_NODES = 20_000
"""Aliases can make a small file huge: no more nodes than this are visited."""


def read_file(path: str) -> tuple[dict[str, Any], list[str]]:
    """The plain values of the file at `path`, and its mistakes.

    Each mistake is a line `FILE:LINE: what`, in the order of the file. Never raises, whatever the
    file is or contains.
    """
    yaml = YAML(typ="safe", pure=True)
    root, problem = _compose(path, yaml)
    if problem:
        return {}, [problem]
    return _Reader(path, yaml).read(root, ConfigFile)


def read_section(path: str, key: tuple[str, ...], shape: type[msgspec.Struct]) -> list[str]:
    """The mistakes in the section at `key` of the file at `path`, checked against `shape`."""
    yaml = YAML(typ="safe", pure=True)
    node = _node(_compose(path, yaml)[0], key)
    return _Reader(path, yaml).read(node, shape, ".".join(key))[1]


def located(path: str, mistakes: list[Mistake]) -> list[str]:
    """Each of `mistakes` as `FILE:LINE: what`, with the line of its key in the file at `path`."""
    root = _compose(path, YAML(typ="safe", pure=True))[0] if mistakes else None
    return [f"{path}:{_line(root, mistake.key)}: {mistake.text}" for mistake in mistakes]


def option_problems(
    path: str, mistakes: list[tuple[Mistake, type[msgspec.Struct] | None]]
) -> list[str]:
    """The result of `consistency.option_mistakes` as lines `FILE:LINE: what`, one for each key
    that does not fit its type."""
    found: list[str] = []
    for mistake, shape in mistakes:
        key = tuple(str(each) for each in mistake.key)
        listed = read_section(path, key, shape) if shape is not None else []
        found += listed or located(path, [mistake])
    return found


def in_order(problems: list[str]) -> list[str]:
    """The lines `FILE:LINE: what` about one file, in the order of the file."""

    def line(problem: str) -> int:
        found = re.search(r":([0-9]+): ", problem)
        return int(found[1]) if found else 0

    return sorted(problems, key=line)


def _compose(path: str, yaml: YAML) -> tuple[Node | None, str]:
    """The root node of the file at `path`, or None and the reason."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as problem:
        return None, f"{path}: cannot be read: {problem.strerror}"
    if len(data) > _LARGEST:
        return None, f"{path}: larger than {_LARGEST >> 20} MiB"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        return None, f"{path}:{line}: is not UTF-8 text"
    try:
        return yaml.compose(text), ""
    except YAMLError as problem:
        return None, yaml_problem(path, problem)


def _steps(root: Node | None, key: tuple[str | int, ...]) -> Iterator[tuple[Node, Node]]:
    """The nodes on the way to `key`, each as the pair of its key node and value node; ends where
    the file has no such key."""
    node = root
    for step in key:
        found = None
        if isinstance(node, MappingNode):
            pairs = ((name, value) for name, value in node.value if name.value == step)
            found = next(pairs, None)
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = (node.value[step], node.value[step])
        if found is None:
            return
        yield found
        node = found[1]


def _node(root: Node | None, key: tuple[str, ...]) -> Node | None:
    found = list(_steps(root, key))
    return found[-1][1] if len(found) == len(key) else None


def _line(root: Node | None, key: tuple[str | int, ...]) -> int:
    """The line of `key`, or of the nearest key above it that the file has."""
    found = list(_steps(root, key))
    return found[-1][0].start_mark.line + 1 if found else 1


def key_lines(path: str) -> dict[str, int]:
    """The line of every key of the file at `path`, by the key with dots; empty when the file cannot
    be read. Only keys of mappings are listed, not items of lists."""
    root = _compose(path, YAML(typ="safe", pure=True))[0]
    found: dict[str, int] = {}
    left = [("", root)]
    while left and len(found) < _MOST_NODES:
        where, node = left.pop()
        if isinstance(node, MappingNode):
            for key, value in node.value:
                name = _join(where, str(key.value))
                found[name] = key.start_mark.line + 1
                left.append((name, value))
    return found


def yaml_problem(path: str, problem: YAMLError) -> str:
    """One line that says where and why a file is not valid YAML."""
    if not isinstance(problem, MarkedYAMLError):
        return f"{path}: not valid YAML: {str(problem).splitlines()[0]}"
    mark = problem.problem_mark or problem.context_mark
    reason = str(problem.problem or problem.context or "syntax error").splitlines()[0]
    where = f"{path}:{mark.line + 1}" if mark is not None else path
    return f"{where}: not valid YAML: {reason}"


class _TooMuch(Exception):
    """The file is nested too deeply or has too many aliases."""


class _Reader:
    """Compares one file's nodes with the types of the schema."""

    def __init__(self, path: str, yaml: YAML) -> None:
        self._path = path
        self._yaml = yaml
        self._problems: list[tuple[int, str]] = []
        self._nodes = 0
        self._open: set[int] = set()

    def read(
        self, root: Node | None, shape: type[msgspec.Struct], where: str = ""
    ) -> tuple[dict[str, Any], list[str]]:
        values: Any = {}
        try:
            if root is not None and not _is_null(root):
                values = self._value(root, shapes.type_info(shape), where)
        except (_TooMuch, RecursionError):
            self._problems.append((1, "nested too deeply, or too many aliases"))
        lines = [f"{self._path}:{line}: {what}" for line, what in sorted(self._problems)]
        return values if isinstance(values, dict) else {}, lines

    def _value(self, node: Node, shape: shapes.Type, where: str) -> Any:
        self._nodes += 1
        if self._nodes > _MOST_NODES or id(node) in self._open:
            raise _TooMuch
        self._open.add(id(node))
        try:
            return self._checked(node, shape, where)
        finally:
            self._open.discard(id(node))

    def _checked(self, node: Node, shape: shapes.Type, where: str) -> Any:
        if isinstance(shape, shapes.UnionType):
            return self._union(node, shape, where)
        if isinstance(shape, shapes.StructType):
            return self._struct(node, shape, where)
        if isinstance(shape, shapes.DictType):
            return self._dict(node, shape.value_type, where)
        if isinstance(shape, shapes.VarTupleType | shapes.ListType):
            return self._list(node, shape.item_type, where)
        if isinstance(shape, shapes.AnyType):
            return self._anything(node, where)
        return self._scalar(node, shape, where)

    def _union(self, node: Node, shape: shapes.UnionType, where: str) -> Any:
        if _is_null(node) and any(isinstance(each, shapes.NoneType) for each in shape.types):
            return None
        kinds = [each for each in shape.types if not isinstance(each, shapes.NoneType)]
        for each in kinds:
            if isinstance(node, MappingNode) == isinstance(each, shapes.StructType):
                before = len(self._problems)
                value = self._checked(node, each, where)
                if len(kinds) == 1 or isinstance(node, MappingNode) or value is not None:
                    return value
                del self._problems[before:]
        return self._wrong(node, where, " or ".join(_words(each) for each in kinds))

    def _struct(self, node: Node, shape: shapes.StructType, where: str) -> Any:
        if isinstance(node, ScalarNode) and (key := getattr(shape.cls, "shorthand", "")):
            text = self._plain(node)
            return {key: text} if isinstance(text, str) else self._wrong(node, where, "a string")
        fields = {field.encode_name: field for field in shape.fields}
        values: dict[str, Any] = {}
        for key, key_node, value_node in self._pairs(node, where):
            field = fields.get(key)
            if field is None:
                self._unknown(key_node, key, list(fields), where)
            elif not (_is_null(value_node) and _is_section(field.type)):
                values[key] = self._value(value_node, field.type, _join(where, key))
        for field in shape.fields:
            if field.required and field.encode_name not in values:
                self._problem(node, f"{where}: `{field.encode_name}` is missing")
        return values

    def _dict(self, node: Node, shape: shapes.Type, where: str) -> Any:
        return {
            key: self._value(value, shape, _join(where, key))
            for key, _, value in self._pairs(node, where)
        }

    def _list(self, node: Node, shape: shapes.Type, where: str) -> Any:
        if not isinstance(node, SequenceNode):
            return self._wrong(node, where, "a list")
        return [self._value(each, shape, f"{where}[{n}]") for n, each in enumerate(node.value)]

    def _anything(self, node: Node, where: str) -> Any:
        if isinstance(node, MappingNode):
            return self._dict(node, shapes.AnyType(), where)
        if isinstance(node, SequenceNode):
            return self._list(node, shapes.AnyType(), where)
        return self._plain(node)

    def _scalar(self, node: Node, shape: shapes.Type, where: str) -> Any:
        value = self._plain(node) if isinstance(node, ScalarNode) else node
        if isinstance(shape, shapes.LiteralType):
            if value in shape.values:
                return value
            return self._wrong_choice(node, value, shape, where)
        kinds: dict[type[shapes.Type], tuple[type, ...]] = {
            shapes.StrType: (str,),
            shapes.FloatType: (int, float),
            shapes.IntType: (int,),
            shapes.BoolType: (bool,),
        }
        fitting = kinds.get(type(shape))
        if fitting is None:
            # Only an adapter's own settings use such a type: `consistency` converts them.
            return self._anything(node, where)
        if not isinstance(value, fitting) or (isinstance(value, bool) and bool not in fitting):
            return self._wrong(node, where, _words(shape))
        if (
            isinstance(shape, shapes.FloatType | shapes.IntType)
            and isinstance(value, int | float)
            and not _in_range(value, shape)
        ):
            return self._wrong(node, where, _range_words(shape))
        return value

    def _pairs(self, node: Node, where: str) -> list[tuple[str, Node, Node]]:
        """The entries of a mapping, without keys that are duplicate or not strings."""
        if not isinstance(node, MappingNode):
            self._wrong(node, where, "a mapping")
            return []
        pairs: dict[str, tuple[str, Node, Node]] = {}
        for key_node, value_node in node.value:
            key = self._plain(key_node) if isinstance(key_node, ScalarNode) else None
            if not isinstance(key, str):
                self._problem(key_node, f"{where or 'the file'}: a key must be a string; quote it")
            elif key in pairs:
                first = pairs[key][1].start_mark.line + 1
                self._problem(
                    key_node, f"duplicate key `{_join(where, key)}` (first on line {first})"
                )
            else:
                pairs[key] = (key, key_node, value_node)
        return list(pairs.values())

    def _plain(self, node: Node) -> Any:
        try:
            return self._yaml.constructor.construct_object(node)
        except (YAMLError, ValueError):
            # An unknown tag, or a value that does not fit its tag: the type check reports it.
            return None

    # -- reporting mistakes ---------------------------------------------------------------------

    def _problem(self, node: Node, text: str) -> None:
        self._problems.append((node.start_mark.line + 1, text))

    def _unknown(self, node: Node, key: str, known: list[str], where: str) -> None:
        near = nearest(key, known)
        hint = f"did you mean `{near}`?" if near else f"known keys: {', '.join(known)}"
        self._problem(node, f"unknown key `{_join(where, key)}`; {hint}")

    def _wrong(self, node: Node, where: str, wanted: str) -> None:
        self._problem(node, f"{where or 'the file'}: must be {wanted}, not {_shown(node)}")

    def _wrong_choice(self, node: Node, value: Any, shape: shapes.LiteralType, where: str) -> None:
        choices = [str(each) for each in shape.values]
        near = nearest(value, choices) if isinstance(value, str) else None
        hint = f"; did you mean `{near}`?" if near else ""
        self._problem(node, f"{where}: must be {' or '.join(choices)}, not {_shown(node)}{hint}")


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and str(node.tag).endswith(":null")


def _is_section(shape: shapes.Type) -> bool:
    """Whether an empty key (all below it commented out) just means that nothing is set."""
    sections = shapes.StructType | shapes.DictType | shapes.VarTupleType | shapes.ListType
    return isinstance(shape, sections)


def _in_range(value: float, shape: shapes.FloatType | shapes.IntType) -> bool:
    """Whether a number is finite and within the limit that the schema sets, if any."""
    above = shape.gt is None or value > shape.gt
    return -_HUGE < value < _HUGE and above and (shape.ge is None or value >= shape.ge)


def _range_words(shape: shapes.FloatType | shapes.IntType) -> str:
    kind = _words(shape)
    return (
        f"{kind} of {shape.ge:g} or more"
        if shape.ge is not None
        else f"{kind} above {shape.gt or 0:g}"
    )


def _words(shape: shapes.Type) -> str:
    names: dict[type, str] = {
        shapes.StrType: "a string",
        shapes.FloatType: "a number",
        shapes.IntType: "a whole number",
        shapes.BoolType: "true or false",
        shapes.StructType: "a mapping",
        shapes.DictType: "a mapping",
        shapes.VarTupleType: "a list",
        shapes.ListType: "a list",
    }
    return names.get(type(shape), "another value")


def _shown(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    text = str(node.value)[:60]
    return msgspec.json.encode(text).decode() if str(node.tag).endswith(":str") else text
