"""Containers and machines: what of the user's files they share."""

import re

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Deny, Effect, Mutates, Write
from bridle.guard.shell.values import Value, literal
from bridle.guard.tables import names

CONTAINERS = names("docker podman nerdctl docker-compose podman-compose buildah finch")


def container(command: Command) -> list[Effect]:
    """docker and podman: what is mounted, and with which rights."""
    words = [a.text or "" for a in command.args if not a.lead.startswith("-")]
    first = words[0] if words else ""
    if not first:
        return []
    if first in ("push", "login") or words[:2] == ["image", "push"]:
        return [Deny("publish", f"{command.name} {first}")]
    effects: list[Effect] = [Mutates(f"{command.name} {first}")]
    options = read(
        command.args, short="ov", flags=("privileged",),
        long=("volume", "mount", "output", "cap-add", "device", *_FILES, *_NAMESPACES),
    )  # fmt: skip
    shares = any(v.text == "host" for v in options.values(*_NAMESPACES))
    if shares or options.has("privileged", "cap-add", "device"):
        effects.append(Deny("container", f"{command.name} with rights of the machine"))
    for value in options.values("v", "volume", "mount"):
        effects.extend(_mounted(value))
    effects.extend(Write(v) for v in options.values(*_FILES))
    if first in ("build", "buildx", "save", "export", "image", "container"):
        effects.extend(_saved(options.values("o", "output")))
    if first == "cp" and len(words) > 2 and ":" not in words[-1]:
        effects.append(Write(command.args[-1], "merge"))
    return effects


_FILES = ("iidfile", "cidfile", "metadata-file")
_NAMESPACES = ("pid", "ipc", "userns", "uts")


def _saved(values: list[Value]) -> list[Effect]:
    """What -o names: a path, or `type=local,dest=PATH`."""
    dests = [(re.search(r"dest=([^,]*)", value.lead), value) for value in values]
    places = [literal(match[1]) if match else value for match, value in dests]
    return [Write(place, "merge") for place in places if place.text != "-"]


def _mounted(value: Value) -> list[Effect]:
    lead = value.lead
    if "type=" in lead or "source=" in lead or "src=" in lead:
        match = re.search(r"(?:source|src)=([^,]*)", lead)
        if re.search(r",(readonly|ro)(=true|=1)?(,|\Z)", lead):
            return []
        if "type=bind" in lead and match:
            return [Write(literal(match.group(1)), "merge")]
        return []
    text = value.show()
    fields = text.split(":")
    if len(fields) > 2 and fields[2] == "ro":
        return []
    if not fields[0].startswith(("/", ".", "~", "$", "<")):
        return []
    if "docker.sock" in fields[0]:
        return [Deny("container", "mounts the container daemon's socket")]
    if value.text is None:
        return [] if not value.holds("any") else [Write(value, "merge")]
    return [Write(literal(fields[0]), "merge")]
