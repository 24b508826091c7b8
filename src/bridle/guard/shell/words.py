"""Expands a word of the tree into its possible values: braces, tilde, parameters, globs."""

import fnmatch
import itertools
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from bridle.guard.budget import spend
from bridle.guard.shell import tree
from bridle.guard.shell.scope import Scope
from bridle.guard.shell.values import (
    ANY,
    ATOM,
    EMPTY,
    NUMBER,
    UNKNOWN,
    Hole,
    Output,
    Value,
    join,
    literal,
    names,
)
from bridle.guard.verdict import Blocked

MAX_WORLDS = 16

Substitute: TypeAlias = Callable[[tuple[tree.Stmt, ...], Scope], Output]
Pipe: TypeAlias = Callable[[tree.ProcSubst, Scope], str]

_WILD = re.compile(r"(\*+|\?)")
_GLOB = re.compile(r"(\*+|\?|\[[^\]/]+\])")
_LONGEST_TRIMMED = 1024
"""Longest text and pattern for which `${x%pattern}` is evaluated."""
_WHOLE = ((tree.Lit("@"),), (tree.Lit("*"),))
"""Indexes of all elements of an array."""
_ATOM_NAMES = names("$ ? # ! RANDOM SECONDS LINENO UID EUID PPID BASHPID SHLVL EPOCHSECONDS")
_ANSI = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "e": "\x1b", "E": "\x1b", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


class Piece:
    """A stretch of a word: text or a hole, and whether quotes protect it."""

    __slots__ = ("content", "quoted", "splits")

    def __init__(self, content: str | Hole, quoted: bool, splits: bool = False) -> None:
        self.content = content
        self.quoted = quoted
        self.splits = splits
        """Whether the text came from an unquoted expansion, so that spaces separate words."""


class Break:
    """Where `"$@"` and arrays start a new word."""

    __slots__ = ()


Pieces: TypeAlias = list["Piece | Break"]


class Expander:
    """Expands words in a scope. `substitute` judges the body of a command substitution and returns
    what it prints; `pipe` judges a process substitution and gives it a name."""

    def __init__(self, scope: Scope, substitute: Substitute, pipe: Pipe) -> None:
        self.scope = scope
        self.substitute = substitute
        self.pipe = pipe
        self.choice: dict[str, Value] = {}
        """For variables with several values, the one that applies in the current combination."""

    def worlds(self, words: tuple[tree.Word, ...]) -> list[dict[str, Value]]:
        """All ways to choose one value for each variable that the words name."""
        found: list[dict[str, Value]] = [{}]
        for name in dict.fromkeys(name for word in words for name in _named(word.parts)):
            binding = self.scope.lookup(name)
            if len(binding) == 1:
                continue
            if len(found) * len(binding) > MAX_WORLDS:
                found = [{**world, name: UNKNOWN} for world in found]
            else:
                found = [{**world, name: value} for world in found for value in binding]
        return found

    def fields(self, word: tree.Word) -> list[Value]:
        """The words that this word becomes in a command line."""
        values: list[Value] = []
        for parts in braced(word.parts):
            pieces = self.pieces(parts, False)
            values.extend(_split(pieces, self._separators()))
        spend(4 * len(values))
        return values

    def single(self, word: tree.Word) -> Value:
        """The one value of the word where nothing is split: assignments, redirections, heredocs."""
        pieces = self.pieces(word.parts, False)
        content = [p.content if isinstance(p, Piece) else " " for p in pieces]
        return join(content)

    def heredoc(self, word: tree.Word, quoted: bool) -> Value:
        """The text of a heredoc."""
        if quoted:
            return join([p.text for p in word.parts if isinstance(p, tree.Lit)])
        pieces: list[str | Hole] = []
        for part in word.parts:
            if isinstance(part, tree.Lit):
                pieces.append(re.sub(r"\\([$`\\\n])", _unescape_double, part.text))
            else:
                pieces.extend(
                    p.content if isinstance(p, Piece) else " " for p in self.pieces((part,), True)
                )
        return join(pieces)

    def pieces(self, parts: tuple[tree.Part, ...], quoted: bool) -> Pieces:
        """The stretches of the parts, in order."""
        found: Pieces = []
        spend(len(parts))
        for number, part in enumerate(parts):
            if isinstance(part, tree.Lit):
                spend(len(part.text) >> 4)
                if quoted:
                    text = re.sub(r"\\([$`\"\\\n])", _unescape_double, part.text)
                    found.append(Piece(text, True))
                else:
                    self._literal(part.text, number == 0, found, len(parts) == 1)
            elif isinstance(part, tree.Quoted):
                found.append(Piece(_ansi(part.text) if part.ansi else part.text, True))
            elif isinstance(part, tree.Double):
                found.append(Piece("", True))
                found.extend(self.pieces(part.parts, True))
            elif isinstance(part, tree.Param):
                self._param(part, quoted, found)
            elif isinstance(part, tree.Subst):
                self._subst(part, quoted, found)
            elif isinstance(part, tree.ProcSubst):
                found.append(Piece(self.pipe(part, self.scope.copy()), True))
            elif isinstance(part, tree.Arith):
                self.arithmetic(tree.words_in(part.x))
                found.append(Piece(NUMBER, True))
            else:
                found.append(Piece(Hole("glob", f"{part.op}{part.pattern.text})"), False))
        return found

    def arithmetic(self, words: tuple[tree.Word, ...]) -> None:
        """Judge what arithmetic runs: substitutions, also those in the text of its variables."""
        for word in words:
            value = self.single(word)
            name = value.text
            seen = [value]
            if name is not None and name.isidentifier():
                seen.extend(self.scope.lookup(name))
            for candidate in seen:
                shown = candidate.show()
                if "[" in shown and ("$(" in shown or "`" in shown):
                    raise Blocked("command-unresolved", "arithmetic that runs a hidden command")

    def _separators(self) -> str:
        binding = self.scope.variables.get("IFS")
        if binding is None:
            return " \t\n"
        texts = [value.text for value in binding]
        return " \t\n" + "".join(t for t in texts if t)

    def _literal(self, text: str, first: bool, found: Pieces, alone: bool) -> None:
        if first and text.startswith("~"):
            head, slash, rest = text.partition("/")
            if slash or alone:
                found.append(Piece(self._tilde(head), True))
                text = slash + rest
        position = 0
        while position < len(text):
            cut = text.find("\\", position)
            end = len(text) if cut < 0 else cut
            if end > position:
                found.append(Piece(text[position:end], False))
            if cut < 0:
                return
            escaped = text[cut + 1 : cut + 2]
            if escaped != "\n":
                found.append(Piece(escaped or "\\", True))
            position = cut + 2

    def _tilde(self, head: str) -> str | Hole:
        if head == "~":
            home = self._value("HOME")
            return home.text if home.text is not None else ANY
        if head in ("~+", "~-"):
            current = self._value("PWD" if head == "~+" else "OLDPWD")
            return current.text if current.text is not None else ANY
        return ANY

    def _value(self, name: str) -> Value:
        if name in self.choice:
            return self.choice[name]
        binding = self.scope.lookup(name)
        return binding[0] if len(binding) == 1 else UNKNOWN

    def _subst(self, part: tree.Subst, quoted: bool, found: Pieces) -> None:
        output = self.substitute(part.body, self.scope.copy())
        lines = output.lines
        if quoted and len(lines) > 1:
            texts = output.script
            found.append(Piece(texts if texts is not None else ANY, True))
            return
        for number, line in enumerate(lines):
            if number:
                found.append(Piece("\n", quoted, True))
            for content in line.parts:
                if isinstance(content, str):
                    content = content.rstrip("\n") if content is line.parts[-1] else content
                found.append(Piece(content, quoted, True))

    def _param(self, part: tree.Param, quoted: bool, found: Pieces) -> None:
        for word in part.inner:
            self.single(word)
            if "[" in "".join(p.text for p in word.parts if isinstance(p, tree.Quoted)):
                raise Blocked("command-unresolved", "an array index that may run a command")
        listed = self._listed(part)
        if listed is not None and not part.length:
            spend(len(listed))
            for number, value in enumerate(listed):
                if number:
                    found.append(Break())
                for content in value.parts:
                    found.append(Piece(content, quoted, True))
                if not value.parts and quoted:
                    found.append(Piece("", True))
            return
        value = self._expanded(part)
        spend(value.size >> 3)
        for content in value.parts:
            found.append(Piece(content, quoted, True))

    def _listed(self, part: tree.Param) -> tuple[Value, ...] | None:
        """The elements of `$@`, `$*` or a whole array; None for anything else."""
        changed = part.expansion or part.replace or part.slice or part.indirect
        if part.name in ("@", "*"):
            known = self.scope.positional
        elif isinstance(part.at, tree.Word) and part.at.parts in _WHOLE:
            known = self.scope.arrays.get(part.name)
        else:
            return None
        return (UNKNOWN,) if changed or known is None else known

    def _expanded(self, part: tree.Param) -> Value:
        if part.length:
            return Value((NUMBER,))
        if part.names and part.indirect:
            return Value((ATOM,))
        value = self._base(part)
        if part.indirect:
            name = value.text
            value = self._value(name) if name and name.isidentifier() else UNKNOWN
        if part.expansion is not None:
            return self._operation(part.name, part.expansion, value)
        if part.replace is not None:
            return self._replaced(part.replace, value)
        if part.slice is not None:
            return self._sliced(part.slice, value)
        return value

    def _base(self, part: tree.Param) -> Value:
        name = part.name
        if part.at is not None:
            index = self.single(part.at).text if isinstance(part.at, tree.Word) else None
            known = self.scope.arrays.get(name)
            if known is not None and index is not None and index.isdigit():
                return known[int(index)] if int(index) < len(known) else EMPTY
            return UNKNOWN
        if name in _ATOM_NAMES:
            return Value((NUMBER,))
        if name.isdigit() and name != "0":
            positional = self.scope.positional
            if positional is None:
                return UNKNOWN
            return positional[int(name) - 1] if int(name) <= len(positional) else EMPTY
        return self._value(name)

    def _operation(self, name: str, expansion: tree.Expansion, value: Value) -> Value:
        argument = self.single(expansion.arg) if expansion.arg is not None else EMPTY
        op, text = expansion.op, value.text
        if op in ("-", ":-", "=", ":="):
            if text is None:
                return value if value != UNKNOWN else UNKNOWN
            chosen = value if text or (op in ("-", "=") and value.parts) else argument
            if op in ("=", ":="):
                self.scope.assign(name, (chosen,))
            return chosen
        if op in ("+", ":+"):
            return argument if text else UNKNOWN if text is None else EMPTY
        if op in ("?", ":?"):
            return value
        if op == "@":
            if argument.text in ("P", "E", None):
                raise Blocked("command-unresolved", "a parameter expansion that may run a command")
            return UNKNOWN if argument.text not in ("U", "L", "u") else value
        pattern = argument.text
        if text is None or pattern is None:
            return _trimmed_shape(value, op, pattern) if value.parts else value
        if op in ("%", "%%", "#", "##"):
            if max(len(text), len(pattern)) > _LONGEST_TRIMMED:
                return UNKNOWN
            return literal(_trim(text, pattern, op))
        if op in ("^", "^^", ",", ",,"):
            changed = text.upper() if "^" in op else text.lower()
            return literal(changed if len(op) == 2 else changed[:1] + text[1:])
        return UNKNOWN

    def _replaced(self, replace: tree.Replace, value: Value) -> Value:
        source = self.single(replace.source).text if replace.source is not None else ""
        with_ = self.single(replace.by).text if replace.by is not None else ""
        text = value.text
        if text is None or not source or with_ is None:
            return UNKNOWN
        if any(c in source for c in "*?[") or source[0] in "#%":
            return UNKNOWN
        spend(len(text) >> 4)
        return literal(text.replace(source, with_, -1 if replace.every else 1))

    def _sliced(self, part: tree.Slice, value: Value) -> Value:
        text, texts = value.text, list[str]()
        for bound in (part.start, part.length):
            word = tree.Word() if bound is None else bound
            known = self.single(word).text if isinstance(word, tree.Word) else None
            if text is None or known is None or not (known == "" or known.isdigit()):
                return UNKNOWN
            texts.append(known)
        assert text is not None
        start = int(texts[0] or 0)
        return literal(text[start : start + int(texts[1])] if texts[1] else text[start:])


def _trimmed_shape(value: Value, op: str, pattern: str | None) -> Value:
    """What trimming leaves of a value with holes: part of a relative path is a relative path
    too."""
    kinds = {p.kind for p in value.parts if isinstance(p, Hole)}
    texts = [p for p in value.parts if isinstance(p, str)]
    climbs = any(".." in text for text in texts)
    if not kinds <= {"rel", "atom", "glob"} or climbs:
        return UNKNOWN
    if not value.lead.startswith(("/", "~")):
        return Value((Hole("rel"),))
    if op in ("%", "%%") and pattern and not any(c in pattern for c in "/*?["):
        return value
    return Value((Hole("name"),)) if op == "##" and pattern == "*/" else UNKNOWN


def _named(parts: tuple[tree.Part, ...]) -> Iterator[str]:
    """The variables that a word names, apart from those in its substitutions."""
    for part in parts:
        if isinstance(part, tree.Param):
            yield part.name
            change, expansion = part.replace, part.expansion
            replaced = (change.source, change.by) if change is not None else ()
            for word in (expansion.arg if expansion else None, *part.inner, *replaced):
                if word is not None:
                    yield from _named(word.parts)
        elif isinstance(part, tree.Double):
            yield from _named(part.parts)
        elif isinstance(part, tree.Lit) and part.text.startswith("~"):
            yield {"~+": "PWD", "~-": "OLDPWD"}.get(part.text[:2], "HOME")


def _unescape_double(match: re.Match[str]) -> str:
    char = match.group(1)
    return "" if char == "\n" else char


_ANSI_ESCAPE = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)


def _ansi(text: str) -> str:
    def decode(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
            return chr(number) if number < 0x110000 else ""
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        if code[0] == "c" and len(code) == 2:
            return chr(ord(code[1].upper()) ^ 64) if code[1].isascii() else ""
        return _ANSI.get(code, "\\" + code)

    return _ANSI_ESCAPE.sub(decode, text)


def _trim(text: str, pattern: str, op: str) -> str:
    """What ${x%p} and similar make of a known text."""
    spend(len(text) * (len(text) + len(pattern)) >> 5)
    regex = re.compile(fnmatch.translate(pattern))
    front = op[0] == "#"
    cuts = range(len(text) + 1)
    for cut in cuts if front == (len(op) == 1) else reversed(cuts):
        if regex.match(text[:cut] if front else text[cut:]):
            return text[cut:] if front else text[:cut]
    return text


def _split(pieces: Pieces, separators: str) -> list[Value]:
    """Separate the pieces into words at unquoted spaces, and mark the globs."""
    words: list[list[str | Hole]] = []
    current: list[str | Hole] | None = None
    for piece in pieces:
        if isinstance(piece, Break):
            words.append(current or [])
            current = []
            continue
        content = piece.content
        if isinstance(content, Hole) or piece.quoted or not piece.splits:
            if current is None:
                current = []
            if isinstance(content, Hole) or piece.quoted:
                current.append(content)
            else:
                current.extend(_globs(content))
            continue
        for number, run in enumerate(re.split(f"[{re.escape(separators)}]", content)):
            if number and current is not None:
                words.append(current)
                current = None
            if run:
                if current is None:
                    current = []
                current.extend(_globs(run))
    if current is not None:
        words.append(current)
    return [join(word) for word in words]


def _globs(text: str) -> list[str | Hole]:
    if not any(c in text for c in "*?["):
        return [text]
    if "[" not in text:
        return _matched(_WILD, text)
    found: list[str | Hole] = []
    for number, component in enumerate(text.split("/")):
        if number:
            found.append("/")
        # No bracket is closed after the last `]`: looking for one from each `[` would take
        # quadratic time.
        closed = component.rfind("]") + 1
        found.extend(_matched(_GLOB, component[:closed]))
        found.extend(_matched(_WILD, component[closed:]))
    return found


def _matched(pattern: re.Pattern[str], text: str) -> list[str | Hole]:
    """The text with a hole for each match of the pattern."""
    return [
        Hole("glob", piece) if number % 2 else piece
        for number, piece in enumerate(pattern.split(text))
        if piece
    ]


# --- brace expansion: the words that {a,b} and {1..9} make of one -------------------------------

MAX_BRACES = 200
"""Most words that one word may become."""
_LONGEST_SEQUENCE = 64
_ITEM = re.compile(r"\\.|[^\\]", re.DOTALL)

Item: TypeAlias = str | tree.Part
"""A character, escaped or not, or a part that is not plain text."""


def braced(parts: tuple[tree.Part, ...]) -> list[tuple[tree.Part, ...]]:
    """The words that brace expansion makes of one."""
    if not any(isinstance(p, tree.Lit) and "{" in p.text for p in parts):
        return [parts]
    items: list[Item] = []
    for part in parts:
        if isinstance(part, tree.Lit):
            items.extend(_ITEM.findall(part.text))
        else:
            items.append(part)
    spend(len(items) >> 2)
    words = _Braces(items).words(0, len(items))
    return [_merged(word) for word in words]


def _merged(word: list[Item]) -> tuple[tree.Part, ...]:
    merged: list[tree.Part] = []
    run: list[str] = []
    for item in word:
        if isinstance(item, str):
            run.append(item)
            continue
        if run:
            merged.append(tree.Lit("".join(run)))
            run = []
        merged.append(item)
    if run:
        merged.append(tree.Lit("".join(run)))
    return tuple(merged)


class _Braces:
    """The items of one word, with the end and the commas of every brace found beforehand."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.budget = MAX_BRACES
        self.ends: dict[int, int] = {}
        self.commas: dict[int, list[int]] = {}
        open_at: list[int] = []
        for position, item in enumerate(items):
            if item == "{":
                open_at.append(position)
            elif item == "}" and open_at:
                self.ends[open_at.pop()] = position
            elif item == "," and open_at:
                self.commas.setdefault(open_at[-1], []).append(position)

    def words(self, start: int, end: int) -> list[list[Item]]:
        """The words that the items from `start` to `end` become."""
        found: list[list[Item]] = [[]]
        position = begin = start
        while position < end:
            options = self._options(position) if self.items[position] == "{" else None
            if options is None:
                position += 1
                continue
            self.budget -= len(options)
            if self.budget < 0 or len(found) * len(options) > MAX_BRACES:
                raise Blocked("shell-unparsed", "a brace expansion with too many words")
            before = self.items[begin:position]
            found = [[*word, *before, *option] for word in found for option in options]
            spend(len(found) + (sum(map(len, found)) >> 2))
            position = begin = self.ends[position] + 1
        rest = self.items[begin:end]
        return [[*word, *rest] for word in found]

    def _options(self, start: int) -> list[list[Item]] | None:
        """What the brace at `start` may become; None when it is only a character."""
        end = self.ends.get(start)
        if end is None:
            return None
        commas = self.commas.get(start)
        if commas:
            if len(commas) >= MAX_BRACES:
                raise Blocked("shell-unparsed", "a brace expansion with too many words")
            edges = [start, *commas, end]
            inner = [self.words(a + 1, b) for a, b in itertools.pairwise(edges)]
            options = [word for words in inner for word in words]
            if len(options) > MAX_BRACES:
                raise Blocked("shell-unparsed", "a brace expansion with too many words")
            return options
        if end - start > _LONGEST_SEQUENCE:
            return None
        inside = self.items[start + 1 : end]
        texts = [item for item in inside if isinstance(item, str)]
        steps = _sequence("".join(texts)) if len(texts) == len(inside) else None
        return None if steps is None else [list(step) for step in steps]


def _sequence(text: str) -> list[str] | None:
    """The words of {1..9} or {a..e}; None when it is not a sequence."""
    match = re.fullmatch(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?", text)
    if match is None:
        return None
    first, last, step = match.groups()
    numeric = first.lstrip("-").isdigit() and last.lstrip("-").isdigit()
    if not numeric and not (first.isalpha() and last.isalpha()):
        return None
    low = int(first) if numeric else ord(first)
    high = int(last) if numeric else ord(last)
    stride = max(1, abs(int(step or 1)))
    if abs(high - low) // stride >= MAX_BRACES:
        # Long counts are plain numbers: their two ends represent all of them.
        return [first, last]
    span = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    return [str(n) if numeric else chr(n) for n in span]
