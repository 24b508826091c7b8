"""The command reference, generated from the parsers so that it always matches them."""

import argparse
from collections.abc import Iterator

from bridle.cli import COMMANDS, load, parser_of
from bridle.cli.parsing import WIDEST, fix_help_width


def command_reference() -> str:
    """The usage, arguments and options of every command, as Markdown."""
    parts: list[str] = []
    fix_help_width(WIDEST)
    for name in COMMANDS:
        for prog, parser in _parsers(f"bridle {name}", parser_of(name, load(name))):
            depth = "###" if prog.count(" ") > 1 else "##"
            parts.append(f"{depth} `{prog}`\n\n```text\n{parser.format_help().rstrip()}\n```\n")
    fix_help_width(None)
    return "\n".join(parts)


def _parsers(
    prog: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """A command's parser and those of its verbs."""
    yield prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, below in action.choices.items():
                yield from _parsers(f"{prog} {verb}", below)
