"""Argument parsing that all commands share: exact refusals, and the types of values."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from bridle.core.errors import WrongUse


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses wrong use by raising `WrongUse`, with the nearest right flag.

    Contract: no abbreviations of flags, so that a script goes on meaning what it meant when a flag
    is added.
    """

    def __init__(self, **settings: Any) -> None:
        settings["allow_abbrev"] = False
        settings.setdefault("formatter_class", _Formatter)
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """Refuse with one line and where to look."""
        raise WrongUse(message, hint=f"see `{self.prog} --help`")

    def parse_args(  # type: ignore[override]  # the overloads of the base say the same
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse, refusing what is left over."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            self._refuse(rest[0])
        return parsed

    def _refuse(self, word: str) -> NoReturn:
        if word.startswith("-"):
            raise unknown("option", word.partition("=")[0], _flags(self), f"`{self.prog} --help`")
        raise WrongUse(
            f"unexpected argument: {word}", hint="put quotes around a text that has spaces"
        )


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """The flags of a parser and of the verbs below it."""
    found: list[str] = []
    for action in parser._actions:
        found += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                found += _flags(verb)
    return found


class _Formatter(argparse.HelpFormatter):
    """The same help on every terminal, so that the reference can be generated anywhere."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=96)


def unknown(what: str, word: str, known: list[str], where: str) -> WrongUse:
    """The error for a word that is none of `known`."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1, 0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"see {where}"
    return WrongUse(f"unknown {what}: {word}", hint=hint)


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add `--json`, which every command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def positive_number(text: str) -> float:
    """A finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def positive_integer(text: str) -> int:
    """A whole number above zero."""
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def key_value(text: str) -> tuple[str, str]:
    """`KEY=VALUE` as a pair."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return key, value
