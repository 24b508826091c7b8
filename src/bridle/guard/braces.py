"""Brace expansion: the words that {a,b} and {1..9} make of one."""

import itertools
import re

from bridle.guard import tree
from bridle.guard.verdict import Blocked

MAX_BRACES = 200
"""Most words that one word may become."""


def expand(parts: tuple[tree.Part, ...]) -> list[tuple[tree.Part, ...]]:
    """The words that brace expansion makes of one."""
    if not any(isinstance(p, tree.Lit) and "{" in p.text for p in parts):
        return [parts]
    items: list[str | tree.Part] = []
    for part in parts:
        if isinstance(part, tree.Lit):
            items.extend(re.findall(r"\\.|[^\\]", part.text, re.DOTALL))
        else:
            items.append(part)
    words = _expand_braces(items, [MAX_BRACES])
    result: list[tuple[tree.Part, ...]] = []
    for word in words:
        merged: list[tree.Part] = []
        for item in word:
            if isinstance(item, str):
                if merged and isinstance(merged[-1], tree.Lit):
                    merged[-1] = tree.Lit(merged[-1].text + item)
                else:
                    merged.append(tree.Lit(item))
            else:
                merged.append(item)
        result.append(tuple(merged))
    return result


def _expand_braces(items: list[str | tree.Part], budget: list[int]) -> list[list[str | tree.Part]]:
    for start, item in enumerate(items):
        if item != "{":
            continue
        depth, commas, end = 0, [], -1
        for position in range(start, len(items)):
            if items[position] == "{":
                depth += 1
            elif items[position] == "}":
                depth -= 1
                if depth == 0:
                    end = position
                    break
            elif items[position] == "," and depth == 1:
                commas.append(position)
        if end < 0:
            continue
        inner = items[start + 1 : end]
        if commas:
            edges = [start, *commas, end]
            options = [items[a + 1 : b] for a, b in itertools.pairwise(edges)]
        else:
            steps = _sequence("".join(i for i in inner if isinstance(i, str)))
            if steps is None or not all(isinstance(i, str) for i in inner):
                continue
            options = [list(step) for step in steps]
        budget[0] -= len(options)
        if budget[0] < 0:
            raise Blocked("shell-unparsed", "a brace expansion with too many words")
        tails = _expand_braces(items[end + 1 :], budget)
        heads = [head for option in options for head in _expand_braces(option, budget)]
        if len(heads) * len(tails) > MAX_BRACES:
            raise Blocked("shell-unparsed", "a brace expansion with too many words")
        return [items[:start] + head + tail for head in heads for tail in tails]
    return [items]


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
        # Long counts are plain numbers: their two ends stand for all of them.
        return [first, last]
    span = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    return [str(n) if numeric else chr(n) for n in span]
