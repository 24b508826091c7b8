"""Finding the completion marker in what an agent said.

An agent says that its work is done by writing the marker on a line of its own, or as a sentence of
its own at the start or the end of a line. The marker inside a quotation, a code block or a sentence
about it says nothing, and neither does a line that repeats the instructions in which the marker was
agreed on.
"""

_QUOTES = "\"'`“”‘’«»"
_EDGE = "*_#-–—:;.,!()[]{}<>✅ \t"
_EMPHASIS = "*_ \t"
_SENTENCE_ENDS = ".!?:;…)]>-–—|"
_SENTENCE_STARTS = ".!?:;…([<-–—|#"


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
    bare = marker.strip(_EDGE + _QUOTES)
    return [_plain(line) for line in lines if line.strip(_EDGE + _QUOTES) != bare]


def _plain(line: str) -> str:
    """A line without what a repetition may change: case and spaces."""
    return " ".join(line.split()).casefold()


def _fence_of(line: str) -> str:
    for char in "`~":
        if line.startswith(char * 3):
            rest = line.lstrip(char)
            # Backticks further on in the line: that is code within it, not the start of a block.
            return "" if char == "`" and "`" in rest else line[: len(line) - len(rest)]
    return ""


def _spoken(line: str, marker: str, told: list[str]) -> bool:
    if told:
        plain = _plain(line)
        if any(sentence in plain for sentence in told):
            return False
    bare = line.strip("".join(c for c in _EDGE if c not in (marker[0], marker[-1])))
    if bare.strip(_QUOTES) == marker.strip(_QUOTES):
        return bare == marker or bare[0] == "`"
    if bare.startswith(marker):
        after = bare[len(marker) :]
        return not _glued(after[0]) and _apart(after.strip(_EMPHASIS)[:1], _SENTENCE_STARTS)
    if bare.endswith(marker):
        before = bare[: -len(marker)]
        return not _glued(before[-1]) and _apart(before.strip(_EMPHASIS)[-1:], _SENTENCE_ENDS)
    return False


def _apart(char: str, marks: str) -> bool:
    """Whether the nearest character beside the marker shows that it stands in no sentence."""
    if not char or char in marks:
        return True
    # Emoji and other signs that are no part of writing.
    return ord(char) > 0x2000 and not char.isalnum() and char not in _QUOTES


def _glued(char: str) -> bool:
    """Whether a neighbouring character makes the marker part of a longer word or a quotation."""
    return char.isalnum() or char == "_" or char in _QUOTES
