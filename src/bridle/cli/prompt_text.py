"""The text of a prompt, joined from the command line, files and stdin.

Stdin is joined when it is a file, a pipe or a socket; a terminal and `/dev/null` are not read. A
pipe without a writer, as jobs and daemons often have, must not hang the command: without a person
at the terminal, Bridle waits three seconds for the first byte.
"""

import os
import stat
import sys
from collections.abc import Sequence

from bridle.core.errors import WrongUse

PATIENCE = 3.0
"""Seconds for the first byte of a pipe that is joined to a prompt."""
_MISSING = "give it as an argument, on stdin, or with --file"


def prompt_text(argument: str | None, files: Sequence[str] = (), *, optional: bool = False) -> str:
    """The whole text: the argument, the files, then stdin, with a blank line between them.

    `-` as the argument or as a file is stdin, read to its end however long that takes. Without an
    argument and files, stdin is the text; `optional` then leaves it unread. Raises `WrongUse` when
    there is no text at all, or it is not UTF-8.
    """
    if argument is None and not files:
        if optional:
            return ""
        if sys.stdin is None or sys.stdin.isatty():
            raise WrongUse("the prompt is missing", hint=_MISSING)
        return _stdin()
    named = [*(() if argument is None else (argument,)), *files]
    parts = [] if argument is None else [_stdin() if argument == "-" else argument]
    parts += [_stdin() if file == "-" else _file(file) for file in files]
    if "-" not in named:
        parts.append(_joined())
    *before, last = [part for part in parts if part.strip()] or parts[:1]
    text = "\n\n".join([*(part.rstrip("\n") for part in before), last])
    try:
        text.encode()
    except UnicodeEncodeError:
        # Only the argument can hold such bytes; a model takes none of them.
        raise WrongUse("the prompt is not UTF-8 text") from None
    return text


def _joined() -> str:
    """The text on stdin that is joined to the prompt; empty when there is none."""
    try:
        handle = sys.stdin.fileno()
        kind = os.fstat(handle).st_mode
    except (AttributeError, OSError, ValueError):
        return ""
    if stat.S_ISREG(kind):
        return _stdin()
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return ""
    import select

    if not select.select([handle], [], [], PATIENCE)[0]:
        if not sys.stderr.isatty():
            from bridle.cli.output import warn

            warn(
                f"stdin is open and gave nothing for {PATIENCE:g} s: it is not joined to the "
                "prompt (`--file -` waits for it, `</dev/null` closes it)"
            )
            return ""
        sys.stderr.write("waiting for the end of stdin, which is joined to the prompt\n")
    return _stdin()


def _stdin() -> str:
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise WrongUse("the text on stdin is not UTF-8") from None


def _file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except OSError as problem:
        raise WrongUse(f"cannot read {path}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise WrongUse(f"{path} is not UTF-8 text", hint="an image goes with --image") from None
