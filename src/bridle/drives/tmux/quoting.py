"""Writing words so that tmux reads them as they are meant."""

from bridle.core.errors import WrongUse

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/.,+@:")


def quoted(word: str) -> str:
    """`word` for a line of tmux orders, whatever is in it; the line stays one line.

    Raises `WrongUse` for a NUL, which no program can be given.
    """
    if "\0" in word:
        raise WrongUse("a NUL character cannot be handed to a program")
    if word and all(char in _PLAIN for char in word) and word[0] not in "-=":
        return word
    return "".join(_pieces(word)) or "''"


def _pieces(word: str) -> list[str]:
    pieces: list[str] = []
    plain = ""
    for char in word:
        if char == "'" or char < " " or char == "\x7f":
            if plain:
                pieces.append(f"'{plain}'")
                plain = ""
            pieces.append('"\'"' if char == "'" else f'"\\{ord(char):03o}"')
        else:
            plain += char
    if plain:
        pieces.append(f"'{plain}'")
    return pieces


def unexpanded(path: str) -> str:
    """`path` for a place where tmux would replace formats: each `#` doubled, save where tmux leaves
    it alone (before a bracket)."""
    out = ""
    for at, char in enumerate(path):
        rest = path[at:].lstrip("#")
        out += "##" if char == "#" and not rest.startswith("[") else char
    return out
