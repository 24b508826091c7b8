"""Reads an argument list as getopt does: bundled, joined, `=`, abbreviated, after operands."""

from collections.abc import Iterable

from bridle.guard.shell.values import EMPTY, Value


class Parsed:
    """Options by name (without dashes) and operands in order."""

    __slots__ = ("open_options", "operands", "options", "order")

    def __init__(self) -> None:
        self.options: dict[str, list[Value]] = {}
        self.operands: list[Value] = []
        self.order: list[tuple[str, Value]] = []
        self.open_options = False
        """Whether an argument that may be an option is only known at run time."""

    def has(self, *names: str) -> bool:
        """Whether one of the options is given."""
        return any(name in self.options for name in names)

    def values(self, *names: str) -> list[Value]:
        """All values of the options."""
        return [value for name in names for value in self.options.get(name, ())]

    def add(self, name: str, value: Value) -> None:
        """Note an option with its value, empty for a flag."""
        self.options.setdefault(name, []).append(value)
        self.order.append((name, value))


def read(
    args: Iterable[Value],
    short: str = "",
    long: Iterable[str] = (),
    *,
    optional: str = "",
    flags: Iterable[str] = (),
    permute: bool = True,
) -> Parsed:
    """Read the arguments.

    `short` letters and `long` names take a value; `optional` letters take one only when joined;
    `flags` are long names without a value, given so that their abbreviations are recognised. A long
    name ending in `?` takes its value only after `=`. An abbreviation that fits several names
    counts as all of them.
    """
    takes = {name.rstrip("?"): not name.endswith("?") for name in long}
    known = [*takes, *flags]
    parsed = Parsed()
    rest = list(args)
    rest.reverse()
    while rest:
        arg = rest.pop()
        lead = arg.lead
        if not lead.startswith("-") or (lead == "-" and arg.text is not None):
            if arg.open_start:
                parsed.open_options = True
            parsed.operands.append(arg)
            if not permute:
                rest.reverse()
                parsed.operands.extend(rest)
                break
            continue
        if arg.text == "--":
            rest.reverse()
            parsed.operands.extend(rest)
            break
        if lead.startswith("--"):
            _long(arg, takes, known, rest, parsed)
        else:
            _short(arg, short, optional, rest, parsed)
    return parsed


def _long(
    arg: Value, takes: dict[str, bool], known: list[str], rest: list[Value], parsed: Parsed
) -> None:
    name, equals, _ = arg.lead[2:].partition("=")
    if not equals and arg.text is None:
        # Part of the name is unknown: it may be any option.
        parsed.open_options = True
    matches = [name] if name in known else [k for k in known if k.startswith(name)] or [name]
    value = arg.after(len(name) + 3) if equals else EMPTY
    if not equals and any(takes.get(match) for match in matches) and rest:
        value = rest.pop()
    for match in matches:
        parsed.add(match, value)


def _short(arg: Value, short: str, optional: str, rest: list[Value], parsed: Parsed) -> None:
    lead = arg.lead
    for position in range(1, len(lead)):
        letter = lead[position]
        if letter in short or letter in optional:
            joined = arg.after(position + 1)
            if letter in short and not joined.parts:
                joined = rest.pop() if rest else EMPTY
            parsed.add(letter, joined)
            return
        parsed.add(letter, EMPTY)
    if arg.text is None:
        parsed.open_options = True
