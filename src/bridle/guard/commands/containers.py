"""Containers and machines: what of the user's files they share."""

import re

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Deny, Effect, Mutates, Write
from bridle.guard.names import names
from bridle.guard.values import Value, literal

CONTAINERS = names("docker podman nerdctl docker-compose podman-compose buildah finch")


def container(command: Command) -> list[Effect]:
    """docker and podman: what is mounted, and with which rights."""
    args = list(command.args)
    words = [a.text or "" for a in args if not a.lead.startswith("-")]
    first = words[0] if words else ""
    if first == "image" and len(words) > 1 and words[1] not in ("ls", "inspect", "history"):
        return [Mutates(f"{command.name} image {words[1]}")]
    if not first:
        return []
    if first in ("push", "login") or words[:2] == ["image", "push"]:
        return [Deny("publish", f"{command.name} {first}")]
    effects: list[Effect] = [Mutates(f"{command.name} {first}")]
    for number, arg in enumerate(args):
        lead = arg.lead
        if lead in (
            "--privileged",
            "--pid=host",
            "--ipc=host",
            "--userns=host",
            "--cap-add",
            "--uts=host",
        ) or lead.startswith(("--cap-add=", "--device", "--privileged=")):
            effects.append(Deny("container", f"{command.name} with {lead}"))
        value: Value | None = None
        if lead in ("-v", "--volume", "--mount") and number + 1 < len(args):
            value = args[number + 1]
        elif lead.startswith(("--volume=", "--mount=")):
            value = arg.after(lead.index("=") + 1)
        elif bundled := _BUNDLED_VOLUME.match(lead):
            value = arg.after(bundled.end())
            if not value.parts:
                value = args[number + 1] if number + 1 < len(args) else None
        if value is not None:
            effects.extend(_mounted(value))
        if lead in _FILES and number + 1 < len(args):
            effects.append(Write(args[number + 1]))
        elif lead.partition("=")[0] in _FILES:
            effects.append(Write(arg.after(lead.index("=") + 1)))
    if first in ("build", "buildx", "save", "export", "image", "container"):
        effects.extend(_saved(args))
    if first == "cp" and len(words) > 2 and ":" not in words[-1]:
        effects.append(Write(args[-1], "merge"))
    return effects


_FILES = names("--iidfile --cidfile --metadata-file --pidfile --sbom-output")
_BUNDLED_VOLUME = re.compile(r"-[itdPqd]*v")
"""`-v`, alone or after other letters, as in `-itv`."""

MACHINES = names(
    "lxc lxc-attach lxc-execute incus apptainer singularity systemd-nspawn distrobox toolbox "
    "vagrant multipass limactl lima colima ctr crictl runc crun proot"
)
"""Tools that run commands in containers or machines which share the user's files."""


def machine(command: Command) -> list[Effect]:
    """Containers and machines whose mounts cannot be told: looking is free, the rest refused."""
    texts = [a.text for a in command.args]
    if texts in (["--version"], ["--help"], []):
        return []
    return [Deny("container", f"{command.name} runs commands where this guard does not reach")]


def _saved(args: list[Value]) -> list[Effect]:
    """What -o names: a path, or `type=local,dest=PATH`."""
    options = read(args, short="o", long=("output",))
    effects: list[Effect] = []
    for value in options.values("o", "output"):
        match = re.search(r"dest=([^,]*)", value.lead)
        effects.append(Write(literal(match.group(1)) if match else value, "merge"))
    return [e for e in effects if not (isinstance(e, Write) and e.target.text == "-")]


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
