"""Finding the completion marker in what an agent said.

An agent says that its work is done by writing the marker at the start or the end of a line of its
own text. The marker inside a quotation, a code block or a sentence about it says nothing, and
neither does a line that repeats the instructions in which the marker was agreed on.
"""

_QUOTES = "\"'`“”‘’«»"
_EDGE = "*_#-–—:;.,!()[]{}<>✅ \t"


def find_marker(text: str, marker: str, instructions: str = "") -> bool:
    """Whether `text`, spoken by the agent, says `marker`.

    `instructions` is what the agent was told (prompt and system prompts); a line of `text` that
    repeats a line of it does not count, unless that line is the marker itself.
    """
    if not marker or marker not in text:
        return False
    told = _told_lines(instructions, marker)
    fence = ""
    for raw in text.splitlines():
        line = raw.strip()
        opening = _fence_of(line)
        if fence:
            if opening and opening.startswith(fence) and line.strip(opening[0]) == "":
                fence = ""
            continue
        if opening:
            fence = opening
            continue
        if marker in line and not line.startswith(">") and _spoken(line, marker, told):
            return True
    return False


def _told_lines(instructions: str, marker: str) -> list[str]:
    if marker not in instructions:
        return []
    lines = (line.strip() for line in instructions.splitlines() if marker in line)
    return [line for line in lines if line.strip(_EDGE + _QUOTES) != marker]


def _fence_of(line: str) -> str:
    for char in "`~":
        if line.startswith(char * 3):
            return line[: len(line) - len(line.lstrip(char))]
    return ""


def _spoken(line: str, marker: str, told: list[str]) -> bool:
    if any(sentence in line for sentence in told):
        return False
    bare = line.strip("".join(c for c in _EDGE if c not in (marker[0], marker[-1])))
    if bare.strip(_QUOTES) == marker:
        return bare == marker or bare[0] == "`"
    if bare.startswith(marker):
        return not _glued(bare[len(marker)])
    if bare.endswith(marker):
        return not _glued(bare[-len(marker) - 1])
    return False


def _glued(char: str) -> bool:
    """Whether a neighbouring character makes the marker part of a longer word or a quotation."""
    return char.isalnum() or char == "_" or char in _QUOTES
