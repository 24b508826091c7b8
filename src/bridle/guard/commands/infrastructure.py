"""terraform and its kin: what they rewrite, and where plans and states go."""

from bridle.guard.commands.programs import output_options
from bridle.guard.effects import Command, Effect, Mutates, Write
from bridle.guard.values import literal


def terraform(command: Command) -> list[Effect]:
    """terraform and its kin: fmt rewrites files; plans and states go where options say."""
    operands = [a for a in command.args if not a.lead.startswith("-")]
    words = [a.text for a in operands]
    flags = {a.lead for a in command.args if a.lead.startswith("-")}
    places = [a.after(len("-chdir=")) for a in command.args if a.lead.startswith("-chdir=")]
    place = places[-1] if places else None
    writes = output_options([a for a in command.args if not a.lead.startswith("-chdir")])
    for arg in command.args:
        name = arg.lead.partition("=")[0].lstrip("-")
        if name in ("state", "backup") and "=" in arg.lead and words[:1] != ["show"]:
            writes.append(Write(arg.after(arg.lead.index("=") + 1)))
    first = words[0] if words else ""
    reading = {"plan", "validate", "show", "output", "providers", "version", "graph", "inspect"}
    if first == "fmt":
        if flags & {"-check", "--check", "-write=false", "-check=true"}:
            return writes
        targets = [o for o in operands[1:] if o.text != "-"] or [place or literal(".")]
        return [Mutates(f"{command.name} fmt", place), *(Write(t, "merge") for t in targets)]
    pairs = (["state", "list"], ["state", "show"], ["workspace", "list"], ["workspace", "show"])
    if not words or first in reading or words[:2] in pairs:
        return writes
    return [Mutates(f"{command.name} {first}", place), *writes]
