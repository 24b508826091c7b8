"""Argument parsing that all commands share: options anywhere, exact refusals, help, value types."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from bridle.core.errors import WrongUse
from bridle.core.spelling import nearest

WIDEST = 96
"""Columns of help text on a wide terminal, and wherever stdout is not a terminal."""
_NARROW = 60
_TEXTS = ("prompt", "text")
"""Positional arguments that hold a sentence; people forget to quote them."""


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses wrong use by raising `WrongUse`, with the nearest right word.

    Contract: options may come anywhere among the words, before and after a verb. Flags are not
    abbreviated, so that a new flag never changes the meaning of a script. A noun without a verb
    prints its help on stderr and exits with 2, as `bridle` alone does. `examples` are shown at the
    end of the help.
    """

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        settings["allow_abbrev"] = False
        settings.setdefault("formatter_class", _Formatter)
        super().__init__(**settings)
        self._positionals.title = "arguments"
        self.examples = tuple(examples)
        self.verb_groups: dict[str, list[tuple[str, str]]] = {}

    def error(self, message: str) -> NoReturn:
        """Refuse with one line and where to look."""
        raise WrongUse(message, hint=f"see `{self.prog} --help`")

    # -- parsing --------------------------------------------------------------------------------

    def parse_known_args(  # type: ignore[override]  # the overloads of the base say the same
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, refusing what is left over; the second value is always empty."""
        words = list(sys.argv[1:] if args is None else args)
        verbs = verbs_of(self)
        if verbs is not None:
            if not words:
                sys.stderr.write(self.format_help())
                raise SystemExit(2)
            if words[0] not in verbs.choices:
                words = self._verb_first(words, verbs)
        else:
            options, others = self._apart(words)
            words = [*options, *(["--", *others] if others else [])]
        parsed, rest = super().parse_known_args(words, namespace)
        if rest[:1] == ["--"] and len(rest) > 1:
            rest = rest[1:]  # put there above; the parser takes no words at all
        if rest:
            self._refuse(rest[0], words)
        return parsed, []

    def _apart(self, words: list[str]) -> tuple[list[str], list[str]]:
        """The options and the other words, each kind in its order."""
        options: list[str] = []
        others: list[str] = []
        left = list(words)
        while left:
            word = left.pop(0)
            if word == "--":
                others += left
                break
            if not self._is_option(word):
                others.append(word)
                continue
            options.append(word)
            if self._wants_value(word) and left and left[0] != "--":
                options.append(left.pop(0))
        return options, others

    def _is_option(self, word: str) -> bool:
        """Whether a word is an option: negative numbers and texts with spaces are not."""
        if len(word) < 2 or not word.startswith("-") or word[1].isdigit():
            return False
        return " " not in word or word.partition("=")[0] in self._option_string_actions

    def _wants_value(self, word: str) -> bool:
        """Whether the value of an option is the next word."""
        action = self._option_string_actions.get(word)
        if action is None and not word.startswith("--"):
            # Short flags in one word: the first that takes a value takes the rest of the word.
            for at, letter in enumerate(word[1:], 2):
                action = self._option_string_actions.get(f"-{letter}")
                if action is None or action.nargs != 0:
                    return action is not None and at == len(word)
        return action is not None and action.nargs != 0

    def _verb_first(self, words: list[str], verbs: "argparse._SubParsersAction[Any]") -> list[str]:
        """`words` with the verb before the options that the user wrote in front of it."""
        for at, word in enumerate(words):
            if word in verbs.choices:
                before = verbs.choices[word]._apart(words[:at])
                if words[:at] == before[0]:
                    return [word, *words[:at], *words[at + 1 :]]
            if word == "--":
                break
        return words

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            if str(value).startswith("-"):
                self._refuse(str(value), [])
            raise unknown("verb", str(value), known, f"`{self.prog} --help`")
        name = action.option_strings[-1] if action.option_strings else _shown(action)
        near = nearest(str(value), known)
        hint = f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
        raise WrongUse(f"{name} cannot be {value!r}".replace("'", '"'), hint=hint)

    def _refuse(self, word: str, words: Sequence[str]) -> NoReturn:
        flags = [flag for flag in flags_of(self) if flag not in hidden_flags(self)]
        if word.startswith("-"):
            name = word.partition("=")[0]
            if name in self._option_string_actions and "--" in words:
                raise WrongUse(f"unexpected argument: {word}", hint="options come before `--`")
            raise unknown("option", name, flags, f"`{self.prog} --help`")
        takes_text = any(action.dest in _TEXTS for action in self._get_positional_actions())
        hint = "put quotes around text that has spaces" if takes_text else ""
        raise WrongUse(f"unexpected argument: {word}", hint=hint or f"see `{self.prog} --help`")

    # -- help -----------------------------------------------------------------------------------

    def format_usage(self) -> str:
        """One line: the words, with options as one."""
        return f"usage: {self._usage()}\n"

    def _usage(self) -> str:
        if verbs_of(self) is not None:
            return f"{self.prog} VERB [ARGUMENTS]"
        required = [
            f"{action.option_strings[-1]} {_shown(action)}"
            for action in self._get_optional_actions()
            if action.required
        ]
        words = [
            f"[{_shown(action)}]" if action.nargs == "?" else _shown(action)
            for action in self._get_positional_actions()
        ]
        return " ".join([self.prog, *words, *required, "[OPTIONS]"])

    def format_help(self) -> str:
        """Usage, description, verbs or options in groups, examples."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        if verbs_of(self) is None:
            for group in self._action_groups:
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        width = help_width()
        parts = [*_wrapped(f"usage: {self._usage()}", width, 7), ""]
        body = formatter.format_help().strip("\n")
        parts += [body, ""] if body else []
        for title, rows in self.verb_groups.items():
            parts += [f"{title}:" if title else "verbs:", *table(rows, width), ""]
        if self.examples:
            title = "example" if len(self.examples) == 1 else "examples"
            parts += [f"{title}:", *(f"  {line}" for line in self.examples), ""]
        if self.verb_groups:
            parts += [*_wrapped(f"`{self.prog} VERB --help` explains a verb.", width, 0), ""]
        return "\n".join(parts)


class Verbs:
    """The verbs of a noun, in groups, as its help lists them."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        assert isinstance(parser, CommandParser)
        self._parser = parser
        self._verbs = parser.add_subparsers(
            dest="verb", metavar="VERB", required=True, parser_class=CommandParser
        )
        self._title = ""

    def group(self, title: str) -> None:
        """The verbs added from here on belong together."""
        self._title = title

    def add(self, name: str, text: str, *examples: str, description: str = "") -> CommandParser:
        """A verb with one line of help; it has `--json` like every verb."""
        self._parser.verb_groups.setdefault(self._title, []).append((name, text))
        parser = self._verbs.add_parser(
            name,
            help=text,
            description=description or f"{text[:1].upper()}{text[1:]}.",
            examples=examples,
        )
        add_json(parser)
        return parser


def verbs_of(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[CommandParser] | None":
    """The verbs of a noun's parser; None for a parser without any."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action
    return None


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """The flags of a parser, without those of verbs below it."""
    return [flag for action in parser._actions for flag in action.option_strings]


def hidden_flags(parser: argparse.ArgumentParser) -> set[str]:
    """The flags that work and are not shown."""
    return {
        flag
        for action in parser._actions
        if action.help is argparse.SUPPRESS
        for flag in action.option_strings
    }


def _shown(action: argparse.Action) -> str:
    """The name of an argument in the help."""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "|".join(str(choice) for choice in action.choices)
    return action.dest.upper()


class _Formatter(argparse.HelpFormatter):
    """Help as wide as the terminal, with choices as `a|b`."""

    def __init__(self, prog: str) -> None:
        width = help_width()
        super().__init__(prog, max_help_position=8 if width < _NARROW else 28, width=width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return _shown(action)
        flags = ", ".join(action.option_strings)
        return flags if action.nargs == 0 else f"{flags} {_shown(action)}"


_fixed_width: int | None = None


def fix_help_width(width: int | None) -> None:
    """Format help for this many columns whatever the terminal; None follows the terminal again."""
    global _fixed_width
    _fixed_width = width


def help_width() -> int:
    """Columns for help: the terminal's up to `WIDEST`, with a minimum so that something fits."""
    if _fixed_width is not None:
        return _fixed_width
    try:
        columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(1).columns
    except (OSError, ValueError):
        return WIDEST
    return max(24, min(WIDEST, columns or WIDEST))


def table(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Two columns, the second wrapped; below each other where the terminal is narrow."""
    if width < _NARROW:
        lines: list[str] = []
        for name, text in rows:
            lines += [f"  {name}", *(f"      {line}" for line in _wrapped(text, width - 6, 0))]
        return lines
    left = max((len(name) for name, _ in rows), default=0)
    found: list[str] = []
    for name, text in rows:
        first, *more = _wrapped(text, width - left - 4, 0) or [""]
        found += [f"  {name:<{left}}  {first}".rstrip()]
        found += [f"  {'':{left}}  {line}" for line in more]
    return found


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text,
        max(16, width),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def unknown(what: str, word: str, known: list[str], where: str) -> WrongUse:
    """The error for a word that is not one of `known`."""
    near = nearest(word, known)
    hint = f"did you mean `{near}`?" if near else f"see {where}"
    return WrongUse(f"unknown {what}: {word}", hint=hint)


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add `--json`, which every command has."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


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
