"""Folders and files of one run that only this user can read, and the JSON that goes into them."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import WrongUse
from bridle.runtimes.base import readable_file


def state_dir(env: Mapping[str, str]) -> str:
    """Where Bridle keeps what belongs to running agents."""
    home = env.get("HOME") or os.path.expanduser("~")
    base = env.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(base, "bridle")


def new_private_dir(env: Mapping[str, str], runtime: str) -> str:
    """A new empty folder for one run of `runtime`."""
    parent = os.path.join(state_dir(env), "run")
    os.makedirs(parent, mode=0o700, exist_ok=True)
    folder = os.path.join(parent, f"{runtime}-{os.urandom(8).hex()}")
    os.mkdir(folder, 0o700)
    return folder


def write_private(folder: str, name: str, content: str | bytes) -> str:
    """Write a file that only this user can read; returns its path."""
    path = os.path.join(folder, name)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


def pretty_json(value: Any) -> bytes:
    """`value` as JSON that a person can read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` over it, objects inside objects likewise."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            result[name] = merged(old, value)
        else:
            result[name] = value
    return result


def json_object(given: str, what: str) -> dict[str, Any]:
    """An object that the caller gave as JSON text or as a file; `WrongUse` says what is wrong."""
    data = given.encode() if given.lstrip().startswith("{") else readable_file(given, what)
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise WrongUse(f"the {what} are not a JSON object: {problem}") from None
