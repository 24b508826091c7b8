"""sed and awk: what their little programs write, pipe into, and run."""

import re

from bridle.guard.commands.options import read
from bridle.guard.commands.programs import program_text
from bridle.guard.effects import Code, Command, Deny, Doubt, Effect, Mutates, Shell, Write
from bridle.guard.paths import Mode
from bridle.guard.shell.values import NUMBER, UNKNOWN, Hole, Value, join, literal


class ScriptError(Exception):
    """The program cannot be read."""


# --- sed ---


def sed(command: Command) -> list[Effect]:
    """Effects of a sed call."""
    options = read(
        command.args, short="efl", long=("expression", "file", "line-length", "in-place?"),
        optional="iI", flags=("follow-symlinks",),
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
        effects.extend(_sed_program(program))
    for file in files:
        effects.extend(_sed_file(file, command))
    return effects


def _sed_program(program: Value) -> list[Effect]:
    text = program.sample
    if text is None:
        # Only the holes are unknown: read the rest with a plain character, or with a line number,
        # in their place.
        for stand_in in "X1":
            text = "".join(p if isinstance(p, str) else stand_in for p in program.parts)
            try:
                return [Doubt("a sed program"), *sed_effects(text)]
            except ScriptError:
                continue
    try:
        return sed_effects(text or "")
    except ScriptError:
        return [Deny("shell-unparsed", f"the sed program {text!r} cannot be read")]


def _sed_file(file: Value, command: Command) -> list[Effect]:
    text = program_text(file, command)
    if text is None:
        return [Code(None, "sed")]
    try:
        return sed_effects(text)
    except ScriptError:
        return [Code(None, "sed")]


_ADDRESS = re.compile(r"\s*(?:\d+(?:~\d+)?|\$|\+\d+|~\d+)")


def sed_effects(text: str) -> list[Effect]:
    """Files that a sed program writes and commands that it runs. Raises `ScriptError`."""
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
                raise ScriptError
        end = _delimited(text, position + 1, text[position])
        while end < len(text) and text[end] in "IM":
            end += 1
        return end
    match = _ADDRESS.match(text, position)
    if match is None or match.end() == position:
        raise ScriptError
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
    raise ScriptError


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
    raise ScriptError


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
            raise ScriptError
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
    raise ScriptError


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
        raise ScriptError
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


# --- awk ---

_TOKEN = re.compile(
    r"""
    (?P<space>(?:\\\n|[ \t\r\\])+) | (?P<newline>[\n;{}]) | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:\\.|[^"\\])*") | (?P<word>[A-Za-z_][A-Za-z_0-9]*(?:::[A-Za-z_0-9]+)?)
    | (?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)
    | (?P<op>\|\&|\|\||>>|>=|<=|==|!=|&&|\+\+|--|\*\*=?|[-+*%^]=|/=|[-+*/%^!<>|?:,.~$=()\[\]@&])
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:\\.|\[\^?\]?(?:\\.|[^\]\\\n])*+\]|[^/\\\[\n])*+/", re.DOTALL)
"""What is between slashes; brackets hide a slash, and a first `]` is one of their members."""


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
            found = awk_effects(text, variables)
        except ScriptError:
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
        return awk_effects(text, variables)
    except ScriptError:
        return [Deny("shell-unparsed", "the awk program cannot be read")]


def awk_effects(text: str, variables: dict[str, Value]) -> list[Effect]:
    """Files that an awk program writes and commands that it runs. Raises `ScriptError`."""
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
    """Variables used only for counting, and those that get formatted numbers."""
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
        regex = text[position] == "/" and _regex_may_start(found)
        match = (_REGEX if regex else _TOKEN).match(text, position)
        if match is None:
            raise ScriptError
        kind = "regex" if regex else match.lastgroup or ""
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
