"""What commands print that take paths apart."""

from bridle.guard.effects import Command
from bridle.guard.values import (
    ATOM,
    NAME,
    REL,
    UNKNOWN,
    UNKNOWN_OUTPUT,
    Hole,
    Output,
    Value,
    join,
    literal,
)


def path_tool(name: str, args: tuple[Value, ...], command: Command) -> Output:
    """What realpath, readlink, dirname and basename print."""
    operands = [a for a in args if not a.lead.startswith("-")]
    if not operands:
        return UNKNOWN_OUTPUT
    first = operands[0]
    text = first.text
    if name == "basename":
        if text is not None:
            base = text.rstrip("/").rpartition("/")[2]
            suffix = operands[1].text if len(operands) > 1 else ""
            return Output((literal(base.removesuffix(suffix) if suffix else base),))
        return Output((Value((ATOM if _is_plain(_last(first)) else NAME,)),))
    if name == "dirname":
        if text is not None:
            return Output(
                (literal(text.rstrip("/").rpartition("/")[0] or ("/" if text[:1] == "/" else ".")),)
            )
        return Output((_folder(first),))
    if text is None:
        return UNKNOWN_OUTPUT
    if text.startswith("/"):
        return Output((first,))
    return Output(
        tuple(UNKNOWN if d is None else literal(f"{d}/{text}") for d in command.directories)
    )


def _last(path: Value) -> list[str | Hole]:
    """The parts of a path after its last known slash."""
    found: list[str | Hole] = []
    for part in reversed(path.parts):
        if isinstance(part, str) and "/" in part:
            return [part.rpartition("/")[2], *found]
        found.insert(0, part)
    return found


def _is_plain(parts: list[str | Hole]) -> bool:
    """Whether the last component of the parts can be neither empty nor `.` nor `..`."""
    if any(isinstance(p, Hole) and p.kind not in ("rel", "atom", "glob") for p in parts):
        return False
    shown = "".join(p if isinstance(p, str) else p.text or "x" for p in parts)
    return shown.strip("*?") == "" or shown[:1] not in (".", "[", "")


def _folder(path: Value) -> Value:
    """The directory of a path with holes."""
    last = _last(path)
    if any(isinstance(p, Hole) and p.kind in ("any", "scratch") for p in path.parts):
        return UNKNOWN
    kept = len(path.parts) - len(last)
    before = list(path.parts[:kept])
    first = path.parts[kept]
    if isinstance(first, str) and "/" in first:
        before.append(first[: first.rindex("/") + 1])
    deeper = REL in last
    if not before:
        return Value((REL,)) if deeper else literal(".")
    folder = join([*before, REL]) if deeper else join(before)
    text = folder.text
    return folder if text is None else literal(text.rstrip("/") or "/")
