"""Brace expansion: the words that {a,b} and {1..9} make of one."""

import itertools
import re
from typing import TypeAlias

from bridle.guard.budget import spend
from bridle.guard.shell import tree
from bridle.guard.verdict import Blocked

MAX_BRACES = 200
"""Most words that one word may become."""
_LONGEST_SEQUENCE = 64
_ITEM = re.compile(r"\\.|[^\\]", re.DOTALL)

Item: TypeAlias = str | tree.Part
"""A character, escaped or not, or a part that is no plain text."""


def expand(parts: tuple[tree.Part, ...]) -> list[tuple[tree.Part, ...]]:
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
