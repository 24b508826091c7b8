"""awk: what its programs write, pipe into, and run."""

import re

from bridle.guard.commands.options import read
from bridle.guard.commands.programs import program_text
from bridle.guard.effects import Code, Command, Deny, Doubt, Effect, Mutates, Shell, Write
from bridle.guard.shell.values import NUMBER, UNKNOWN, Hole, Value, join, literal

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\\]+) | (?P<newline>[\n;{}]) | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:\\.|[^"\\])*") | (?P<word>[A-Za-z_][A-Za-z_0-9]*(?:::[A-Za-z_0-9]+)?)
    | (?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)
    | (?P<op>\|\&|\|\||>>|>=|<=|==|!=|&&|\+\+|--|\*\*=?|[-+*%^]=|/=|[-+*/%^!<>|?:,.~$=()\[\]@&])
    """,
    re.VERBOSE | re.DOTALL,
)


class AwkError(Exception):
    """The program cannot be read."""


def awk(command: Command) -> list[Effect]:
    """Effects of an awk call."""
    options = read(
        command.args,
        short="FvfeEiIlmWo",
        long=("field-separator", "assign", "file", "source", "exec", "include", "load",
              "pretty-print?", "profile?", "dump-variables?"),
        optional="pdoDL",
        permute=False,
    )  # fmt: skip
    effects: list[Effect] = []
    for name in ("p", "d", "o", "pretty-print", "profile", "dump-variables"):
        effects.extend(
            Write(v if v.parts else literal("awkvars.out")) for v in options.values(name)
        )
    includes = options.values("i", "include", "l", "load")
    operands = list(options.operands)
    programs = options.values("e", "source")
    files = options.values("f", "file", "E", "exec")
    if not programs and not files and operands:
        programs = [operands.pop(0)]
    variables = _variables(options.values("v", "assign") + operands)
    for include in includes:
        if include.text in ("inplace", "inplace.awk"):
            effects.extend(Write(operand, "entry") for operand in operands)
            effects.append(Mutates("awk edits files in place"))
        else:
            effects.append(Code(None, "awk"))
    if options.open_options and operands and operands[0].open_start:
        effects.append(Doubt("awk"))
    for program in programs:
        text = program.sample
        if text is None:
            effects.append(Code(program, "awk"))
            continue
        effects.extend(_program(text, variables))
    for file in files:
        effects.extend(_file(file, command, variables))
    return effects


def _file(file: Value, command: Command, variables: dict[str, Value]) -> list[Effect]:
    """A program file counts as code, with what can be seen in it, unless it only prints."""
    text = program_text(file, command)
    if text is not None:
        try:
            found = script_effects(text, variables)
        except AwkError:
            pass
        else:
            return [Code(None, "awk"), *found] if found else []
    return [Code(None, "awk")]


def _variables(assignments: list[Value]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for value in assignments:
        name, equals, _ = value.lead.partition("=")
        if equals and name.isidentifier():
            found[name] = value.after(len(name) + 1)
    return found


def _program(text: str, variables: dict[str, Value]) -> list[Effect]:
    try:
        return script_effects(text, variables)
    except AwkError:
        return [Deny("shell-unparsed", "the awk program cannot be read")]


def script_effects(text: str, variables: dict[str, Value]) -> list[Effect]:
    """Files that an awk program writes and commands that it runs. Raises `AwkError`."""
    tokens = _tokens(text)
    variables = {**_numbers(tokens), **_constants(tokens), **variables}
    effects: list[Effect] = []
    printing, depth = False, 0
    for number, (kind, token) in enumerate(tokens):
        if kind == "newline":
            printing, depth = False, 0
        elif kind == "word" and token in ("print", "printf"):
            printing, depth = True, 0
        elif token in "([":
            depth += 1
        elif token in ")]":
            depth -= 1
        elif token in (">", ">>") and printing and depth <= 0:
            effects.append(Write(_constant(tokens, number + 1, variables)))
            printing = False
        elif token in ("|", "|&"):
            effects.extend(_pipe(tokens, number, variables))
        elif kind == "word" and token == "system":
            effects.append(Mutates("an awk program runs a command"))
            effects.append(Shell(_constant(tokens, number + 2, variables)))
        elif token == "@":
            effects.append(Code(None, "awk"))
    return effects


_CHANGES = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "^=", "++", "--"})


def _constants(tokens: list[tuple[str, str]]) -> dict[str, Value]:
    """Variables that the program sets once, to a text."""
    changed: dict[str, int] = {}
    found: dict[str, Value] = {}
    padded = [*tokens, ("newline", ";"), ("newline", ";"), ("newline", ";")]
    for number, (kind, token) in enumerate(tokens):
        if kind != "word":
            continue
        before = tokens[number - 1][1] if number else ""
        after = padded[number + 1][1]
        if after in _CHANGES or before in ("++", "--", "getline", "(", ","):
            changed[token] = changed.get(token, 0) + 1
        if (
            after == "="
            and padded[number + 2][0] == "string"
            and padded[number + 3][0] == "newline"
        ):
            found[token] = literal(_unquote(padded[number + 2][1]))
    return {name: value for name, value in found.items() if changed.get(name) == 1}


def _numbers(tokens: list[tuple[str, str]]) -> dict[str, Value]:
    """Variables that are only counted with, and those that a format of numbers is put into."""
    found = {name: Value((NUMBER,)) for name in ("NR", "FNR", "NF")}
    texts: set[str] = set()
    padded = [*tokens, *[("newline", ";")] * 4]
    for number, (kind, token) in enumerate(tokens):
        if kind != "word":
            continue
        before = tokens[number - 1][1] if number else ""
        (_, after), (_, value), (_, opens), (form, text) = padded[number + 1 : number + 5]
        if after == "=" and (value, opens, form) == ("sprintf", "(", "string"):
            pieces = re.split(r"%0?\d*[di]", _unquote(text))
            if token in found or any("%" in piece for piece in pieces):
                texts.add(token)
            found[token] = join([p for piece in pieces for p in (NUMBER, piece)][1:])
        elif after in _CHANGES - {"++", "--"} or before in ("getline", "(", ","):
            texts.add(token)
        elif after in ("++", "--") or before in ("++", "--"):
            if token in found and found[token] != Value((NUMBER,)):
                texts.add(token)
            found.setdefault(token, Value((NUMBER,)))
    return {name: value for name, value in found.items() if name not in texts}


def _pipe(tokens: list[tuple[str, str]], number: int, variables: dict[str, Value]) -> list[Effect]:
    if number + 1 < len(tokens) and tokens[number + 1][1] == "getline":
        # `"command" | getline`: the command is before the bar.
        before = tokens[number - 1] if number else ("", "")
        if before[0] == "string" and (number < 2 or tokens[number - 2][0] in ("newline", "op")):
            return [Shell(literal(_unquote(before[1])))]
        if before[0] == "word" and before[1] in variables:
            return [Shell(variables[before[1]])]
        return [Shell(UNKNOWN)]
    return [Shell(_constant(tokens, number + 1, variables))]


def _constant(tokens: list[tuple[str, str]], start: int, variables: dict[str, Value]) -> Value:
    """The value of the expression from `start` to the end of the statement, when it is constant."""
    parts: list[str | Hole] = []
    for number in range(start, len(tokens)):
        kind, token = tokens[number]
        if kind == "newline" or token in (")", ","):
            break
        if token in ("(", "++", "--"):
            continue
        if kind == "string":
            parts.append(_unquote(token))
        elif kind == "word" and _is_plain(variables.get(token)):
            parts.extend(variables[token].parts)
        else:
            return UNKNOWN
    value = join(parts)
    if not value.lead or any(isinstance(p, str) and p.endswith(".") for p in value.parts[:-1]):
        # A counter that was never set is empty: nothing, and then what follows it.
        return UNKNOWN
    return value


def _is_plain(value: Value | None) -> bool:
    return value is not None and all(isinstance(p, str) or p == NUMBER for p in value.parts)


def _unquote(token: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), token[1:-1])


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        if text[position] == "/" and _regex_may_start(found):
            end = _regex_end(text, position + 1)
            found.append(("regex", text[position:end]))
            position = end
            continue
        if text.startswith("\\\n", position):
            position += 2
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise AwkError
        kind = match.lastgroup or ""
        if kind not in ("space", "comment"):
            found.append((kind, match.group()))
        position = match.end()
    return found


def _regex_may_start(found: list[tuple[str, str]]) -> bool:
    if not found:
        return True
    kind, token = found[-1]
    if kind in ("number", "string", "regex"):
        return False
    if kind == "word":
        return token in ("print", "printf", "return", "in", "case", "if", "while", "getline")
    return token not in (")", "]", "$")


def _regex_end(text: str, position: int) -> int:
    bracket = False
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 2
            continue
        if char == "[" and not bracket:
            bracket = True
            position += 2 if text[position + 1 : position + 2] in ("]", "^") else 1
            continue
        if char == "]":
            bracket = False
        elif char == "/" and not bracket:
            return position + 1
        elif char == "\n":
            raise AwkError
        position += 1
    raise AwkError
