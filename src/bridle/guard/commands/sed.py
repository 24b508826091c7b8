"""sed: options that edit in place, and what its little programs write or run."""

import re

from bridle.guard.commands.options import read
from bridle.guard.commands.programs import program_text
from bridle.guard.effects import Code, Command, Deny, Doubt, Effect, Mutates, Shell, Write
from bridle.guard.paths import Mode
from bridle.guard.shell.values import Value, literal


class SedError(Exception):
    """The program cannot be read."""


def sed(command: Command) -> list[Effect]:
    """Effects of a sed call."""
    options = read(
        command.args,
        short="efl",
        long=("expression", "file", "line-length", "in-place?"),
        optional="iI",
        flags=("quiet", "silent", "regexp-extended", "separate", "unbuffered", "null-data",
               "debug", "posix", "sandbox", "follow-symlinks", "zero-terminated", "version",
               "help", "binary"),
    )  # fmt: skip
    operands = list(options.operands)
    programs = options.values("e", "expression")
    files = options.values("f", "file")
    if not programs and not files and operands:
        programs = [operands.pop(0)]
    effects: list[Effect] = []
    if options.has("i", "I", "in-place"):
        mode: Mode = "write" if options.has("follow-symlinks") else "entry"
        effects.extend(Write(operand, mode) for operand in operands)
        effects.append(Mutates("sed edits files in place"))
    elif options.open_options:
        effects.append(Doubt("sed"))
    for program in programs:
        effects.extend(_program(program))
    for file in files:
        effects.extend(_file(file, command))
    return effects


def _program(program: Value) -> list[Effect]:
    text = program.sample
    if text is None:
        # Only the holes are unknown: read the rest with a plain character, or with a line number,
        # in their place.
        for stand_in in "X1":
            text = "".join(p if isinstance(p, str) else stand_in for p in program.parts)
            try:
                return [Doubt("a sed program"), *script_effects(text)]
            except SedError:
                continue
    try:
        return script_effects(text or "")
    except SedError:
        return [Deny("shell-unparsed", f"the sed program {text!r} cannot be read")]


def _file(file: Value, command: Command) -> list[Effect]:
    text = program_text(file, command)
    if text is None:
        return [Code(None, "sed")]
    try:
        return script_effects(text)
    except SedError:
        return [Code(None, "sed")]


_ADDRESS = re.compile(r"\s*(?:\d+(?:~\d+)?|\$|\+\d+|~\d+)")


def script_effects(text: str) -> list[Effect]:
    """Files that a sed program writes and commands that it runs. Raises `SedError`."""
    effects: list[Effect] = []
    position, length = 0, len(text)
    while position < length:
        char = text[position]
        if char in " \t\n;{}!":
            position += 1
            continue
        if char == "#":
            position = _line_end(text, position)
            continue
        if char in "/\\" or char.isdigit() or char in "$,+~":
            position = _skip_address(text, position)
            continue
        position = _command(text, position, effects)
    return effects


def _skip_address(text: str, position: int) -> int:
    char = text[position]
    if char == ",":
        return position + 1
    if char in "/\\":
        if char == "\\":
            position += 1
            if position >= len(text):
                raise SedError
        end = _delimited(text, position + 1, text[position])
        while end < len(text) and text[end] in "IM":
            end += 1
        return end
    match = _ADDRESS.match(text, position)
    if match is None or match.end() == position:
        raise SedError
    return match.end()


def _delimited(text: str, position: int, delimiter: str) -> int:
    """Where the text after an unescaped delimiter starts; brackets hide delimiters."""
    last = text.rfind("]")
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 2
            continue
        if char == delimiter:
            return position + 1
        if char == "[" and position < last:
            close = _bracket_end(text, position)
            if close > 0:
                position = close
                continue
        position += 1
    raise SedError


def _bracket_end(text: str, position: int) -> int:
    """Where a bracket expression ends, 0 when it does not; a first `]` is one of its members."""
    position += 1
    if text[position : position + 1] == "^":
        position += 1
    if text[position : position + 1] == "]":
        position += 1
    return text.find("]", position) + 1


def _plain_delimited(text: str, position: int, delimiter: str) -> int:
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text[position] == delimiter:
            return position + 1
        position += 1
    raise SedError


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _command(text: str, position: int, effects: list[Effect]) -> int:
    name = text[position]
    position += 1
    if name == "s":
        return _substitute(text, position, effects)
    if name == "y":
        delimiter = text[position : position + 1]
        if not delimiter:
            raise SedError
        return _plain_delimited(text, _plain_delimited(text, position + 1, delimiter), delimiter)
    if name in "wW":
        end = _line_end(text, position)
        _written(text[position:end], effects)
        return end
    if name in "rR":
        return _line_end(text, position)
    if name in "aic":
        return _text_end(text, position)
    if name == "e":
        end = _line_end(text, position)
        effects.append(Mutates("a sed program runs a command"))
        effects.append(Shell(literal(text[position:end].strip())))
        return end
    if name in ":btT":
        match = re.compile(r"[ \t]*[^\s;}]*").match(text, position)
        return match.end() if match else position
    if name in "=dDgGhHlnNpPxzFqQLv":
        match = re.compile(r"[ \t]*\d*").match(text, position)
        return match.end() if match else position
    raise SedError


def _text_end(text: str, position: int) -> int:
    """Where the text of a, i or c ends: at a line end without a backslash before it."""
    while True:
        end = _line_end(text, position)
        if end >= len(text) or not text[position:end].endswith("\\"):
            return end
        position = end + 1


def _substitute(text: str, position: int, effects: list[Effect]) -> int:
    delimiter = text[position : position + 1]
    if not delimiter or delimiter in "\n\\":
        raise SedError
    middle = _delimited(text, position + 1, delimiter)
    position = _plain_delimited(text, middle, delimiter)
    while position < len(text):
        flag = text[position]
        if flag == "w":
            end = _line_end(text, position)
            _written(text[position + 1 : end], effects)
            return end
        if flag == "e":
            effects.append(Mutates("a sed program runs its result as a command"))
            effects.append(Deny("command-unresolved", "sed runs what a substitution makes"))
        elif flag not in "gpiImM0123456789":
            break
        position += 1
    return position


def _written(target: str, effects: list[Effect]) -> None:
    effects.append(Write(literal(target.strip())))
