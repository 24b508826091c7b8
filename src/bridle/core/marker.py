"""Finding the completion marker in what an agent said.

An agent says that its work is done by writing the marker on a line of its own, or as a sentence of
its own at the start or the end of a line. Everything else is talk about the marker: a quotation, a
code block, a list item, a question, a plan, a negation, a line that repeats the instructions in
which the marker was agreed on. In doubt the marker does not count: a loop that waits for it then
asks once more, while one that believed a plan would end before the work. `docs/marker.md` has the
rule for users.
"""

import re

_QUOTES = "\"'`“”‘’«»"
_EMPHASIS = "*_ \t"
_BRACKETS = "()[]{}<>"
_SUCCESS = "✅✔☑✓🎉🎊🏁🏆🚀👍💯🙌👏🥳✨⭐🎯🟢\ufe0f"
"""Signs that may be next to the marker. Others (arrows, empty boxes, crosses) have a meaning."""
_SENTENCE_END = ".!…"
_DASHES = "-–—"
_LIST_ITEM = (
    r"(?:[-+*•‣◦▪▫●○■□☐·–—]\s"
    r"|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]\s"
    r"|(?:step|phase|stage|task|point|item)\s*\d+\s*[-–—.:)]"
    r"|\[[ x]?\]\s)"
)
_PLAN = (
    r"\b(?:not|never|cannot|yet|once|when|whenever|until|till|unless|if|after|before|will|would"
    r"|should|shall|must|going to|at the (?:very )?end|todo|to do|pending|later|next|plan|planned"
    r"|steps?|remaining)\b|n[’']t\b|[’']ll\b"
)
"""Words of a plan, a condition or a negation."""
_ABOUT = r"\b(?:means?|says?|said|prints?|printed|writes?|written|outputs?|emits?)\b"
"""Words of a sentence about the marker."""
_DOUBT = f"{_PLAN}|{_ABOUT}"
_UNFINISHED = (
    r"\b(?:not|never|isn[’']t|aren[’']t)\s+(?:\w+\s+)?(?:yet|done|complete|completed|finished|ready)"
    r"\b|^\W*(?:no|not yet|never)\W*$"
)
_LABEL = (
    " status state result outcome final overall task work job mission all everything every tests "
    "checks test suite is are now the done complete completed finished success successful pass "
    "passes passed passing green ok verified build built implementation implemented fixed resolved "
    "signal and "
)
"""Words of a label that may precede the marker: `Status:`, `All tests pass —`."""


def find_marker(text: str, marker: str, instructions: str = "") -> bool:
    """Whether `text`, written by the agent, says `marker`.

    `instructions` is what the agent was given (prompt, system prompts, instruction files); a line
    of `text` that repeats a line of it does not count, unless that line is the marker itself.
    """
    if not marker or marker not in text:
        return False
    given = _given_lines(instructions, marker)
    fence, previous = "", ""
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
        if marker in line and not _announces(previous) and _spoken(line, marker, given):
            return True
        previous = line or previous
    return False


def _given_lines(instructions: str, marker: str) -> list[str]:
    if marker not in instructions:
        return []
    lines = (line.strip() for line in instructions.splitlines() if marker in line)
    edge = f"{_EMPHASIS}{_BRACKETS}{_SUCCESS}{_QUOTES}{_DASHES}#:;.,!"
    bare = marker.strip(edge)
    return [_plain(line) for line in lines if line.strip(edge) != bare]


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


def _announces(line: str) -> bool:
    """Whether a line says that the marker on the next one is for later: `When done I print:`."""
    if not line.rstrip(_EMPHASIS).endswith(":"):
        return False
    return _says(_PLAN, line) and "now" not in _plain(line).split()


def _spoken(line: str, marker: str, given: list[str]) -> bool:
    plain = _plain(line)
    if any(sentence in plain for sentence in given):
        return False
    if line == marker:
        return True
    if line.startswith((">", "|")) or _is_item(line):
        return False
    before, _, after = line.partition(marker)
    if not before.strip(f"{_EMPHASIS}{_BRACKETS}{_SUCCESS}`#-="):
        return _opens(before, marker, after)
    before, _, after = line.rpartition(marker)
    return _closes(before, after)


def _opens(before: str, marker: str, after: str) -> bool:
    """Whether the marker, with only decoration before it, is a line or a sentence of its own."""
    if before.endswith("_") and after.startswith("_"):
        before, after = before.rstrip("_"), after.lstrip("_")
    if _glued(before[-1:]) or _glued(after[:1]):
        # A code span may hold the marker alone.
        return _code_span(before, after)
    rest = after.lstrip(f"{_EMPHASIS}{_SUCCESS}")
    if not rest.strip(f"{_EMPHASIS}{_BRACKETS}{_SUCCESS}{_SENTENCE_END}{_DASHES}:;,=#"):
        return True
    if marker[-1] in _SENTENCE_END or rest[0] in _SENTENCE_END or rest != after.lstrip(_EMPHASIS):
        return True
    return rest[0] in f":;({_DASHES}" and "?" not in rest and not _says(_DOUBT, rest)


def _closes(before: str, after: str) -> bool:
    """Whether the marker, with words before it, is a sentence of its own at the end of the line."""
    if _glued(before[-1:]) or _glued(after[:1]):
        return False
    if after.strip(f"{_EMPHASIS}{_BRACKETS}{_SUCCESS}{_SENTENCE_END}"):
        return False
    words = before.replace("*", "").replace("_", " ").strip(" \t#")
    if _is_item(f"{words} "):
        return False
    if words[-1] in _SUCCESS:
        return not _says(_DOUBT, words)
    sentence = words.rstrip(f"{_EMPHASIS}{_BRACKETS}")
    if sentence[-1:] and sentence[-1] in _SENTENCE_END:
        last = re.split(r"[.!?…]\s", sentence)[-1]
        return not _says(_UNFINISHED, last)
    if words[-1] in f":;|{_DASHES}":
        label = re.split(r"[.!?…]\s", words[:-1])[-1]
        return all(f" {word} " in _LABEL for word in re.findall(r"\w+", label.casefold()))
    return False


def _code_span(before: str, after: str) -> bool:
    edge = f"{_EMPHASIS}{_SUCCESS}{_SENTENCE_END}#"
    return before.strip(edge) == "`" and after.strip(edge) == "`"


def _is_item(line: str) -> bool:
    return re.match(_LIST_ITEM, line, re.IGNORECASE) is not None


def _says(pattern: str, words: str) -> bool:
    # Compiled on first use (`re` keeps it): most runs never come this far.
    return re.search(pattern, words, re.IGNORECASE) is not None


def _glued(char: str) -> bool:
    """Whether a neighbouring character makes the marker part of a longer word or a quotation."""
    return char.isalnum() or (char != "" and char in f"_{_QUOTES}")
