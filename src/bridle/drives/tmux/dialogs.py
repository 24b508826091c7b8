"""Answering a permission dialog by a key that can only mean what is wanted.

A number chooses its row at once, wherever the mark stands, and a letter does; Enter takes the row
that is marked, so it is pressed only while that row is the wanted one. "Yes" with something behind
it ("and don't ask again") grants more than was asked, and is never meant.
"""

import re

_ROW = re.compile(r"^[\s│]*([❯›→]?)\s*(?:(\d)\.)?\s*(\S.*?)[\s│]*$")


def row_keys(
    pane: str, allowed: bool, *, consent: tuple[str, ...], refusal: tuple[str, ...] = ("Escape",)
) -> tuple[str, ...] | None:
    """The keys for a dialog with one answer in each row; `consent` are the rows, word for word,
    that allow this one call. The last dialog of the pane is meant."""
    if not allowed:
        return refusal
    rows = [found for line in pane.splitlines() if (found := _ROW.match(line))]
    meant = [row for row in rows if row[3] in consent]
    if not meant:
        return None
    if meant[-1][2]:
        return (meant[-1][2],)
    return ("Enter",) if meant[-1][1] else None
