"""Structured answers: an agent's final text as a value that fits a JSON Schema.

Pure: texts and schemas in, values and errors out. `bridle.structured` asks agents for them.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from bridle.core.errors import AnswerMismatch, WrongUse

_FENCED = r"```[\w-]*[ \t]*\n(.*?)\n[ \t]*```"
_SHOWN = 500
"""Characters of a problem that are shown to the user and to the agent."""


def check_schema(schema: dict[str, Any]) -> None:
    """Raise `WrongUse` unless `schema` is a JSON Schema that answers can be checked with.

    References must stay within the schema: nothing is fetched.
    """
    validators = _library()
    from jsonschema.exceptions import SchemaError

    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as problem:
        where = f" at {problem.json_path}" if problem.path else ""
        raise WrongUse(
            f"the output schema is not a valid JSON Schema: {problem.message[:_SHOWN]}{where}"
        ) from None
    for reference in _references(schema):
        if not _leads_somewhere(schema, reference):
            raise WrongUse(
                f"the output schema refers to {reference}, which is not in it",
                hint="put all definitions into the schema, under $defs",
            )


class AnswerCheck:
    """Reads the final text of each turn as a value that fits a schema.

    Contract: `schema` passed `check_schema`. `value` is the value of the last text that fitted,
    unset after one that did not.
    """

    def __init__(self, schema: dict[str, Any], *, hint: str = "") -> None:
        """`hint` says what to do when the answer does not fit."""
        self.value: Any = msgspec.UNSET
        self._schema = schema
        self._hint = hint

    def take(self, text: str) -> AnswerMismatch | None:
        """Take a final text; returns why it is not an answer, None when it fits."""
        self.value = msgspec.UNSET
        for candidate in _candidates(text):
            try:
                value = msgspec.json.decode(candidate)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            problem = self._problem(value)
            if problem is None:
                self.value = value
                return None
            return AnswerMismatch(f"the answer does not fit the schema: {problem}", hint=self._hint)
        return AnswerMismatch("the answer is not JSON", hint=self._hint)

    def _problem(self, value: Any) -> str | None:
        """The most telling problem of a value, None when it fits."""
        validators = _library()
        from jsonschema.exceptions import best_match
        from referencing import Registry

        kind = validators.validator_for(self._schema, default=validators.Draft202012Validator)
        # A separate registry: the default one would fetch what it does not know.
        found = best_match(kind(self._schema, registry=Registry()).iter_errors(value))
        if found is None:
            return None
        return f"{found.message[:_SHOWN]} (at {found.json_path})"


def _library() -> Any:
    try:
        from jsonschema import validators
    except ImportError:
        raise WrongUse(
            "structured answers need the package jsonschema",
            hint="install bridle with its extra `schema`",
        ) from None
    return validators


def _candidates(text: str) -> Iterator[str]:
    """Where the value may be: all of the text, its last code block, or between its brackets."""
    yield text.strip()
    fenced = re.findall(_FENCED, text, re.DOTALL)
    if fenced:
        yield fenced[-1]
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    end = max(text.rfind("}"), text.rfind("]"))
    if starts and end > min(starts):
        yield text[min(starts) : end + 1]


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            elif name not in ("const", "enum", "default", "examples"):
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _leads_somewhere(schema: dict[str, Any], reference: str) -> bool:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = DRAFT202012.create_resource(schema)
    base = str(schema.get("$id", ""))
    resolver = Registry().with_resource(base, resource).resolver(base)
    try:
        resolver.lookup(reference)
    except (Unresolvable, ValueError, KeyError, TypeError, AttributeError):
        return False
    return True
