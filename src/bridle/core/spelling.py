"""Suggestions for mistyped words."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely means; None when no word is close enough.

    A quarter of the letters may be wrong, at least one; two swapped letters count as one mistake.
    Three letters or more also mean the only word that begins with them. A wrong suggestion is
    worse than none, so other near misses are not suggested.
    """
    letters = word.strip("-").lower()
    if not letters:
        return None
    words = list(dict.fromkeys(known))
    most = max(1, len(letters) // 4)
    found = min(
        ((_mistakes(letters, each.strip("-").lower()), each) for each in words), default=None
    )
    if found is not None and found[0] <= most and found[0] < len(letters):
        return found[1]
    longer = [each for each in words if each.strip("-").lower().startswith(letters)]
    return longer[0] if len(letters) >= 3 and len(longer) == 1 else None


def _mistakes(left: str, right: str) -> int:
    """Letters to insert, remove, replace or swap with the next to turn one word into the other."""
    before: list[int] = []
    last = list(range(len(right) + 1))
    for row, one in enumerate(left, 1):
        line = [row]
        for column, other in enumerate(right, 1):
            cost = min(last[column] + 1, line[column - 1] + 1, last[column - 1] + (one != other))
            swapped = row > 1 and column > 1 and one == right[column - 2] and left[row - 2] == other
            line.append(min(cost, before[column - 2] + 1) if swapped else cost)
        before, last = last, line
    return last[-1]
