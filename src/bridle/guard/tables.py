"""Tables of names, written as text so that they can be read and kept in order."""


def names(text: str) -> frozenset[str]:
    """The words of the text as a set."""
    return frozenset(text.split())
