"""What is known about a word after expansion: text with holes.

A hole is text that is only known at run time; its kind says what it may be. The judge assumes the
worst that the kind allows.
"""

from typing import Literal

import msgspec


def names(text: str) -> frozenset[str]:
    """The words of the text as a set: tables are written as text for readability."""
    return frozenset(text.split())


Kind = Literal["any", "rel", "name", "atom", "scratch", "glob"]


class Hole(msgspec.Struct, frozen=True):
    """Text unknown until run time.

    `any` anything; `rel` a path below the current directory, never through `..`; `name` one path
    component, perhaps `..`; `atom` one component of plain characters (a number, a date, a hash);
    `scratch` a fresh path in the agent's scratch directory; `glob` what a pattern (kept in `text`)
    matches within one component.
    """

    kind: Kind
    text: str = ""


ANY = Hole("any")
REL = Hole("rel")
NAME = Hole("name")
ATOM = Hole("atom")
NUMBER = Hole("atom", "number")
"""Nothing but digits, perhaps with a sign."""
SCRATCH = Hole("scratch")
AGENTS = Hole("any", "processes of agents")
"""What a search for agents' processes prints."""


class Value(msgspec.Struct, frozen=True):
    """One word after expansion."""

    parts: tuple[str | Hole, ...]

    @property
    def text(self) -> str | None:
        """The whole text; None if it has a hole."""
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return self.parts[0]
        if not self.parts:
            return ""
        return None

    @property
    def sample(self) -> str | None:
        """The whole text with a sample number in place of number holes; None if there are other
        holes."""
        if any(isinstance(p, Hole) and p != NUMBER for p in self.parts):
            return None
        return "".join(p if isinstance(p, str) else "1" for p in self.parts)

    @property
    def lead(self) -> str:
        """The known text before the first hole."""
        if self.parts and isinstance(self.parts[0], str):
            return self.parts[0]
        return ""

    @property
    def open_start(self) -> bool:
        """Whether the word may begin with anything, an option too."""
        return bool(self.parts) and self.parts[0] == ANY

    @property
    def size(self) -> int:
        """How many characters are known, each hole counting as a few."""
        return sum(len(p) if isinstance(p, str) else 8 for p in self.parts)

    def holds(self, kind: Kind) -> bool:
        """Whether there is a hole of this kind."""
        return any(isinstance(p, Hole) and p.kind == kind for p in self.parts)

    def after(self, count: int) -> "Value":
        """The value without its first `count` characters, which must be known text."""
        lead = self.lead
        rest = lead[count:]
        return Value(((rest,) if rest else ()) + self.parts[1:])

    def show(self) -> str:
        """The value for people; holes as `<kind>`, patterns as written."""
        shown = [
            p if isinstance(p, str) else p.text if p.kind == "glob" else f"<{p.kind}>"
            for p in self.parts
        ]
        return "".join(shown)


UNKNOWN = Value((ANY,))
EMPTY = Value(())


def literal(text: str) -> Value:
    """The value of known text."""
    return Value((text,)) if text else EMPTY


def join(pieces: list[str | Hole]) -> Value:
    """One value from many pieces; neighbouring texts are joined."""
    merged: list[str | Hole] = []
    run: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            if piece:
                run.append(piece)
            continue
        if run:
            merged.append(run[0] if len(run) == 1 else "".join(run))
            run = []
        merged.append(piece)
    if run:
        merged.append(run[0] if len(run) == 1 else "".join(run))
    return Value(tuple(merged))


def summarize(values: tuple[Value, ...], limit: int = 12) -> tuple[Value, ...]:
    """The values without repeats; if there are too many, one hole that covers them all."""
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) <= limit:
        return distinct
    texts = [value.text for value in distinct]
    if all(t and "/" not in t and t[0] not in ".-~" and ".." not in t for t in texts):
        return (Value((ATOM,)),)
    rel = Value((REL,))
    inside = (
        value == rel or (t and t[0] not in "/-~" and ".." not in t.split("/"))
        for value, t in zip(distinct, texts, strict=True)
    )
    return (rel,) if all(inside) else (UNKNOWN,)


class Output(msgspec.Struct, frozen=True):
    """What a command prints, as far as it is known: each value represents lines of that shape."""

    lines: tuple[Value, ...] = ()
    file: Value | None = None
    """The file whose content is printed, when that is all."""

    @property
    def script(self) -> str | None:
        """The output as program text, None when it is not fully known."""
        texts = [line.text for line in self.lines]
        if not texts or any(t is None for t in texts):
            return None
        return "\n".join(t for t in texts if t is not None)


SILENT = Output()
UNKNOWN_OUTPUT = Output((UNKNOWN,))


def merge(first: Output, second: Output) -> Output:
    """What two commands print one after the other."""
    if not first.lines:
        return second
    if not second.lines:
        return first
    return Output(summarize(first.lines + second.lines))


class Input(msgspec.Struct, frozen=True):
    """What a command finds on its standard input."""

    output: Output = SILENT
    piped: bool = False
    file: Value | None = None


TERMINAL = Input()
